"""Kernels of transformed inputs: chosen columns, places on a sphere, and a scale of logarithms.

A mapped kernel is ``k(x, z) = k'(m(x), m(z))``, with another kernel k' and a map m, mostly without
hyperparameters of its own. It is valid wherever k' is. Gradients with respect to the inputs go back
through the map.
"""

from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from numbers import Integral
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.gaussian_process.kernels import Kernel

from skgp_sparse.ground.validation import Array, Ints, as_text

from ._differentiable import (
    DifferentiableKernel,
    Node,
    Pull,
    Pulled,
    Scalars,
    free,
    node,
    parts_by_columns,
)


class MappedKernel(DifferentiableKernel):
    """Base class of kernels of transformed inputs, whose parameter `kernel` is the kernel k'.

    By default, every column of ``m(x)`` consists of the same column of x.
    """

    kernel: Kernel

    @abstractmethod
    def transform(self, X: Array) -> Array:
        """Return ``m(x)`` of points (..., d), as an array (..., d')."""

    @abstractmethod
    def pull(self, X: Array, bar: Array) -> Array:
        """Return the gradient with respect to points (..., d) from that of ``m(x)`` (..., d')."""

    def sources(self, columns: Ints) -> Ints | None:
        """Return the columns that ``m(x)`` consists of; None if it mixes them."""
        return columns

    def width(self, d: int) -> int:
        """Return the number d' of columns of ``m(x)``, where x has d."""
        return d

    def scales(self, scale: Array, d: int) -> Array:
        """Return length scales (d,) from those of ``m(x)`` (d',); inf where it reads nothing."""
        return scale

    def linearize(self, X: Array, Z: Array) -> tuple[Scalars, Pull]:
        """Return the value of ``k(X, Z)`` and its pullback, with the gradient of theta."""
        return self.as_node().linearize(X, Z)

    def linearize_diag(self, X: Array) -> tuple[Scalars, Pull]:
        """Return the value of ``k(x, x)`` without noise, and its pullback."""
        signal, _, pull = self.as_node().diagonal(X)
        return signal, partial(_pull_signal, pull)

    def as_node(self) -> Node:
        """Return the node of this kernel, above that of `kernel`."""
        return MappedNode(self)

    def is_stationary(self) -> bool:
        """Return whether `kernel` is stationary."""
        return self.kernel.is_stationary()

    def theta_gradient(self, X: Array) -> Array:
        """Return the gradient of ``k(X, X)`` with respect to theta, that of `kernel`."""
        return self.kernel(self.transform(X), eval_gradient=True)[1]


def _pull_signal(pull: Pull, g: Array, inputs: bool) -> Pulled:
    return pull(g, np.zeros_like(g), inputs)


class MappedNode(Node):
    """The node of a kernel of transformed inputs."""

    is_map = True

    def __init__(self, kernel: MappedKernel) -> None:
        super().__init__(kernel, arrays=0)
        self.children = (self.child,) = (node(kernel.kernel),)

    def linearize(self, X: Array, Z: Array) -> tuple[Scalars, Pull]:
        K, pull = self.child.linearize(self.kernel.transform(X), self.kernel.transform(Z))
        return K, partial(self._pull, Z, pull)

    def evaluate(self, X: Array, Z: Array) -> Scalars:
        inputs = self.kernel.transform(X)
        return self.child.evaluate(inputs, inputs if Z is X else self.kernel.transform(Z))

    def diagonal(self, X: Array) -> tuple[Scalars, Scalars, Pull]:
        signal, noise, pull = self.child.diagonal(self.kernel.transform(X))
        return signal, noise, partial(self._pull, X, pull)

    def places(self, X: Array) -> list[Array]:
        return self.child.places(self.kernel.transform(X))

    def inputs(self, columns: Ints) -> Ints:
        return columns if self.kernel.sources(columns) is None else columns[:0]

    def inside(self, columns: Ints | None) -> list[tuple[Node, Ints | None]]:
        return [(self.child, None if columns is None else self.kernel.sources(columns))]

    def free(self) -> list[tuple[str, int]]:
        return self.kernel.own_sizes()

    def scales(self, d: int) -> list[Array]:
        return [self.kernel.scales(scale, d) for scale in self.child.scales(self.kernel.width(d))]

    def _pull(self, points: Array, pull: Pull, *arguments: Any) -> Pulled:
        """Gradients from cotangents and whether those of inputs are wanted, through the map."""
        theta_bar, bar = pull(*arguments)
        is_zero = not arguments[-1] or np.ndim(bar) == 0
        return theta_bar, 0.0 if is_zero else self.kernel.pull(points, bar)


