"""Predictions of a regressor of one or two inputs."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import ndtri
from sklearn.utils.validation import check_is_fitted

from ._display import AnyArray, Array, Display

_MARGIN = 0.05  # of the range of the data, beyond which a band goes on


class PredictionBandDisplay(Display):
    """Predictions of a regressor of one or two inputs, with their uncertainty.

    Of one input, it draws the mean, the interval, the data and the inducing points. Of two inputs,
    it draws the mean and the standard deviation side by side.

    Parameters
    ----------
    grid : ndarray of shape (n,) or pair of ndarray of shape (k,)
        Values of the inputs.
    mean : ndarray of shape (n,) or (k, k)
        Predicted means.
    std : ndarray of the same shape
        Standard deviations, the noise included.
    coverage : float, default=0.95
        Of the interval.
    X, y : ndarray of shape (m, d) and (m,), default=None
        Data.
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
        y: Any = None,
        inducing_points: Array | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        self.grid, self.mean, self.std, self.coverage = grid, mean, std, coverage
        self.X, self.y, self.inducing_points, self.names = X, y, inducing_points, names

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        coverage: float = 0.95,
        n_points: int = 200,
        ax: Any = None,
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
            If there are more than two inputs.
        """
        check_is_fitted(estimator)
        names, values = _named(X)
        if values.shape[1] > 2:
            raise ValueError(
                f"{cls.__name__} draws one or two inputs. X has {values.shape[1]} columns. Choose "
                "them, or draw partial dependence with sklearn.inspection."
            )
        low, high = np.nanmin(values, axis=0), np.nanmax(values, axis=0)
        margin = _MARGIN * (high - low)
        grids = [np.linspace(*ends, n_points) for ends in zip(low - margin, high + margin)]
        rows = np.stack(np.meshgrid(*grids, indexing="ij"), axis=-1).reshape(-1, len(grids))
        mean, std = estimator.predict(_like(X, rows), return_std=True)
        shape = (n_points,) * len(grids)
        points = getattr(estimator, "inducing_points_", None)
        is_few = points is not None and points.shape[1:] == values.shape[1:]
        is_few = is_few and getattr(estimator, "posterior_", "") == "inducing"
        return cls(
            grids[0] if len(grids) == 1 else tuple(grids),
            np.reshape(mean, shape),
            np.reshape(std, shape),
            coverage=coverage,
            X=values,
            y=None if y is None else np.asarray(y),
            inducing_points=points if is_few else None,
            names=names,
        ).plot(ax=ax)

    def plot(self, ax: Any = None) -> "PredictionBandDisplay":
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

    def _plot_line(self, ax: Any) -> None:
        width = ndtri(0.5 + 0.5 * self.coverage) * self.std
        (line,) = ax.plot(self.grid, self.mean, label="mean")
        color, label = line.get_color(), f"{self.coverage:.0%} interval"
        ends = self.mean - width, self.mean + width
        ax.fill_between(self.grid, *ends, color=color, alpha=0.2, lw=0, label=label)
        if self.y is not None:
            ax.plot(self.X[:, 0], self.y, ".", color="0.25", ms=4, zorder=1, label="data")
        if self.inducing_points is not None:
            at = np.full(len(self.inducing_points), 0.02)
            marks = {"marker": "|", "ms": 12, "color": "k", "ls": "", "label": "inducing points"}
            ax.plot(self.inducing_points[:, 0], at, transform=ax.get_xaxis_transform(), **marks)
        ax.set(xlabel=self.names[0] if self.names else "x", ylabel="y")
        ax.legend()

    def _plot_maps(self, axes: Any) -> None:
        for ax, values, title in zip(axes, (self.mean, self.std), ("mean", "standard deviation")):
            filled = ax.contourf(*self.grid, values.T, levels=20)
            ax.figure.colorbar(filled, ax=ax)
            if self.y is not None:
                ax.plot(*self.X.T, ".", color="k", ms=2)
            if self.inducing_points is not None:
                ax.plot(*self.inducing_points.T, "x", color="w", ms=6)
            x, y = self.names or ("first input", "second input")
            ax.set(title=title, xlabel=x, ylabel=y)


def _named(X: Any) -> tuple[list[str] | None, Array]:
    """Names of the columns, None where they have none, and the inputs as an array (n, d)."""
    values = np.asarray(X, dtype=float)
    values = values[:, None] if values.ndim == 1 else values
    return [str(name) for name in X.columns] if hasattr(X, "columns") else None, values


def _like(X: Any, rows: AnyArray) -> Any:
    """Rows in the type of X, if that is a data frame."""
    if not hasattr(X, "columns"):
        return rows
    return type(X)(dict(zip(X.columns, rows.T)))
