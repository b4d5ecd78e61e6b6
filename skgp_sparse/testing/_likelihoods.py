"""The check of likelihoods, by central differences, limits and numerical integrals."""

from inspect import signature
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp
from sklearn.utils import check_random_state, column_or_1d

from skgp_sparse.likelihoods import Binary, Likelihood
from skgp_sparse.testing import _require as require

_MEANS = np.array([-50.0, -12.0, -5.0, -2.0, -0.7, 0.0, 0.4, 3.0, 9.0, 50.0])
_VARIANCES = np.array([1e-10, 1e-4, 1e-2, 0.1, 0.4, 1.0, 5.0, 1e2, 1e4])
_FAR = np.array([-1e3, 1e3])
_MODERATE_MEAN, _MODERATE_VARIANCE = 12.5, 5.0  # largest, where derivatives are compared
_LARGEST_VALUE = 1e6  # of `expected`, where central differences keep their digits
_MOST_OBSERVATIONS = 8
_NO_VARIANCE = 1e-18
_STEP = 1e-4  # of central differences
_KINDS = ("expected", "tilted")
_POWER = 0.4  # of the density, in expectation propagation
_OF_POWER = f"tilted for power = {_POWER}"
_PROBABILITIES = (0.1, 0.5, 0.95)  # of quantiles
_PARTS = ("value", "slope", "curvature")
_DIGITS, _TOLERANCE = 1e-9, 1e-6
_NODES = np.linspace(-12.0, 12.0, 4001)  # in standard deviations
_WEIGHTS = np.exp(-0.5 * _NODES**2) / np.exp(-0.5 * _NODES**2).sum()
_SAMPLES, _ERRORS = 4000, 6.0  # of the response, and standard errors that its mean may be off
_MOST_SHIFT = 4.0  # by an observation, in standard deviations, where the sum has its mass
_MOST_PRECISION = 100.0  # of an observation, relative, where the sum has enough nodes
_FURTHEST_TOP = 6.0  # of the integrand, in standard deviations, if it is not concave
_MOST_BEND = 300.0  # of the log density anywhere, relative, if it is not concave


class _Rows(NamedTuple):
    """Rows of a likelihood: their observations, and means and variances of their latent values."""

    likelihood: Likelihood
    y: np.ndarray
    mean: np.ndarray
    variance: np.ndarray

    def where(self, rows):
        return _Rows(self.likelihood, *(column[rows] for column in self[1:]))

    def certain(self):
        return self._replace(variance=np.full(len(self.y), _NO_VARIANCE))

    def is_moderate(self):
        return (np.abs(self.mean) <= _MODERATE_MEAN) & (self.variance <= _MODERATE_VARIANCE)

    def place(self, row):
        row = row % len(self.y)
        return ", ".join(f"{name} = {getattr(self, name)[row]:g}" for name in self._fields[1:])

    def require_close(self, actual, expected, what, source, allowed=None):
        """Require that the answers of the method that `what` names are close to others."""
        what = f"{self.likelihood!r}.{what}"
        allowed = _TOLERANCE * (1 + np.abs(expected)) if allowed is None else allowed
        require.close(actual, expected, allowed, what, source, self.place)

    @np.errstate(all="ignore")
    def ask(self, kind):
        """Return the value, slope and curvature of every row, after a check of their shapes."""
        method, name = getattr(self.likelihood, kind.split()[0]), f"{self.likelihood!r}.{kind}"
        options, n = {"power": _POWER} if kind == _OF_POWER else {}, len(self.y)
        with require.no_error(f"{name} (its arguments are read-only) of {n} rows"):
            value, slope, curvature = method(*map(require.read_only, self[1:]), **options)
        may_overflow = ~self.is_moderate() & np.isneginf(value) & (kind == "expected")
        for part, values in zip(_PARTS, (value, slope, curvature)):
            require.shape(values, self.y.shape, f"{name}: {part} of {n} rows")
            good = np.isfinite(values) | (may_overflow & ~np.isnan(values))
            require.everywhere(good, values, f"{name}: {part}", "a finite number", self.place)
        return value, slope, curvature


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
    probabilities of a `Binary` likelihood must sum to 1 and agree with `tilted`.

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
    rng = check_random_state(random_state)
    rows = _make_rows(likelihood, y, rng)
    moderate = rows.where(rows.is_moderate())
    for name in ("tilted", "tilted_slopes"):  # as expectation propagation calls them
        with require.no_error(f"{likelihood!r}.{name}(y, mean, variance, power)"):
            signature(getattr(likelihood, name)).bind(None, None, None, 1.0)
    for kind in _KINDS:
        _check_rows(rows, kind)
    moderate = moderate.where(_has_digits(moderate))
    for kind in (*_KINDS, _OF_POWER) if likelihood.is_log_concave else _KINDS:
        _check_derivatives(moderate, kind)
    _check_order(rows)
    _check_values(moderate)
    if isinstance(likelihood, Binary):
        _check_probability(rows._replace(y=np.ones_like(rows.y)))
    central = (np.abs(rows.mean) <= 2.5) & (rows.variance <= 1.0)
    _check_samples(rows.where(central), rng)
    _check_parameters(moderate)


