"""Matern's function of general order, ``M_nu(s) = 2^(1-nu) / Gamma(nu) s^nu K_nu(s)``.

``M_nu(0) = 1`` and ``-(1/s) dM_nu/ds = M_(nu-1)(s) / (2 (nu - 1))`` for nu > 1, so the slope is
the same function again. Small orders go through scipy's ``kve`` in logarithms; from order 50 on,
where ``K_nu`` overflows while ``M_nu`` does not, through the uniform expansion (DLMF 10.41.4)

    K_nu(nu z) ~ sqrt(pi / (2 nu)) exp(-nu eta) / (1 + z^2)^(1/4) sum_k (-1)^k U_k(p) / nu^k,

with ``p = 1/q``, ``q = sqrt(1 + z^2)``. Divided by its own limit at z = 0 it reads

    log M_nu = -nu (q - 1 - log((1 + q) / 2)) - log(q) / 2 + log(S(1/q) / S(1)).
"""

import numpy as np
from scipy.special import gammaln, kve

_UNIFORM_FROM = 50.0
# M_nu is 0 in float64 far below this argument (nu < 50), and kve is NaN far above
_LARGEST = 1e5
# U_k(p) of DLMF 10.41.10, as polynomials in p, lowest power first
_U = (
    np.polynomial.Polynomial([0, 3, 0, -5]) / 24,
    np.polynomial.Polynomial([0, 0, 81, 0, -462, 0, 385]) / 1152,
    np.polynomial.Polynomial([0, 0, 0, 30375, 0, -369603, 0, 765765, 0, -425425]) / 414720,
    np.polynomial.Polynomial(
        [0, 0, 0, 0, 4465125, 0, -94121676, 0, 349922430, 0, -446185740, 0, 185910725]
    )
    / 39813120,
)


def matern(nu, s):
    """Return ``M_nu(s)``."""
    return _uniform(nu, s) if nu >= _UNIFORM_FROM else _by_kve(nu, s)


def matern_slope(nu, s):
    """Return ``h = -(1/r) dk/dr`` where ``k = M_nu(sqrt(2 nu) r)``; 0 where it has no limit."""
    if nu > 1.0:
        return nu / (nu - 1.0) * matern(nu - 1.0, s)
    with np.errstate(divide="ignore", invalid="ignore"):
        h = 2.0 * nu * np.exp(_log_scaled(nu, nu - 1.0, s))
    return np.where(np.isfinite(h), h, 0.0)


def _by_kve(nu, s):
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.exp(_log_scaled(nu, nu, s))
    # kve overflows only for s < 2e-5, where the next term of the series is below 1e-18
    tiny = np.flatnonzero(~np.isfinite(value))
    near = s.reshape(-1)[tiny]
    value.reshape(-1)[tiny] = 1.0 - (near**2 / (4.0 * (nu - 1.0)) if nu > 1.0 else 0.0)
    return value


def _log_scaled(nu, order, s):
    """Return ``log(2^(1-nu) / Gamma(nu) s^order K_order(s))``."""
    s = np.minimum(s, _LARGEST)
    constant = (1.0 - nu) * np.log(2.0) - gammaln(nu)
    return constant + order * np.log(s) + np.log(kve(order, s)) - s


def _uniform(nu, s):
    z = s / nu
    q = np.hypot(1.0, z)
    above = z * (z / (1.0 + q))
    log_m = -nu * (above - np.log1p(0.5 * above)) - 0.5 * np.log(q)
    return np.exp(log_m) * (_series(nu, 1.0 / q) / _series(nu, 1.0))


def _series(nu, p):
    return 1.0 + sum(u(p) / (-nu) ** k for k, u in enumerate(_U, start=1))
