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
_MOST_OBSERVATIONS = 8
_NO_VARIANCE = 1e-18
_STEP = 1e-4  # of central differences
_KINDS = ("expected", "tilted")
_POWER = 0.4  # of the density, in expectation propagation
_PROBABILITIES = (0.1, 0.5, 0.95)  # of quantiles
_PARTS = ("value", "slope", "curvature")
_DIGITS = 1e-9
_TOLERANCE = 1e-6
_NODES = np.linspace(-12.0, 12.0, 4001)  # in standard deviations
_WEIGHTS = np.exp(-0.5 * _NODES**2) / np.exp(-0.5 * _NODES**2).sum()
_SAMPLES, _ERRORS = 4000, 6.0  # of the response, and standard errors that its mean may be off
_MOST_SHIFT = 4.0  # by an observation, in standard deviations, where the sum has its mass
_MOST_PRECISION = 100.0  # of an observation, relative, where the sum has enough nodes
_MOST_BEND = 300.0  # of the log density anywhere, relative, if it is not concave


class _Table(NamedTuple):
    """Rows, each with an observation and the mean and variance of its latent value."""

    y: np.ndarray
    mean: np.ndarray
    variance: np.ndarray

    def where(self, rows):
        return _Table(*(column[rows] for column in self))

    def moved(self, step):
        return self._replace(mean=self.mean + step)

    def certain(self):
        return self._replace(variance=np.full(len(self.y), _NO_VARIANCE))

    def is_moderate(self):
        return (np.abs(self.mean) <= _MODERATE_MEAN) & (self.variance <= _MODERATE_VARIANCE)

    def moderate(self):
        return self.where(self.is_moderate())

    def place(self, row):
        return ", ".join(f"{name} = {c[row]:g}" for name, c in zip(self._fields, self))


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
    is_one, name = isinstance(likelihood, Likelihood), "skgp_sparse.likelihoods.Likelihood"
    require.that(is_one, f"{likelihood!r} must be an instance of {name}.")
    require.clones(likelihood)
    table = _make_table(likelihood, y, check_random_state(random_state))
    _check_signature(likelihood)
    for kind in _KINDS:
        _check_rows(likelihood, kind, table)
        _check_derivatives(likelihood, kind, table.moderate())
    if likelihood.is_log_concave:
        _check_derivatives(likelihood, "tilted", table.moderate(), power=_POWER)
    _check_limit(likelihood, table.moderate().certain())
    _check_order(likelihood, table)
    _check_values(likelihood, table.moderate())
    if isinstance(likelihood, Binary):
        _check_probability(likelihood, table._replace(y=np.ones_like(table.y)))
    central = table.where((np.abs(table.mean) <= 2.5) & (table.variance <= 1.0))
    _check_response(likelihood, central, check_random_state(random_state))
    _check_quantiles(likelihood, central, check_random_state(random_state))
    _check_parameters(likelihood, table.moderate())


def _check_signature(likelihood):
    """Check that the tilted methods take what expectation propagation passes, by position."""
    for name in ("tilted", "tilted_slopes"):
        sentence = (
            f"{likelihood!r}.{name} must take the arguments (y, mean, variance, power=1.0): "
            "expectation propagation passes the power of each row."
        )
        try:
            signature(getattr(likelihood, name)).bind(None, None, None, 1.0)
        except TypeError as error:
            raise AssertionError(sentence) from error


def _make_table(likelihood, y, rng):
    if y is None and not isinstance(likelihood, Binary):
        raise ValueError(f"check_likelihood needs y: observations in the domain of {likelihood!r}.")
    y = np.unique(column_or_1d([-1.0, 1.0] if y is None else y)).astype(float)
    means = _MEANS + rng.uniform(-0.1, 0.1, len(_MEANS)) * (np.abs(_MEANS) < 50.0)
    return _combined(rng.permutation(y)[:_MOST_OBSERVATIONS], means)


def _combined(y, means):
    columns = np.meshgrid(y, means, _VARIANCES, indexing="ij")
    return _Table(*(column.ravel() for column in columns))


def _ask(likelihood, kind, table, **power):
    """Return the value, slope and curvature of every row, after a check of their shapes."""
    name, given = f"{likelihood!r}.{kind}", [column.copy() for column in table]
    with require.no_error(f"{name} of {len(table.y)} rows"), np.errstate(all="ignore"):
        value, slope, curvature = getattr(likelihood, kind)(*given, **power)
    for column, before, kept in zip(table._fields, table, given):
        same = np.array_equal(before, kept)
        require.that(same, f"{name} overwrites {column}, which it must not change.")
    for part, values in zip(_PARTS, (value, slope, curvature)):
        require.shape(values, table.y.shape, f"{name}: {part} of {len(table.y)} rows")
        may_overflow = ~table.is_moderate() & np.isneginf(value) & (kind == "expected")
        good = np.isfinite(values) | (may_overflow & ~np.isnan(values))
        require.everywhere(good, values, f"{name}: {part}", "a finite number", table.place)
    return value, slope, curvature