ColumnChoice = int | str | Sequence[int | str] | Ints  # numbers or names


class Columns(MappedKernel):
    """A kernel on chosen columns of the inputs.

    The other columns do not matter to it. Sums and products of such kernels say how columns act
    together: ``Columns(RBF(), 0) + Columns(RBF(), 1)`` is additive, and
    ``Columns(RBF(), 0) * Columns(Matern(), 1)`` is an RBF in the first column times a Matern in
    the second one. With ``ExpSineSquared(periodicity=24, periodicity_bounds="fixed")`` as kernel, a
    column is the hour of the day.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        The kernel of the chosen columns. It has one length scale, or one for each of them.
    columns : int, str, or list of int or str
        The numbers of the columns, counted from 0, or their names in a data frame. Estimators of
        this package look names up in `fit`. `GaussianProcessRegressor` takes numbers only.
    numbers : dict of str to int, default=None
        The numbers of columns by name. `fit` sets them in `kernel_`, and you need not.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skgp_sparse.kernels import Columns
    >>> kernel = Columns(RBF(2.0), 0) + Columns(RBF(), [1, 2])
    >>> kernel(np.zeros((1, 3)), np.array([[2.0, 0.0, 1.0]])).round(4)
    array([[1.2131]])

    Columns of a data frame have names:

    >>> from skgp_sparse import SparseGPRegressor
    >>> import pandas as pd
    >>> X = pd.DataFrame({"hour": np.arange(48) % 24, "day": np.arange(48) // 24})
    >>> model = SparseGPRegressor(Columns(RBF(5.0), "hour"), alpha=0.01)
    >>> model.fit(X, np.sin(X["hour"] / 4)).kernel_.columns
    'hour'
    """

    def __init__(
        self, kernel: Kernel, columns: ColumnChoice, numbers: dict[str, int] | None = None
    ) -> None:
        self.kernel = kernel
        self.columns = columns
        self.numbers = numbers

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.kernel!r}, {as_text(self.columns)})"

    def chosen(self, d: int) -> Ints:
        """Return the numbers of the chosen columns of d."""
        numbers = self.numbers or {}
        columns: list[Any] = [
            numbers.get(column, column) if isinstance(column, str) else column
            for column in _as_list(self.columns)
        ]
        kinds = {*map(type, columns)}
        if any(issubclass(kind, str) for kind in kinds):
            raise ValueError(
                f"{self} chooses columns by name, but these inputs have no names. Pass the numbers "
                "of the columns, or a data frame to the fit of an estimator of skgp_sparse."
            )
        are_numbers = all(issubclass(kind, Integral) and kind is not bool for kind in kinds)
        if not (are_numbers and len(columns) and len({*columns}) == len(columns)):
            raise ValueError(
                f"columns of {type(self).__name__} must be a number or a name of a column, or a "
                f"list of different ones. Got {as_text(self.columns)}."
            )
        if not (0 <= min(columns) and max(columns) < d):
            raise ValueError(
                f"{self} needs columns that the inputs do not have. They have {d}, counted from 0. "
                "Choose some of these."
            )
        return np.array(columns, dtype=np.intp)

    def transform(self, X: Array) -> Array:
        """Return the chosen columns of points (..., d)."""
        return np.take(X, self.chosen(np.shape(X)[-1]), axis=-1)

    def pull(self, X: Array, bar: Array) -> Array:
        """Return the gradient with respect to all columns."""
        X_bar = np.zeros(X.shape)
        X_bar[..., self.chosen(X.shape[-1])] = bar
        return X_bar

    def sources(self, columns: Ints) -> Ints | None:
        """Return the chosen ones."""
        return columns[self.chosen(len(columns))]

    def width(self, d: int) -> int:
        """Return the number of chosen columns."""
        return len(self.chosen(d))

    def scales(self, scale: Array, d: int) -> Array:
        """Return length scales (d,), inf for columns that are not chosen."""
        scales = np.full(d, np.inf)
        scales[self.chosen(d)] = scale
        return scales


def _as_list(columns: ColumnChoice) -> list[int | str]:
    choice: Any = columns
    return [choice] if np.ndim(choice) == 0 else list(choice)


def named(kernel: Kernel, names: Sequence[str] | None) -> Kernel:
    """Return a kernel in which the names of columns have their numbers.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel expression, which is not changed.
    names : sequence of str or None
        Names of the columns of the inputs; None if they have none.

    Returns
    -------
    sklearn.gaussian_process.kernels.Kernel
        A clone if there is a name in the kernel, the kernel itself otherwise.

    Raises
    ------
    ValueError
        If there is no column of that name, or no column has one.
    """
    parts = {"": kernel, **kernel.get_params()}
    found = {
        f"{path}__numbers" if path else "numbers": _numbers(part, names)
        for path, part in parts.items()
        if isinstance(part, Columns) and any(isinstance(c, str) for c in _as_list(part.columns))
    }
    return clone(kernel).set_params(**found) if found else kernel


