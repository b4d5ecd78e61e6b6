"""The check of likelihoods, by central differences, numerical integrals and samples."""

import numpy as np
from scipy.special import logsumexp
from sklearn.utils import check_random_state, column_or_1d

from skgp_sparse.likelihoods import Binary, Likelihood
from skgp_sparse.testing import _require as require

_MEANS = np.array([-1e3, -50.0, -12.0, -5.0, -2.0, -0.7, 0.0, 0.4, 3.0, 9.0, 50.0, 1e3])
_VARIANCES = np.array([1e-10, 1e-4, 1e-2, 0.1, 0.4, 1.0, 5.0, 1e2, 1e4])
_MODERATE_MEAN, _MODERATE_VARIANCE = 12.5, 5.0  # largest, where derivatives are compared
_LARGEST_VALUE = 1e6  # of `expected`, where central differences keep their digits
_MOST_OBSERVATIONS = 8
_NO_VARIANCE = 1e-18
_STEP = 1e-4  # of central differences
_POWERS = {"expected": {}, "tilted": {}, "tilted for power = 0.4": {"power": 0.4}}
_PROBABILITIES = (0.1, 0.5, 0.95)  # of quantiles
_DIGITS, _TOLERANCE = 1e-9, 1e-6
_NODES = np.linspace(-12.0, 12.0, 4001)  # in standard deviations
_WEIGHTS = np.exp(-0.5 * _NODES**2) / np.exp(-0.5 * _NODES**2).sum()
_SAMPLES, _ERRORS = 4000, 6.0  # of the response, and standard errors that its mean may be off
_FURTHEST_TOP = 6.0  # of the integrand, in standard deviations, where nodes are enough
_MOST_BEND = 300.0  # of the log density, in units of the variance, where nodes are enough


def check_likelihood(likelihood, y=None, random_state=0):
    """Check that a likelihood meets the requirements of `skgp_sparse.likelihoods.Likelihood`.

    `expected` and `tilted` are evaluated for means between -50 and 50, for means of ±1000, and for
    variances from 1e-10 to 1e4. Slopes and curvatures are compared with central differences. Values
    are compared with numerical integrals of the log density, which is the value of `expected` for a
    variance of zero. Far from zero, `expected` may be minus infinity, as for a log link it
    overflows there. Curvatures must not be negative if `is_log_concave` is true. Powers of the
    density are compared too, if the likelihood is log-concave: `tilted` must then take the argument
    `power`, which expectation propagation passes.
    `response` is compared with samples of `sample`, and so is `quantile` if it is defined; a finite
    variance of a distribution with an infinite fourth moment cannot be confirmed that way. The
    gradients with respect to learned parameters are compared with central differences. The
    probabilities of a `Binary` likelihood must agree with `tilted`.

    Parameters
    ----------
    likelihood : skgp_sparse.likelihoods.Likelihood
        The instance to check.
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
        If `y` is missing and the likelihood is not `Binary`.

    Examples
    --------
    >>> from skgp_sparse.likelihoods import Gamma, Logit
    >>> from skgp_sparse.testing import check_likelihood
    >>> check_likelihood(Logit())
    >>> check_likelihood(Gamma(), y=[0.3, 2.0])
    """
    require.instance(likelihood, Likelihood)
    limits, pairs = np.shape(likelihood.limits), (len(likelihood.theta), 2)
    require.that(limits == pairs, f"{likelihood!r}.limits has shape {limits}, expected {pairs}.")
    if y is None and not isinstance(likelihood, Binary):
        raise ValueError(f"check_likelihood needs y: observations in the domain of {likelihood!r}.")
    rng = check_random_state(random_state)
    y = np.unique(column_or_1d([-1.0, 1.0] if y is None else y)).astype(float)
    means = _MEANS + rng.uniform(-0.1, 0.1, len(_MEANS)) * (np.abs(_MEANS) < 50.0)
    columns = np.meshgrid(rng.permutation(y)[:_MOST_OBSERVATIONS], means, _VARIANCES, indexing="ij")
    rows = np.stack([column.ravel() for column in columns])
    kinds = list(_POWERS)[: 3 if likelihood.is_log_concave else 2]
    for kind in kinds[:2]:
        _check_rows(likelihood, kind, rows)
    moderate = rows[:, _is_moderate(rows)]
    value, _, curvature = _ask(likelihood, "expected", moderate)
    size = np.maximum(np.abs(value), np.abs(curvature) * np.maximum(moderate[2], 1.0))
    moderate = moderate[:, (size <= _LARGEST_VALUE) | (np.min(size) > _LARGEST_VALUE)]
    for kind in kinds:
        _check_derivatives(likelihood, kind, moderate)
    _check_values(likelihood, kinds, moderate)
    if isinstance(likelihood, Binary):
        rows[0] = 1.0
        what, expected = f"{likelihood!r}.probability", np.exp(_ask(likelihood, "tilted", rows)[0])
        p = require.call(what, likelihood.probability, *rows[1:])
        _close(p, expected, what, rows, _DIGITS)
    _check_samples(likelihood, rows[1:, (np.abs(rows[1]) <= 2.5) & (rows[2] <= 1.0)], rng)


