"""Scores of predictive distributions. Unlike R², the log density can distinguish two bounds."""

import re

import numpy as np
from sklearn.pipeline import Pipeline

_LOG_2PI = np.log(2.0 * np.pi)


def mean_log_predictive_density(y_true, y_mean, y_std, *, sample_weight=None):
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
    y_true, y_mean, y_std = (np.asarray(a, dtype=float) for a in (y_true, y_mean, y_std))
    if not y_true.shape == y_mean.shape == y_std.shape:
        raise ValueError(
            "y_true, y_mean and y_std must have the same shape. Got "
            f"{y_true.shape}, {y_mean.shape} and {y_std.shape}."
        )
    if not np.all(y_std > 0):
        raise ValueError(f"y_std must be positive. Its smallest value is {y_std.min()}.")
    density = -0.5 * (_LOG_2PI + ((y_true - y_mean) / y_std) ** 2) - np.log(y_std)
    return float(np.average(_by_row(density), weights=sample_weight))


def log_predictive_density_scorer(estimator, X, y, sample_weight=None, offset=None):
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
    last = estimator[-1] if isinstance(estimator, Pipeline) else estimator
    if hasattr(last, "log_predictive_density"):
        X = estimator[:-1].transform(X) if last is not estimator and len(estimator) > 1 else X
        options = {} if offset is None else {"offset": offset}
        density = last.log_predictive_density(X, y, **options)
        return float(np.average(_by_row(density), weights=sample_weight))
    try:
        mean, std = estimator.predict(X, return_std=True)
    except (TypeError, AttributeError) as error:  # those that hand it on may not expect a pair
        if not {"return_std", "tuple"} & set(re.findall(r"\w+", str(error))):
            raise
        raise TypeError(
            "log_predictive_density_scorer needs an estimator whose predict takes return_std and "
            f"returns means and standard deviations. Got {estimator!r}."
        ) from error
    return mean_log_predictive_density(y, mean, std, sample_weight=sample_weight)


def _by_row(density):
    """Mean over the targets (n,)."""
    return np.reshape(density, (len(density), -1)).mean(axis=1)
