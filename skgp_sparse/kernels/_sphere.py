"""A kernel of places on a sphere."""

from typing import Any, Literal

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from ._mapped import MappedKernel
from ._rules import Array, Ints

_DEGREE = np.pi / 180.0


class Sphere(MappedKernel):
    """A kernel of places on the earth, whose longitude and latitude are the two input columns.

    Places are points on the unit sphere, and `kernel` sees their three coordinates. Its length
    scale is a chord: 0.1 is a tenth of the earth's radius, 637 km. No pole and no date line is
    special, and the kernel is valid wherever `kernel` is valid in three dimensions. To choose two
    of several columns, put it into `Columns`.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        The kernel of the points on the sphere. Use one length scale, as three are those of the
        axes of the earth.
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

    def __repr__(self) -> str:
        return f"Sphere({self.kernel!r})"

    def see(self, X: Array) -> Array:
        """Return points (..., 3) on the unit sphere."""
        self.width(np.shape(X)[-1])
        longitude, latitude = _DEGREE * X[..., 0], _DEGREE * X[..., 1]
        cosine = np.cos(latitude)
        points = cosine * np.cos(longitude), cosine * np.sin(longitude), np.sin(latitude)
        return np.stack(points, axis=-1)

    def pull(self, X: Array, bar: Any) -> Array:
        """Return the gradient with respect to longitude and latitude, per degree."""
        x, y, z = np.moveaxis(self.see(X), -1, 0)
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
                f"distance of Sphere must be 'chord'. Got {self.distance!r}. Stationary kernels of "
                "the distance along the great circle are not positive definite on a sphere."
            )
        if d != 2:
            raise ValueError(
                f"{self} takes two columns, longitude and latitude in degrees, but the inputs have "
                f"{d}. Choose two of them, as in Columns({self}, [0, 1])."
            )
        return 3

    def scales(self, scale: Any, d: int) -> Array:
        """Return length scales (2,) in degrees, as at the equator."""
        return np.full(2, np.min(scale) / _DEGREE)
