"""The store whose rows are parts on the workers of a cluster."""

from functools import reduce

import numpy as np

from skgp_sparse._engine.moments import merge, or_one, spread_or_zero
from skgp_sparse._ground.sklearn_compat import check_any_weight
from skgp_sparse.dask import _collections, _tasks
from skgp_sparse.dask._distributed_rows import DaskDataset
from skgp_sparse.dask._partitions import Partitions
from skgp_sparse.dask._tasks import View
from skgp_sparse.rows.door import records_of
from skgp_sparse.rows.part import Part, Records, TargetScaler, check_classes, is_small, joined


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
        ``y``, ``sample_weight``, ``offset`` and ``alpha``.
    """
    parts, n, outline = _collections.load(client, rules, held, X, **columns)
    if is_small(n * outline.n_features):
        part = joined(parts.each(Part.take, slice(None)))
        check_any_weight(part.weight is None or part.weight.any())
        return records_of(part, rules)
    return PartRecords(parts, outline, rules)


class PartRecords(Records):
    """Rows on the workers.

    Parameters
    ----------
    parts : Partitions
    outline : Outline
    rules : Rules
    """

    def __init__(self, parts, outline, rules):
        self.parts, self.outline, self.name = parts, outline, rules.name
        if rules.labels:
            labels, weights = map(np.concatenate, zip(*parts.each(Part.label_weights)))
            check_any_weight(weights.any())
            weights = weights if outline.has_weight else None
            self.classes = check_classes(labels, weights, self.name)[0]

    def numbers(self, normalize):
        """The `DaskDataset` of numbers."""
        summaries = self.parts.each(_tasks.summarise, View())
        check_any_weight(any(summary.inputs for summary in summaries))
        noise = max(summary.largest_noise for summary in summaries)
        moments = merge(summary.targets for summary in summaries)
        return self._table(summaries, View(TargetScaler.of(moments, noise, normalize, self.name)))

    def labels(self, task):
        """The `DaskDataset` of a problem."""
        view = View(TargetScaler.none(1), task=task, classes=self.classes)
        return self._table(self.parts.each(_tasks.summarise, view), view)

    def _table(self, summaries, view):
        full = [pair for pair in zip(self.parts.futures, summaries) if pair[1].rows]
        parts = Partitions(self.parts.client, [future for future, _ in full])
        sizes = [summary.rows for _, summary in full]
        _, mean, spread = merge(summary.inputs for summary in summaries)
        low = reduce(np.minimum, (summary.low for summary in summaries))
        high = reduce(np.maximum, (summary.high for summary in summaries))
        unit = or_one(np.maximum(high - mean, mean - low))
        spread = spread_or_zero(spread / unit, unit)
        shape = self.outline.n_features, view.units.n_varying
        has = self.outline.has_weight, self.outline.has_offset
        return DaskDataset(parts, sizes, *shape, spread, view, *has)
