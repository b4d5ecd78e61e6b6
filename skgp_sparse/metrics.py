"""Scores of predictive distributions: of normal ones, of intervals, and of quantiles.

Functions take targets and predictions, and scorers an estimator, as ``GridSearchCV(scoring=...)``
does. R² judges means alone; these judge how far the truth is from what is predicted, in units of
the uncertainty that is claimed.
"""

import re
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from skgp_sparse.ground.linalg import LOG_2PI, log_normal_density
from skgp_sparse.ground.validation import AnyArray, Array, MaybeArray, Pair, Triple, as_text

__all__ = ["calibration_error", "crps", "crps_from_quantiles", "interval_coverage"]
__all__ += ["interval_score", "mean_log_predictive_density", "mean_standardized_log_loss"]
__all__ += ["sharpness", "calibration_error_scorer", "crps_scorer", "interval_score_scorer"]
__all__ += ["log_predictive_density_scorer"]

_LEVELS = (np.arange(99) + 1.0) / 100.0  # of the probabilities that calibration is judged at


def mean_log_predictive_density(
    y_true: ArrayLike, y_mean: ArrayLike, y_std: ArrayLike, *, sample_weight: MaybeArray = None
) -> float:
    r"""Compute the mean of ``log N(y; mean, std²)`` over the rows, in nats.

    Larger values are better. Several targets are averaged. The value depends on the units of y:
    multiplying y by c changes it by ``-log c``.

    Parameters
    ----------
    y_true : array-like of shape (n,) or (n, p)
        True target values.
    y_mean : array-like of shape (n,) or (n, p)
        Predicted means.
    y_std : array-like of shape (n,) or (n, p)
        Predicted standard deviations, including the noise. ``predict(X, return_std=True)`` returns
        the means and the standard deviations.
    sample_weight : array-like of shape (n,), default=None
        Sample weights. A row with weight w counts as w rows.

    Returns
    -------
    float
        Mean log density.

    Raises
    ------
    ValueError
        If the shapes differ or a standard deviation is not positive.

    Examples
    --------
    >>> from skgp_sparse.metrics import mean_log_predictive_density
    >>> round(mean_log_predictive_density([0.0, 1.0], [0.0, 0.0], [1.0, 1.0]), 4)
    -1.1689
    """
    return _average(log_normal_density(*_normal(y_true, y_mean, y_std)), sample_weight)


def mean_standardized_log_loss(
    y_true: ArrayLike,
    y_mean: ArrayLike,
    y_std: ArrayLike,
    *,
    y_train: ArrayLike,
    sample_weight: MaybeArray = None,
) -> float:
    r"""Compute the mean log loss minus that of a model which knows no inputs, in nats.

    That model predicts the mean and the standard deviation of the training targets for every row,

    .. math:: \frac1n \sum_i \log N(y_i; \bar y, s^2) - \log N(y_i; \mu_i, \sigma_i^2).

    Smaller values are better. A model that has learned nothing has about 0, and the value does not
    depend on the units of y (Rasmussen and Williams 2006, section 2.5).

    Parameters
    ----------
    y_true, y_mean, y_std : array-like of shape (n,) or (n, p)
        As in `mean_log_predictive_density`.
    y_train : array-like of shape (n_train,) or (n_train, p)
        Training targets.
    sample_weight : array-like of shape (n,), default=None
        Sample weights.

    Returns
    -------
    float
        Mean standardised log loss.

    Raises
    ------
    ValueError
        If the shapes differ, a standard deviation is not positive, or all training targets are
        equal.

    Examples
    --------
    >>> from skgp_sparse.metrics import mean_standardized_log_loss
    >>> round(mean_standardized_log_loss([1.0, 3.0], [1.1, 2.8], [0.2, 0.2], y_train=[1, 2, 3]), 3)
    -1.844
    """
    y, mean, std = _normal(y_true, y_mean, y_std)
    y_train = np.asarray(y_train, dtype=float)
    spread = y_train.std(axis=0)
    if not np.all(spread > 0):
        raise ValueError("y_train must have different values. All of them are equal.")
    gain = log_normal_density(y, mean, std) - log_normal_density(y, y_train.mean(axis=0), spread)
    return -_average(gain, sample_weight)


