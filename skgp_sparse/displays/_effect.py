"""Display of the effect of one column on predictions."""

from numbers import Integral
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils.validation import check_is_fitted

from skgp_sparse._ground.validation import AnyArray, Array, as_text
from skgp_sparse.rows.missing import is_frame

from ._display import Display, axis_of, drawn_column, shorten_dates, table_and_names, with_column

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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

    def __init__(
        self,
        values: AnyArray,
        mean: Array,
        std: Array | None,
        *,
        name: str | None,
        coverage: float = 0.95,
        is_curve: bool = True,
        label: str = "average prediction",
    ) -> None:
        self.values, self.mean, self.std, self.label = values, mean, std, label
        self.name, self.coverage, self.is_curve = name, coverage, is_curve

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: npt.ArrayLike,
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
        table, names = table_and_names(X)
        if column not in names:
            raise ValueError(f"X has no column {as_text(column)}. Choose one of {names}.")
        place, known = names.index(column), getattr(estimator, "categories_", ())
        rows = np.random.RandomState(0).permutation(len(table))[:n_rows]
        drawn = drawn_column(table, names, place, known, n_points)
        first = with_column(table, rows[:1], place, drawn, 0)
        question = _question(estimator, target, latent, first)
        tables = (with_column(table, rows, place, drawn, k) for k in range(len(drawn.values)))
        mean, std = map(np.array, zip(*(question.average(estimator, at) for at in tables)))
        return cls(
            drawn.values,
            mean,
            std if question.has_band else None,
            name=str(column) if is_frame(table) else f"column {column}",
            coverage=coverage,
            is_curve=drawn.is_curve,
            label=question.label,
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
        if self.is_curve:
            axis = axis_of(np.asarray(self.values), self.name)
            values, name = axis.of(np.asarray(self.values)), axis.label
            ax.plot(values, self.mean, color="C0")
        else:
            values, name = np.arange(len(self.values)), self.name
            ax.plot(values, self.mean, "o", color="C0")
            ax.set_xticks(values, [_level(value) for value in self.values])
        if self.std is not None:
            self._plot_band(ax, values, ndtri(0.5 + 0.5 * self.coverage) * self.std)
        ax.set(xlabel=name, ylabel=self.label)
        shorten_dates(ax.xaxis)
        return self

    def _plot_band(self, ax: "Axes", values: AnyArray, width: Array) -> None:
        label = f"{100 * self.coverage:g}% of the function"
        if self.is_curve:
            ends = self.mean - width, self.mean + width
            ax.fill_between(values, *ends, color="C0", alpha=0.25, label=label)
        else:
            ax.errorbar(values, self.mean, width, fmt="none", color="C0", capsize=3, label=label)
        ax.legend()


class _Question(NamedTuple):
    """Prediction that is averaged: of a class, of a target, or of the only target."""

    target: int | None  # number of a class or of one of several targets
    label: str
    of_classes: bool = False
    has_band: bool = False

    def average(self, estimator: BaseEstimator, at: Any) -> tuple[Any, Any]:
        """Mean and standard deviation of the average over rows; NaN where there is no band."""
        if not self.has_band:
            predict = estimator.predict_proba if self.of_classes else estimator.predict
            return self._own(predict(at)).mean(), np.nan
        mean, cov = estimator.predict(at, return_cov=True, latent=True)
        return self._own(mean).mean(), np.sqrt(max(self._own(cov).mean(), 0.0))

    def _own(self, values: Array) -> Array:
        return values if self.target is None else values[..., self.target]


def _question(estimator: BaseEstimator, target: Any, latent: bool, at: Any) -> _Question:
    """The `_Question` of a fitted estimator; `at` is a row at which it can predict."""
    if is_classifier(estimator):
        classes = [*estimator.classes_]
        target = classes[1] if target is None and len(classes) == 2 else target
        if target not in classes:
            _refuse(target, f"a class, one of {as_text(classes)}")
        return _Question(classes.index(target), f"average probability of {target}", of_classes=True)
    is_gaussian = getattr(estimator, "likelihood", "gaussian") == "gaussian"
    label = "average latent value" if latent and not is_gaussian else "average prediction"
    shape, has_band = np.shape(estimator.predict(at)), latent or is_gaussian
    if len(shape) == 1 and target is None:
        return _Question(None, label, has_band=has_band)
    if len(shape) == 1:
        _refuse(target, "None, because there is one target")
    if not isinstance(target, Integral) or int(target) not in range(shape[1]):
        _refuse(target, f"the number of a target, 0 to {shape[1] - 1}")
    return _Question(int(target), f"{label} of target {target}", has_band=has_band)


def _refuse(target: object, must: str) -> None:
    raise ValueError(f"target of EffectDisplay must be {must}. Got {as_text(target)}.")


def _level(value: object) -> str:
    """The label of a level."""
    is_missing = not isinstance(value, str) and str(value) in ("None", "nan", "<NA>", "NaT")
    return "missing" if is_missing else str(value)
