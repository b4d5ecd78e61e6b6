"""Checks of likelihoods."""

from contextlib import suppress
from functools import partial

import numpy as np
from scipy.special import logsumexp
from sklearn.utils import check_random_state, column_or_1d

from skgp_sparse.ground.validation import Array, MaybeArray, Rng
from skgp_sparse.ground.validation import RandomStateLike as Seed
from skgp_sparse.likelihoods import Binary, Likelihood

from ._comparisons import SHIFT, Curves, call, close, differences, everywhere, instance, largest

_MEANS = np.array([-1e3, -50.0, -12.0, -5.0, -2.0, -0.7, 0.0, 0.4, 3.0, 9.0, 50.0, 1e3])
_VARIANCES = np.array([1e-10, 1e-4, 1e-2, 0.1, 0.4, 1.0, 5.0, 1e2, 1e4])
_MOST_OBSERVATIONS, _LARGEST_VALUE = 8, 1e6  # the latter where differences keep their digits
_POWERS = {"expected": {}, "tilted": {}, "tilted for power = 0.4": {"power": 0.4}}
_NODES = np.linspace(-12.0, 12.0, 4001)  # in standard deviations
_MASS = np.exp(-0.5 * _NODES**2) / np.exp(-0.5 * _NODES**2).sum()
_SAMPLES, _ERRORS = 4000, 6.0  # of the response, and standard errors that its mean may be off


def check_likelihood(likelihood: Likelihood, y: MaybeArray = None, random_state: Seed = 0) -> None:
    """Check that a likelihood meets the requirements of `skgp_sparse.likelihoods.Likelihood`.

    `expected` and `tilted` are evaluated for means between -50 and 50, for means of ±1000, and for
    variances from 1e-10 to 1e4. Slopes and curvatures are compared with central differences. Values
    are compared with numerical integrals of the log density, which is the value of `expected` for a
    variance of zero. Far from zero, `expected` may be minus infinity, as for a log link it
    overflows there. Curvatures must not be negative if `is_log_concave` is true. Powers of the
    density are compared too, if the likelihood is log-concave: `tilted` must then take the argument
    `power`, which expectation propagation passes.
    `response` is compared with samples of `sample`, and so are `cdf` and `quantile` if they are
    defined; a finite variance of a distribution with an infinite fourth moment cannot be confirmed
    that way. About each observation that is not near an end, `cdf` must have the slope of the
    density, or jump by the probability. The gradients with respect to learned parameters are
    compared with central differences. The probabilities of a `Binary` likelihood must agree with
    `tilted`. If the likelihood `standardises`, the density of targets in other units must be that
    of `rescaled`.

    Parameters
    ----------
    likelihood : skgp_sparse.likelihoods.Likelihood
        The instance to check, whose parameters all have values (none is None).
    y : array-like of shape (n,), default=None
        Observations in the domain of the likelihood. The check uses at most eight distinct values.
        It is not needed for a `Binary` likelihood, whose labels are -1 and 1.
    random_state : int, RandomState instance or None, default=0
        Determines random number generation for the choice of observations, the small shifts of the
        means, and the samples.

    Raises
    ------
    AssertionError
        If a requirement is not met. The message says which one.
    ValueError
        If `y` is missing and the likelihood is not `Binary`, or is outside of its domain.

    Examples
    --------
    >>> from skgp_sparse.likelihoods import Gamma, Logit
    >>> from skgp_sparse.testing import check_likelihood
    >>> check_likelihood(Logit())
    >>> check_likelihood(Gamma(), y=[0.3, 2.0])
    """
    instance(likelihood, Likelihood)
    if y is None and not isinstance(likelihood, Binary):
        raise ValueError(f"check_likelihood needs y: observations in the domain of {likelihood!r}.")
    rng = check_random_state(random_state)
    y = np.unique(column_or_1d([-1.0, 1.0] if y is None else y)).astype(float)
    likelihood.check(y, "check_likelihood")
    means = _MEANS + rng.uniform(-0.1, 0.1, len(_MEANS)) * (np.abs(_MEANS) < 50.0)
    grid = np.meshgrid(rng.permutation(y)[:_MOST_OBSERVATIONS], means, _VARIANCES, indexing="ij")
    rows = np.reshape(grid, (3, -1))
    curves = {one: _curve(likelihood, one) for one in [*_POWERS][: 2 + likelihood.is_log_concave]}
    try:
        _check_curves(likelihood, curves, rows)
    except AssertionError as error:
        strip = getattr(likelihood, "strip", None)
        hint = "" if strip is None else f" Numerical integrals need a small strip, now {strip:.3g}."
        raise AssertionError(f"{error}{hint}") from error
    if isinstance(likelihood, Binary):
        rows[0], what = 1.0, f"{likelihood!r}.probability"
        p = call(what, likelihood.probability, *rows[1:])
        close(p, np.exp(curves["tilted"](rows)[0]), 1e-9, what, curves["tilted"].place(rows))
    rows = rows[:, (np.abs(rows[1]) <= 2.5) & (rows[2] <= 1.0)]
    if likelihood.standardises:  # twice the density of y is that of y / 2, in units of 2
        what = f"{likelihood!r}.rescaled(0, 2), which standardises=True needs: value of `expected`"
        half = _curve(call(what, likelihood.rescaled, 0.0, 2.0), "expected")
        value, log_unit = curves["expected"](rows)[0], np.log(2.0) * likelihood.is_density(rows[0])
        found = half(rows / [[2.0], [2.0], [4.0]])[0] - log_unit
        close(found, value, 1e-6 * (1.0 + np.abs(value)), what, half.place(rows))
    _check_samples(likelihood, rows, rng)


