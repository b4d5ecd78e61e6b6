"""The check of likelihoods, by central differences, limits and numerical integrals."""

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
_PARTS = ("value", "slope", "curvature")
_DIGITS = 1e-9
_TOLERANCE = 1e-6
_NODES = np.linspace(-12.0, 12.0, 4001)  # in standard deviations
_WEIGHTS = np.exp(-0.5 * _NODES**2) / np.exp(-0.5 * _NODES**2).sum()
_SAMPLES, _ERRORS = 4000, 6.0  # of the response, and standard errors that its mean may be off
_MOST_SHIFT = 4.0  # by an observation, in standard deviations, where the sum has its mass
_MOST_PRECISION = 100.0  # of an observation, relative, where the sum has enough nodes


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

    def moderate(self):
        near = np.abs(self.mean) <= _MODERATE_MEAN
        return self.where(near & (self.variance <= _MODERATE_VARIANCE))

    def place(self, row):
        return ", ".join(f"{name} = {c[row]:g}" for name, c in zip(self._fields, self))


def check_likelihood(likelihood, y=None, random_state=0):
    """Check that a likelihood meets the requirements of `skgp_sparse.likelihoods.Likelihood`.

    `expected` and `tilted` are evaluated for means between -50 and 50, for means of ±1000, and for
    variances from 1e-10 to 1e4. Slopes and curvatures are compared with central differences. Values
    are compared with numerical integrals of the log density, which is the value of `expected` for a
    variance of zero. The likelihood must be log-concave. `response` is compared with samples of
    `sample`. The gradients with respect to learned parameters are compared with central
    differences. The probabilities of a `Binary` likelihood must sum to 1 and agree with `tilted`.

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
    >>> from skgp_sparse.likelihoods import Gaussian, Logit
    >>> from skgp_sparse.testing import check_likelihood
    >>> check_likelihood(Logit())
    >>> check_likelihood(Gaussian(0.5), y=[-1.0, 0.3, 2.0])
    """
    is_one, name = isinstance(likelihood, Likelihood), "skgp_sparse.likelihoods.Likelihood"
    require.that(is_one, f"{likelihood!r} must be an instance of {name}.")
    require.clones(likelihood)
    table = _make_table(likelihood, y, check_random_state(random_state))
    for kind in _KINDS:
        _check_rows(likelihood, kind, table)
        _check_derivatives(likelihood, kind, table.moderate())
    _check_limit(likelihood, table.moderate().certain())
    _check_order(likelihood, table)
    _check_values(likelihood, table.moderate())
    if isinstance(likelihood, Binary):
        _check_probability(likelihood, table._replace(y=np.ones_like(table.y)))
    central = table.where((np.abs(table.mean) <= 2.5) & (table.variance <= 1.0))
    _check_response(likelihood, central, check_random_state(random_state))
    _check_parameters(likelihood, table.moderate())


def _make_table(likelihood, y, rng):
    if y is None and not isinstance(likelihood, Binary):
        raise ValueError(f"check_likelihood needs y: observations in the domain of {likelihood!r}.")
    y = np.unique(column_or_1d([-1.0, 1.0] if y is None else y)).astype(float)
    means = _MEANS + rng.uniform(-0.1, 0.1, len(_MEANS)) * (np.abs(_MEANS) < 50.0)
    return _combined(rng.permutation(y)[:_MOST_OBSERVATIONS], means)


def _combined(y, means):
    columns = np.meshgrid(y, means, _VARIANCES, indexing="ij")
    return _Table(*(column.ravel() for column in columns))


def _ask(likelihood, kind, table):
    """Return the value, slope and curvature of every row, after a check of their shapes."""
    name, given = f"{likelihood!r}.{kind}", [column.copy() for column in table]
    with require.no_error(f"{name} of {len(table.y)} rows"):
        value, slope, curvature = getattr(likelihood, kind)(*given)
    for column, before, kept in zip(table._fields, table, given):
        same = np.array_equal(before, kept)
        require.that(same, f"{name} overwrites {column}, which it must not change.")
    for part, values in zip(_PARTS, (value, slope, curvature)):
        require.shape(values, table.y.shape, f"{name}: {part} of {len(table.y)} rows")
        require.finite(values, f"{name}: {part}", table.place)
    return value, slope, curvature