def crps(
    y_true: ArrayLike, y_mean: ArrayLike, y_std: ArrayLike, *, sample_weight: MaybeArray = None
) -> float:
    r"""Compute the mean continuous ranked probability score of normal predictions, in units of y.

    It is the integral of the squared distance between the predicted distribution function and the
    step at the truth. With ``z = (y - mean) / std``, it is

    .. math:: \sigma \big[ z (2 \Phi(z) - 1) + 2 \varphi(z) - \pi^{-1/2} \big].

    Smaller values are better. Without uncertainty it is the absolute error, so that a single row
    that is far off weighs less than in the log density (Gneiting and Raftery 2007, section 4.2).

    Parameters
    ----------
    y_true, y_mean, y_std : array-like of shape (n,) or (n, p)
        As in `mean_log_predictive_density`.
    sample_weight : array-like of shape (n,), default=None
        Sample weights.

    Returns
    -------
    float
        Mean score.

    Raises
    ------
    ValueError
        If the shapes differ or a standard deviation is not positive.

    Examples
    --------
    >>> from skgp_sparse.metrics import crps
    >>> round(crps([0.0, 1.0], [0.0, 0.0], [1.0, 1.0]), 4)
    0.4181
    """
    y, mean, std = _normal(y_true, y_mean, y_std)
    z = (y - mean) / std
    density = np.exp(-0.5 * (z**2 + LOG_2PI))
    return _average(std * (z * (2.0 * ndtr(z) - 1.0) + 2.0 * density - np.pi**-0.5), sample_weight)


def crps_from_quantiles(
    y_true: ArrayLike, y_quantiles: ArrayLike, *, sample_weight: MaybeArray = None
) -> float:
    r"""Compute the mean continuous ranked probability score from quantiles, in units of y.

    It is twice the mean pinball loss of k quantiles at the probabilities
    ``(1/2, 3/2, ..., k - 1/2) / k``, which comes close to the integral for large k.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        True target values.
    y_quantiles : array-like of shape (n, k)
        Predicted quantiles at these probabilities, such as
        ``predict_quantiles(X, (np.arange(100) + 0.5) / 100)``.
    sample_weight : array-like of shape (n,), default=None
        Sample weights.

    Returns
    -------
    float
        Mean score.

    Raises
    ------
    ValueError
        If the shapes do not belong together.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.stats import norm
    >>> from skgp_sparse.metrics import crps_from_quantiles
    >>> probabilities = (np.arange(100) + 0.5) / 100
    >>> round(crps_from_quantiles([0.0], norm.ppf(probabilities)[None]), 2)
    0.23
    """
    y, q = np.asarray(y_true, dtype=float), np.asarray(y_quantiles, dtype=float)
    if q.ndim != 2 or y.shape != q.shape[:1]:
        raise ValueError(
            "y_quantiles must have a row of quantiles for each value of y_true. Got shapes "
            f"{q.shape} and {y.shape}."
        )
    p = (np.arange(q.shape[1]) + 0.5) / q.shape[1]
    apart = y[:, None] - q
    return _average(2.0 * np.maximum(p * apart, (p - 1.0) * apart).mean(axis=1), sample_weight)


