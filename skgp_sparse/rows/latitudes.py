"""Latitudes that no place on a sphere has: what is said of them, by column."""

import numpy as np

from skgp_sparse import kernels
from skgp_sparse._ground.validation import as_text

_HIGHEST = 90.0 + 1e-9  # degrees: a pole may be off by rounding


def check_latitudes(X, kernel, names, name):
    """Raise if a `Sphere` of a kernel sees a latitude beyond a pole; missing ones are no matter.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    kernel : sklearn.gaussian_process.kernels.Kernel or None
        The user's, or one that was fitted.
    names : sequence or None
        Names of the columns, None where they have none.
    name : str
        Of the estimator.
    """
    if kernel is None or not kernels.parts(kernel, kernels.Sphere):
        return
    d = X.shape[1]
    labels = [*range(d)] if names is None or len(names) != d else [*names]
    kernel = kernels.named(kernel, labels if all(isinstance(one, str) for one in labels) else None)
    for sphere, columns in kernels.parts_by_columns(kernel, d, kernels.Sphere):
        if len(columns) == 2:
            _check(X, sphere, columns, labels, name)


def _check(X, sphere, columns, names, name):
    longitude, latitude = columns
    beyond = np.flatnonzero(np.abs(X[:, latitude]) > _HIGHEST)
    if len(beyond):
        value = as_text(float(X[beyond[0], latitude]))
        raise ValueError(
            f"Column {as_text(names[latitude])} of X of {name} is the latitude of {sphere}, in "
            f"degrees from -90 to 90, but it is {value} in row {beyond[0]}. Pass degrees, with the "
            f"longitude first, which is column {as_text(names[longitude])} here. Where they are "
            "the other way round, put Sphere into Columns, such as Columns(Sphere(Matern()), "
            f"[{latitude}, {longitude}])."
        )
