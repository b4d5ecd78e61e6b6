"""Display of the posteriors that a fit has tried."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ._display import Display

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class SelectionDisplay(Display):
    """Posteriors that a fit has tried: log densities of rows held out or left out, and seconds.

    Parameters
    ----------
    candidates : list of Candidate
        As in the attribute `selection_`.

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

    def __init__(self, candidates: Sequence[Any]) -> None:
        self.candidates = candidates

    @classmethod
    def from_estimator(
        cls, estimator: BaseEstimator, *, ax: "Axes | None" = None
    ) -> "SelectionDisplay":
        """Draw the candidates of a fitted model, `selection_`.

        Parameters
        ----------
        estimator : fitted SparseGPRegressor or SparseGPClassifier
        ax : matplotlib Axes, default=None
            None makes new ones.

        Returns
        -------
        SelectionDisplay
            The display, whose `ax_` and `figure_` hold the drawing.

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
                "Few rows have the exact process. Fit more rows."
            )
        return cls(candidates).plot(ax=ax)

    def plot(self, ax: "Axes | None" = None) -> "SelectionDisplay":
        """Draw again.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            None makes new ones.

        Returns
        -------
        SelectionDisplay
            The display, whose `ax_` and `figure_` hold the drawing.
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
