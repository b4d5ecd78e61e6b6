"""Checks of data, whose errors say what was passed and how to correct it."""

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import check_array


def is_lazy(value):
    """Whether a value is a collection of dask, whose numbers are not here."""
    return hasattr(type(value), "__dask_graph__")


def check_in_memory(name, **data):
    """Raise if an argument of that name is a collection of dask, which would be loaded whole."""
    for argument, value in data.items():
        if is_lazy(value):
            raise TypeError(
                f"{argument} is a dask collection ({type(value).__name__}), which {name} would "
                "have to load as a whole. Use DaskSparseGPRegressor or DaskSparseGPClassifier of "
                "skgp_sparse.dask, which work where the partitions are, or pass "
                f"{argument}.compute() if it fits into memory."
            )


def check_inputs(X, kernel, name):
    """Raise if inputs are sparse, or objects that only a structured kernel understands."""
    if issparse(X):
        raise TypeError(
            f"Sparse data was passed for X, but {name} requires dense data. Use X.toarray(), or "
            "set sparse_output=False if X is the output of a OneHotEncoder."
        )
    if kernel is None or kernel.requires_vector_input or np.asarray(X).dtype.kind in "biuf":
        return
    raise ValueError(
        f"{name} accepts only numeric arrays of shape (n_samples, n_features), because inducing "
        f"points are vectors. For structured inputs of {kernel!r}, use GaussianProcessRegressor."
    )


def check_no_none(y):
    """Raise if a target is None."""
    y = np.asarray(y) if isinstance(y, (list, tuple)) or hasattr(y, "__array__") else None
    if y is None or y.dtype != object or not y.size or y.ndim == 0:
        return
    is_none = np.array([value is None for value in y.ravel()]).reshape(len(y), -1)
    missing = np.flatnonzero(is_none.any(axis=1))
    if len(missing):
        raise ValueError(
            f"Input y contains None in {len(missing)} rows, first in row {missing[0]}. Remove the "
            "rows without a target."
        )


def check_n_targets(n_targets, seen):
    """Raise unless the targets are as many as announced."""
    if n_targets is not None and n_targets != seen:
        raise ValueError(
            "The number of targets seen in `y` is different from the parameter "
            f"`n_targets`. Got {seen} != {n_targets}."
        )


def check_thetas(theta, kernels):
    """Log hyperparameters of each of some kernels, and whether they were given for all at once."""
    theta, sizes = np.asarray(theta, dtype=np.float64), [len(kernel.theta) for kernel in kernels]
    if theta.shape == (sizes[0],):
        return [theta] * len(kernels), True
    if theta.shape == (sum(sizes),):
        return np.split(theta, np.cumsum(sizes)[:-1]), False
    expected = " or ".join(str(size) for size in dict.fromkeys((sizes[0], sum(sizes))))
    raise ValueError(
        f"theta must hold {expected} log hyperparameters, which are those of kernel_ that are not "
        f"fixed. Got an array of shape {theta.shape}."
    )


def check_classes(y, weight, name):
    """Sorted labels and the index of each row's; raises unless at least two have weight."""
    classes, index = np.unique(y, return_inverse=True)
    seen = np.unique(index if weight is None else index[weight > 0])
    if len(seen) < 2:
        only = classes[seen[0]]
        raise ValueError(
            f"{name} requires 2 or more distinct classes; got {len(seen)} class (only class "
            f"{only} is present{'' if weight is None else ' with positive sample_weight'})"
        )
    if len(seen) < len(classes):
        raise ValueError(
            f"{name}: every row of class {classes[np.setdiff1d(range(len(classes)), seen)[0]]} has "
            "sample_weight 0. Remove these rows."
        )
    return classes, index


def check_one_column(y, likelihood, name):
    """Raise if there are several targets, which only Gaussian noise allows."""
    shape = np.asarray(y).shape
    if len(shape) == 2 and shape[1] > 1:
        raise ValueError(
            f"{name}: likelihood={likelihood!r} takes one target, but y has {shape[1]} "
            "columns. Use sklearn.multioutput.MultiOutputRegressor, which fits a model to each."
        )


def check_offset(offset, X, likelihood, name):
    """Known offsets of the rows as an array (n,), None where there are none."""
    if offset is None:
        return None
    if likelihood is None:
        raise ValueError(
            f"{name}: offset is not available for likelihood='gaussian', where it would only be "
            "added to the prediction. Subtract it from y before fit, and add it after predict."
        )
    if np.asarray(offset).dtype.kind not in "biuf":
        raise ValueError(f"{name}: offset must be numbers. Got {offset!r} instead.")
    offset = np.full(len(X), offset) if np.ndim(offset) == 0 else offset
    offset = check_array(offset, ensure_2d=False, dtype=np.float64, input_name="offset")
    if offset.shape != (len(X),):
        raise ValueError(
            f"{name}: offset must be a number or an array with one number for each of the "
            f"{len(X)} rows of X. Got an array of shape {offset.shape}."
        )
    return offset


def check_columns(y, p, name):
    """Targets (n,) or (n, p), as many as a model has; raises otherwise."""
    if (y.ndim == 1 and p == 1) or (y.ndim == 2 and y.shape[1] == p):
        return y[:, 0] if p == 1 and y.ndim == 2 else y
    raise ValueError(
        f"{name} was fitted to {p} target{'s' if p > 1 else ''}, so that y must have as many "
        f"columns. Got an array of shape {y.shape}."
    )
