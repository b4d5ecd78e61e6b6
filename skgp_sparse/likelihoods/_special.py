"""Functions that several likelihoods share.

- `stirling_rest`, `digamma_rest`, `trigamma` and `gamma_peak` are those of gamma functions.
- `mixture_cdf`, `tail_of_density` and `solve_quantile` serve distribution functions and quantiles
  of observations whose latent values are uncertain.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import digamma, gammaln, ndtri

from skgp_sparse.ground.integrals import expectation
from skgp_sparse.ground.linalg import LOG_2PI
from skgp_sparse.ground.validation import Array, Ints, Scalars

_SERIES_FROM = 16.0
_OF_GAMMALN = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)  # z^-1, z^-3, ...
_OF_DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760)  # z^-2, z^-4, ...
_OF_TRIGAMMA = tuple(2.0 * (k + 1.0) * c for k, c in enumerate(_OF_DIGAMMA))
_SHIFT = 7  # of the argument, to where this series serves


def _series(coefficients: tuple[float, ...], z: Scalars) -> Any:
    """Polynomial in ``1 / z²``."""
    return np.polynomial.polynomial.polyval(1.0 / z**2, coefficients)


def stirling_rest(z: Scalars) -> Array:
    """``log Γ(z) - (z - 1/2) log z + z - log(2π)/2`` for positive numbers: about 1 / (12 z)."""
    near, far = gammaln(z) - (z - 0.5) * np.log(z) + z - 0.5 * LOG_2PI, np.maximum(z, _SERIES_FROM)
    return np.where(z < _SERIES_FROM, near, _series(_OF_GAMMALN, far) / far)


def digamma_rest(z: Scalars) -> Any:
    """``log z - ψ(z)`` for positive numbers: about 1 / (2 z)."""
    far = np.maximum(z, _SERIES_FROM)
    series = 0.5 / far + _series(_OF_DIGAMMA, far) / far**2
    return np.where(z < _SERIES_FROM, np.log(z) - digamma(z), series)


def trigamma(x: Array) -> Array:
    """``ψ'(x)`` for x >= 1, to 1e-13: by its series further out, much faster than SciPy's."""
    total, z = np.zeros_like(x), x + _SHIFT
    for k in range(_SHIFT):
        total += 1.0 / (x + k) ** 2
    return total + (1.0 + 0.5 / z + _series(_OF_TRIGAMMA, z) / z**2) / z


def gamma_peak(shape: Scalars) -> Any:
    """``k log k - k - log Γ(k)``: the constant of a gamma distribution with mean one."""
    return 0.5 * (np.log(shape) - LOG_2PI) - stirling_rest(shape)


# -- quantiles of observations whose latent values are uncertain -----------------------------------
# The distribution function of an observation is the expectation of that given the latent value. In
# units of its width, the latter is a step at 0 that serves for `expectation`. With a log link, the
# observation is at most ``y`` if ``f + level`` is at most ``log y`` plus a noise whose distribution
# is known: a count ``Y ~ Poisson(r)`` is at most ``y`` if ``r < G``, where ``G`` has a gamma
# distribution of shape ``y + 1``.

_OfRows = Callable[[Array, Ints], Array]  # (points, indices of their rows) -> values

_WIDEST = 0.56  # width that a step counts as at most: π/2, where expectation assumes 2.8
_MOST_ITERATIONS = 300
_QUANTILE_TOLERANCE = 1e-11  # to the quantile of the normal distribution
_FURTHEST = 37.0  # normal quantile that a probability of 0 or 1 counts as
_STEP = 0.1  # of the double exponential rule of Takahasi and Mori (1974): errors of about 1e-9
_NODES = np.exp(0.5 * np.pi * np.sinh(np.arange(-3.5, 3.0, _STEP)))  # exp-sinh: positive numbers
_WEIGHTS = _STEP * 0.5 * np.pi * np.cosh(np.arange(-3.5, 3.0, _STEP)) * _NODES


def mixture_cdf(
    cdf: Callable[..., Array], distance: Array, variance: Array, width: Scalars, *by_row: Array
) -> Array:
    """``E[cdf(v)]`` for ``v ~ N(distance, variance)``, of steps of this width at ``v = 0``."""
    unit = np.broadcast_to(np.minimum(width, _WIDEST), distance.shape)
    in_units = lambda x, unit, *by_row: (cdf(unit * x, *by_row),)
    return expectation(in_units, distance / unit, variance / unit**2, unit, *by_row)[0]


def tail_of_density(log_density: Callable, y: Array, unit: Array, *rows: Array) -> Array:
    """Probability (n,) above y where the unit (n,) is positive, below it where it is negative."""
    points = y[:, None] + unit[:, None] * _NODES
    density = np.exp(log_density(points.ravel(), *(np.repeat(x, len(_NODES)) for x in rows)))
    return np.abs(unit) * (density.reshape(points.shape) @ _WEIGHTS)


def solve_quantile(cdf: _OfRows, q: float, guess: Array, width: Array) -> Array:
    """Points (n,) where increasing functions of rows are `q`, from a guess and a width (n,)."""
    t, unknown = guess.astype(float), np.full(len(guess), np.nan)
    ends = np.full(len(t), -np.inf), np.full(len(t), np.inf)
    state = [np.arange(len(t)), t.copy(), 0.5 * width, unknown, unknown, *ends]
    with np.errstate(all="ignore"):
        for count in range(_MOST_ITERATIONS):
            rows, x, width, last, before, low, high = state
            if len(rows) == 0:
                break
            t[rows] = x
            # in units in which a normal distribution function is a straight line
            p = ndtri(np.clip(cdf(x, rows), 0.0, 1.0))
            excess = np.clip(p, -_FURTHEST, _FURTHEST) - ndtri(q)
            low, high = np.where(excess < 0.0, x, low), np.where(excess < 0.0, high, x)
            ratio = (x - last) / (excess - before)
            width = np.where(ratio > 0.0, np.minimum(ratio, 4.0 * width), 2.0 * width)
            new, middle = x - excess * width, 0.5 * (low + high)
            leaves = (new <= low) | (new >= high) | (count % 8 == 7)
            new = np.where(np.isfinite(middle) & leaves, middle, new)
            narrow = (high - low <= 4e-16 * np.abs(middle)) & np.isfinite(middle)
            left = ~(narrow | (np.abs(excess) <= _QUANTILE_TOLERANCE))
            state = [part[left] for part in (rows, new, width, x, excess, low, high)]
    return t