def _check_rows(likelihood, kind, table):
    """Check that rows are independent, that the tails are finite, and that curvatures are >= 0."""
    name, whole = f"{likelihood!r}.{kind}", _ask(likelihood, kind, table)
    for rows in (np.arange(len(table.y))[::-3], np.arange(1)):
        some = table.where(rows)
        for part, values, found in zip(_PARTS, whole, _ask(likelihood, kind, some)):
            what, expected = f"{name}: {part} of a row", values[rows]
            allowed = _DIGITS * (1 + np.abs(expected))
            require.close(found, expected, allowed, what, "among other rows", some.place)
    _ask(likelihood, kind, _combined(np.unique(table.y), _FAR))
    good = whole[2] >= -_DIGITS * np.max(np.abs(whole[2]))
    expected = "no negative number: p(y | f) must be log-concave in f"
    require.everywhere(good, whole[2], f"{name}: curvature", expected, table.place)


def _check_derivatives(likelihood, kind, table):
    up, down = (_ask(likelihood, kind, table.moved(step)) for step in (_STEP, -_STEP))
    value, slope, curvature = _ask(likelihood, kind, table)
    for part, found, difference, integral in (
        ("slope", slope, up[0] - down[0], value),
        ("curvature", curvature, down[1] - up[1], slope),
    ):
        expected = difference / (2 * _STEP)
        rounding = 1e-8 * np.abs(integral) + _DIGITS * np.max(np.abs(expected))
        allowed = 10 * _TOLERANCE * np.abs(expected) + rounding
        what, source = f"{likelihood!r}.{kind}: {part}", "by central differences along the mean"
        require.close(found, expected, allowed, what, source, table.place)


def _check_limit(likelihood, table):
    found, expected = (_ask(likelihood, kind, table)[0] for kind in ("tilted", "expected"))
    what, allowed = f"{likelihood!r}.tilted: value", _TOLERANCE * (1 + np.abs(expected))
    source = "that of expected in the limit of variance = 0"
    require.close(found, expected, allowed, what, source, table.place)


def _check_order(likelihood, table):
    """Check Jensen's inequality: a mean of logarithms is at most the logarithm of the mean."""
    lower, upper = (_ask(likelihood, kind, table)[0] for kind in _KINDS)
    good, what = lower <= upper + _DIGITS * (1 + np.abs(lower)), f"{likelihood!r}.expected: value"

    def most(row):
        return f"at most {upper[row]:.10g}, the value of tilted (Jensen's inequality)"

    require.everywhere(good, lower, what, most, table.place)


def _check_values(likelihood, table):
    """Compare values with sums over 4001 nodes, where these cover the mass of the integrand."""
    _, slope, curvature = _ask(likelihood, "expected", table.certain())
    within_reach = np.sqrt(table.variance) * np.abs(slope) <= _MOST_SHIFT
    table = table.where(within_reach & (table.variance * curvature <= _MOST_PRECISION))
    if len(table.y) == 0:
        return
    f = table.mean[:, None] + np.sqrt(table.variance)[:, None] * _NODES
    dense = _Table(np.repeat(table.y, len(_NODES)), f.ravel(), f.ravel()).certain()
    logs = _ask(likelihood, "expected", dense)[0].reshape(f.shape)
    for kind, expected in zip(_KINDS, (logs @ _WEIGHTS, logsumexp(logs, axis=1, b=_WEIGHTS))):
        found, what = _ask(likelihood, kind, table)[0], f"{likelihood!r}.{kind}: value"
        allowed, source = _TOLERANCE * (1 + np.abs(expected)), "by a sum over 4001 nodes"
        require.close(found, expected, allowed, what, source, table.place)


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
        allowed += _ERRORS**2 * spread / _SAMPLES * (what == "variance")
        name, source = f"{likelihood!r}.response: {what}", f"of {_SAMPLES} samples"
        require.close(values, samples.mean(axis=0), allowed, name, source, table.place)


def _check_parameters(likelihood, table):
    """Compare gradients with respect to the learned parameters with central differences."""
    theta = likelihood.theta
    require.shape(likelihood.limits, (len(theta), 2), f"{likelihood!r}.limits")
    for kind in _KINDS:
        what = f"{likelihood!r}.{kind}_slopes"
        found = getattr(likelihood, f"{kind}_slopes")(*table)
        require.shape(found, (len(theta), len(table.y)), what)
        for step, slopes in zip(_STEP * np.eye(len(theta)), found):
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
    found, source = np.exp(_ask(likelihood, "tilted", table)[0]), "exp of tilted for y = 1"
    require.close(p, found, _DIGITS, name, source, table.place)
