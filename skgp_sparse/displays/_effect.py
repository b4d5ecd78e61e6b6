"""What one column does."""

from typing import Any

import numpy as np
from scipy.special import ndtri
from sklearn.utils.validation import check_is_fitted

from ._display import AnyArray, Array, Display

_MANY = 20  # values of a column, above which a curve is drawn
_EDGE = 0.01  # share of the rows on both sides of a curve


class EffectDisplay(Display):
    """What one column does: the partial dependence of the function on it, with a band.

    Partial dependence is the average prediction over some rows, in all of which the column has the
    same value. The band is that of the average of the function: it has no noise, and takes into
    account that predictions of different rows depend on each other.

    Parameters
    ----------
    values : ndarray of shape (k,)
        Of the column.
    mean, std : ndarray of shape (k,)
        Of the average of the function.
    name : str
        Of the column.
    coverage : float, default=0.95
        Of the band.
    is_curve : bool, default=True
        Whether values are connected.

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

    def __init__(
        self,
        values: AnyArray,
        mean: Array,
        std: Array,
        *,
        name: str | None,
        coverage: float = 0.95,
        is_curve: bool = True,
    ) -> None:
        self.values, self.mean, self.std = values, mean, std
        self.name, self.coverage, self.is_curve = name, coverage, is_curve

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        column: Any,
        *,
        coverage: float = 0.95,
        n_points: int = 50,
        n_rows: int = 100,
        ax: Any = None,
    ) -> "EffectDisplay":
        """Draw what a column does in a fitted regressor.

        Parameters
        ----------
        estimator : fitted SparseGPRegressor
        X : array-like of shape (n_samples, n_features)
            Rows over which predictions are averaged, and whose values of the column are drawn.
        column : int or str
            Number of a column or, of a data frame, its name.
        coverage : float, default=0.95
            Of the band.
        n_points : int, default=50
            Values of a column of many numbers.
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
            If X has no such column.
        """
        check_is_fitted(estimator)
        is_frame = hasattr(X, "columns")
        names = [*X.columns] if is_frame else list(range(np.shape(X)[1]))
        if column not in names:
            raise ValueError(f"X has no column {column!r}. Choose one of {names}.")
        place = names.index(column)
        data = X[column].to_numpy() if is_frame else np.asarray(X)[:, place]
        values, is_curve = _values_of(data, n_points)
        rows = np.random.RandomState(0).permutation(len(data))[:n_rows]
        pairs = [_average(estimator, X, rows, column, place, value) for value in values]
        mean, std = map(np.array, zip(*pairs))
        name = str(column) if is_frame else f"column {column}"
        return cls(values, mean, std, name=name, coverage=coverage, is_curve=is_curve).plot(ax=ax)

    def plot(self, ax: Any = None) -> "EffectDisplay":
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
        width = ndtri(0.5 + 0.5 * self.coverage) * self.std
        label = f"{100 * self.coverage:g}% of the function"
        if self.is_curve:
            ax.plot(self.values, self.mean, color="C0")
            ends = self.mean - width, self.mean + width
            ax.fill_between(self.values, *ends, color="C0", alpha=0.25, label=label)
        else:
            places = np.arange(len(self.values))
            ax.errorbar(places, self.mean, width, fmt="o", color="C0", capsize=3, label=label)
            ax.set_xticks(places, [str(value) for value in self.values])
        ax.set(xlabel=self.name, ylabel="average prediction")
        ax.legend()
        return self


def _values_of(data: Any, n_points: int) -> tuple[AnyArray, bool]:
    """Values of a column that are drawn, and whether they are a curve."""
    is_number = np.issubdtype(data.dtype, np.number)
    known = data[~np.isnan(data)] if np.issubdtype(data.dtype, np.floating) else data
    if is_number and len(np.unique(known)) > _MANY:
        low, high = np.quantile(known, [_EDGE, 1.0 - _EDGE])
        return np.linspace(low, high, n_points), True
    return np.unique(known if is_number else [str(one) for one in known]), is_number


def _average(
    estimator: Any, X: Any, rows: AnyArray, column: Any, place: int, value: Any
) -> tuple[Any, Any]:
    """Mean and standard deviation of the average of the function over rows."""
    if hasattr(X, "columns"):
        at = X.iloc[rows].assign(**{column: value})
        at[column] = at[column].astype(X[column].dtype)
    else:
        at = np.array(X, dtype=float)[rows]
        at[:, place] = value
    mean, cov = estimator.predict(at, return_cov=True, latent=True)
    return mean.mean(), np.sqrt(max(cov.mean(), 0.0))
