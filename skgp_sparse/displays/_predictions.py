"""Displays of predictions of one or two inputs, of the effect of one column, and of coverage."""

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from numbers import Integral
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.special import ndtr, ndtri
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils.validation import check_is_fitted

from skgp_sparse.data.checks import is_frame, is_missing
from skgp_sparse.ground.validation import AnyArray, Array, ArrayLike, as_text, is_name

from . import _display
from ._display import Display, Range, axis_of, range_of_column, shorten_dates

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARGIN_OF_RANGE = 0.05  # of the range of the data, beyond which a band goes on


@dataclass(eq=False, repr=False)
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

    grid: Any
    mean: Array
    std: Array
    _: KW_ONLY
    coverage: float = 0.95
    X: Any = None
    y: AnyArray | None = None
    inducing_points: Array | None = None
    names: Sequence[str] | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: ArrayLike,
        y: ArrayLike | None = None,
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
        table, names = _display.table_and_names(X)
        if len(names) > 2 or is_classifier(estimator):
            raise (TypeError if is_classifier(estimator) else ValueError)(
                f"{cls.__name__} draws one or two inputs of a regressor. Got {len(names)} columns "
                f"and a {type(estimator).__name__}. Draw the effect of a column with EffectDisplay."
            )
        ranges = [range_of_column(table, j, n_points, _MARGIN_OF_RANGE) for j in range(len(names))]
        mean, std = _predictions(estimator, table, ranges)
        if mean.ndim > len(ranges):
            raise ValueError(
                f"{cls.__name__} draws one target, but {type(estimator).__name__} has "
                f"{mean.shape[-1]}. Fit it to one of them."
            )
        values = [one.shown(one.grid) for one in ranges]
        data = np.column_stack([one.numbers for one in ranges])
        return cls(
            values[0] if len(values) == 1 else tuple(values),
            mean,
            std,
            coverage=coverage,
            X=_shown(ranges, data),
            y=None if y is None else np.asarray(y)[~np.isnan(data).any(axis=1)],
            inducing_points=_inducing_points(estimator, ranges),
            names=[str(name) for name in names] if is_frame(table) else None,
        ).plot(ax=ax)

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
        """Draw mean and interval of one input, with data and inducing points."""
        width = ndtri(0.5 + 0.5 * self.coverage) * self.std
        name, on_axis = axis_of(self.grid, self.names[0] if self.names else "x")
        grid = on_axis(self.grid)
        (line,) = ax.plot(grid, self.mean, label="mean")
        color, label = line.get_color(), f"{self.coverage:.0%} interval"
        low, high = self.mean - width, self.mean + width
        ax.fill_between(grid, low, high, color=color, alpha=0.2, lw=0, label=label)
        if self.y is not None:
            ax.plot(on_axis(self.X[:, 0]), self.y, ".", color="0.25", ms=4, zorder=1, label="data")
        if self.inducing_points is not None:
            at = np.full(len(self.inducing_points), 0.02)
            places, transform = on_axis(self.inducing_points[:, 0]), ax.get_xaxis_transform()
            ax.plot(places, at, "k|", ms=12, transform=transform, label="inducing points")
        ax.set(xlabel=name, ylabel="y")
        shorten_dates(ax.xaxis)
        ax.legend()

    def _plot_maps(self, axes: "AnyArray") -> None:
        """Draw maps of mean and standard deviation of two inputs."""
        names = self.names or ("first input", "second input")
        names, sides = zip(*map(axis_of, self.grid, names))

        def drawn(columns: Iterable[AnyArray]) -> list[AnyArray]:
            return [on_axis(column) for on_axis, column in zip(sides, columns)]

        for ax, values, title in zip(axes, (self.mean, self.std), ("mean", "standard deviation")):
            ax.figure.colorbar(ax.contourf(*drawn(self.grid), values.T, levels=20), ax=ax)
            if self.y is not None:
                ax.plot(*drawn(self.X.T), ".", color="k", ms=2)
            if self.inducing_points is not None:
                ax.plot(*drawn(self.inducing_points.T), "x", color="w", ms=6)
            ax.set(title=title, xlabel=names[0], ylabel=names[1])
            shorten_dates(ax.xaxis, ax.yaxis)