def _check_curves(likelihood: Likelihood, curves: dict[str, Curves], rows: Array) -> None:
    """Check `expected` and `tilted` at rows of y, mean and variance, (3, n)."""
    for curve in curves.values():
        curve.check_alone(rows, 1, 1e-9, 1.0)
        curvature, what = curve(rows)[2], "no negative number: p(y | f) must be log-concave in f"
        good = curvature >= -1e-9 * largest(curvature[np.isfinite(curvature)])
        good |= not likelihood.is_log_concave
        everywhere(good, curvature, f"{curve.what}: curvature", what, curve.place(rows))
    expected, rest = curves["expected"], rows[:, Curves.is_moderate(rows)]
    value, _, curvature = expected(rest)
    size = np.maximum(np.abs(value), np.abs(curvature) * np.maximum(rest[2], 1.0))
    rest = rest[:, (size <= _LARGEST_VALUE) | (np.min(size) > _LARGEST_VALUE)]
    for kind, curve in curves.items():
        _check_derivatives(likelihood, kind, curve, rest)
    # values, beside sums over nodes, where these cover the mass of the integrand
    f = rest[1][:, None] + np.sqrt(rest[2])[:, None] * _NODES
    dense = np.stack([np.repeat(rest[0], len(_NODES)), f.ravel(), np.full(f.size, 1e-18)])
    logs, _, curvature = np.reshape(expected(dense), (3, *f.shape))
    top = np.abs(_NODES[np.argmax(logs - 0.5 * _NODES**2, axis=1)])
    enough = (rest[2] * np.max(np.abs(curvature), axis=1) <= 300.0) & (top <= 6.0)
    rest, logs = rest[:, enough], logs[enough]
    for kind, curve in curves.items() if enough.any() else ():
        sums = logsumexp(_POWERS[kind].get("power", 1.0) * logs, axis=1, b=_MASS)
        sums = logs @ _MASS if kind == "expected" else sums
        what, allowed = f"{curve.what}: value, beside a sum over 4001 nodes,", 1.0 + np.abs(sums)
        close(curve(rest)[0], sums, 1e-6 * allowed, what, curve.place(rest))


def _curve(likelihood: Likelihood, kind: str) -> Curves:
    function = partial(getattr(likelihood, kind.split()[0]), **_POWERS[kind])
    quiet = np.errstate(all="ignore")(lambda *rows: function(*rows))
    parts, names = ("value", "slope", "curvature"), ("y", "mean", "variance")
    return Curves(f"{likelihood!r}.{kind}", quiet, names, parts)


