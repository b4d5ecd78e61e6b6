"""The check of bounds, which compares lower bounds with the exact value on small problems."""

from numbers import Real

import numpy as np
from scipy.linalg import cholesky, eigh, solve, solve_triangular

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
    is_one = isinstance(bound, Bound)
    require.that(is_one, f"{bound!r} must be an instance of skgp_sparse.bounds.Bound.")
    require.clones(bound)
    share = bound.noise_share
    good = isinstance(share, Real) and 0 <= share <= 1
    require.that(good, f"{bound!r}.noise_share is {share!r}, expected a number in [0, 1].")
    _check_penalty(bound)
    for n in _WEIGHTS:
        _check_reduction(bound, n)
    if bound.is_lower_bound:
        for length_scale in _LENGTH_SCALES:
            _check_claim(bound, length_scale)


def _check_penalty(bound):
    name, x = f"{bound!r}.penalty", _RATIOS
    phi, slope = _penalty(bound, x)
    expected = "0, as nothing is unexplained for x = 0"
    require.everywhere(phi[:1] == 0, phi, name, expected, _at("x", x))
    if bound.is_lower_bound:
        expected = "no negative number, as is_lower_bound is True"
        require.everywhere(phi >= 0, phi, name, expected, _at("x", x))
    _check_slope(lambda at: _penalty(bound, at), name, "x")
    some = np.random.RandomState(0).permutation(len(x))[: len(x) // 2]
    for part, whole, alone in zip(("phi", "slope"), (phi, slope), _penalty(bound, x[some])):
        what, allowed = f"{name}: {part} of a row", _DIGITS * np.abs(whole[some])
        require.close(alone, whole[some], allowed, what, "among other rows", _at("x", x[some]))
    for few in (x[:0], x[-1:]):
        _penalty(bound, few)


def _penalty(bound, x):
    """Return the penalty and its slope at every x, after a check of their shapes."""
    given, name = x.copy(), f"{bound!r}.penalty"
    with require.no_error(f"{name} of {len(x)} rows"):
        phi, slope = bound.penalty(given)
    require.that(np.array_equal(given, x), f"{name} overwrites x, which it must not change.")
    require.shape(phi, x.shape, f"{name}: phi of {len(x)} rows")
    if np.ndim(slope):
        require.shape(slope, x.shape, f"{name}: slope of {len(x)} rows")
    slope = np.broadcast_to(slope, x.shape)
    require.finite(phi, f"{name}: phi", _at("x", x))
    require.finite(slope, f"{name}: slope", _at("x", x))
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
        require.finite(value, f"{name}: value", _at("total/n", ratios))
        require.finite(slope, f"{name}: slope", _at("total/n", ratios))
        return value / n, slope

    value, at = of_means(_AT)[0], _at("total/n", _AT)
    require.everywhere(value[:1] == 0, value, f"{name}: value", "0", at)
    rises, expected = np.diff(value, prepend=0.0) >= 0, "no less than at a smaller total"
    require.everywhere(rises, n * value, f"{name}: value", expected, at)
    _check_slope(of_means, name, "total/n")


def _check_claim(bound, length_scale):
    K, Q, spread = _problem(length_scale)
    for level in _NOISES:
        noise = level * spread
        x = np.maximum(np.diag(K - Q), 0.0) / noise
        model, exact = Q + np.diag(noise * (1.0 + bound.noise_share * x)), K + np.diag(noise)
        subtracted = bound.reduce(_penalty(bound, x)[0].sum(), float(len(x)))[0]
        for y in _worst_targets(model, exact):
            actual, most = _log_density(y, model) - subtracted, _log_density(y, exact)
            require.that(
                actual <= most + _EXCESS * max(1.0, abs(most)),
                f"{bound!r} has is_lower_bound = True, but its objective is {actual:.10g} for a "
                f"kernel of variance 1, length scale {length_scale} and noise {level:g}, expected "
                f"at most {most:.10g}, the exact log marginal likelihood. Set is_lower_bound = "
                "False if the objective is not a lower bound.",
            )


def _problem(length_scale):
    """Return a kernel matrix of 12 rows, its Nyström approximation, and a noise scale per row."""
    rng = np.random.RandomState(0)
    x, z = rng.uniform(0.0, 4.0, 12), rng.uniform(0.0, 4.0, 3)

    def kernel(a, b):
        return np.exp(-0.5 * ((a[:, None] - b) / length_scale) ** 2)

    cross = kernel(x, z)
    Q = cross @ solve(kernel(z, z) + 1e-10 * np.eye(3), cross.T, assume_a="pos")
    return kernel(x, x), Q, rng.uniform(0.5, 2.0, 12)


def _worst_targets(model, exact):
    """Return targets at which ``log N(y; 0, model) - log N(y; 0, exact)`` is large.

    The difference is a quadratic function of y. It is largest at y = 0, unless the model has more
    variance than the exact process in some direction. In this case it grows without limit along
    that direction.
    """
    _, directions = eigh(model, exact)
    return np.zeros(len(exact)), _FAR_OUT * (exact @ directions[:, -1])


def _log_density(y, covariance):
    factor = cholesky(covariance, lower=True)
    whitened = solve_triangular(factor, y, lower=True)
    constant = 0.5 * len(y) * np.log(2.0 * np.pi) + np.log(np.diag(factor)).sum()
    return -0.5 * whitened @ whitened - constant
