"""Predictions of a regressor of one or two inputs."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils.validation import check_is_fitted

from skgp_sparse._ground.validation import AnyArray, Array, as_text
from skgp_sparse.rows.missing import is_frame

from ._display import Display, Range, axis_of, range_of_column, shorten_dates, table_and_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARGIN_OF_RANGE = 0.05  # of the range of the data, beyond which a band goes on


class PredictionBandDisplay(Display):
    """Predictions of a regressor of one or two inputs, with their uncertainty.

    Of one input, it draws the mean, the interval, the data and the inducing points. Of two inputs,
    it draws the mean and the standard deviation side by side. Inputs are numbers, or times, which
    have an axis of dates.

    Parameters
    ----------
    grid : ndarray of shape (n,) or pair of ndarray of shape (k,)
        Values of the inputs, of their own types.
    mean : ndarray of shape (n,) or (k, k)
        Predicted means.
    std : ndarray of the same shape
        Standard deviations, the noise included.
    coverage : float, default=0.95
        Of the interval.
    X, y : ndarray of shape (m, d) and (m,), default=None
        Data, without the rows in which an input is missing.
    inducing_points : ndarray of shape (p, d), default=None
        Marked below the curve, or on the plane.
    names : list of str, default=None
        Of the inputs.

    Attributes
    ----------
    ax_ : matplotlib Axes, or array of two Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse import SparseGPRegressor
    >>> from skgp_sparse.displays import PredictionBandDisplay
    >>> X = np.linspace(0, 10, 50)[:, None]
    >>> y = np.sin(X[:, 0])
    >>> model = SparseGPRegressor(n_inducing=8, random_state=0).fit(X, y)
    >>> display = PredictionBandDisplay.from_estimator(model, X, y)  # doctest: +SKIP
    """

    def __init__(
        self,
        grid: Any,
        mean: Array,
        std: Array,
        *,
        coverage: float = 0.95,
        X: Any = None,
        y: AnyArray | None = None,
        inducing_points: Array | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        self.grid, self.mean, self.std, self.coverage = grid, mean, std, coverage
        self.X, self.y, self.inducing_points, self.names = X, y, inducing_points, names

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: npt.ArrayLike,
        y: npt.ArrayLike | None = None,
        *,
        coverage: float = 0.95,
        n_points: int = 200,
        ax: "Axes | AnyArray | None" = None,
    ) -> "PredictionBandDisplay":
        """Draw the predictions of a fitted regressor over the range of X.

        Parameters
        ----------
        estimator : fitted regressor
            Whose ``predict`` has the parameter ``return_std``.
        X : array-like of shape (n_samples, 1) or (n_samples, 2)
            Inputs, which are drawn if there is y.
        y : array-like of shape (n_samples,), default=None
            Targets.
        coverage : float, default=0.95
            Of the interval.
        n_points : int, default=200
            Points of each axis.
        ax : matplotlib Axes, or array of two Axes, default=None
            None makes new ones.

        Returns
        -------
        PredictionBandDisplay
            The display, whose `ax_` and `figure_` hold the drawing.

        Raises
        ------
        ValueError
            If there are more than two inputs, one of them is a category or a boolean, or there is
            more than one target.
        TypeError
            If the estimator is a classifier.
        """
        check_is_fitted(estimator)
        table, names = table_and_names(X)
        ranges = cls._ranges(table, names, n_points)
        mean, std = cls._predictions(estimator, table, [one.grid for one in ranges], ranges)
        values = [one.shown(one.grid) for one in ranges]
        data = np.column_stack([one.numbers for one in ranges])
        return cls(
            values[0] if len(values) == 1 else tuple(values),
            mean,
            std,
            coverage=coverage,
            X=_shown(ranges, data),
            y=None if y is None else np.asarray(y)[_is_known(data)],
            inducing_points=_inducing_points(estimator, ranges),
            names=[str(name) for name in names] if is_frame(table) else None,
        ).plot(ax=ax)

    @classmethod
    def _predictions(
        cls, estimator: BaseEstimator, table: Any, grids: list[Array], ranges: list[Range]
    ) -> tuple[Array, Array]:
        """Means and standard deviations (k, ...) at all points of grids."""
        if is_classifier(estimator):
            raise TypeError(
                f"{cls.__name__} draws regressors. Draw the probabilities of "
                f"{type(estimator).__name__} with EffectDisplay."
            )
        rows = np.stack(np.meshgrid(*grids, indexing="ij"), axis=-1).reshape(-1, len(grids))
        cells = [one.cells(values) for one, values in zip(ranges, rows.T)]
        mean, std = estimator.predict(_like(table, cells), return_std=True)
        if np.ndim(mean) > 1:
            raise ValueError(
                f"{cls.__name__} draws one target, but {type(estimator).__name__} has "
                f"{np.shape(mean)[1]}. Fit it to one of them."
            )
        shape = tuple(map(len, grids))
        return np.reshape(mean, shape), np.reshape(std, shape)

    @classmethod
    def _ranges(cls, table: Any, names: list[Any], n_points: int) -> list[Range]:
        """The `Range` of each input."""
        if len(names) > 2:
            raise ValueError(
                f"{cls.__name__} draws one or two inputs. X has {len(names)} columns. Choose "
                "them, or draw partial dependence with EffectDisplay."
            )
        ranges: list[Any] = [
            range_of_column(table, j, n_points, _MARGIN_OF_RANGE) for j in range(len(names))
        ]
        if None in ranges:
            raise ValueError(
                f"{cls.__name__} draws inputs that are numbers or times. Column "
                f"{as_text(names[ranges.index(None)])} of X has levels or no values. Draw what it "
                "does with EffectDisplay."
            )
        return ranges

    def plot(self, ax: "Axes | AnyArray | None" = None) -> "PredictionBandDisplay":
        """Draw again.

        Parameters
        ----------
        ax : matplotlib Axes, or array of two Axes, default=None
            None makes new ones.

        Returns
        -------
        PredictionBandDisplay
            The display, whose `ax_` and `figure_` hold the drawing.
        """
        if self.mean.ndim == 1:
            self._plot_line(*self._axes(ax))
        else:
            self._plot_maps(self._axes(ax, 2))
        return self

    def _plot_line(self, ax: "Axes") -> None:
        width = ndtri(0.5 + 0.5 * self.coverage) * self.std
        axis = axis_of(self.grid, self.names[0] if self.names else "x")
        grid = axis.of(self.grid)
        (line,) = ax.plot(grid, self.mean, label="mean")
        color, label = line.get_color(), f"{self.coverage:.0%} interval"
        ends = self.mean - width, self.mean + width
        ax.fill_between(grid, *ends, color=color, alpha=0.2, lw=0, label=label)
        if self.y is not None:
            ax.plot(axis.of(self.X[:, 0]), self.y, ".", color="0.25", ms=4, zorder=1, label="data")
        if self.inducing_points is not None:
            at = np.full(len(self.inducing_points), 0.02)
            places, transform = axis.of(self.inducing_points[:, 0]), ax.get_xaxis_transform()
            ax.plot(places, at, "k|", ms=12, transform=transform, label="inducing points")
        ax.set(xlabel=axis.label, ylabel="y")
        shorten_dates(ax.xaxis)
        ax.legend()

    def _plot_maps(self, axes: "AnyArray") -> None:
        names = self.names or ("first input", "second input")
        sides = [axis_of(grid, name) for grid, name in zip(self.grid, names)]

        def drawn(columns: Iterable[AnyArray]) -> list[AnyArray]:
            return [side.of(column) for side, column in zip(sides, columns)]

        for ax, values, title in zip(axes, (self.mean, self.std), ("mean", "standard deviation")):
            filled = ax.contourf(*drawn(self.grid), values.T, levels=20)
            ax.figure.colorbar(filled, ax=ax)
            if self.y is not None:
                ax.plot(*drawn(self.X.T), ".", color="k", ms=2)
            if self.inducing_points is not None:
                ax.plot(*drawn(self.inducing_points.T), "x", color="w", ms=6)
            ax.set(title=title, xlabel=sides[0].label, ylabel=sides[1].label)
            shorten_dates(ax.xaxis, ax.yaxis)


def _like(table: Any, columns: list[AnyArray]) -> Any:
    """Columns as a table of the type of another one."""
    if is_frame(table):
        return type(table)(dict(zip(table.columns, columns)))
    return _side_by_side(columns)


def _side_by_side(columns: list[AnyArray]) -> AnyArray:
    """Columns as an array, of objects where one is of times and another is not."""
    is_mixed = len({one.dtype.kind for one in columns}) > 1
    return np.column_stack([one.astype(object) if is_mixed else one for one in columns])


def _shown(ranges: list[Range], points: Array) -> AnyArray:
    """Points (n, d), as an estimator sees them, as they are drawn: without those with gaps."""
    points = points[_is_known(points)]
    return _side_by_side([one.shown(values) for one, values in zip(ranges, points.T)])


def _is_known(points: Array) -> Any:
    return ~np.isnan(points).any(axis=1)


def _inducing_points(estimator: BaseEstimator, ranges: list[Range]) -> AnyArray | None:
    """Inducing points as they are drawn, None where all rows are, or they are of other inputs."""
    points = getattr(estimator, "inducing_points_", None)
    if points is None or points.shape[1:] != (len(ranges),):
        return None
    return _shown(ranges, points) if getattr(estimator, "posterior_", "") == "inducing" else None