def _predictions(estimator: BaseEstimator, table: "_display.Table", ranges: list) -> list[Array]:
    """Means and standard deviations at all points of grids, an axis for each input."""
    points = np.meshgrid(*(one.grid for one in ranges), indexing="ij")
    cells = [one.cells(values.ravel()) for one, values in zip(ranges, points)]
    grid = type(table)(dict(zip(table.columns, cells))) if is_frame(table) else _side_by_side(cells)
    moments = estimator.predict(grid, return_std=True)
    return [np.reshape(one, (*points[0].shape, *np.shape(one)[1:])) for one in moments]


def _side_by_side(columns: list[AnyArray]) -> AnyArray:
    """Columns as an array, of objects where one is of times and another is not."""
    is_mixed = len({one.dtype.kind for one in columns}) > 1
    return np.column_stack([one.astype(object) if is_mixed else one for one in columns])


def _shown(ranges: list[Range], points: Array) -> AnyArray:
    """Points (n, d), as an estimator sees them, as they are drawn: without those with gaps."""
    points = points[~np.isnan(points).any(axis=1)]
    return _side_by_side([one.shown(values) for one, values in zip(ranges, points.T)])


def _inducing_points(estimator: BaseEstimator, ranges: list[Range]) -> AnyArray | None:
    """Inducing points as they are drawn, None where all rows are, or they are of other inputs."""
    points = getattr(estimator, "inducing_points_", None)
    if points is None or points.shape[1:] != (len(ranges),):
        return None
    return _shown(ranges, points) if getattr(estimator, "posterior_", "") == "inducing" else None


@dataclass(eq=False, repr=False)
class EffectDisplay(Display):
    """Effect of one column: the partial dependence of predictions on it, with a band.

    Partial dependence is the average prediction over some rows, in all of which the column has the
    same value: of a classifier, the average probability of a class. Numbers and times make a curve.
    Categories, intervals and booleans make points, and so do missing values among them.

    The band is that of the average of the function: it has no noise, and takes into account that
    predictions of different rows depend on each other. There is none for classifiers, and for
    likelihoods only with ``latent=True``.

    Parameters
    ----------
    values : ndarray of shape (k,)
        Of the column, of its own type.
    mean : ndarray of shape (k,)
        Average predictions.
    std : ndarray of shape (k,)
        Standard deviations of the average of the function. None means that there is no band.
    name : str
        Of the column.
    coverage : float, default=0.95
        Of the band.
    is_curve : bool, default=True
        Whether values are connected.
    label : str, default="average prediction"
        What is averaged.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse import SparseGPRegressor
    >>> from skgp_sparse.displays import EffectDisplay
    >>> X = np.random.RandomState(0).normal(size=(100, 2))
    >>> model = SparseGPRegressor(random_state=0).fit(X, np.sin(X[:, 0]) + X[:, 1])
    >>> display = EffectDisplay.from_estimator(model, X, 0)  # doctest: +SKIP
    """

    values: AnyArray
    mean: Array
    std: Array | None
    _: KW_ONLY
    name: str | None
    coverage: float = 0.95
    is_curve: bool = True
    label: str = "average prediction"

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: ArrayLike,
        column: int | str,
        *,
        target: object = None,
        latent: bool = False,
        coverage: float = 0.95,
        n_points: int = 50,
        n_rows: int = 100,
        ax: "Axes | None" = None,
    ) -> "EffectDisplay":
        """Draw what a column does in a fitted estimator.

        Parameters
        ----------
        estimator : fitted SparseGPRegressor or SparseGPClassifier
        X : array-like or data frame of shape (n_samples, n_features)
            Rows over which predictions are averaged, and whose values of the column are drawn.
        column : int or str
            Number of a column or, of a data frame, its name.
        target : object, default=None
            The class whose probability is drawn, or the number of the target. None is the second of
            two classes, or the only target.
        latent : bool, default=False
            With a likelihood other than "gaussian": whether the latent value is drawn, with a band,
            and not the mean of y.
        coverage : float, default=0.95
            Of the band.
        n_points : int, default=50
            Values of a column of many numbers or times, and the most levels of a category, of which
            the most frequent are drawn.
        n_rows : int, default=100
            Rows of an average, which are drawn at random from X where there are more.
        ax : matplotlib Axes, default=None
            None makes new ones.

        Returns
        -------
        EffectDisplay
            The display, whose `ax_` and `figure_` hold the drawing.

        Raises
        ------
        ValueError
            If X has no such column, or `target` is none of the classes or targets.
        """
        check_is_fitted(estimator)
        table, names = _display.table_and_names(X)
        if column not in names:
            raise ValueError(f"X has no column {as_text(column)}. Choose one of {names}.")
        place, known = names.index(column), getattr(estimator, "categories_", ())
        rows = np.random.RandomState(0).permutation(len(table))[:n_rows]
        drawn = _display.drawn_column(table, names, place, known, n_points)
        filled = partial(_display.with_column, table, place=place, drawn=drawn)
        chosen, label, has_band = _question(estimator, target, latent, filled(rows[:1], k=0))
        tables = (filled(rows, k=k) for k in range(len(drawn.values)))
        averages = [_average(estimator, at, chosen, has_band) for at in tables]
        mean, std = map(np.array, zip(*averages))
        return cls(
            drawn.values,
            mean,
            std if has_band else None,
            name=str(column) if is_frame(table) else f"column {column}",
            coverage=coverage,
            is_curve=drawn.is_curve,
            label=label,
        ).plot(ax=ax)

    def plot(self, ax: "Axes | None" = None) -> "EffectDisplay":
        """Draw again.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            None makes new ones.

        Returns
        -------
        EffectDisplay
            The display, whose `ax_` and `figure_` hold the drawing.
        """
        (ax,) = self._axes(ax)
        width = 0.0 if self.std is None else ndtri(0.5 + 0.5 * self.coverage) * self.std
        label = f"{100 * self.coverage:g}% of the function"
        if self.is_curve:
            name, on_axis = axis_of(np.asarray(self.values), self.name)
            values = on_axis(np.asarray(self.values))
            ax.plot(values, self.mean, color="C0")
            if self.std is not None:
                low, high = self.mean - width, self.mean + width
                ax.fill_between(values, low, high, color="C0", alpha=0.25, label=label)
        else:
            at, name = np.arange(len(self.values)), self.name
            ax.plot(at, self.mean, "o", color="C0")
            ax.set_xticks(at, ["missing" if is_missing(one) else str(one) for one in self.values])
            if self.std is not None:
                ax.errorbar(at, self.mean, width, fmt="none", color="C0", capsize=3, label=label)
        if self.std is not None:
            ax.legend()
        ax.set(xlabel=name, ylabel=self.label)
        shorten_dates(ax.xaxis)
        return self


