"""The check of bounds, which compares lower bounds with the exact value on small problems."""

from numbers import Real

import numpy as np
from scipy.linalg import eigh, solve
from scipy.stats import multivariate_normal
from sklearn.gaussian_process.kernels import RBF

from skgp_sparse.bounds import Bound
from skgp_sparse.testing import _require as require

_RATIOS = np.concatenate([[0.0, 1e-300, 1e-12], np.geomspace(1e-3, 1e12, 46)])
_WEIGHTS = (1.0, 20.0, 1e6)
_STEP, _FIRST_STEP = 1e-4, 1e-9  # of differences: relative, and at 0, where there is one side only
_TOLERANCE, _DIGITS = 1e-5, 1e-10  # of slopes, and of values
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
    share, name, x = bound.noise_share, f"{bound!r}.penalty", _RATIOS
    good = isinstance(share, Real) and 0 <= share <= 1
    require.that(good, f"{bound!r}.noise_share is {share!r}, expected a number in [0, 1].")

    def penalty(x):
        phi, slope = require.call(f"{name} of {len(x)} rows", bound.penalty, x)
        return phi, slope if np.ndim(slope) else np.full(x.shape, slope)

    whole = _check_curve(penalty, name, "x", bound.is_lower_bound)
    for rows in (np.arange(len(x))[::-2], np.arange(0), np.array([7])):
        for part, alone, values in zip(("phi", "slope"), penalty(x[rows]), whole):
            what, allowed = f"{name}: {part} of a row alone", _DIGITS * np.abs(values[rows])
            require.close(alone, values[rows], allowed, what, {"x": x[rows]})
    for n in _WEIGHTS:
        what = f"{bound!r}.reduce with n = {n:g}"

        def reduce(means, n=n, what=what):
            pairs = require.call(what, lambda: zip(*[bound.reduce(float(x), n) for x in n * means]))
            value, slope = map(np.array, pairs)
            return value / n, slope

        slope = _check_curve(reduce, what, "total/n", bound.is_lower_bound)[1]
        require.everywhere(slope >= 0, slope, what, "a value that rises with the total")
    for length_scale in _LENGTH_SCALES if bound.is_lower_bound else ():
        _check_claim(bound, length_scale)


def _check_curve(curve, name, variable, is_lower_bound):
    """Check values and slopes that a function returns, which start at 0; return them."""
    at, up, down = _RATIOS, np.maximum(_RATIOS * (1.0 + _STEP), _FIRST_STEP), _RATIOS * (1 - _STEP)
    found, place = curve(at), {variable: at}
    for part, values in zip(("phi", "slope"), found):
        require.finite(values, at.shape, f"{name}: {part} of {len(at)} rows", place)
    (phi, slope), above = found, curve(up)[0]
    require.everywhere(phi[:1] == 0, phi, name, "0, as nothing is unexplained", place)
    if is_lower_bound:
        expected = "no negative number, as is_lower_bound is True"
        require.everywhere(phi >= 0, phi, name, expected, place)
    expected = (above - curve(down)[0]) / (up - down)
    allowed = _TOLERANCE * (np.abs(expected) + np.abs(above) / up)
    require.close(slope, expected, allowed, f"{name}: slope", place)
    return found


def _check_claim(bound, length_scale):
    """Compare the objective with the exact value at targets where it is relatively large.

    The difference of the log densities is a quadratic function of y. It is largest at y = 0, unless
    the model has more variance than the exact process in some direction. In this case it grows
    without limit along that direction.
    """
    rng, kernel = np.random.RandomState(0), RBF(length_scale)
    x, z = rng.uniform(0.0, 4.0, (12, 1)), rng.uniform(0.0, 4.0, (3, 1))
    K, cross, spread = kernel(x), kernel(x, z), rng.uniform(0.5, 2.0, 12)
    Q = cross @ solve(kernel(z) + 1e-10 * np.eye(3), cross.T, assume_a="pos")
    for level in _NOISES:
        noise = level * spread
        x = np.maximum(np.diag(K - Q), 0.0) / noise
        model, exact = Q + np.diag(noise * (1.0 + bound.noise_share * x)), K + np.diag(noise)
        subtracted = bound.reduce(bound.penalty(x)[0].sum(), float(len(x)))[0]
        for y in (np.zeros(len(x)), _FAR_OUT * (exact @ eigh(model, exact)[1][:, -1])):
            actual, most = (multivariate_normal(cov=one).logpdf(y) for one in (model, exact))
            actual -= subtracted
            require.that(
                actual <= most + _EXCESS * max(1.0, abs(most)),
                f"{bound!r} has is_lower_bound = True, but its objective is {actual:.10g} for "
                f"{kernel} and noise {level:g}, expected at most the exact value, {most:.10g}. "
                "Set is_lower_bound = False.",
            )