def interval_score(
    y_true: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    *,
    coverage: float = 0.9,
    sample_weight: MaybeArray = None,
) -> float:
    r"""Compute the mean interval (Winkler) score, in units of y.

    The score of an interval is its width. If the target is outside, its distance from the interval
    is added, times ``2 / (1 - coverage)``:

    .. math:: (u - l) + \frac{2}{\alpha} (l - y)_+ + \frac{2}{\alpha} (y - u)_+,
        \qquad \alpha = 1 - \mathrm{coverage}.

    Smaller scores are better. On average, the central interval of the true distribution has the
    smallest one (Gneiting and Raftery 2007, equation 43).

    Parameters
    ----------
    y_true : array-like of shape (n,) or (n, p)
        True target values.
    lower, upper : array-like of shape (n,) or (n, p)
        The ends of the intervals.
    coverage : float, default=0.9
        The probability with which an interval should contain its target.
    sample_weight : array-like of shape (n,), default=None
        Sample weights.

    Returns
    -------
    float
        Mean score.

    Raises
    ------
    ValueError
        If the shapes differ, an interval ends before it begins, or `coverage` is not between 0
        and 1.

    Examples
    --------
    >>> from skgp_sparse.metrics import interval_score
    >>> round(interval_score([0.0, 3.0], [-1.0, -1.0], [1.0, 1.0], coverage=0.8), 6)
    12.0
    """
    y, lower, upper = _interval(y_true, lower, upper)
    if not 0.0 < coverage < 1.0:
        raise ValueError(f"coverage must be between 0 and 1. Got {as_text(coverage)}.")
    missed = np.maximum(lower - y, 0.0) + np.maximum(y - upper, 0.0)
    return _average(upper - lower + 2.0 / (1.0 - coverage) * missed, sample_weight)


def interval_coverage(
    y_true: ArrayLike, lower: ArrayLike, upper: ArrayLike, *, sample_weight: MaybeArray = None
) -> float:
    """Compute the share of targets that are within their intervals, the ends included.

    Parameters
    ----------
    y_true : array-like of shape (n,) or (n, p)
        True target values.
    lower, upper : array-like of shape (n,) or (n, p)
        The ends of the intervals.
    sample_weight : array-like of shape (n,), default=None
        Sample weights.

    Returns
    -------
    float
        The share, between 0 and 1.

    Raises
    ------
    ValueError
        If the shapes differ or an interval ends before it begins.

    Examples
    --------
    >>> from skgp_sparse.metrics import interval_coverage
    >>> interval_coverage([0.0, 3.0], [-1.0, -1.0], [1.0, 1.0])
    0.5
    """
    y, lower, upper = _interval(y_true, lower, upper)
    return _average(((lower <= y) & (y <= upper)).astype(float), sample_weight)


def calibration_error(
    y_true: ArrayLike, y_mean: ArrayLike, y_std: ArrayLike, *, sample_weight: MaybeArray = None
) -> float:
    """Compute by how much quantiles of normal predictions are off, as a mean over probabilities.

    For the probabilities .01 to .99, the share of targets below the predicted quantile should be
    the probability. The value is the mean of the absolute differences: 0 is best, and .5 worst.
    It says nothing of sharpness: predictions that are the same for all rows may have 0, too.

    Parameters
    ----------
    y_true, y_mean, y_std : array-like of shape (n,) or (n, p)
        As in `mean_log_predictive_density`.
    sample_weight : array-like of shape (n,), default=None
        Sample weights.

    Returns
    -------
    float
        Mean absolute difference.

    Raises
    ------
    ValueError
        If the shapes differ or a standard deviation is not positive.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse.metrics import calibration_error
    >>> y = np.random.RandomState(0).normal(size=1000)
    >>> [round(calibration_error(y, 0.0 * y, std + 0.0 * y), 2) for std in (1.0, 2.0)]
    [0.01, 0.11]
    """
    y, mean, std = _normal(y_true, y_mean, y_std)
    return _mean_difference(ndtr((y - mean) / std)[..., None] <= _LEVELS, sample_weight)