def _is_moderate(rows):
    return (np.abs(rows[1]) <= _MODERATE_MEAN) & (rows[2] <= _MODERATE_VARIANCE)


@np.errstate(all="ignore")
def _ask(likelihood, kind, rows):
    """Return the value, slope and curvature of every row, after a check of their shapes."""
    method, name = getattr(likelihood, kind.split()[0]), f"{likelihood!r}.{kind}"
    answers = require.call(f"{name} of {rows.shape[1]} rows", method, *rows, **_POWERS[kind])
    require.that(len(answers) == 3, f"{name} returns {len(answers)} arrays, expected three.")
    may_overflow = ~_is_moderate(rows) & (kind == "expected")
    for part, values in zip(("value", "slope", "curvature"), answers):
        what = f"{name}: {part} of {rows.shape[1]} rows"
        require.finite(values, rows[0].shape, what, _place(rows), may_overflow)
    return answers


def _place(rows):
    return dict(zip(("y", "mean", "variance")[-len(rows) :], rows))


def _close(actual, expected, what, rows, allowed=None):
    allowed = _TOLERANCE * (1 + np.abs(expected)) if allowed is None else allowed
    require.close(actual, expected, allowed, what, _place(rows))


def _check_rows(likelihood, kind, rows):
    """Check that rows are independent, and that curvatures are not negative."""
    whole, what = _ask(likelihood, kind, rows), f"{likelihood!r}.{kind}"
    for index in (np.arange(rows.shape[1])[::-3], np.arange(1)):
        for actual, values in zip(_ask(likelihood, kind, rows[:, index]), whole):
            allowed = _DIGITS * (1 + np.abs(values[index]))
            _close(actual, values[index], f"{what}: a row alone", rows[:, index], allowed)
    curvature = whole[2]
    largest = np.max(np.abs(curvature), where=np.isfinite(curvature), initial=0.0)
    good = (curvature >= -_DIGITS * largest) | (not likelihood.is_log_concave)
    expected = "no negative number: p(y | f) must be log-concave in f"
    require.everywhere(good, curvature, f"{what}: curvature", expected, _place(rows))


