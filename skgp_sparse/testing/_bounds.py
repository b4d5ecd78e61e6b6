"""The check of bounds, which compares lower bounds with the exact value on small problems."""

from numbers import Real

import numpy as np
from scipy.linalg import eigh, solve
from scipy.stats import Covariance, multivariate_normal
from sklearn.gaussian_process.kernels import RBF

from skgp_sparse.bounds import Bound
from skgp_sparse.testing import _require as require

_LARGE = np.geomspace(1e-3, 1e12, 46)
_RATIOS = np.concatenate([[0.0, 1e-300, 1e-12], _LARGE])
_AT = np.append(0.0, _LARGE)  # where slopes are compared
_WEIGHTS = (1.0, 20.0, 1e6)
_STEP = 1e-4  # of central differences, relative
_FIRST_STEP = 1e-9  # of the difference at 0, where there is one side only
_TOLERANCE = 1e-5  # of slopes
_DIGITS = 1e-10
_LENGTH_SCALES = (0.01, 0.3, 1.0, 4.0)  # the first one makes rows independent
_NOISES = np.geomspace(1e-6, 1e4, 11)  # of kernels with variance 1
_FAR_OUT = 1e3  # standard deviations
_EXCESS = 1e-8  # of a bound over the exact value, by rounding


def check_bound(bound):
    """Check that a bound meets the requirements of `skgp_sparse.bounds.Bound`.

    `penalty` is evaluated for ratios from 0 to 1e12. The check examines the shape, the sign and the
    slope of the penalties, and whether the penalty of a row depends on this row only. `reduce` is
    examined in the same way. If ``is_lower_bound`` is True, which is the default, the objective is
    compared with the exact log marginal likelihood of small problems with various noise levels and
    length scales. The targets of these problems maximise the difference between the objective and
    the exact value.

    Parameters
    ----------
    bound : skgp_sparse.bounds.Bound
        The instance to check.

    Raises
    ------
    AssertionError
        If a requirement is not met. The message says which one.

    Examples
    --------
    >>> from skgp_sparse.bounds import Bound
    >>> from skgp_sparse.testing import check_bound
    >>> class Twice(Bound):
    ...     def penalty(self, x):
    ...         return x, 1.0
    >>> check_bound(Twice())
    """
    require.instance(bound, Bound)
    share = bound.noise_share
    good = isinstance(share, Real) and 0 <= share <= 1
    require.that(good, f"{bound!r}.noise_share is {share!r}, expected a number in [0, 1].")
    _check_penalty(bound)
    for n in _WEIGHTS:
        _check_reduction(bound, n)
    for length_scale in _LENGTH_SCALES if bound.is_lower_bound else ():
        _check_claim(bound, length_scale)


def _check_penalty(bound):
    name, x, at = f"{bound!r}.penalty", _RATIOS, _at("x", _RATIOS)
    phi, slope = _penalty(bound, x)
    require.everywhere(phi[:1] == 0, phi, name, "0, as nothing is unexplained for x = 0", at)
    if bound.is_lower_bound:
        expected = "no negative number, as is_lower_bound is True"
        require.everywhere(phi >= 0, phi, name, expected, at)
    _check_slope(lambda at: _penalty(bound, at), name, "x")
    some = np.random.RandomState(0).permutation(len(x))[: len(x) // 2]
    for rows in (some, some[:0], [-1]):
        for part, alone, whole in zip(("phi", "slope"), _penalty(bound, x[rows]), (phi, slope)):
            what, allowed = f"{name}: {part} of a row", _DIGITS * np.abs(whole[rows])
            require.close(alone, whole[rows], allowed, what, "among other rows", _at("x", x[rows]))


def _penalty(bound, x):
    """Return the penalty and its slope at every x, after a check of their shapes."""
    name = f"{bound!r}.penalty"
    with require.no_error(f"{name} (x is read-only) of {len(x)} rows"):
        phi, slope = bound.penalty(require.read_only(x))
    slope = slope if np.ndim(slope) else np.full(x.shape, slope)
    for part, values in (("phi", phi), ("slope", slope)):
        require.shape(values, x.shape, f"{name}: {part} of {len(x)} rows")
        require.finite(values, f"{name}: {part}", _at("x", x))
    return phi, slope


def _at(name, places):
    return lambda index: f"{name} = {places[index]:g}"


def _check_slope(function, name, variable):
    """Compare the slope that a function returns with differences of the value it returns."""
    up, down = np.maximum(_AT * (1.0 + _STEP), _FIRST_STEP), _AT * (1.0 - _STEP)
    value = function(up)[0]
    expected = (value - function(down)[0]) / (up - down)
    allowed = _TOLERANCE * (np.abs(expected) + np.abs(value) / up)
    what, source = f"{name}: slope", "by differences of the value"
    require.close(function(_AT)[1], expected, allowed, what, source, _at(variable, _AT))


def _check_reduction(bound, n):
    """Check `reduce` at totals ``n x``, so that the mean penalties are those of `_AT`."""
    name = f"{bound!r}.reduce with n = {n:g}"

    def of_means(ratios):
        with require.no_error(name):
            pairs = [bound.reduce(float(total), n) for total in n * ratios]
            value, slope = np.array(pairs, dtype=float).T
        for part, values in (("value", value), ("slope", slope)):
            require.finite(values, f"{name}: {part}", _at("total/n", ratios))
        return value / n, slope

    value, at = of_means(_AT)[0], _at("total/n", _AT)
    require.everywhere(value[:1] == 0, value, f"{name}: value", "0", at)
    rises, expected = np.diff(value, prepend=0.0) >= 0, "no less than at a smaller total"
    require.everywhere(rises, n * value, f"{name}: value", expected, at)
    _check_slope(of_means, name, "total/n")


def _check_claim(bound, length_scale):
    """Compare the objective with the exact value at targets where it is relatively large.

    The difference of the log densities is a quadratic function of y. It is largest at y = 0, unless
    the model has more variance than the exact process in some direction. In this case it grows
    without limit along that direction.
    """
    K, Q, spread = _problem(length_scale)
    for level in _NOISES:
        noise = level * spread
        x = np.maximum(np.diag(K - Q), 0.0) / noise
        model, exact = Q + np.diag(noise * (1.0 + bound.noise_share * x)), K + np.diag(noise)
        subtracted = bound.reduce(_penalty(bound, x)[0].sum(), float(len(x)))[0]
        _, directions = eigh(model, exact)
        for y in (np.zeros(len(x)), _FAR_OUT * (exact @ directions[:, -1])):
            actual, most = _log_density(y, model) - subtracted, _log_density(y, exact)
            require.that(
                actual <= most + _EXCESS * max(1.0, abs(most)),
                f"{bound!r} has is_lower_bound = True, but its objective is {actual:.10g} for "
                f"{RBF(length_scale)} and noise {level:g}, expected at most the exact value, "
                f"{most:.10g}. Set is_lower_bound = False.",
            )


def _problem(length_scale):
    """Return a kernel matrix of 12 rows, its Nyström approximation, and a noise scale per row."""
    rng, kernel = np.random.RandomState(0), RBF(length_scale)
    x, z = rng.uniform(0.0, 4.0, (12, 1)), rng.uniform(0.0, 4.0, (3, 1))
    cross = kernel(x, z)
    Q = cross @ solve(kernel(z) + 1e-10 * np.eye(3), cross.T, assume_a="pos")
    return kernel(x), Q, rng.uniform(0.5, 2.0, 12)


def _log_density(y, covariance):
    factor = np.linalg.cholesky(covariance)
    return multivariate_normal.logpdf(y, cov=Covariance.from_cholesky(factor))
