"""Pictures of fitted models, in scikit-learn's idiom.

Every display has ``from_estimator`` and, where predictions are enough, ``from_predictions``. Both
draw at once. ``plot`` draws the same again, on other axes. matplotlib is imported when something is
drawn, and not before.
"""

import numpy as np
from scipy.special import ndtr, ndtri
from sklearn.utils.validation import check_is_fitted

__all__ = ["CoverageDisplay", "PredictionBandDisplay", "SelectionDisplay"]

_LEVELS = np.arange(1, 100) / 100.0
_MARGIN = 0.05  # of the range of the data, beyond which a band goes on
_FEWEST_BINS, _ROWS_PER_BIN = 5, 10


class _Display:
    """What all displays share: axes, and errors of what cannot be drawn.

    Attributes
    ----------
    ax_ : matplotlib Axes, or array of Axes
    figure_ : matplotlib Figure
    """

    def _axes(self, ax, count=1):
        """The axes to draw on, new ones if none are given."""
        import matplotlib.pyplot as plt

        if ax is None:
            width = 6.4 if count == 1 else 5.0 * count
            _, ax = plt.subplots(1, count, figsize=(width, 4.8), constrained_layout=True)
        axes = np.atleast_1d(ax)
        if axes.shape != (count,):
            raise ValueError(f"{type(self).__name__} needs {count} axes. Got {len(axes)}.")
        self.ax_, self.figure_ = ax, axes[0].figure
        return axes