def _average(
    estimator: BaseEstimator, at: "_display.Table", target: int | None, has_band: bool
) -> tuple[float, float]:
    """Mean and standard deviation of the average over rows; NaN where there is no band."""

    def own(values: Array) -> Array:
        return values if target is None else values[..., target]

    if not has_band:
        predict = estimator.predict_proba if is_classifier(estimator) else estimator.predict
        return own(predict(at)).mean(), np.nan
    mean, cov = estimator.predict(at, return_cov=True, latent=True)
    return own(mean).mean(), np.sqrt(max(own(cov).mean(), 0.0))


def _question(
    estimator: BaseEstimator, target: object, latent: bool, at: "_display.Table"
) -> tuple[int | None, str, bool]:
    """The number of the class or target that is averaged, its words, and whether it has a band.

    `at` is a row at which the estimator can predict.
    """
    if is_classifier(estimator):
        classes = [*estimator.classes_]
        target = classes[1] if target is None and len(classes) == 2 else target
        _check_target(target in classes, target, f"a class, one of {as_text(classes)}")
        return classes.index(target), f"average probability of {target}", False
    is_gaussian = is_name(getattr(estimator, "likelihood", "gaussian"), "gaussian")
    label = "average latent value" if latent and not is_gaussian else "average prediction"
    shape, has_band = np.shape(estimator.predict(at)), latent or is_gaussian
    if len(shape) == 1:
        _check_target(target is None, target, "None, because there is one target")
        return None, label, has_band
    number = int(target) if isinstance(target, Integral) else -1
    _check_target(number in range(shape[1]), target, f"the number of a target, 0 to {shape[1] - 1}")
    return number, f"{label} of target {target}", has_band


def _check_target(is_right: bool, target: object, must: str) -> None:
    if not is_right:
        raise ValueError(f"target of EffectDisplay must be {must}. Got {as_text(target)}.")


_Kind = Literal["coverage", "pit"]
_LEVELS = np.arange(1, 100) / 100.0
_FEWEST_BINS, _ROWS_PER_BIN = 5, 10