def _has_digits(rows):
    """Whether central differences keep digits in a row: all rows if they do in none."""
    value, _, curvature = rows.ask("expected")
    size = np.maximum(np.abs(value), np.abs(curvature) * np.maximum(rows.variance, 1.0))
    return (size <= _LARGEST_VALUE) | (np.min(size) > _LARGEST_VALUE)


def _make_rows(likelihood, y, rng):
    if y is None and not isinstance(likelihood, Binary):
        raise ValueError(f"check_likelihood needs y: observations in the domain of {likelihood!r}.")
    y = np.unique(column_or_1d([-1.0, 1.0] if y is None else y)).astype(float)
    means = _MEANS + rng.uniform(-0.1, 0.1, len(_MEANS)) * (np.abs(_MEANS) < 50.0)
    return _combined(likelihood, rng.permutation(y)[:_MOST_OBSERVATIONS], means)


def _combined(likelihood, y, means):
    columns = np.meshgrid(y, means, _VARIANCES, indexing="ij")
    return _Rows(likelihood, *(column.ravel() for column in columns))


def _check_rows(rows, kind):
    """Check that rows are independent, that the tails are finite, and that curvatures are >= 0."""
    whole = rows.ask(kind)
    for index in (np.arange(len(rows.y))[::-3], np.arange(1)):
        some = rows.where(index)
        for part, actual, values in zip(_PARTS, some.ask(kind), whole):
            expected, what = values[index], f"{kind}: {part} of a row"
            allowed = _DIGITS * (1 + np.abs(expected))
            some.require_close(actual, expected, what, "among other rows", allowed)
    _combined(rows.likelihood, np.unique(rows.y), _FAR).ask(kind)
    if rows.likelihood.is_log_concave:
        what, curvature = f"{rows.likelihood!r}.{kind}: curvature", whole[2]
        largest = np.max(np.abs(curvature), where=np.isfinite(curvature), initial=0.0)
        good = curvature >= -_DIGITS * largest
        expected = "no negative number: p(y | f) must be log-concave in f"
        require.everywhere(good, curvature, what, expected, rows.place)


def _check_derivatives(rows, kind):
    def at(shift):
        return np.array(rows._replace(mean=rows.mean + shift).ask(kind))

    (value, slope, curvature), changes = rows.ask(kind), require.differences(at, 0.0, _STEP)
    of_largest = _DIGITS if rows.likelihood.is_log_concave else _TOLERANCE  # signs change
    for part, actual, expected, integral in (
        ("slope", slope, changes[0], value),
        ("curvature", curvature, -changes[1], slope),
    ):
        allowed = 1e-8 * np.abs(integral) + of_largest * np.max(np.abs(expected))
        allowed, what = allowed + 10 * _TOLERANCE * np.abs(expected), f"{kind}: {part}"
        rows.require_close(actual, expected, what, "by central differences", allowed)


def _check_order(rows):
    """Check Jensen's inequality, and that both sides are equal without variance."""
    certain = rows.where(rows.is_moderate()).certain()
    (expected, slope, _), (actual, _, _) = (certain.ask(kind) for kind in _KINDS)
    source = "that of expected in the limit of variance = 0"
    allowed = _TOLERANCE * (1 + np.abs(expected)) + slope**2 * _NO_VARIANCE  # no limit if steep
    certain.require_close(actual, expected, "tilted: value", source, allowed)
    lower, upper = (rows.ask(kind)[0] for kind in _KINDS)
    good, what = lower <= upper + _DIGITS * (1 + np.abs(lower)), f"{rows.likelihood!r}.expected"
    most = [f"at most {value:.10g}, the value of tilted (Jensen's inequality)" for value in upper]
    require.everywhere(good, lower, f"{what}: value", most.__getitem__, rows.place)


def _check_values(rows):
    """Compare values with sums over 4001 nodes, where these cover the mass of the integrand."""
    logs, rows = _log_densities(rows)
    if len(rows.y) == 0:
        return
    sums = {"expected": logs @ _WEIGHTS, "tilted": logsumexp(logs, axis=1, b=_WEIGHTS)}
    if rows.likelihood.is_log_concave:
        sums[_OF_POWER] = logsumexp(_POWER * logs, axis=1, b=_WEIGHTS)
    for kind, expected in sums.items():
        actual, what = rows.ask(kind)[0], f"{kind}: value"
        rows.require_close(actual, expected, what, "by a sum over 4001 nodes")