class PredictionBandDisplay(_Display):
    """Predictions of a regressor of one or two inputs, with their uncertainty.

    Of one input, it draws the mean, the interval, the data and the inducing points. Of two inputs,
    it draws the mean and the standard deviation side by side.

    Parameters
    ----------
    grid : ndarray of shape (n,) or pair of ndarray of shape (k,)
        Values of the inputs.
    mean : ndarray of shape (n,) or (k, k)
    std : ndarray of the same shape
        Standard deviations, the noise included.
    coverage : float, default=0.95
        Of the interval.
    X, y : ndarray of shape (m, d) and (m,), default=None
        Data.
    inducing_points : ndarray of shape (p, d), default=None
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
        self, grid, mean, std, *, coverage=0.95, X=None, y=None, inducing_points=None, names=None
    ):
        self.grid, self.mean, self.std, self.coverage = grid, mean, std, coverage
        self.X, self.y, self.inducing_points, self.names = X, y, inducing_points, names

    @classmethod
    def from_estimator(cls, estimator, X, y=None, *, coverage=0.95, n_points=200, ax=None):
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

    def plot(self, ax=None):
        """Draw again.

        Parameters
        ----------
        ax : matplotlib Axes, or array of two Axes, default=None

        Returns
        -------
        PredictionBandDisplay
        """
        if self.mean.ndim == 1:
            self._plot_line(*self._axes(ax))
        else:
            self._plot_maps(self._axes(ax, 2))
        return self

    def _plot_line(self, ax):
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

    def _plot_maps(self, axes):
        for ax, values, title in zip(axes, (self.mean, self.std), ("mean", "standard deviation")):
            filled = ax.contourf(*self.grid, values.T, levels=20)
            ax.figure.colorbar(filled, ax=ax)
            if self.y is not None:
                ax.plot(*self.X.T, ".", color="k", ms=2)
            if self.inducing_points is not None:
                ax.plot(*self.inducing_points.T, "x", color="w", ms=6)
            x, y = self.names or ("first input", "second input")
            ax.set(title=title, xlabel=x, ylabel=y)


class CoverageDisplay(_Display):
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

    def __init__(self, pit, *, name=None):
        self.pit, self.name = pit, name

    @classmethod
    def from_estimator(cls, estimator, X, y, *, kind="coverage", name=None, ax=None):
        """Draw the coverage of the intervals of a fitted regressor.

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

        Returns
        -------
        CoverageDisplay
        """
        check_is_fitted(estimator)
        mean, std = estimator.predict(X, return_std=True)
        name = type(estimator).__name__ if name is None else name
        return cls.from_predictions(y, mean, std, kind=kind, name=name, ax=ax)

    @classmethod
    def from_predictions(cls, y_true, y_mean, y_std, *, kind="coverage", name=None, ax=None):
        """Draw the coverage of the intervals of normal predictions.

        Parameters
        ----------
        y_true, y_mean, y_std : array-like of shape (n_samples,)
            Targets, predicted means and standard deviations, the noise included.
        kind : {"coverage", "pit"}, default="coverage"
        name : str, default=None
        ax : matplotlib Axes, default=None

        Returns
        -------
        CoverageDisplay

        Raises
        ------
        ValueError
            If a standard deviation is not positive.
        """
        y, mean, std = (np.asarray(one, dtype=float) for one in (y_true, y_mean, y_std))
        if not np.all(std > 0):
            raise ValueError(f"y_std must be positive. Its smallest value is {std.min()}.")
        return cls(ndtr((y - mean) / std), name=name).plot(kind=kind, ax=ax)

    def plot(self, kind="coverage", ax=None):
        """Draw again.

        Parameters
        ----------
        kind : {"coverage", "pit"}, default="coverage"
        ax : matplotlib Axes, default=None

        Returns
        -------
        CoverageDisplay

        Raises
        ------
        ValueError
            If `kind` is none of these.
        """
        if kind not in ("coverage", "pit"):
            raise ValueError(f"kind must be 'coverage' or 'pit'. Got {kind!r}.")
        (ax,) = self._axes(ax)
        if kind == "coverage":
            distance = 2.0 * np.abs(self.pit - 0.5)
            observed = np.mean(distance[:, None] <= _LEVELS, axis=0)
            ax.plot([0, 1], [0, 1], "--", color="0.6")
            ax.plot(_LEVELS, observed, label=self.name)
            ax.set(xlabel="probability of central intervals", ylabel="share of targets in them")
        else:
            bins = max(_FEWEST_BINS, min(20, len(self.pit) // _ROWS_PER_BIN))
            ax.hist(self.pit, bins=np.linspace(0, 1, bins + 1), density=True, label=self.name)
            ax.axhline(1.0, ls="--", color="0.6")
            ax.set(xlabel="predicted probability below the target", ylabel="density")
        if self.name is not None:
            ax.legend()
        return self


class SelectionDisplay(_Display):
    """What a fit has tried: log densities of rows that were held aside or left out, and seconds.

    Parameters
    ----------
    candidates : list of Candidate

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from skgp_sparse.displays import SelectionDisplay
    >>> from skgp_sparse.posteriors import Candidate
    >>> display = SelectionDisplay([Candidate("inducing", -0.4, 0.36, 12.0)])
    >>> display.plot()  # doctest: +SKIP
    """

    def __init__(self, candidates):
        self.candidates = candidates

    @classmethod
    def from_estimator(cls, estimator, *, ax=None):
        """Draw the candidates of a fitted model, `selection_`.

        Parameters
        ----------
        estimator : fitted SparseGPRegressor or SparseGPClassifier
        ax : matplotlib Axes, default=None

        Returns
        -------
        SelectionDisplay

        Raises
        ------
        ValueError
            If nothing was tried, or there are several problems.
        """
        check_is_fitted(estimator)
        candidates = getattr(estimator, "selection_", [])
        if not candidates or isinstance(candidates[0], list):
            raise ValueError(
                "SelectionDisplay needs selection_ of one problem in which something was tried. "
                "Few rows have the exact process, unless posterior is 'pool'."
            )
        return cls(candidates).plot(ax=ax)

    def plot(self, ax=None):
        """Draw again.

        Parameters
        ----------
        ax : matplotlib Axes, default=None

        Returns
        -------
        SelectionDisplay
        """
        (ax,) = self._axes(ax)
        names, densities, _, seconds = zip(*self.candidates)
        places, best = np.arange(len(names)), int(np.argmax(densities))
        ax.plot(densities, places, "o", color="C0")
        ax.plot(densities[best], best, "o", color="C1", ms=10, zorder=1)
        ax.set_yticks(places, [f"{n} ({s:.3g} s)" for n, s in zip(names, seconds)])
        ax.invert_yaxis()
        ax.set(xlabel="mean log density (nats)")
        ax.grid(axis="y", alpha=0.3)
        return self


def _named(X):
    """Names of the columns, None where they have none, and the inputs as an array (n, d)."""
    values = np.asarray(X, dtype=float)
    values = values[:, None] if values.ndim == 1 else values
    return [str(name) for name in X.columns] if hasattr(X, "columns") else None, values


def _like(X, rows):
    """Rows in the type of X, if that is a data frame."""
    if not hasattr(X, "columns"):
        return rows
    return type(X)(dict(zip(X.columns, rows.T)))