def _check_rows(likelihood, kind, table):
    """Check that rows are independent, that the tails are finite, and that curvatures are >= 0."""
    name, whole = f"{likelihood!r}.{kind}", _ask(likelihood, kind, table)
    for rows in (np.arange(len(table.y))[::-3], np.arange(1)):
        some = table.where(rows)
        for part, values, actual in zip(_PARTS, whole, _ask(likelihood, kind, some)):
            what, expected = f"{name}: {part} of a row", values[rows]
            actual = np.where(actual == expected, expected, actual)
            finite = np.isfinite(expected) | np.isfinite(actual)
            near = some.where(finite)
            allowed = _DIGITS * (1 + np.abs(expected[finite]))
            source = "among other rows"
            require.close(actual[finite], expected[finite], allowed, what, source, near.place)
    _ask(likelihood, kind, _combined(np.unique(table.y), _FAR))
    if likelihood.is_log_concave:
        largest = np.max(np.abs(whole[2]), where=np.isfinite(whole[2]), initial=0.0)
        expected = "no negative number: p(y | f) must be log-concave in f"
        good = whole[2] >= -_DIGITS * largest
        require.everywhere(good, whole[2], f"{name}: curvature", expected, table.place)


def _check_derivatives(likelihood, kind, table, **power):
    up, down = (_ask(likelihood, kind, table.moved(step), **power) for step in (_STEP, -_STEP))
    value, slope, curvature = _ask(likelihood, kind, table, **power)
    for part, actual, difference, integral in (
        ("slope", slope, up[0] - down[0], value),
        ("curvature", curvature, down[1] - up[1], slope),
    ):
        expected = difference / (2 * _STEP)
        of_largest = _DIGITS if likelihood.is_log_concave else _TOLERANCE  # signs change
        rounding = 1e-8 * np.abs(integral) + of_largest * np.max(np.abs(expected))
        allowed = 10 * _TOLERANCE * np.abs(expected) + rounding
        what, source = f"{likelihood!r}.{kind}: {part}", "by central differences along the mean"
        what += "".join(f" for power = {number}" for number in power.values())
        require.close(actual, expected, allowed, what, source, table.place)


def _check_limit(likelihood, table):
    actual, expected = (_ask(likelihood, kind, table)[0] for kind in ("tilted", "expected"))
    what, allowed = f"{likelihood!r}.tilted: value", _TOLERANCE * (1 + np.abs(expected))
    source = "that of expected in the limit of variance = 0"
    require.close(actual, expected, allowed, what, source, table.place)


def _check_order(likelihood, table):
    """Check Jensen's inequality: a mean of logarithms is at most the logarithm of the mean."""
    lower, upper = (_ask(likelihood, kind, table)[0] for kind in _KINDS)
    good, what = lower <= upper + _DIGITS * (1 + np.abs(lower)), f"{likelihood!r}.expected: value"

    def most(row):
        return f"at most {upper[row]:.10g}, the value of tilted (Jensen's inequality)"

    require.everywhere(good, lower, what, most, table.place)


def _check_values(likelihood, table):
    """Compare values with sums over 4001 nodes, where these cover the mass of the integrand."""
    logs, table = _log_densities(likelihood, table)
    if len(table.y) == 0:
        return
    sums = {"expected": logs @ _WEIGHTS, "tilted": logsumexp(logs, axis=1, b=_WEIGHTS)}
    for kind, expected in sums.items():
        _compare_values(likelihood, kind, table, expected)
    if likelihood.is_log_concave:
        expected = logsumexp(_POWER * logs, axis=1, b=_WEIGHTS)
        _compare_values(likelihood, "tilted", table, expected, power=_POWER)


def _compare_values(likelihood, kind, table, expected, **power):
    actual, what = _ask(likelihood, kind, table, **power)[0], f"{likelihood!r}.{kind}: value"
    what += "".join(f" for power = {number}" for number in power.values())
    allowed, source = _TOLERANCE * (1 + np.abs(expected)), "by a sum over 4001 nodes"
    require.close(actual, expected, allowed, what, source, table.place)