def sharpness(y_std: ArrayLike, *, sample_weight: MaybeArray = None) -> float:
    """Compute the root mean square of predicted standard deviations, in units of y.

    Of two models that are both calibrated, the one with the smaller value is better.

    Parameters
    ----------
    y_std : array-like of shape (n,) or (n, p)
        Predicted standard deviations.
    sample_weight : array-like of shape (n,), default=None
        Sample weights.

    Returns
    -------
    float
        Root mean square.

    Examples
    --------
    >>> from skgp_sparse.metrics import sharpness
    >>> sharpness([3.0, 4.0, 5.0, 0.0])
    3.5355339059327378
    """
    return float(np.sqrt(_average(np.asarray(y_std, dtype=float) ** 2, sample_weight)))


def log_predictive_density_scorer(
    estimator: BaseEstimator,
    X: ArrayLike,
    y: ArrayLike,
    sample_weight: MaybeArray = None,
    offset: MaybeArray = None,
) -> float:
    """Compute the mean log predictive density of y, as a scorer for ``GridSearchCV(scoring=...)``.

    Larger values are better, as for all scikit-learn scorers. If the estimator has the method
    ``log_predictive_density``, as `SparseGPRegressor` does, the scorer takes the mean of what it
    returns, so that a search can compare likelihoods. Otherwise the predictive distribution is
    assumed to be Gaussian: this works for every regressor whose ``predict`` has the parameter
    ``return_std``. It also works for Pipelines that end in such regressors.

    Parameters
    ----------
    estimator : fitted regressor or Pipeline
        Estimator with the method ``log_predictive_density``, or whose ``predict`` has the parameter
        ``return_std``.
    X : array-like of shape (n, d)
        Test inputs.
    y : array-like of shape (n,) or (n, p)
        Test targets. Several targets are averaged.
    sample_weight : array-like of shape (n,), default=None
        Sample weights. A row with weight w counts as w rows.
    offset : float or array-like of shape (n,), default=None
        Known offset of the latent value of each row, for estimators that take it.

    Returns
    -------
    float
        Mean log density in nats.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.model_selection import GridSearchCV
    >>> from skgp_sparse import SparseGPRegressor
    >>> from skgp_sparse.metrics import log_predictive_density_scorer
    >>> rng = np.random.RandomState(0)
    >>> X = rng.uniform(-3, 3, size=(60, 1))
    >>> y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=60)
    >>> search = GridSearchCV(
    ...     SparseGPRegressor(n_inducing=8, random_state=0),
    ...     {"bound": ["titsias", "titsias_new"]},
    ...     scoring=log_predictive_density_scorer,
    ...     cv=2,
    ... ).fit(X, y)
    >>> sorted(search.best_params_)
    ['bound']
    """
    last, inputs = _last_step(estimator, X)
    if hasattr(last, "log_predictive_density"):
        return _average(last.log_predictive_density(inputs, y, **_known(offset)), sample_weight)
    mean, std = _mean_and_std(estimator, X, "log_predictive_density_scorer")
    return mean_log_predictive_density(y, mean, std, sample_weight=sample_weight)


def crps_scorer(
    estimator: BaseEstimator,
    X: ArrayLike,
    y: ArrayLike,
    sample_weight: MaybeArray = None,
    offset: MaybeArray = None,
) -> float:
    """Compute minus the mean continuous ranked probability score of y, as a scorer.

    Predictions are taken as normal, with the moments of ``predict(X, return_std=True)``. Those of a
    `SparseGPRegressor` with a likelihood are judged by 100 quantiles instead.

    Parameters
    ----------
    estimator : fitted regressor or Pipeline
        Whose ``predict`` has the parameter ``return_std``.
    X : array-like of shape (n, d)
        Test inputs.
    y : array-like of shape (n,) or (n, p)
        Test targets. Several targets are averaged.
    sample_weight : array-like of shape (n,), default=None
        Sample weights.
    offset : float or array-like of shape (n,), default=None
        Known offset of the latent value of each row, for estimators that take it.

    Returns
    -------
    float
        Minus the mean score, as larger values are better for scorers.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.model_selection import cross_val_score
    >>> from skgp_sparse import SparseGPRegressor
    >>> from skgp_sparse.metrics import crps_scorer
    >>> X = np.linspace(0, 10, 60)[:, None]
    >>> y = np.sin(X[:, 0])
    >>> bool(cross_val_score(SparseGPRegressor(), X, y, scoring=crps_scorer, cv=3).shape == (3,))
    True
    """
    if _has_likelihood(estimator):
        quantiles = _quantiles(estimator, X, (np.arange(100) + 0.5) / 100.0, offset, "crps_scorer")
        return -crps_from_quantiles(y, quantiles, sample_weight=sample_weight)
    return -crps(y, *_mean_and_std(estimator, X, "crps_scorer"), sample_weight=sample_weight)


