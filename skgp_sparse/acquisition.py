"""Acquisition functions of Bayesian optimisation: how promising inputs are under a fitted model.

All of them are larger where an evaluation is more promising, whether the target is minimised or
maximised. They ask a fitted model for means and standard deviations of the latent function, and
for their gradients, by ``predict(X, return_std=True, latent=True, return_gradient=True)``.
"""

from numbers import Real
from typing import Any

import numpy as np
from scipy.special import erfcx, log_ndtr, ndtr
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from skgp_sparse.ground.linalg import LOG_2PI
from skgp_sparse.ground.validation import Array, ArrayLike, as_text, check_number

__all__ = ["log_expected_improvement", "log_noisy_expected_improvement", "upper_confidence_bound"]

_NEAR, _FAR = -1.0, -300.0  # below which log h has another formula
_LEAST = 1e-10  # standard deviation, as a share of the distance from the best value
_SMALLEST = 1e-150  # deviation where nothing is unknown, whose reciprocal is finite


# of a function to be maximised: mean and standard deviation (n,), and their gradients (n, d)
_Moments = tuple[Array, Array, Array, Array]


def log_expected_improvement(
    model: Any, X: ArrayLike, best: float, *, minimize: bool = True, return_gradient: bool = False
) -> Array | tuple[Array, Array]:
    r"""Compute the logarithm of the expected improvement over a value.

    For a minimised target, it is :math:`\log \mathrm{E} \max(b - f(x), 0)` of the latent function f
    and the best value b. It is accurate where the improvement itself underflows [1]_, so that an
    optimiser has a gradient everywhere.

    Parameters
    ----------
    model : fitted SparseGPRegressor
        The model of one target.
    X : array-like of shape (n, d)
        Inputs.
    best : float
        The best value so far, in units of y. With a likelihood that is not Gaussian, it is on the
        scale of ``predict(X, latent=True)``.
    minimize : bool, default=True
        Whether small targets are good.
    return_gradient : bool, default=False
        Whether the gradient with respect to X is returned, too.

    Returns
    -------
    value : ndarray of shape (n,)
        Logarithms in nats. Larger values are more promising.
    gradient : ndarray of shape (n, d)
        Only if `return_gradient` is True.

    Raises
    ------
    TypeError
        If the model is no SparseGPRegressor.
    ValueError
        If it has several targets, or `best` is not a finite number.

    References
    ----------
    .. [1] Ament, Daulton, Eriksson, Balandat and Bakshy (2023). "Unexpected improvements to
       expected improvement for Bayesian optimization." NeurIPS.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse import SparseGPRegressor
    >>> from skgp_sparse.acquisition import log_expected_improvement
    >>> X = np.linspace(0, 6, 13)[:, None]
    >>> y = np.sin(X[:, 0])
    >>> model = SparseGPRegressor(random_state=0).fit(X, y)
    >>> at = np.linspace(0, 6, 601)[:, None]
    >>> print(at[np.argmax(log_expected_improvement(model, at, best=y.min()))].round(1))
    [4.7]
    """
    found = _moments(model, X, minimize, return_gradient)
    if not (isinstance(best, (Real, np.ndarray)) and np.ndim(best) == 0 and np.isfinite(best)):
        raise ValueError(f"best must be a finite number, such as y.min(). Got {as_text(best)}.")
    value, slope = _log_improvement(found, -best if minimize else best)
    return (value, slope) if return_gradient else value


def log_noisy_expected_improvement(
    model: BaseEstimator,
    X: ArrayLike,
    observed: ArrayLike,
    *,
    minimize: bool = True,
    return_gradient: bool = False,
) -> Array | tuple[Array, Array]:
    r"""Compute the logarithm of the augmented expected improvement, for noisy targets.

    It is the expected improvement over the predicted mean of the best of the observed rows: of a
    minimised target, the row with the smallest sum of mean and standard deviation. It is multiplied
    by :math:`1 - \sigma / \sqrt{s^2 + \sigma^2}`, with the standard deviations s of the function
    and σ of the noise, so that inputs that are known well are not evaluated again [1]_.

    Parameters
    ----------
    model : fitted SparseGPRegressor
        The model of one target, with Gaussian noise that is learned. Known noise (`alpha`) is not
        part of σ.
    X : array-like of shape (n, d)
        Inputs.
    observed : array-like of shape (n_observed, d)
        Inputs that were evaluated.
    minimize : bool, default=True
        Whether small targets are good.
    return_gradient : bool, default=False
        Whether the gradient with respect to X is returned, too.

    Returns
    -------
    value : ndarray of shape (n,)
        Logarithms in nats. Larger values are more promising.
    gradient : ndarray of shape (n, d)
        Only if `return_gradient` is True.

    Raises
    ------
    TypeError
        If the model is no SparseGPRegressor.
    ValueError
        If it has several targets, or its likelihood is not Gaussian.

    References
    ----------
    .. [1] Huang, Allen, Notz and Zeng (2006). "Global optimization of stochastic black-box systems
       via sequential kriging meta-models." Journal of Global Optimization 34.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse import SparseGPRegressor
    >>> from skgp_sparse.acquisition import log_noisy_expected_improvement
    >>> X = np.linspace(0, 6, 40)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.RandomState(0).normal(size=40)
    >>> model = SparseGPRegressor(random_state=0).fit(X, y)
    >>> value = log_noisy_expected_improvement(model, [[1.5], [4.7]], X)
    >>> print(value.argmax())
    1
    """
    mean, std, *_ = _moments(model, observed, minimize, False)
    if model.likelihood_ is not None:
        raise ValueError(
            "log_noisy_expected_improvement compares the noise with the latent function, which "
            f"needs likelihood='gaussian'. Got {as_text(model.likelihood)}. Use "
            "upper_confidence_bound."
        )
    found = _moments(model, X, minimize, return_gradient)
    total = _moments(model, X, minimize, return_gradient, latent=False)
    value, slope = _log_improvement(found, mean[np.argmax(mean - std)])
    factor, factor_slope = _log_share(found, total)
    return (value + factor, slope + factor_slope) if return_gradient else value + factor