def _log_densities(rows):
    """Logarithms at the nodes of rows for which these are enough, and these rows."""
    _, slope, curvature = rows.certain().ask("expected")
    within_reach = np.sqrt(rows.variance) * np.abs(slope) <= _MOST_SHIFT
    rows = rows.where(within_reach & (rows.variance * curvature <= _MOST_PRECISION))
    f = rows.mean[:, None] + np.sqrt(rows.variance)[:, None] * _NODES
    if len(rows.y) == 0:
        return f, rows
    dense = rows._replace(y=np.repeat(rows.y, len(_NODES)), mean=f.ravel()).certain()
    logs, _, curvature = (part.reshape(f.shape) for part in dense.ask("expected"))
    if rows.likelihood.is_log_concave:
        return logs, rows
    smooth = rows.variance * np.max(np.abs(curvature), axis=1) <= _MOST_BEND
    top = _NODES[np.argmax(logs - 0.5 * _NODES**2, axis=1)]  # slopes at the mean do not limit it
    smooth &= np.abs(top) <= _FURTHEST_TOP
    return logs[smooth], rows.where(smooth)


def _check_samples(rows, rng):
    """Compare the response and quantiles with samples, which must be in the domain."""
    likelihood, _, mean, variance = rows
    with require.no_error(f"{likelihood!r}.response and sample of {len(mean)} rows"):
        response = likelihood.response(mean, variance)
        f = mean + np.sqrt(variance) * rng.normal(size=(_SAMPLES, len(mean)))
        drawn = likelihood.sample(f, rng)
        likelihood.check(drawn.ravel(), "check_likelihood")
    require.shape(drawn, f.shape, f"{likelihood!r}.sample of {f.shape}")
    squares = (drawn - drawn.mean(axis=0)) ** 2
    for what, values, samples in zip(("mean", "variance"), response, (drawn, squares)):
        require.shape(values, mean.shape, f"{likelihood!r}.response: {what} of {len(mean)} rows")
        expected, source = samples.mean(axis=0), f"of {_SAMPLES} samples"
        allowed = _ERRORS * samples.std(axis=0) / np.sqrt(_SAMPLES) + _DIGITS
        allowed += _ERRORS * np.max(np.abs(samples - expected), axis=0) / _SAMPLES
        if what == "variance":
            allowed += _ERRORS**2 * values / _SAMPLES
        allowed[np.isinf(values)] = np.inf  # an infinite variance has no estimate
        rows.require_close(values, expected, f"response: {what}", source, allowed)
    for q in _PROBABILITIES:
        _check_quantile(rows, drawn, q)


def _check_quantile(rows, drawn, q):
    """Compare a quantile with the shares of samples that are smaller, or not larger."""
    likelihood, _, mean, variance = rows
    name = f"{likelihood!r}.quantile"
    with require.no_error(f"{name} of {len(mean)} rows"):
        try:
            actual = likelihood.quantile(q, mean, variance)
        except NotImplementedError:
            return
    require.shape(actual, mean.shape, f"{name} of {len(mean)} rows")
    off = _ERRORS * np.sqrt(q * (1.0 - q) / _SAMPLES)
    good = np.mean(drawn < actual, axis=0) <= q + off
    good &= np.mean(drawn <= actual, axis=0) >= q - off
    expected = f"the quantile {q} of {_SAMPLES} samples"
    require.everywhere(good, actual, name, expected, rows.place)


def _check_parameters(rows):
    """Compare gradients with respect to the learned parameters with central differences."""
    likelihood, theta = rows.likelihood, rows.likelihood.theta
    require.shape(likelihood.limits, (len(theta), 2), f"{likelihood!r}.limits")
    for kind in _KINDS:

        def values(theta, kind=kind):
            return rows._replace(likelihood=likelihood.with_theta(theta)).ask(kind)[0]

        actual = getattr(likelihood, f"{kind}_slopes")(*rows[1:])
        expected = require.differences(values, theta, _STEP).reshape(-1, len(rows.y))
        allowed, source = 10 * _TOLERANCE * (1 + np.abs(expected)), "by central differences"
        rows.require_close(actual, expected, f"{kind}_slopes", source, allowed)


def _check_probability(rows):
    likelihood, _, mean, variance = rows
    name = f"{likelihood!r}.probability"
    with require.no_error(f"{name} of {len(mean)} rows"):
        p, opposite = (likelihood.probability(sign * mean, variance) for sign in (1, -1))
    require.everywhere((p >= 0) & (p <= 1), p, name, "a number in [0, 1]", rows.place)
    tilted = np.exp(rows.ask("tilted")[0])
    rows.require_close(p, 1 - opposite, "probability", "1 minus that at the opposite mean", _DIGITS)
    rows.require_close(p, tilted, "probability", "exp of tilted for y = 1", _DIGITS)
