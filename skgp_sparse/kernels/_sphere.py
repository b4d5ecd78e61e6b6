"""A kernel of places on a sphere."""

from typing import Literal

import numpy as np
from sklearn.base import clone
from sklearn.gaussian_process.kernels import Kernel

from skgp_sparse._ground.plain_text import as_text

from ._functions import parts_by_columns
from ._mapped import MappedKernel
from ._registry import node
from ._rules import Array, Ints
from ._theta import free

_DEGREE = np.pi / 180.0
_OF_SKLEARN = 1.0  # length scale of a kernel whose user did not choose one


class Sphere(MappedKernel):
    """A kernel of places on the earth, whose longitude and latitude are the two input columns.

    Places are points on the unit sphere, and `kernel` sees their three coordinates. Its length
    scale is a chord: 0.1 is a tenth of the earth's radius, 637 km. No pole and no date line is
    special, and the kernel is valid wherever `kernel` is valid in three dimensions. To choose two
    of several columns, put it into `Columns`. `fit` and `predict` refuse latitudes beyond ±90.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        The kernel of the points on the sphere. Use one length scale, as three are those of the
        axes of the earth. Where it is free and 1.0, as scikit-learn sets it, `fit` also starts at
        the typical distance of the rows from their middle, and keeps the higher evidence.
    distance : str, default="chord"
        It must be "chord". A stationary kernel of the distance along the great circle, such as an
        RBF, is not positive definite on a sphere, so that there is no such option.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import Matern
    >>> from skgp_sparse.kernels import Sphere
    >>> kernel = Sphere(Matern(0.5, nu=2.5))
    >>> kernel(np.array([[179.9, 10.0]]), np.array([[-179.9, 10.0], [0.0, 10.0]])).round(3)
    array([[1.   , 0.005]])
    """

    def __init__(self, kernel: Kernel, distance: Literal["chord"] = "chord") -> None:
        self.kernel = kernel
        self.distance = distance

    def transform(self, X: Array) -> Array:
        """Return points (..., 3) on the unit sphere."""
        self.width(np.shape(X)[-1])
        longitude, latitude = _DEGREE * X[..., 0], _DEGREE * X[..., 1]
        cosine = np.cos(latitude)
        points = cosine * np.cos(longitude), cosine * np.sin(longitude), np.sin(latitude)
        return np.stack(points, axis=-1)

    def pull(self, X: Array, bar: Array) -> Array:
        """Return the gradient with respect to longitude and latitude, per degree."""
        x, y, z = np.moveaxis(self.transform(X), -1, 0)
        longitude = _DEGREE * X[..., 0]
        east = bar[..., 1] * x - bar[..., 0] * y
        north = np.cos(_DEGREE * X[..., 1]) * bar[..., 2]
        north -= z * (np.cos(longitude) * bar[..., 0] + np.sin(longitude) * bar[..., 1])
        return _DEGREE * np.stack([east, north], axis=-1)

    def sources(self, columns: Ints) -> Ints | None:
        """Return None: a coordinate depends on both columns."""
        return None

    def width(self, d: int) -> int:
        """Return 3, the number of coordinates of a point."""
        if self.distance != "chord":
            raise ValueError(
                f"distance of Sphere must be 'chord'. Got {as_text(self.distance)}. Stationary "
                "kernels of the distance along the great circle are not positive definite on a "
                "sphere."
            )
        if d != 2:
            raise ValueError(
                f"{self} takes two columns, longitude and latitude in degrees, but the inputs have "
                f"{d}. Choose two of them, as in Columns({self}, [0, 1])."
            )
        return 3

    def scales(self, scale: Array, d: int) -> Array:
        """Return length scales (2,) in degrees, as at the equator."""
        return np.full(2, np.min(scale) / _DEGREE)


def theta_of_spread(kernel: Kernel, X: Array) -> Array | None:
    """Return theta with length scales on spheres that are typical distances of rows.

    Such a length scale is the median distance of places from their middle, which single rows do
    not move. It takes the place of scikit-learn's 1.0, where that is free.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel expression, which is not changed.
    X : ndarray of shape (n, d)
        Inputs.

    Returns
    -------
    ndarray or None
        None where no length scale is such a one.
    """
    own = clone(kernel)
    for part, columns in parts_by_columns(own, X.shape[1], Sphere):
        for leaf, _ in node(part).walk(None):
            if _is_of_sklearn(leaf.kernel) and len(columns) == 2:
                shape = np.ones_like(leaf.kernel.length_scale, dtype=float)
                leaf.kernel.length_scale = _spread(part.transform(X[:, columns])) * shape
    is_same = np.array_equal(own.theta, kernel.theta)
    return None if is_same else np.clip(own.theta, *np.reshape(own.bounds, (-1, 2)).T)


def _is_of_sklearn(kernel: Kernel) -> bool:
    """Return whether a leaf has a length scale that is free and 1.0, and no period."""
    is_free = "length_scale" in dict(free(kernel)) and not hasattr(kernel, "periodicity")
    return is_free and bool(np.all(np.asarray(kernel.length_scale) == _OF_SKLEARN))


def _spread(places: Array) -> float:
    """Return the median distance of places (n, 3) from their middle, 1 where there is none."""
    known = places[~np.isnan(places).any(axis=1)]
    if not len(known):
        return _OF_SKLEARN
    distances = np.linalg.norm(known - np.median(known, axis=0), axis=1)
    return float(np.median(distances) or np.sqrt(np.mean(distances**2)) or _OF_SKLEARN)
