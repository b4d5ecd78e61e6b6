"""Checks of bounds."""

from collections.abc import Callable
from functools import partial
from numbers import Real

import numpy as np
from scipy.linalg import eigh, solve
from scipy.stats import multivariate_normal
from sklearn.gaussian_process.kernels import RBF, Kernel

from skgp_sparse.bounds import Bound
from skgp_sparse.ground.validation import Array, Scalars

from ._comparisons import SHIFT, Curves, everywhere, instance, that

_RATIOS = np.concatenate([[0.0, 1e-300, 1e-12], np.geomspace(1e-3, 1e12, 46)])[None]


def check_bound(bound: Bound) -> None:
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
    instance(bound, Bound)
    good = isinstance(bound.noise_share, Real) and 0 <= bound.noise_share <= 1
    that(good, f"{bound!r}.noise_share is {bound.noise_share!r}, expected a number in [0, 1].")

    def penalty(x: Array) -> tuple[Array, Scalars]:
        phi, slope = bound.penalty(x)
        return phi, slope if np.ndim(slope) else np.full(x.shape, slope)

    def reduce(n: float, means: Array) -> tuple[Array, Array]:
        value, slope = np.reshape([[*bound.reduce(float(x), n)] for x in n * means], (-1, 2)).T
        return value / n, slope

    low, high = _RATIOS * (1.0 - SHIFT), np.maximum(_RATIOS * (1.0 + SHIFT), 1e-9)  # one side
    most = lambda change, above: 1e-5 * (np.abs(change) + np.abs(above) / high[0])
    curves: dict[str, Callable] = {f"{bound!r}.penalty": penalty}
    curves |= {f"{bound!r}.reduce with n = {n}": partial(reduce, n) for n in (1.0, 20.0, 1e6)}
    for what, of in curves.items():
        curve = Curves(what, of, ("x" if of is penalty else "total/n",), ("phi", "slope"))
        phi, place = curve(_RATIOS)[0], curve.place(_RATIOS)
        everywhere(phi[:1] == 0, phi, what, "0, as nothing is unexplained", place)
        is_right, expected = phi >= 0, "no negative number, as is_lower_bound is True"
        everywhere(is_right | (not bound.is_lower_bound), phi, what, expected, place)
        curve.check_slopes(_RATIOS, low, high, most)
        curve.check_alone(_RATIOS, 0, 1e-10, 0.0)
    # the first length scale makes rows independent
    for length_scale in (0.01, 0.3, 1.0, 4.0) if bound.is_lower_bound else ():
        _check_claim(bound, RBF(length_scale))


def _check_claim(bound: Bound, kernel: Kernel) -> None:
    """Compare the objective with the exact value at targets where it is relatively large."""
    # the difference of log densities is quadratic in y, and largest at 0, or grows without limit
    # along a direction in which the model has more variance than the exact process
    rng = np.random.RandomState(0)
    x, z = rng.uniform(0.0, 4.0, (12, 1)), rng.uniform(0.0, 4.0, (3, 1))
    K, cross, spread = kernel(x), kernel(x, z), rng.uniform(0.5, 2.0, 12)
    Q = cross @ solve(kernel(z) + 1e-10 * np.eye(3), cross.T, assume_a="pos")
    for noise in np.geomspace(1e-6, 1e4, 11)[:, None] * spread:  # the kernel has variance 1
        x = np.maximum(np.diag(K - Q), 0.0) / noise
        model, exact = Q + np.diag(noise * (1.0 + bound.noise_share * x)), K + np.diag(noise)
        subtracted = bound.reduce(bound.penalty(x)[0].sum(), float(len(x)))[0]
        for y in (np.zeros(len(x)), 1e3 * (exact @ eigh(model, exact)[1][:, -1])):
            actual, most = (multivariate_normal(cov=one).logpdf(y) for one in (model, exact))
            found = f"its objective is {actual - subtracted:.10g} for {kernel}"
            found += f", expected at most the exact value, {most:.10g}"
            sentence = f"{bound!r} has is_lower_bound = True, but {found}."
            good = actual - subtracted <= most + 1e-8 * max(1.0, abs(most))  # by rounding
            that(good, f"{sentence} Set is_lower_bound = False.")
