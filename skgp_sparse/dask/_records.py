"""The store whose rows are parts on the workers of a cluster."""

from functools import reduce

import numpy as np

from skgp_sparse._engine.moments import merge
from skgp_sparse._ground.sklearn_compat import check_any_weight
from skgp_sparse.dask import _collections, _tasks
from skgp_sparse.dask._distributed_rows import DaskTable
from skgp_sparse.dask._partitions import Partitions
from skgp_sparse.dask._tasks import ColumnMoments, View
from skgp_sparse.rows.door import records_of
from skgp_sparse.rows.part import Records, Units, check_classes, is_small, joined


def read_partitions(client, rules, held, X, **columns):
    """All rows of dask collections as `Records`; those of small tables come to the client.

    Parameters
    ----------
    client : Client
    rules : Rules
    held : ExitStack
        Which lets the cluster forget the parts, when it is closed.
    X : dask array or dataframe
    **columns : dask collection, ndarray, number or None
        ``y``, ``weight``, ``offset`` and ``noise``.
    """
    parts, sizes, outline = _collections.load(client, rules, held, X, **columns)
    if is_small(sum(sizes) * outline.n_features):
        part = joined(parts.each(_tasks.whole))
        check_any_weight(part.weight is None or part.weight.any())
        return records_of(part, rules)
    return PartRecords(parts, sizes, outline, rules)


class PartRecords(Records):
    """Rows on the workers.

    Parameters
    ----------
    parts : Partitions
    sizes : list of int
        Rows of each part.
    outline : Outline
    rules : Rules
    """

    def __init__(self, parts, sizes, outline, rules):
        self.parts, self.sizes, self.outline, self.name = parts, sizes, outline, rules.name
        if rules.labels:
            labels, weights = map(np.concatenate, zip(*parts.each(_tasks.labels_of)))
            check_any_weight(weights.any())
            weights = weights if outline.has_weight else None
            self.classes = check_classes(labels, weights, self.name)[0]

    def numbers(self, normalize):
        """The `DaskTable` of numbers."""
        summaries = [one for one in self.parts.each(_tasks.summarise, View()) if one.inputs]
        check_any_weight(summaries)
        noise = max(summary.largest_noise for summary in summaries)
        moments = merge(summary.targets for summary in summaries)
        units = Units.of(moments, noise, normalize, self.name)
        return self._table(self.parts, self.sizes, summaries, View(units), len(units.mean))

    def labels(self, task):
        """The `DaskTable` of a problem."""
        view = View(Units.none(1), task=task, classes=self.classes)
        summaries = self.parts.each(_tasks.summarise, view)
        full = [index for index, summary in enumerate(summaries) if summary.rows]
        parts = Partitions(self.parts.client, [self.parts.futures[index] for index in full])
        sizes = [summaries[index].rows for index in full]
        return self._table(parts, sizes, [one for one in summaries if one.inputs], view, 1)

    def _table(self, parts, sizes, summaries, view, n_targets):
        inputs = reduce(ColumnMoments.merged, (summary.inputs for summary in summaries))
        has = self.outline.has_weight, self.outline.has_offset
        return DaskTable(parts, sizes, self.outline.n_features, n_targets, inputs, view, *has)
