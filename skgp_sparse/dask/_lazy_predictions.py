"""Predictions of dask collections: dask arrays whose blocks a plain estimator computes.

The estimator travels as one object of the graph, which dask hands from worker to worker. Methods
whose rows belong together are refused here.
"""

import inspect
from functools import wraps

import dask.array as da
import numpy as np
from dask import delayed

from skgp_sparse._ground.parallel import single_threaded_blas
from skgp_sparse.dask._collections import aligned, blocks_of_inputs, known_sizes
from skgp_sparse.dask._partitions import once
from skgp_sparse.rows.checks import is_lazy

_BY_ROW = ("y", "offset")  # arguments of which each block of X has its own
_OF_PAIRS = "A covariance is that of all pairs of rows. Pass some, such as X[:100].compute()."


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
    def predict(self, *args, **kwargs):
        given = signature.bind(self, *args, **kwargs).arguments
        del given["self"]
        if not any(map(is_lazy, given.values())):
            return method(self, **given)
        if given.get("return_cov"):
            raise _refusal(self, method, "X", given["X"], _OF_PAIRS)
        return _predict_lazily(self.to_local(), method, probed_by or method, **given)

    return predict


def of_arrays(method, remedy):
    """A method of the plain estimator that is refused to dask collections; `remedy` says why."""
    signature = inspect.signature(method)

    @wraps(method)
    def refuse(self, *args, **kwargs):
        for argument, value in signature.bind(self, *args, **kwargs).arguments.items():
            if is_lazy(value):
                raise _refusal(self, method, argument, value, remedy)
        return method(self, *args, **kwargs)

    return refuse


def _refusal(estimator, method, argument, value, remedy):
    return TypeError(
        f"{type(estimator).__name__}.{method.__name__} takes arrays. Got a dask collection "
        f"({type(value).__name__}) as {argument}. {remedy}"
    )


def _predict_lazily(local, method, probed_by, X, **given):
    name = f"Dask{type(local).__name__}.{method.__name__}"
    blocks, sizes = blocks_of_inputs(X, name), known_sizes(X)
    _check_columns(local, X)
    columns = {what: given.pop(what) for what in _BY_ROW if np.ndim(given.get(what))}
    for what, column in columns.items():
        columns[what] = aligned(column, what, X, blocks, sizes)
    like = _probe(local, probed_by, X.shape[1], given)
    estimator, call = once(local), delayed(_predicted, pure=False)
    answers = [
        call(estimator, method.__name__, like, block, **given, **dict(zip(columns, values)))
        for block, *values in zip(blocks, *columns.values())
    ]
    sizes = sizes or [np.nan] * len(blocks)
    if not isinstance(like, tuple):
        return _array(answers, sizes, like)
    return tuple(
        _array([answer[index] for answer in answers], sizes, one) for index, one in enumerate(like)
    )


def _predicted(estimator, method, like, X, **given):
    """Predictions of a plain estimator for a block of rows; `like` for an empty one."""
    with single_threaded_blas():
        return getattr(estimator, method)(X, **given) if len(X) else like


def _probe(local, method, n_features, given):
    """The answer to no row, whose shape and type all answers have."""
    row = np.vstack(getattr(local, "inducing_points_", np.zeros((1, n_features))))[:1]
    if hasattr(local, "feature_names_in_"):
        import pandas

        row = pandas.DataFrame(row, columns=local.feature_names_in_)
    answer = method(local, row, **given)
    return tuple(one[:0] for one in answer) if isinstance(answer, tuple) else answer[:0]


def _check_columns(local, X):
    expected = getattr(local, "n_features_in_", X.shape[1])
    if X.shape[1] != expected:
        raise ValueError(
            f"X must have {expected} columns, as in fit. Got a collection of shape {X.shape}."
        )


def _array(answers, sizes, like):
    blocks = [
        da.from_delayed(answer, (size, *like.shape[1:]), meta=like)
        for answer, size in zip(answers, sizes)
    ]
    return da.concatenate(blocks, allow_unknown_chunksizes=True)