def _check_derivatives(likelihood, kind, rows):
    """Compare slopes, curvatures and gradients of parameters with central differences."""

    def at(shift):
        return np.array(_ask(likelihood, kind, rows + np.array([[0.0], [shift], [0.0]])))

    def of(theta):
        return _ask(likelihood.with_theta(theta), kind, rows)[0]

    found, what = _ask(likelihood, kind, rows), f"{likelihood!r}.{kind}"
    changes = require.differences(at, 0.0, _STEP) * [[1.0], [-1.0], [0.0]]
    of_largest = _DIGITS if likelihood.is_log_concave else _TOLERANCE  # signs change
    for k, part in enumerate(("slope", "curvature")):
        size = np.abs(changes[k])
        allowed = 1e-8 * np.abs(found[k]) + of_largest * np.max(size) + 10 * _TOLERANCE * size
        name = f"{what}: {part}, beside central differences,"
        _close(found[k + 1], changes[k], name, rows, allowed)
    expected = require.differences(of, likelihood.theta, _STEP).reshape(-1, rows.shape[1])
    method = f"{kind.split()[0]}_slopes"
    name = f"{likelihood!r}.{method} (of {kind})"
    slopes = require.call(name, getattr(likelihood, method), *rows, **_POWERS[kind])
    allowed = 10 * _TOLERANCE * (1 + np.abs(expected))
    require.close(slopes, expected, allowed, f"{name}, beside central differences,")


def _check_values(likelihood, kinds, rows):
    """Compare values with sums over nodes, where these cover the mass of the integrand."""
    f = rows[1][:, None] + np.sqrt(rows[2])[:, None] * _NODES
    dense = np.stack([np.repeat(rows[0], len(_NODES)), f.ravel(), np.full(f.size, _NO_VARIANCE)])
    logs, _, curvature = (part.reshape(f.shape) for part in _ask(likelihood, "expected", dense))
    enough = rows[2] * np.max(np.abs(curvature), axis=1) <= _MOST_BEND
    top = _NODES[np.argmax(logs - 0.5 * _NODES**2, axis=1)]
    enough &= np.abs(top) <= _FURTHEST_TOP
    rows, logs = rows[:, enough], logs[enough]
    for kind in kinds if enough.any() else ():
        power, actual = _POWERS[kind].get("power", 1.0), _ask(likelihood, kind, rows)[0]
        sums = logsumexp(power * logs, axis=1, b=_WEIGHTS)
        sums = logs @ _WEIGHTS if kind == "expected" else sums
        _close(actual, sums, f"{likelihood!r}.{kind}: value, beside a sum over 4001 nodes,", rows)


def _check_samples(likelihood, rows, rng):
    """Compare the response and quantiles with samples, which must be in the domain."""
    (mean, variance), what = rows, f"{likelihood!r}.response and sample of {rows.shape[1]} rows"
    f = mean + np.sqrt(variance) * rng.normal(size=(_SAMPLES, len(mean)))
    response = require.call(what, likelihood.response, mean, variance)
    drawn = require.call(what, likelihood.sample, f, rng)
    require.call(what, likelihood.check, drawn.ravel(), "check_likelihood")
    require.finite(drawn, f.shape, f"{likelihood!r}.sample")
    squares = (drawn - drawn.mean(axis=0)) ** 2
    for part, values, samples in zip(("mean", "variance"), response, (drawn, squares)):
        expected, most = samples.mean(axis=0), np.max(np.abs(samples - samples.mean(0)), axis=0)
        allowed = _ERRORS * (samples.std(axis=0) / np.sqrt(_SAMPLES) + most / _SAMPLES) + _DIGITS
        allowed += _ERRORS**2 * np.abs(values) / _SAMPLES * (part == "variance")
        allowed[np.isinf(values)] = np.inf  # an infinite variance has no estimate
        name = f"{likelihood!r}.response: {part}, beside {_SAMPLES} samples,"
        _close(values, expected, name, rows, allowed)
    for q in _PROBABILITIES:
        try:
            actual = likelihood.quantile(q, mean, variance)
        except NotImplementedError:
            return
        off = _ERRORS * np.sqrt(q * (1.0 - q) / _SAMPLES)
        good = np.mean(drawn < actual, axis=0) <= q + off
        good &= np.mean(drawn <= actual, axis=0) >= q - off
        expected = f"the quantile {q} of {_SAMPLES} samples"
        require.everywhere(good, actual, f"{likelihood!r}.quantile", expected, _place(rows))
