"""Predictions of dask collections: dask arrays whose blocks a plain estimator computes.

The estimator travels as one object of the graph, which dask hands from worker to worker. Methods
whose rows belong together are refused here.
"""

import inspect
from functools import wraps
from operator import itemgetter

import dask.array as da
import numpy as np
from dask import delayed

from skgp_sparse._ground.parallel import single_threaded_blas
from skgp_sparse.dask._collections import blocks_of, known_sizes
from skgp_sparse.dask._partitions import once
from skgp_sparse.rows.checks import is_lazy

_BY_ROW = ("y", "offset")  # arguments of which each block of X has its own


def lazy(method, probed_by=None):
    """A method of the plain estimator that answers dask collections with dask arrays.

    Parameters
    ----------
    method : function
        ``(self, X, ...)``.
    probed_by : function or None
        A method of the same results that needs nothing but X, to know their shapes; None: itself.
    """
    signature = inspect.signature(method)

    @wraps(method)
    def predict(self, X, *args, **kwargs):
        given = dict(signature.bind(self, X, *args, **kwargs).arguments)
        given.pop("self")
        if not any(map(is_lazy, given.values())):
            return method(self, X, *args, **kwargs)
        if given.get("return_cov"):
            raise _belong_together(self, method, "a covariance is that of all pairs of rows")
        return _predict_lazily(self.to_local(), method, probed_by or method, given)

    return predict


def at_once(method, why):
    """A method of the plain estimator that cannot be lazy: its rows belong together."""

    @wraps(method)
    def refuse(self, X, *args, **kwargs):
        if is_lazy(X):
            raise _belong_together(self, method, why)
        return method(self, X, *args, **kwargs)

    return refuse


def of_arrays(method):
    """A method of the plain estimator that learns from arrays, whose order may be that of time."""
    signature = inspect.signature(method)

    @wraps(method)
    def refuse(self, *args, **kwargs):
        for argument, value in signature.bind(self, *args, **kwargs).arguments.items():
            if is_lazy(value):
                raise TypeError(
                    f"{type(self).__name__}.{method.__name__} takes arrays. Got a dask collection "
                    f"({type(value).__name__}) as {argument}. Pass the chunks as arrays, such as "
                    f"{argument}.compute(), or fit all rows at once with fit."
                )
        return method(self, *args, **kwargs)

    return refuse


def _belong_together(estimator, method, why):
    return TypeError(
        f"{type(estimator).__name__}.{method.__name__}: {why}, so that it cannot be computed block "
        "by block. Pass rows that fit into memory, such as X.compute()."
    )


def _predict_lazily(local, method, probed_by, given):
    X = given.pop("X")
    if not is_lazy(X):
        raise TypeError(
            f"Dask{type(local).__name__}.{method.__name__}: if one argument is a dask collection, "
            f"X must be one, too. Got {type(X).__name__}."
        )
    _check_columns(local, X)
    others = {name: given.pop(name) for name in _BY_ROW if _is_column(given.get(name))}
    blocks = blocks_of(X)
    columns = {name: _blocks_like(one, name, X, blocks) for name, one in others.items()}
    sizes = known_sizes(X) or [np.nan] * len(blocks)
    found = _probe(local, probed_by, X, given)
    estimator = once(local)
    call = delayed(_predicted, pure=False)
    answers = [
        call(estimator, method.__name__, block, given, {name: columns[name][i] for name in columns})
        for i, block in enumerate(blocks)
    ]
    if not isinstance(found, tuple):
        return _array(answers, sizes, found)
    parts = (
        [delayed(itemgetter(index), pure=False)(answer) for answer in answers]
        for index in range(len(found))
    )
    return tuple(_array(part, sizes, like) for part, like in zip(parts, found))


def _predicted(estimator, name, X, given, by_row):
    """What a plain estimator predicts for a block of rows; nothing for an empty one."""
    with single_threaded_blas():
        if len(X):
            return getattr(estimator, name)(X, **given, **by_row)
        found = _on_probe(estimator, getattr(type(estimator), name), X.shape[1], given, by_row)
        cut = [one[:0] for one in (found if isinstance(found, tuple) else (found,))]
        return tuple(cut) if isinstance(found, tuple) else cut[0]


def _probe(local, method, X, given):
    """The answer to one row, whose shape and type all answers have."""
    known = inspect.signature(method).parameters
    return _on_probe(
        local, method, X.shape[1], {name: one for name, one in given.items() if name in known}, {}
    )


def _on_probe(local, method, n_features, given, by_row):
    Z = getattr(local, "inducing_points_", np.zeros((1, n_features)))
    row = (Z[0] if isinstance(Z, list) else Z)[:1]
    if hasattr(local, "feature_names_in_"):
        import pandas

        row = pandas.DataFrame(row, columns=local.feature_names_in_)
    if "y" in by_row:
        method = type(local).predict
    return method(local, row, **{n: one for n, one in given.items() if n not in _BY_ROW})


def _check_columns(local, X):
    expected = getattr(local, "n_features_in_", X.shape[1])
    if getattr(X, "ndim", None) != 2 or X.shape[1] != expected:
        raise ValueError(
            f"X must be a dask array or dataframe with {expected} columns, as in fit. Got one of "
            f"shape {X.shape}."
        )


def _is_column(value):
    return is_lazy(value) or np.ndim(value) > 0


def _blocks_like(column, name, X, blocks):
    if not is_lazy(column):
        if not known_sizes(X):
            raise TypeError(
                f"{name} must be a dask collection or a number, because the sizes of the "
                f"partitions of X are not known. Got {type(column).__name__}."
            )
        column = da.from_array(np.asarray(column))
    if known_sizes(X) and known_sizes(column) and len(column) == len(X):
        column = column.rechunk({0: X.chunks[0]})
    found = blocks_of(column)
    if len(found) != len(blocks):
        raise ValueError(
            f"{name} has {len(found)} partitions and X has {len(blocks)}. They must hold the same "
            "rows: make them from one collection, or repartition them alike."
        )
    return found


def _array(answers, sizes, like):
    blocks = [
        da.from_delayed(answer, (size, *like.shape[1:]), meta=like[:0])
        for answer, size in zip(answers, sizes)
    ]
    return da.concatenate(blocks, allow_unknown_chunksizes=True)