def _check_derivatives(likelihood: Likelihood, kind: str, curve: Curves, rows: Array) -> None:
    """Compare slopes, curvatures and gradients of parameters with central differences."""
    of_largest = 1e-9 if likelihood.is_log_concave else 1e-6  # signs change
    allowed = lambda change, _: of_largest * largest(change) + 1.1e-5 * np.abs(change)
    shift, method = np.array([[0.0], [SHIFT], [0.0]]), f"{kind.split()[0]}_slopes"
    curve.check_slopes(rows, rows - shift, rows + shift, allowed)
    moved = lambda theta: _curve(likelihood.with_theta(theta), kind)(rows)[0]
    expected = differences(moved, likelihood.theta, SHIFT).reshape(-1, rows.shape[1])
    what, most = f"{likelihood!r}.{method} (of {kind})", 1e-5 * (1.0 + np.abs(expected))
    slopes = call(what, partial(getattr(likelihood, method), **_POWERS[kind]), *rows)
    close(slopes, expected, most, f"{what}, beside central differences,")


def _check_samples(likelihood: Likelihood, rows: Array, rng: Rng) -> None:
    """Compare the response, `cdf` and quantiles with samples, which must be in the domain."""
    (y, mean, variance), place = rows, dict(zip(("mean", "variance"), rows[1:]))
    what = f"{likelihood!r}.response and sample of {rows.shape[1]} rows"
    f = mean + np.sqrt(variance) * rng.normal(size=(_SAMPLES, len(mean)))
    response = call(what, likelihood.response, mean, variance)
    drawn = call(what, likelihood.sample, f, rng)
    call(what, likelihood.check, drawn.ravel(), "check_likelihood")
    for part, values, samples in zip(place, response, (drawn, (drawn - drawn.mean(axis=0)) ** 2)):
        expected, most = samples.mean(axis=0), np.max(np.abs(samples - samples.mean(0)), axis=0)
        allowed = _ERRORS * (samples.std(axis=0) / np.sqrt(_SAMPLES) + most / _SAMPLES) + 1e-9
        allowed += _ERRORS**2 * np.abs(values) / _SAMPLES * (part == "variance")
        allowed[np.isinf(values)] = np.inf  # an infinite variance has no estimate
        close(values, expected, allowed, f"{what}: {part}, beside {_SAMPLES} samples,", place)
    if np.all(drawn == np.rint(drawn)):
        y = np.rint(y)  # of counts, which have no slope in between
    place["y"] = y = np.clip(y, *likelihood.ends)  # as a fit does
    with suppress(NotImplementedError):  # there may be none
        step, what = 1e-6 * (1.0 + np.abs(y)), f"{likelihood!r}.cdf"
        low, below, high = (likelihood.cdf(at, mean, variance) for at in (y - step, y, y + step))
        allowed = _ERRORS * np.sqrt(below * (1.0 - below) / _SAMPLES) + _ERRORS**2 / _SAMPLES
        close(below, np.mean(drawn <= y, axis=0), allowed, f"{what}, beside samples,", place)
        rise, p = high - low, np.exp(likelihood.log_density(y, mean, variance))
        good = np.isclose(rise, 2.0 * step * p, 1e-4, 1e-11) | np.isclose(rise, p, 1e-4, 1e-9)
        least, most = likelihood.ends
        good |= np.minimum(y - least, most - y) < 100.0 * step  # near ends slopes change
        everywhere(good, 0.5 * rise / step, f"{what}: slope (or jump)", p, place)
    mean, variance = mean[y == y[0]], variance[y == y[0]]
    drawn = drawn[:, y == y[0]]
    with suppress(NotImplementedError):  # there may be none
        for q in (0.1, 0.5, 0.95):
            actual, off = likelihood.quantile(q, mean, variance), np.sqrt(q * (1 - q) / _SAMPLES)
            good = np.mean(drawn < actual, axis=0) <= q + _ERRORS * off
            good &= np.mean(drawn <= actual, axis=0) >= q - _ERRORS * off
            everywhere(good, actual, f"{likelihood!r}.quantile", f"quantile {q} of samples", place)
