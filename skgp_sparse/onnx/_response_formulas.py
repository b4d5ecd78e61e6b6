r"""From the latent process to the user's y: links, sigmoids and classes, as nodes of a graph.

The normal distribution function is ``Φ(x) = ½ t g(t) exp(-x²/2)`` for negative x, with
``t = 1 / (1 - x/√8)``, where g is nearly a polynomial. So the probability of an unlikely class has
as many digits as that of any other. The logistic function is a mixture,
``1 / (1 + exp(-f)) = E[Φ(f / 2K)]``, where K follows Kolmogorov's distribution (Stefanski 1991, "A
normal scale mixture representation of the logistic distribution"). Therefore its expectation under
``f ~ N(m, v)`` is ``E[Φ(m / √(4K² + v))]``, an integral whose nodes are the same for all rows.
"""

import numpy as np
from numpy.polynomial import Chebyshev, Polynomial
from scipy.special import erfcx
from scipy.stats import kstwobign

from skgp_sparse import likelihoods
from skgp_sparse.parameters.mean_functions import LEAST_PROBABILITY

_DEGREE = 14  # of g, which is then off by 2e-10
_NODE_SPACING = 0.1  # between nodes of log K


def response(ops, likelihood, mean, variance, name):
    """Mean and variance (n, 1) of an observation."""
    if type(likelihood) not in _RESPONSES:
        raise NotImplementedError(_refusal(likelihood, name, _RESPONSES))
    mean = ops.Add(mean, float(likelihood.intercept))
    return _RESPONSES[type(likelihood)](ops, likelihood, mean, variance)


def probability(ops, likelihood, mean, variance, name):
    """Probability (n, 1) of the positive class."""
    if type(likelihood) not in _PROBABILITIES:
        raise NotImplementedError(_refusal(likelihood, name, _PROBABILITIES))
    return _PROBABILITIES[type(likelihood)](ops, mean, variance)


def in_order(ops, likelihood, mean, variance, ranks):
    """Probabilities (n, K) of classes, whose places in the order are `ranks`."""
    std = ops.Sqrt(ops.Add(variance, 1.0))
    t = ops.Div(ops.Sub(likelihood.thresholds[None], mean), std)
    # two tails, as differences of small numbers have more digits
    below = [_normal_cdf(ops, one) for one in (t, ops.Neg(t))]
    K = len(ranks)
    rise, ends = np.eye(K - 1, K) - np.eye(K - 1, K, 1), np.eye(K)[:, list(ranks)]
    from_below = ops.Add(ops.MatMul(below[0], rise), np.eye(1, K, K - 1))
    from_above = ops.Add(ops.MatMul(below[1], -rise), np.eye(1, K))
    middle = ops.MatMul(t, np.abs(rise))
    chosen = ops.Where(ops.Greater(middle, 0.0), from_above, from_below)
    return ops.MatMul(chosen, ends)


def normalised(ops, positive, n_classes):
    """Probabilities (n, K) from those of each class against the rest."""
    total = ops.MatMul(positive, np.ones((n_classes, 1)))
    safe = ops.Max(total, np.finfo(float).tiny)
    nothing = ops.Not(ops.Greater(total, 0.0))
    return ops.Where(nothing, np.array([[1.0 / n_classes]]), ops.Div(positive, safe))


def _refusal(likelihood, name, formulas):
    names = ", ".join(one.__name__ for one in formulas)
    return (
        f"A {name} with the likelihood {type(likelihood).__name__} cannot be converted to ONNX, "
        f"which has formulas for {names}. Use one of them, or predict in Python."
    )


def _counts(ops, likelihood, mean, variance):
    """A rate ``exp(f)``, and its own variance besides that of the rate."""
    rate, spread = _rates(ops, likelihood, mean, variance)
    return rate, ops.Add(spread, rate)


def _rates(ops, likelihood, mean, variance):
    """``exp(f)`` with a variance that is a share of its square."""
    rate = ops.Exp(ops.Add(mean, ops.Mul(variance, 0.5)))
    factor = ops.Sub(ops.Mul(ops.Exp(variance), 1.0 + _share(likelihood)), 1.0)
    return rate, ops.Mul(ops.Mul(rate, rate), factor)


