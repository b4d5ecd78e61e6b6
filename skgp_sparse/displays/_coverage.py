"""How many targets are within intervals."""

from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from skgp_sparse._ground.validation import Array, as_text

from ._display import Display

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
        X: npt.ArrayLike,
        y: npt.ArrayLike,
        *,
        kind: Literal["coverage", "pit"] = "coverage",
        name: str | None = None,
        ax: "Axes | None" = None,
    ) -> "CoverageDisplay":
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
        y_true: npt.ArrayLike,
        y_mean: npt.ArrayLike,
        y_std: npt.ArrayLike,
        *,
        kind: Literal["coverage", "pit"] = "coverage",
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

    def plot(
        self, kind: Literal["coverage", "pit"] = "coverage", ax: "Axes | None" = None
    ) -> "CoverageDisplay":
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
            distance = 2.0 * np.abs(self.pit - 0.5)
            observed = np.mean(distance[:, None] <= _LEVELS, axis=0)
            ax.plot([0, 1], [0, 1], "--", color="0.6")
            ax.plot(_LEVELS, observed, label=self.name)
            ax.set(xlabel="probability of central intervals", ylabel="share of targets in them")
        else:
            bins = max(_FEWEST_BINS, min(20, len(self.pit) // _ROWS_PER_BIN))
            ax.hist(
                self.pit, bins=np.linspace(0, 1, bins + 1).tolist(), density=True, label=self.name
            )
            ax.axhline(1.0, ls="--", color="0.6")
            ax.set(xlabel="predicted probability below the target", ylabel="density")
        if self.name is not None:
            ax.legend()
        return self