def _numbers(part: Columns, names: Sequence[str] | None) -> dict[str, int]:
    """Numbers of the columns of a part that have names, by name."""
    columns = [column for column in _as_list(part.columns) if isinstance(column, str)]
    if names is None:
        if part.numbers is not None:  # of an earlier fit, to inputs in the same order
            return part.numbers
        raise ValueError(
            f"{part} chooses columns by name, but X has no names of columns. Pass a data frame, or "
            "choose columns by number."
        )
    names = list(names)
    unknown = [column for column in columns if column not in names]
    if unknown:
        raise ValueError(
            f"{part} chooses {unknown}, but the columns of X are {names}. Choose some of these."
        )
    return {column: names.index(column) for column in columns}


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


class LogScale(Columns):
    r"""A kernel of inputs of which some columns are seen on a scale of logarithms.

    A chosen column is seen as

    .. math:: m(x) = l + s \,\mathrm{sign}(u) \log(1 + |u|), \qquad u = (x - l) / s,

    with numbers l and s of the column, and the other columns as they are. Near l, m(x) is x, so
    that length scales have the unit of x there. Values below l are no error. It suits columns with
    a few large values, such as amounts of money.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        The kernel of all columns.
    columns : int, str, or list of int or str
        Those on a scale of logarithms, as in `Columns`.
    lows : array-like of shape (n_chosen,), default=None
        The numbers l, such as the smallest values. None means 0.
    units : array-like of shape (n_chosen,), default=None
        The numbers s, such as the median of x - l. None means 1.
    numbers : dict of str to int, default=None
        The numbers of columns by name. `fit` sets them in `kernel_`, and you need not.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skgp_sparse.kernels import LogScale
    >>> X = np.array([[0.0], [1.0], [1000.0]])
    >>> LogScale(RBF(3.0), 0)(X).round(3)
    array([[1.   , 0.974, 0.071],
           [0.974, 1.   , 0.117],
           [0.071, 0.117, 1.   ]])
    """

    lows: Any
    units: Any

    def __init__(
        self,
        kernel: Kernel,
        columns: ColumnChoice,
        lows: npt.ArrayLike | None = None,
        units: npt.ArrayLike | None = None,
        numbers: dict[str, int] | None = None,
    ) -> None:
        super().__init__(kernel, columns, numbers)
        self.lows = lows
        self.units = units

    def transform(self, X: Array) -> Array:
        """Return points (..., d) with the chosen columns on their scale."""
        chosen, u, low, unit = self._scaled(X)
        X = np.array(X, dtype=float)
        X[..., chosen] = low + unit * np.sign(u) * np.log1p(np.abs(u))
        return X

    def pull(self, X: Array, bar: Array) -> Array:
        """Return the gradient with respect to points from that of what is seen."""
        chosen, u, _, _ = self._scaled(X)
        X_bar = np.array(np.broadcast_to(bar, np.shape(X)))
        X_bar[..., chosen] /= 1.0 + np.abs(np.where(np.isnan(u), 0.0, u))
        return X_bar

    sources, width = MappedKernel.sources, MappedKernel.width  # all columns

    def scales(self, scale: Array, d: int) -> Array:
        """Return length scales (d,), those of the chosen columns at a distance s from l."""
        scales = np.array(np.broadcast_to(scale, (d,)), dtype=float)
        scales[self.chosen(d)] *= 2.0
        return scales

    def _scaled(self, X: Array) -> tuple[Any, ...]:
        """Numbers of the chosen columns, their values u, l and s."""
        chosen = self.chosen(np.shape(X)[-1])
        low = np.zeros(len(chosen)) if self.lows is None else np.asarray(self.lows, dtype=float)
        unit = np.ones(len(chosen)) if self.units is None else np.asarray(self.units, dtype=float)
        if low.shape != (len(chosen),) or unit.shape != low.shape or not np.all(unit > 0):
            raise ValueError(
                f"{self} needs a number in lows and a positive one in units for each of its "
                f"{len(chosen)} columns. Got lows={as_text(self.lows)} and "
                f"units={as_text(self.units)}. Pass as many, or None."
            )
        return chosen, (np.asarray(X)[..., chosen] - low) / unit, low, unit
