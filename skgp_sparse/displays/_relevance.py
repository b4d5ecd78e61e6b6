"""How much each column matters."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ._display import Display, MaybeArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class RelevanceDisplay(Display):
    """How much each column matters: Sobol indices of the mean, with standard errors.

    Parameters
    ----------
    total : ndarray of shape (d,)
        Shares of the variance that are lost without a column.
    first : ndarray of shape (d,)
        Shares that a column explains alone.
    error : ndarray of shape (2, d), default=None
        Standard errors of `first` and `total`.
    names : sequence of str, default=None
        Of the columns. None means their numbers.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from skgp_sparse.displays import RelevanceDisplay
    >>> display = RelevanceDisplay([0.7, 0.4], [0.6, 0.3], names=["age", "dose"])
    >>> display.plot()  # doctest: +SKIP
    """

    def __init__(
        self,
        total: npt.ArrayLike,
        first: npt.ArrayLike,
        error: MaybeArray = None,
        *,
        names: Sequence[str] | None = None,
    ) -> None:
        self.total, self.first = np.asarray(total), np.asarray(first)
        self.error = np.zeros((2, len(self.total))) if error is None else np.asarray(error)
        self.names = [f"column {j}" for j in range(len(self.total))] if names is None else names

    @classmethod
    def from_estimator(
        cls, estimator: BaseEstimator, *, ax: "Axes | None" = None
    ) -> "RelevanceDisplay":
        """Draw the indices of a fitted model.

        Parameters
        ----------
        estimator : fitted SparseGPRegressor or SparseGPClassifier
        ax : matplotlib Axes, default=None
            None makes new ones.

        Returns
        -------
        RelevanceDisplay
            The display, whose `ax_` and `figure_` hold the drawing.
        """
        check_is_fitted(estimator)
        total, first = estimator.feature_importances_, estimator.sobol_first_
        names = getattr(estimator, "feature_names_in_", None)
        return cls(total, first, estimator.sobol_error_, names=names).plot(ax=ax)

    def plot(self, ax: "Axes | None" = None) -> "RelevanceDisplay":
        """Draw again, the column that matters most on top.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            None makes new ones.

        Returns
        -------
        RelevanceDisplay
            The display, whose `ax_` and `figure_` hold the drawing.
        """
        (ax,) = self._axes(ax)
        order = np.argsort(self.total)[::-1]
        places = np.arange(len(order))
        ax.barh(places, self.total[order], color="C0", alpha=0.35, label="total")
        ax.barh(places, self.first[order], 0.4, color="C0", label="alone")
        ax.errorbar(self.total[order], places, xerr=self.error[1, order], fmt="none", color="k")
        ax.set_yticks(places, [str(self.names[j]) for j in order])
        ax.invert_yaxis()
        ax.set(xlabel="share of the variance of the mean")
        ax.legend(loc="lower right")
        return self