def interval_score_scorer(
    estimator: BaseEstimator,
    X: ArrayLike,
    y: ArrayLike,
    sample_weight: MaybeArray = None,
    offset: MaybeArray = None,
) -> float:
    """Compute minus the mean score of central 90 % intervals, as a scorer; see `interval_score`.

    Parameters
    ----------
    estimator : estimator
        A fitted regressor, as in `crps_scorer`.
    X : array-like of shape (n_samples, n_features)
        Test inputs.
    y : array-like of shape (n_samples,)
        Targets.
    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights.
    offset : float or array-like of shape (n_samples,), default=None
        Known offsets of the latent values.

    Returns
    -------
    float
        Minus the mean score.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse import SparseGPRegressor
    >>> from skgp_sparse.metrics import interval_score_scorer
    >>> X = np.linspace(0, 10, 60)[:, None]
    >>> model = SparseGPRegressor().fit(X, np.sin(X[:, 0]))
    >>> bool(interval_score_scorer(model, X, np.sin(X[:, 0])) < 0)
    True
    """
    ends = _quantiles(estimator, X, np.array([0.05, 0.95]), offset, "interval_score_scorer")
    lower, upper = np.moveaxis(ends, -1, 0)
    return -interval_score(y, lower, upper, coverage=0.9, sample_weight=sample_weight)


def calibration_error_scorer(
    estimator: BaseEstimator,
    X: ArrayLike,
    y: ArrayLike,
    sample_weight: MaybeArray = None,
    offset: MaybeArray = None,
) -> float:
    """Compute minus the calibration error of y, as a scorer; see `calibration_error`.

    Parameters
    ----------
    estimator : estimator
        A fitted regressor, as in `crps_scorer`.
    X : array-like of shape (n_samples, n_features)
        Test inputs.
    y : array-like of shape (n_samples,)
        Targets.
    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights.
    offset : float or array-like of shape (n_samples,), default=None
        Known offsets of the latent values.

    Returns
    -------
    float
        Minus the calibration error.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse import SparseGPRegressor
    >>> from skgp_sparse.metrics import calibration_error_scorer
    >>> X = np.linspace(0, 10, 60)[:, None]
    >>> model = SparseGPRegressor().fit(X, np.sin(X[:, 0]))
    >>> bool(calibration_error_scorer(model, X, np.sin(X[:, 0])) <= 0)
    True
    """
    if not _has_likelihood(estimator):
        mean, std = _mean_and_std(estimator, X, "calibration_error_scorer")
        return -calibration_error(y, mean, std, sample_weight=sample_weight)
    quantiles = _quantiles(estimator, X, _LEVELS, offset, "calibration_error_scorer")
    targets = _alike(y_true=y, lowest_quantile=quantiles[..., 0], quantiles=quantiles[..., -1])[0]
    return -_mean_difference(targets[..., None] <= quantiles, sample_weight)


# -- what they share -------------------------------------------------------------------


