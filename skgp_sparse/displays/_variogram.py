"""How much targets differ at a distance, in the rows and in the fit."""

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from ._display import Display, MaybeArray

_SMALLEST, _LARGEST = 15.0, 90.0  # areas of points


class VariogramDisplay(Display):
    """The empirical variogram of rows, beside that of a fitted model.

    Points are half of the mean squared differences of targets, by distance, and the line is what
    the fitted kernel expects of the same pairs, noise included. Where points are far from the line,
    the kernel does not describe how alike near rows are.

    Parameters
    ----------
    distance : ndarray of shape (k,)
        Mean distance of the pairs of a bin.
    empirical : ndarray of shape (k,)
        Half of the mean of their squared differences.
    fitted : ndarray of shape (k,)
        Expected value of it under the fitted kernel.
    n_pairs : ndarray of shape (k,), default=None
        Number of pairs, by which the size of points is chosen. None means the same size.
    name : str, default=None
        Of the model, for the legend.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from skgp_sparse.displays import VariogramDisplay
    >>> display = VariogramDisplay([1.0, 2.0, 3.0], [0.2, 0.5, 0.6], [0.3, 0.5, 0.6])
    >>> display.plot()  # doctest: +SKIP
    """

    def __init__(
        self,
        distance: npt.ArrayLike,
        empirical: npt.ArrayLike,
        fitted: npt.ArrayLike,
        n_pairs: MaybeArray = None,
        *,
        name: str | None = None,
    ) -> None:
        self.distance, self.empirical = np.asarray(distance), np.asarray(empirical)
        self.fitted, self.name = np.asarray(fitted), name
        self.n_pairs = np.ones(len(self.distance)) if n_pairs is None else np.asarray(n_pairs)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        n_bins: int = 15,
        max_distance: float | None = None,
        name: str | None = None,
        ax: Any = None,
    ) -> "VariogramDisplay":
        """Draw the variogram of rows and that of a fitted regressor.

        Parameters
        ----------
        estimator : fitted SparseGPRegressor
        X : array-like of shape (n_samples, n_features)
            Inputs, such as those of `fit`.
        y : array-like of shape (n_samples,)
            Their targets.
        n_bins : int, default=15
            Number of bins of distance.
        max_distance : float, default=None
            Largest distance of a pair. None means a third of the diagonal of all inputs.
        name : str, default=None
            None is that of the class.
        ax : matplotlib Axes, default=None
            None makes new ones.

        Returns
        -------
        VariogramDisplay
            The display, whose `ax_` and `figure_` hold the drawing.
        """
        check_is_fitted(estimator)
        found = estimator.variogram(X, y, n_bins=n_bins, max_distance=max_distance)
        name = type(estimator).__name__ if name is None else name
        return cls(*found, name=name).plot(ax=ax)

    def plot(self, ax: Any = None) -> "VariogramDisplay":
        """Draw again.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            None makes new ones.

        Returns
        -------
        VariogramDisplay
            The display, whose `ax_` and `figure_` hold the drawing.
        """
        if not len(self.n_pairs):
            raise ValueError("VariogramDisplay has no bins. Pass those of `variogram`.")
        (ax,) = self._axes(ax)
        sizes = _SMALLEST + (_LARGEST - _SMALLEST) * self.n_pairs / np.max(self.n_pairs)
        ax.scatter(self.distance, self.empirical, sizes, color="k", label="targets")
        ax.plot(self.distance, self.fitted, label=self.name or "fit")
        ax.set(xlabel="distance", ylabel="half of the mean squared difference", xlim=0, ylim=0)
        ax.legend(loc="lower right")
        return self