def _log_densities(likelihood, table):
    """Logarithms at the nodes of rows for which these are enough, and these rows."""
    _, slope, curvature = _ask(likelihood, "expected", table.certain())
    within_reach = np.sqrt(table.variance) * np.abs(slope) <= _MOST_SHIFT
    table = table.where(within_reach & (table.variance * curvature <= _MOST_PRECISION))
    f = table.mean[:, None] + np.sqrt(table.variance)[:, None] * _NODES
    if len(table.y) == 0:
        return f, table
    dense = _Table(np.repeat(table.y, len(_NODES)), f.ravel(), f.ravel()).certain()
    logs, _, curvature = (part.reshape(f.shape) for part in _ask(likelihood, "expected", dense))
    if likelihood.is_log_concave:
        return logs, table
    smooth = table.variance * np.max(np.abs(curvature), axis=1) <= _MOST_BEND
    return logs[smooth], table.where(smooth)


def _check_response(likelihood, table, rng):
    """Compare the response with samples, and check that the samples are in the domain."""
    name, (_, mean, variance) = f"{likelihood!r}", table
    with require.no_error(f"{name}.response and sample of {len(mean)} rows"):
        expected, spread = likelihood.response(mean, variance)
        f = mean + np.sqrt(variance) * rng.normal(size=(_SAMPLES, len(mean)))
        drawn = likelihood.sample(f, rng)
        likelihood.check(drawn.ravel(), "check_likelihood")
    require.shape(drawn, f.shape, f"{name}.sample of {f.shape}")
    for values, what in ((expected, "mean"), (spread, "variance")):
        require.shape(values, mean.shape, f"{name}.response: {what} of {len(mean)} rows")
    for values, what, samples in (
        (expected, "mean", drawn),
        (spread, "variance", (drawn - drawn.mean(axis=0)) ** 2),
    ):
        allowed = _ERRORS * samples.std(axis=0) / np.sqrt(_SAMPLES) + _DIGITS
        allowed += _ERRORS * np.max(np.abs(samples - samples.mean(axis=0)), axis=0) / _SAMPLES
        if what == "variance":
            allowed += _ERRORS**2 * spread / _SAMPLES
        name, source = f"{likelihood!r}.response: {what}", f"of {_SAMPLES} samples"
        known = np.isfinite(values)  # an infinite variance has no estimate
        actual, expected, rows = values[known], samples.mean(axis=0)[known], table.where(known)
        require.close(actual, expected, allowed[known], name, source, rows.place)


def _check_quantiles(likelihood, table, rng):
    """Compare quantiles with the shares of samples that are smaller, or not larger."""
    name, (_, mean, variance) = f"{likelihood!r}.quantile", table
    f = mean + np.sqrt(variance) * rng.normal(size=(_SAMPLES, len(mean)))
    drawn = likelihood.sample(f, rng)
    for q in _PROBABILITIES:
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
        require.everywhere(good, actual, name, expected, table.place)


def _check_parameters(likelihood, table):
    """Compare gradients with respect to the learned parameters with central differences."""
    theta = likelihood.theta
    require.shape(likelihood.limits, (len(theta), 2), f"{likelihood!r}.limits")
    for kind in _KINDS:
        what = f"{likelihood!r}.{kind}_slopes"
        actual = getattr(likelihood, f"{kind}_slopes")(*table)
        require.shape(actual, (len(theta), len(table.y)), what)
        for step, slopes in zip(_STEP * np.eye(len(theta)), actual):
            up, down = (likelihood.with_theta(theta + sign * step) for sign in (1, -1))
            difference = _ask(up, kind, table)[0] - _ask(down, kind, table)[0]
            expected = difference / (2 * _STEP)
            allowed = 10 * _TOLERANCE * (1 + np.abs(expected))
            require.close(slopes, expected, allowed, what, "by central differences", table.place)


def _check_probability(likelihood, table):
    name, (_, mean, variance) = f"{likelihood!r}.probability", table
    with require.no_error(f"{name} of {len(mean)} rows"):
        p, opposite = (likelihood.probability(sign * mean, variance) for sign in (1, -1))
    require.shape(p, mean.shape, f"{name} of {len(mean)} rows")
    require.everywhere((p >= 0) & (p <= 1), p, name, "a number in [0, 1]", table.place)
    source = "1 minus that at the opposite mean"
    require.close(p, 1 - opposite, _DIGITS, name, source, table.place)
    actual, source = np.exp(_ask(likelihood, "tilted", table)[0]), "exp of tilted for y = 1"
    require.close(p, actual, _DIGITS, name, source, table.place)
