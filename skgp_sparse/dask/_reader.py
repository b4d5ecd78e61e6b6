"""The reader of dask collections, whose rows become tables on the workers or in the client."""

from dataclasses import replace

import numpy as np

from skgp_sparse._engine.data.array_dataset import ArrayDataset, joined
from skgp_sparse._ground.distinct import is_small
from skgp_sparse._ground.sklearn_compat import check_any_weight
from skgp_sparse.dask import _collections
from skgp_sparse.dask._distributed_rows import DaskDataset
from skgp_sparse.dask._tasks import View
from skgp_sparse.rows.checks import check_classes
from skgp_sparse.rows.door import encoded


def read_partitions(client, rules, held, X, **columns):
    """All rows of dask collections as a `Dataset`; those of small tables come to the client.

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
        rows = joined(parts.each(ArrayDataset.subset, slice(None)))
        check_any_weight(rows.weight is None or rows.weight.any())
        return encoded(rows, rules)
    view = View(rules.units(outline.columns_of_y))
    has = outline.has_weight, outline.has_offset
    rows = DaskDataset.of(parts, outline.n_features, view, *has)
    check_any_weight(any(summary.inputs for summary in rows.summaries))
    if not rules.labels:
        return rows
    labels, weights = map(np.concatenate, zip(*(one.targets for one in rows.summaries)))
    classes = check_classes(labels, weights if rows.weighted else None, rules.name)[0]
    return replace(rows, reading=view._replace(classes=classes))
