"""Latitudes that no place on a sphere has: what is said of them, by column."""

import numpy as np

from skgp_sparse import kernels
from skgp_sparse._ground.plain_text import as_text

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
    if kernel is None or not has_sphere(kernel):
        return
    d = X.shape[1]
    labels = [*range(d)] if names is None or len(names) != d else [*names]
    kernel = kernels.named(kernel, labels if all(isinstance(one, str) for one in labels) else None)
    for part, columns in kernels.spheres(kernel, d):
        _check(X, part.kernel, columns, labels, name)


def has_sphere(kernel):
    """Whether a part of a kernel is a `Sphere`."""
    return any(isinstance(part, kernels.Sphere) for part in [kernel, *_parts(kernel)])


def _parts(kernel):
    return kernel.get_params().values()


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