def _normal(y_true: ArrayLike, y_mean: ArrayLike, y_std: ArrayLike) -> Triple:
    """Arrays of means and standard deviations, which must fit to the targets."""
    found = _alike(y_true=y_true, y_mean=y_mean, y_std=y_std)
    if not np.all(found[2] > 0):
        raise ValueError(f"y_std must be positive. Its smallest value is {found[2].min()}.")
    return found


def _interval(y_true: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> Triple:
    """Arrays of the ends of intervals, which must fit to the targets."""
    found = _alike(y_true=y_true, lower=lower, upper=upper)
    if not np.all(found[1] <= found[2]):
        raise ValueError("lower must not be above upper, but is in at least one row.")
    return found


def _alike(**arrays: ArrayLike) -> Triple:
    """Three arrays, which must have the same shape."""
    first, second, third = (np.asarray(one, dtype=float) for one in arrays.values())
    shapes = first.shape, second.shape, third.shape
    if len(set(shapes)) > 1:
        message = "{}, {} and {} must have the same shape. Got {}, {} and {}."
        raise ValueError(message.format(*arrays, *shapes))
    return first, second, third


def _average(values: Array, weight: MaybeArray) -> float:
    """Weighted mean over rows of the mean over targets."""
    return float(_over_rows(np.reshape(values, (len(values), -1)).mean(axis=1), weight))


def _mean_difference(below: AnyArray, weight: MaybeArray) -> float:
    """Mean of ``|share - probability|`` of what is below the quantiles, (n[, p], levels)."""
    return float(np.mean(np.abs(_over_rows(below, weight) - _LEVELS)))


def _over_rows(values: AnyArray, weight: MaybeArray) -> Any:
    """Weighted mean over rows."""
    weights = None if weight is None else np.asarray(weight)
    if weights is not None and weights.shape != (len(values),):
        raise ValueError(
            f"sample_weight must have one weight for each of the {len(values)} rows. Got an array "
            f"of shape {weights.shape}."
        )
    return np.average(values, axis=0, weights=weights)


def _last_step(estimator: BaseEstimator, X: ArrayLike) -> tuple[BaseEstimator, ArrayLike]:
    """The last step of a pipeline, and the inputs as it sees them."""
    if not isinstance(estimator, Pipeline):
        return estimator, X
    return estimator[-1], estimator[:-1].transform(X) if len(estimator) > 1 else X


def _known(offset: MaybeArray) -> dict[str, Any]:
    """Offsets of rows, where they are given."""
    return {} if offset is None else {"offset": offset}


def _has_likelihood(estimator: BaseEstimator) -> bool:
    """Whether predictions are not normal, but have quantiles."""
    last = estimator[-1] if isinstance(estimator, Pipeline) else estimator
    return getattr(last, "likelihood_", None) is not None and hasattr(last, "predict_quantiles")


def _quantiles(
    estimator: BaseEstimator, X: ArrayLike, probabilities: AnyArray, offset: MaybeArray, name: str
) -> Array:
    """Quantiles (n[, p], k), those of normal distributions where there is no likelihood."""
    if _has_likelihood(estimator):
        last, inputs = _last_step(estimator, X)
        return last.predict_quantiles(inputs, probabilities, **_known(offset))
    mean, std = _mean_and_std(estimator, X, name)
    return mean[..., None] + std[..., None] * ndtri(probabilities)


def _mean_and_std(estimator: BaseEstimator, X: ArrayLike, name: str) -> Pair:
    """Mean and standard deviation that ``predict(X, return_std=True)`` returns."""
    try:
        mean, std = estimator.predict(X, return_std=True)
    except (TypeError, AttributeError) as error:  # those that hand it on may not expect a pair
        if not {"return_std", "tuple"} & set(re.findall(r"\w+", str(error))):
            raise
        raise TypeError(
            f"{name} needs an estimator whose predict takes return_std and returns means and "
            f"standard deviations. Got {as_text(estimator)}. Pass a SparseGPRegressor."
        ) from error
    return mean, std
