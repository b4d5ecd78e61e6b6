"""Kernels of transformed inputs: columns, places on a sphere, logarithms, and missing values.

A mapped kernel is ``k(x, z) = k'(m(x), m(z))``, with another kernel k' and a map m, mostly without
hyperparameters of its own. It is valid wherever k' is. Gradients with respect to the inputs go back
through the map.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from numbers import Integral
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from skgp_sparse.ground.parallel import applied
from skgp_sparse.ground.validation import Array, Bools, Ints, Kernel, Pair, Scalars, as_text

from ._differentiable import DifferentiableKernel, node, shown
from ._functions import parts_by_columns
from ._leaves import CORRELATION, agreement
from ._nodes import Node, Pull, Pulled


# By default, every column of ``m(x)`` consists of the same column of x.
class MappedKernel(DifferentiableKernel):
    """Base class of kernels of transformed inputs, whose parameter `kernel` is the kernel k'."""

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

    def scales(self, scale: Array, d: int) -> Array:
        """Return length scales (d,) at 0 from those of m(x) (d',); inf where it reads nothing."""
        with np.errstate(divide="ignore"):
            return 1.0 / self.pull(np.zeros(d), 1.0 / scale)

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

    is_map, arrays = True, 0

    def __init__(self, kernel: MappedKernel) -> None:
        super().__init__(kernel)
        self.children = (self.child,) = (node(kernel.kernel),)

    def linearize(self, X: Array, Z: Array) -> tuple[Scalars, Pull]:
        first = self.kernel.transform(X)
        K, pull = self.child.linearize(first, first if Z is X else self.kernel.transform(Z))
        return K, partial(self._pull, Z, pull)

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
        return [(one.name, one.n_elements) for one in self.kernel.own_free()]

    def scales(self, d: int) -> list[Array]:
        width = len(self.kernel.transform(np.zeros(d)))
        return [self.kernel.scales(scale, d) for scale in self.child.scales(width)]

    def _pull(self, points: Array, pull: Pull, *arguments: object) -> Pulled:
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

    def __init__(self, kernel: Kernel, columns: ColumnChoice, numbers: dict | None = None) -> None:
        self.kernel = kernel
        self.columns = columns
        self.numbers = numbers

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.kernel!r}, {as_text(self.columns)})"

    def chosen(self, d: int) -> Ints:
        """Return the numbers of the chosen columns of d."""
        numbers, columns = self.numbers or {}, _as_list(self.columns)
        columns = [numbers.get(one, one) if isinstance(one, str) else one for one in columns]
        if any(isinstance(column, str) for column in columns):
            raise ValueError(
                f"{self} chooses columns by name, but these inputs have no names. Pass the numbers "
                "of the columns, or a data frame to the fit of an estimator of skgp_sparse."
            )
        whole = (int, np.integer)
        valid = all(isinstance(c, whole) and type(c) is not bool and 0 <= c < d for c in columns)
        if not (valid and len(columns) and len({*columns}) == len(columns)):
            raise ValueError(
                f"columns of {type(self).__name__} must be a column or a list of different ones, "
                f"by number or name, of the {d} that the inputs have, counted from 0. Got "
                f"{as_text(self.columns)}."
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


def _as_list(columns: ColumnChoice) -> list[Any]:
    return np.atleast_1d(np.array(columns, dtype=object)).tolist()


def named(kernel: Kernel, names: Sequence[str] | None) -> Kernel:
    """Return a clone in which names of columns have numbers, or the kernel if it has no names."""
    found = {
        f"{path}__numbers" if path else "numbers": _numbers(part, names)
        for path, part in {"": kernel, **kernel.get_params()}.items()
        if isinstance(part, Columns) and any(isinstance(c, str) for c in _as_list(part.columns))
    }
    return clone(kernel).set_params(**found) if found else kernel


def _numbers(part: Columns, names: Sequence[str] | None) -> dict[str, int]:
    """Numbers of the columns of a part that have names, by name."""
    if names is None and part.numbers is not None:  # of an earlier fit, to inputs in the same order
        return part.numbers
    columns = [column for column in _as_list(part.columns) if isinstance(column, str)]
    known = [] if names is None else [*names]
    if unknown := [column for column in columns if column not in known]:
        found = "X has no names of columns" if names is None else f"the columns of X are {known}"
        raise ValueError(
            f"{part} chooses {as_text(unknown)}, but {found}. Choose columns by number, or by the "
            "names of a data frame."
        )
    return {column: known.index(column) for column in columns}


_DEGREE = np.pi / 180.0


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
        if self.distance != "chord":
            raise ValueError(
                f"distance of Sphere must be 'chord'. Got {as_text(self.distance)}. Stationary "
                "kernels of the distance along a great circle are not positive definite there."
            )
        if (d := np.shape(X)[-1]) != 2:
            raise ValueError(
                f"{self} takes two columns, longitude and latitude in degrees, but the inputs have "
                f"{d}. Choose two of them, as in Columns({self}, [0, 1])."
            )
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


# Such a length scale is the median distance of places from their middle, which single rows do
# not move. It takes the place of scikit-learn's 1.0, where that is free.
def theta_of_spread(kernel: Kernel, X: Array) -> Array | None:
    """Return theta with length scales on spheres that are typical distances of rows, or None."""
    own = clone(kernel)
    for part, columns in parts_by_columns(own, X.shape[1], Sphere):
        for leaf, _ in node(part).walk(None):
            one = leaf.kernel  # whose length scale is 1.0 if its user did not choose one
            is_free = "length_scale" in dict(leaf.free()) and not hasattr(one, "periodicity")
            if is_free and np.all(np.equal(one.length_scale, 1.0)) and len(columns) == 2:
                shape = np.ones_like(one.length_scale, dtype=float)
                one.length_scale = _spread(part.transform(X[:, columns])) * shape
    is_same = np.array_equal(own.theta, kernel.theta)
    return None if is_same else np.clip(own.theta, *np.reshape(own.bounds, (-1, 2)).T)


def _spread(places: Array) -> float:
    """Return the median distance of places (n, 3) from their middle, 1 where there is none."""
    known = places[~np.isnan(places).any(axis=1)]
    if not len(known):
        return 1.0
    distances = np.linalg.norm(known - np.median(known, axis=0), axis=1)
    return float(np.median(distances) or np.sqrt(np.mean(distances**2)) or 1.0)


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

    sources = MappedKernel.sources  # all columns

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


# -- missing values --------------------------------------------------------------------------------
# A missing value of column j is a level of its own. A neutral value v_j takes its place, and it has
# a correlation ρ_j with values that are there:
#
#     k(x, z) = k'(x̃, z̃) Π_j ρ_j^[m_j(x) ≠ m_j(z)],    m_j(x) = [x_j is missing],
#     x̃_j = x_j or, if it is missing, v_j = mean_j + std_j log(neutral_j).
#
# What a missing value would have told varies from row to row. Its row has noise Σ_j s_j m_j(x) for
# that, which is on the diagonal as that of a `WhiteKernel` is.

PullFactor = Callable[[Array], Array]  # from H = G * K to slopes of all columns
# hyperparameters of columns where training had no missing values; of noise, the mean of the others
_OTHERS = {"correlation": 0.5, "neutral": 1.0}


class Missing(MappedKernel):
    r"""A kernel of inputs with missing values, which are NaN.

    A missing value is a level of its own: it is seen as a neutral value, which is learned, and it
    has a correlation ρ with values that are there. With m = 1 of a missing value and 0 otherwise,

    .. math:: k(x, z) = k'(\tilde x, \tilde z) \prod_j \rho_j^{|m_j(x) - m_j(z)|}
        + [x \text{ and } z \text{ are the same row}] \sum_j s_j m_j(x).

    The variances s are noise of rows with missing values: what a missing value would have told.
    Nothing has to be imputed before. `GaussianProcessRegressor` refuses NaN itself.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        The kernel k' of complete inputs.
    correlation : float or ndarray of shape (n_missing,), default=0.7
        The correlations ρ. `fit` sets one for each column in which values are missing, and learns
        them. A value that is missing in another column later has the correlation 0.5, and counts as
        the mean of its column.
    correlation_bounds : pair of floats or "fixed", default=(1e-3, 0.9999)
        Their bounds.
    neutral : ndarray of shape (n_missing,), default=None
        The neutral values, as exponentials of their distances from the mean of the column in
        standard deviations, because hyperparameters are positive: 1 is the mean, where learning
        begins, and ``exp(-1)`` one standard deviation below it.
    neutral_bounds : pair of floats or "fixed", default=(0.05, 20)
        Their bounds, which are three standard deviations from the mean.
    noise : float or ndarray of shape (n_missing,), default=0.0
        The variances s, in units of those of `kernel`. 0 means none, and a positive number is where
        learning begins. A value that is missing in another column later has their mean.
    noise_bounds : pair of floats or "fixed", default=(1e-5, 1e2)
        Their bounds.
    columns : "auto" or sequence of int, default="auto"
        The numbers of the columns in which values are missing, of those that `kernel` sees. `fit`
        finds them with "auto".
    units : pair of ndarray of shape (n_columns,), default=None
        Means and standard deviations of the values that are there, which `fit` sets. None means 0
        and 1.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skgp_sparse.kernels import Missing
    >>> X = np.array([[0.0], [1.0], [np.nan]])
    >>> Missing(RBF(), columns=[0], correlation=np.array([0.6]))(X).round(3)
    array([[1.   , 0.607, 0.6  ],
           [0.607, 1.   , 0.364],
           [0.6  , 0.364, 1.   ]])

    Estimators find the columns, and learn what missing values mean there:

    >>> from skgp_sparse import SparseGPRegressor
    >>> X = np.linspace(0, 3, 20)[:, None]
    >>> y = np.sin(X[:, 0])
    >>> X[::4] = np.nan
    >>> model = SparseGPRegressor(Missing(RBF()), alpha=0.01).fit(X, y)
    >>> model.kernel_.columns
    [0]
    """

    takes_missing = True
    _transforms = {"correlation": CORRELATION}

    def __init__(
        self,
        kernel: Kernel,
        correlation: npt.ArrayLike = 0.7,
        correlation_bounds: tuple[float, float] | Literal["fixed"] = (1e-3, 0.9999),
        neutral: npt.ArrayLike | None = None,
        neutral_bounds: tuple[float, float] | Literal["fixed"] = (0.05, 20.0),
        noise: Scalars = 0.0,
        noise_bounds: tuple[float, float] | Literal["fixed"] = (1e-5, 1e2),
        columns: Literal["auto"] | Sequence[int] = "auto",
        units: Pair | None = None,
    ) -> None:
        self.kernel = kernel
        self.correlation = correlation
        self.correlation_bounds = correlation_bounds
        self.neutral = neutral
        self.neutral_bounds = neutral_bounds
        self.noise = noise
        self.noise_bounds = noise_bounds
        self.columns = columns
        self.units = units

    def __repr__(self) -> str:
        if not self.missing_columns():
            return f"Missing({self.kernel!r})"
        noise = f", noise={shown(self._current('noise'))}" if self.is_noisy() else ""
        return f"Missing({self.kernel!r}, correlation={shown(self._current('correlation'))}{noise})"

    def is_stationary(self) -> bool:
        """Return False: a missing value is no place."""
        return False

    def as_node(self) -> "MissingNode":
        """Return the node of this kernel, above that of `kernel`."""
        return MissingNode(self)

    def _current(self, name: str) -> Array:
        """Values of a hyperparameter, one for each column with missing values; none of no noise."""
        if name == "noise" and not self.is_noisy():
            return np.zeros(0)
        value, size = getattr(self, name), len(self.missing_columns())
        value = np.asarray(1.0 if value is None else value, dtype=float)
        if value.ndim > 0 and value.shape != (size,):
            raise ValueError(
                f"{name} of Missing must be a number, or an array of one for each of its columns "
                f"with missing values, columns={as_text(self.columns)}. Got {as_text(value)}."
            )
        return np.broadcast_to(value, (size,))

    theta_gradient = DifferentiableKernel.theta_gradient

    def of_columns(self, name: str, d: int) -> Array:
        """Return the values of a hyperparameter for all columns (d,)."""
        columns = self.missing_columns()
        if max(columns, default=0) >= d:
            raise ValueError(
                f"columns={columns} of Missing must be among those of its inputs, 0 to {d - 1}."
            )
        values = np.full(d, _OTHERS[name] if name in _OTHERS else np.mean(self.noise))
        values[columns] = self._current(name)
        return values

    def is_noisy(self) -> bool:
        """Return whether rows with missing values have noise."""
        if np.min(self.noise) < 0 or 0 < np.count_nonzero(self.noise) < np.size(self.noise):
            raise ValueError(
                "noise of Missing must be 0, or positive for every column. Got "
                f"{as_text(self.noise)}."
            )
        return bool(np.any(self.noise))

    def transform(self, X: Array) -> Array:
        """Return inputs (..., d) with neutral values in the place of missing ones."""
        missing = np.isnan(X)
        if not missing.any():
            return X
        mean, std = self._units()
        neutral = self.of_columns("neutral", np.shape(X)[-1])
        return np.where(missing, mean + std * np.log(neutral), X)

    def pull(self, X: Array, bar: Array) -> Array:
        """Return the gradient with respect to the values that are there, 0 of others."""
        return np.where(np.isnan(X), 0.0, bar)

    def missing_columns(self) -> list[int]:
        """Return the numbers of the columns with missing values, once they are known."""
        if isinstance(self.columns, str) and self.columns == "auto":
            return []
        is_list = np.ndim(self.columns) == 1 and all(isinstance(c, Integral) for c in self.columns)
        if not is_list or min(self.columns, default=0) < 0:
            raise ValueError(
                "columns of Missing must be 'auto' or a list of numbers of the columns that its "
                f"kernel sees. Got {as_text(self.columns)}."
            )
        return [*map(int, self.columns)]

    # The pullback is that of `agreement`, for the logarithms of the correlations of these columns.
    def factor(self, X: Array, Z: Array) -> tuple[Scalars, PullFactor | None, Bools]:
        """Return the product of correlations, its pullback, and which columns (d,) lack values."""
        a = np.isnan(X)
        b = a if Z is X else np.isnan(Z)
        axes = tuple(range(a.ndim - 1))
        used = np.any(a, axis=axes) | np.any(b, axis=axes)
        if not used.any():
            return 1.0, None, used
        w = -np.log(self.of_columns("correlation", len(used))[used])
        a, b = a[..., used], b if Z is X else b[..., used]
        return *agreement(a, a if Z is X else b, w), used

    # From slopes (d,) in the logarithms of all correlations, pairs of inputs and of gradients wrt
    # what `transform` returns of them, and slopes in the variances of noise.
    def own_gradient(self, slopes: Array, *bars: tuple, of_noise: Scalars = 0.0) -> Array:
        """Return the gradient with respect to the own hyperparameters that are free."""
        d, columns = len(slopes), self.missing_columns()
        neutral = np.zeros(d)
        for X, bar in bars:
            neutral += np.where(np.isnan(X), bar, 0.0).reshape(-1, d).sum(axis=0)
        found = {
            "correlation": (slopes * np.log(self.of_columns("correlation", d)))[columns],
            "neutral": (neutral * self._units()[1])[columns],
            "noise": np.broadcast_to(of_noise, d)[columns] * np.asarray(self.noise),
        }
        return np.concatenate([np.zeros(0), *(found[one.name] for one in self.own_free())])

    def learns_neutral(self) -> bool:
        """Return whether neutral values are free."""
        return not isinstance(self.neutral_bounds, str) and len(self.missing_columns()) > 0

    def _units(self) -> tuple[Scalars, Scalars]:
        return (0.0, 1.0) if self.units is None else self.units


def with_missing(kernel: Kernel, d: int, is_missing: Bools, mean: Array, std: Array) -> Kernel:
    """Return a kernel whose parts know which columns (d,) lack values, and moments of others."""
    for part, columns in parts_by_columns(kernel, d, Missing):
        if part.units is None:
            part.units = mean[columns], std[columns]
        if isinstance(part.columns, str):
            part.columns = np.flatnonzero(is_missing[columns]).tolist()
            size = len(part.columns)
            part.correlation = np.full(size, part.correlation) if size else part.correlation
    return kernel


class MissingNode(MappedNode):
    """The node of a kernel of inputs with missing values."""

    arrays = 2

    def __init__(self, kernel: Missing) -> None:
        super().__init__(kernel)
        self.noisy = kernel.is_noisy()

    def linearize(self, X: Array, Z: Array) -> tuple[Scalars, Pull]:
        first, factor = self.kernel.transform(X), self.kernel.factor(X, Z)
        K, pull = self.child.linearize(first, first if Z is X else self.kernel.transform(Z))
        value = K if factor[1] is None else applied(np.multiply, K, factor[0])
        return value, partial(self._pull_cross, X, Z, value, factor, pull)

    def diagonal(self, X: Array) -> tuple[Scalars, Scalars, Pull]:
        signal, noise, pull = self.child.diagonal(self.kernel.transform(X))
        if self.noisy:
            noise = noise + np.isnan(X) @ self.kernel.of_columns("noise", X.shape[1])
        return signal, noise, partial(self._pull_diag, X, pull)

    def places(self, X: Array) -> list[Array]:
        correlation = self.kernel.of_columns("correlation", X.shape[1])
        return [*super().places(X), np.isnan(X) * np.sqrt(-np.log(correlation))]

    def _pull_cross(
        self, X: Array, Z: Array, value: Scalars, factor: tuple, pull: Pull, G: Array, inputs: bool
    ) -> Pulled:
        kernel, slopes, bars = self.kernel, np.zeros(X.shape[-1]), []
        K, pull_factor, used = factor
        learns = pull_factor is not None and kernel.learns_neutral()
        if pull_factor is not None:
            slopes[used] = pull_factor(applied(np.multiply, G, value))
            G = np.multiply(G, K, out=G)
        rows = np.isnan(X).any(axis=-1)
        if learns and X.ndim == 2 and rows.any():  # the pullback is of the second of two arguments
            first = kernel.transform(X[rows])
            pull_first = node(kernel.kernel).linearize(kernel.transform(Z), first)[1]
            bars.append((X[rows], pull_first(np.ascontiguousarray(G[rows].T), True)[1]))
        theta_bar, bar = pull(G, inputs or learns)
        if learns:
            bars.append((Z, bar))
        return self._joined(theta_bar, kernel.own_gradient(slopes, *bars), Z, bar, inputs)

    def _pull_diag(
        self, X: Array, pull: Pull, g_signal: Array, g_noise: Scalars, inputs: bool
    ) -> Pulled:
        learns = self.kernel.learns_neutral() and np.isnan(X).any()
        theta_bar, bar = pull(g_signal, g_noise, inputs or learns)
        of_noise = np.broadcast_to(g_noise, len(X)) @ np.isnan(X) if self.noisy else 0.0
        bars, slopes = [(X, bar)] if learns else [], np.zeros(X.shape[-1])
        own = self.kernel.own_gradient(slopes, *bars, of_noise=of_noise)
        return self._joined(theta_bar, own, X, bar, inputs)

    def _joined(self, theta_bar: Array, own: Array, X: Array, bar: Scalars, inputs: bool) -> Pulled:
        theta_bar = np.concatenate([theta_bar, own])
        return theta_bar, self.kernel.pull(X, bar) if inputs and np.ndim(bar) else 0.0