class CoverageDisplay(Display):
    """How many targets are within central intervals, beside how many should be.

    A curve below the diagonal belongs to intervals that are too narrow. With ``kind="pit"``, it is
    a histogram of the probabilities that predictions give to targets below the truth, which is flat
    if they are right, high at both ends if intervals are too narrow, and high in the middle if they
    are too wide.

    Parameters
    ----------
    pit : ndarray of shape (n,)
        Predicted probabilities of targets below the true ones.
    name : str, default=None
        Of the model, for the legend.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse.displays import CoverageDisplay
    >>> y = np.random.RandomState(0).normal(size=200)
    >>> display = CoverageDisplay(pit=np.linspace(0.01, 0.99, 200))
    >>> CoverageDisplay.from_predictions(y, 0 * y, 1 + 0 * y)  # doctest: +SKIP
    """

    def __init__(self, pit: Array, *, name: str | None = None) -> None:
        self.pit, self.name = pit, name

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: ArrayLike,
        y: ArrayLike,
        *,
        kind: _Kind = "coverage",
        name: str | None = None,
        ax: "Axes | None" = None,
    ) -> "CoverageDisplay":
        """Draw the coverage of a fitted regressor, whose predictions are taken to be normal.

        Parameters
        ----------
        estimator : fitted regressor
            Whose ``predict`` has the parameter ``return_std``.
        X : array-like of shape (n_samples, n_features)
            Inputs that the model has not seen.
        y : array-like of shape (n_samples,)
            Their targets.
        kind : {"coverage", "pit"}, default="coverage"
        name : str, default=None
            None is that of the class.
        ax : matplotlib Axes, default=None
            None makes new ones.

        Returns
        -------
        CoverageDisplay
            The display, whose `ax_` and `figure_` hold the drawing.
        """
        check_is_fitted(estimator)
        mean, std = estimator.predict(X, return_std=True)
        name = type(estimator).__name__ if name is None else name
        return cls.from_predictions(y, mean, std, kind=kind, name=name, ax=ax)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_mean: ArrayLike,
        y_std: ArrayLike,
        *,
        kind: _Kind = "coverage",
        name: str | None = None,
        ax: "Axes | None" = None,
    ) -> "CoverageDisplay":
        """Draw the coverage of the intervals of normal predictions.

        Parameters
        ----------
        y_true, y_mean, y_std : array-like of shape (n_samples,)
            Targets, predicted means and standard deviations, the noise included.
        kind : {"coverage", "pit"}, default="coverage"
        name : str, default=None
        ax : matplotlib Axes, default=None
            None makes new ones.

        Returns
        -------
        CoverageDisplay
            The display, whose `ax_` and `figure_` hold the drawing.

        Raises
        ------
        ValueError
            If a standard deviation is not positive, or targets are not numbers, one for each mean.
        """
        y, mean, std = (np.asarray(one, dtype=float) for one in (y_true, y_mean, y_std))
        if y.shape != mean.shape:
            raise ValueError(
                f"y_true must have a number for each mean. Got shapes {y.shape} and {mean.shape}."
            )
        if not np.all(std > 0):
            raise ValueError(f"y_std must be positive. Its smallest value is {std.min()}.")
        return cls(ndtr((y - mean) / std), name=name).plot(kind=kind, ax=ax)

    def plot(self, kind: _Kind = "coverage", ax: "Axes | None" = None) -> "CoverageDisplay":
        """Draw again.

        Parameters
        ----------
        kind : {"coverage", "pit"}, default="coverage"
        ax : matplotlib Axes, default=None
            None makes new ones.

        Returns
        -------
        CoverageDisplay
            The display, whose `ax_` and `figure_` hold the drawing.

        Raises
        ------
        ValueError
            If `kind` is none of these.
        """
        if kind not in ("coverage", "pit"):
            raise ValueError(f"kind must be 'coverage' or 'pit'. Got {as_text(kind)}.")
        (ax,) = self._axes(ax)
        if kind == "coverage":
            observed = np.mean(2.0 * np.abs(self.pit - 0.5)[:, None] <= _LEVELS, axis=0)
            ax.plot([0, 1], [0, 1], "--", color="0.6")
            ax.plot(_LEVELS, observed, label=self.name)
            ax.set(xlabel="probability of central intervals", ylabel="share of targets in them")
        else:
            bins = max(_FEWEST_BINS, min(20, len(self.pit) // _ROWS_PER_BIN))
            edges = np.linspace(0, 1, bins + 1).tolist()
            ax.hist(self.pit, bins=edges, density=True, label=self.name)
            ax.axhline(1.0, ls="--", color="0.6")
            ax.set(xlabel="predicted probability below the target", ylabel="density")
        if self.name is not None:
            ax.legend()
        return self