def _share(likelihood):
    """Variance of an observation whose rate is one, beyond that of a count."""
    mean, variance = likelihood.response(np.array([-likelihood.intercept]), np.zeros(1))
    return float(variance[0] - (0.0 if isinstance(likelihood, likelihoods.Gamma) else mean[0]))


def _heavy_tails(ops, likelihood, mean, variance):
    noise = likelihood.response(np.zeros(1), np.zeros(1))[1]
    return mean, ops.Add(variance, float(noise[0]))


def _proportions(ops, likelihood, mean, variance):
    """The mean of a logistic function, and the variance of a proportion about it."""
    share = float(likelihood.response(np.array([-likelihood.intercept]), np.zeros(1))[1][0]) * 4.0
    p, slope = _logit(ops, mean, variance), _slope_of_logit(ops, mean, variance)
    spread = ops.Mul(p, ops.Sub(1.0, p))
    return p, ops.Max(ops.Sub(spread, ops.Mul(slope, 1.0 - share)), 0.0)


def _probit(ops, mean, variance):
    return _normal_cdf(ops, ops.Div(mean, ops.Sqrt(ops.Add(variance, 1.0))))


def _logit(ops, mean, variance):
    z, _, weights = _mixture(ops, mean, variance)
    return ops.MatMul(_normal_cdf(ops, z), weights)


def _slope_of_logit(ops, mean, variance):
    """The derivative of `_logit` in the mean."""
    z, std, weights = _mixture(ops, mean, variance)
    density = ops.Exp(ops.Mul(ops.Mul(z, z), -0.5))
    return ops.MatMul(ops.Div(density, std), weights / np.sqrt(2.0 * np.pi))


def _mixture(ops, mean, variance):
    """Standardised latent values and deviations (n, k) of the scales, and weights (k, 1)."""
    K = np.exp(np.arange(-2.2, 1.5, _NODE_SPACING))
    weights = K * kstwobign.pdf(K)
    std = ops.Sqrt(ops.Add(variance, 4.0 * K[None] ** 2))
    return ops.Div(mean, std), std, (weights / weights.sum())[:, None]


def _normal_cdf(ops, x):
    t = ops.Div(1.0, ops.Add(ops.Mul(ops.Abs(x), 8.0**-0.5), 1.0))
    series = 0.5 * _g().coef
    tail = ops.Mul(t, float(series[-1]))
    for coefficient in series[-2::-1]:  # Horner
        tail = ops.Mul(t, ops.Add(tail, float(coefficient)))
    tail = ops.Mul(tail, ops.Exp(ops.Mul(ops.Mul(x, x), -0.5)))
    return ops.Where(ops.Greater(x, 0.0), ops.Sub(1.0, tail), tail)


def _g():
    """``erfcx(z) / t`` with ``t = 2 / (2 + z)``, as a polynomial of t in [0, 1]."""
    series = Chebyshev.interpolate(lambda t: erfcx(2.0 / t - 2.0) / t, _DEGREE, domain=[0.0, 1.0])
    return series.convert(kind=Polynomial, domain=[-1, 1], window=[-1, 1])


_RESPONSES = {
    likelihoods.Poisson: _counts,
    likelihoods.NegativeBinomial: _counts,
    likelihoods.Gamma: _rates,
    likelihoods.Beta: _proportions,
    likelihoods.StudentT: _heavy_tails,
}
_PROBABILITIES = {likelihoods.Probit: _probit, likelihoods.Logit: _logit}


def calibrated(ops, calibration, probabilities, n_classes, name):
    """Probabilities (n, n_classes) after a `Calibration` without a mean."""
    if calibration.weight:
        raise NotImplementedError(
            f"A {name} with a mean cannot be converted to ONNX. Set mean to None and fit again, or "
            "predict in Python."
        )
    logs = ops.Log(ops.Max(probabilities, LEAST_PROBABILITY))
    mean = ops.MatMul(logs, np.full((n_classes, 1), 1.0 / n_classes))
    logits = ops.Mul(ops.Sub(logs, mean), np.array([calibration.scale]))
    return ops.Softmax(ops.Add(logits, calibration.bias[None]), axis=1)