def upper_confidence_bound(
    model: BaseEstimator,
    X: ArrayLike,
    kappa: float = 1.96,
    *,
    minimize: bool = True,
    return_gradient: bool = False,
) -> Array | tuple[Array, Array]:
    """Compute the upper confidence bound, or minus the lower one of a minimised target.

    Parameters
    ----------
    model : fitted SparseGPRegressor
        The model of one target.
    X : array-like of shape (n, d)
        Inputs.
    kappa : float, default=1.96
        How many standard deviations of the latent function are added to its mean. Larger ones
        explore more.
    minimize : bool, default=True
        Whether small targets are good. The value is then ``kappa * std - mean``.
    return_gradient : bool, default=False
        Whether the gradient with respect to X is returned, too.

    Returns
    -------
    value : ndarray of shape (n,)
        Values in units of y. Larger ones are more promising.
    gradient : ndarray of shape (n, d)
        Only if `return_gradient` is True.

    Raises
    ------
    TypeError
        If the model is no SparseGPRegressor.
    ValueError
        If it has several targets, or `kappa` is negative or not finite.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse import SparseGPRegressor
    >>> from skgp_sparse.acquisition import upper_confidence_bound
    >>> X = np.linspace(0, 6, 13)[:, None]
    >>> model = SparseGPRegressor(random_state=0).fit(X, np.sin(X[:, 0]))
    >>> upper_confidence_bound(model, [[1.5], [4.7]]).round(1)
    array([-1.,  1.])
    """
    check_number(kappa, "kappa", "upper_confidence_bound", Real, low=0.0)
    mean, std, mean_slope, std_slope = _moments(model, X, minimize, return_gradient)
    value = mean + kappa * std
    return (value, mean_slope + kappa * std_slope) if return_gradient else value


def _moments(
    model: BaseEstimator, X: ArrayLike, minimize: bool, gradient: bool, latent: bool = True
) -> _Moments:
    """Moments of the function, or of targets, with the sign that makes large ones good."""
    if not hasattr(model, "sample_functions"):
        raise TypeError(f"model must be a fitted SparseGPRegressor. Got {as_text(model)}.")
    check_is_fitted(model, "kernel_")
    if not isinstance(minimize, (bool, np.bool_)):
        raise ValueError(f"minimize must be True or False. Got {as_text(minimize)}.")
    mean, std, *slopes = model.predict(X, return_std=True, latent=latent, return_gradient=gradient)
    mean_slope, std_slope = slopes if gradient else np.zeros((2, 1))
    if mean.ndim > 1:
        raise ValueError(
            f"Acquisition functions are those of one target, but {type(model).__name__} was fitted "
            f"to {mean.shape[1]}. Fit a model to the target that is optimised."
        )
    sign = -1.0 if minimize else 1.0
    return sign * mean, std, sign * mean_slope, std_slope


def _log_improvement(found: _Moments, best: float) -> tuple[Array, Array]:
    """``log(s h(z))`` with ``z = (m - b) / s``, and its gradient ``(φ ds + Φ dm) / (s h)``."""
    mean, std, mean_slope, std_slope = found
    gain = mean - best
    std = np.maximum(std, _LEAST * np.abs(gain) + _SMALLEST)
    z = gain / std
    log_h = _log_h(z)
    of_std, of_mean = np.exp(-0.5 * (z**2 + LOG_2PI) - log_h), np.exp(log_ndtr(z) - log_h)
    slope = of_std * np.transpose(std_slope) + of_mean * np.transpose(mean_slope)
    return np.log(std) + log_h, np.transpose(slope / std)


def _log_h(z: Array) -> Array:
    """``log(φ(z) + z Φ(z))``; Ament et al. (2023), eq. 9, and a series in the far tail."""
    near, middle, far = np.maximum(z, _NEAR), np.clip(z, _FAR, _NEAR), np.minimum(z, _FAR)
    log_normal = -0.5 * (np.minimum(z, _NEAR) ** 2 + LOG_2PI)
    values = np.log(np.exp(-0.5 * (near**2 + LOG_2PI)) + near * ndtr(near))
    mills = np.log1p(np.sqrt(0.5 * np.pi) * middle * erfcx(-middle / np.sqrt(2.0)))
    tail = np.log1p((15.0 / far**2 - 3.0) / far**2) - 2.0 * np.log(-far)
    return np.where(z > _NEAR, values, log_normal + np.where(z > _FAR, mills, tail))


def _log_share(found: _Moments, total: _Moments) -> tuple[Array, Array]:
    """``log(1 - σ / t) = 2 log s - log(t (t + σ))`` with ``t² = s² + σ²``, and its gradient."""
    s, t = (np.maximum(std, _SMALLEST) for _, std, *_ in (found, total))
    noise = np.sqrt(np.maximum(t**2 - s**2, 0.0))
    ds, dt = np.transpose(found[3]), np.transpose(total[3])
    dnoise = np.where(noise > 0.0, (t * dt - s * ds) / np.maximum(noise, _SMALLEST), 0.0)
    slope = 2.0 * ds / s - dt / t - (dt + dnoise) / (t + noise)
    return 2.0 * np.log(s) - np.log(t) - np.log(t + noise), np.transpose(slope)
