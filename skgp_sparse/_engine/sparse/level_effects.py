r"""Random effects of levels beside features: inducing variables whose block of B is diagonal.

A level g has an effect ``b_g ~ N(0, v)`` on all of its rows, beside ``V w``. With the sums over the
rows of a level

    s = Σ a,    C = Σ a V,    r = Σ a y,    k = v / (1 + v s),

the effects are integrated exactly, as if a level had the noise ``diag(1/a) + v 1 1ᵀ``:

    V diag(a) Vᵀ - Σ_g k C Cᵀ,    V (a y) - Σ_g k C r,    Σ a y² - Σ_g k r²,
    Σ w log λ + Σ_g log(1 + v s)

take the place of the sums over rows. Given the weights of the features, an effect has the mean
``k (r - Cᵀ w)`` and the variance k, so that a row of the level has the features ``V - k C``.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from skgp_sparse._engine.data.dataset import row_blocks
from skgp_sparse._engine.data.rows_by_level import starts_of
from skgp_sparse._engine.predictions import posterior as contract
from skgp_sparse._engine.predictions.feature_posterior import SparsePosterior
from skgp_sparse._engine.predictions.posterior import (
    GRADIENTS,
    JOINT_ROWS,
    LEAVE_ONE_OUT,
    float64,
)
from skgp_sparse._ground.linalg import row_dots, times_lower_transposed


class Levels(NamedTuple):
    """The levels of the rows of a block, which has all rows of each."""

    index: np.ndarray  # (n,) of the level of each row
    level: np.ndarray  # (G,)
    variance: np.ndarray  # (G,) v, 0 of a missing level
    s: np.ndarray  # (G,)
    C: np.ndarray  # (G, m)
    r: np.ndarray  # (G, p)

    k = property(lambda self: self.variance / (1.0 + self.variance * self.s))

    def corrected(self, sums):
        """`Sums` of the block, effects integrated."""
        kC = self.k[:, None] * self.C
        return sums._replace(
            VaV=sums.VaV - kC.T @ self.C,
            Vay=sums.Vay - kC.T @ self.r,
            yay=sums.yay - np.sum(self.k[:, None] * self.r**2),
            log_noise=sums.log_noise + np.sum(np.log1p(self.variance * self.s)),
        )

    def given(self, v):
        """Mean (n, p) of the effect of each row, where the features have the mean ``V v``."""
        return (self.k[:, None] * (self.r - self.C @ v))[self.index]

    def shifted(self, V):
        """Features ``V - k C`` of the rows."""
        return V - (self.k[:, None] * self.C)[self.index]

    def known(self, v):
        """Levels that are known, and variance, shift of features, and mean of each."""
        there, k = ~np.isnan(self.level), self.k[:, None]
        columns = self.level, self.k, k * self.C, k * (self.r - self.C @ v)
        return [column[there] for column in columns]

    def slope(self, v, Binv):
        """Derivative of the objective with respect to ``log v``."""
        rest = self.r - self.C @ v
        by_level = np.sum(rest**2, axis=1) / (1.0 + self.variance * self.s)
        by_level += v.shape[1] * row_dots(self.C @ Binv, self.C) / (1.0 + self.variance * self.s)
        return 0.5 * np.sum(self.k * (by_level - v.shape[1] * self.s))


def levels_of(effect, X, V, a, ay):
    """The `Levels` of rows that are sorted by them.

    Parameters
    ----------
    effect : Effect
    X : ndarray of shape (n, d)
    V : ndarray of shape (n, m)
    a : float or ndarray of shape (n,)
    ay : ndarray of shape (n, p)
    """
    levels = effect.kernel.levels(X)
    starts = starts_of(levels)
    a = np.broadcast_to(a, len(X))
    index = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(X)))
    level = levels[starts]
    variance = np.where(np.isnan(level), 0.0, effect.variance)
    sums = (np.add.reduceat(one, starts, axis=0) for one in (a, a[:, None] * V, ay))
    return Levels(index, level, variance, *sums)


@dataclass(frozen=True, eq=False)
class SparsePosteriorWithEffects(SparsePosterior):
    """The posterior in a basis, beside effects of levels.

    Parameters
    ----------
    effect : Effect
    level : ndarray of shape (L + 1,)
        The known levels, sorted, and NaN for all others.
    k : ndarray of shape (L + 1,)
        Variances of their effects given the features, that of the prior for others.
    shift : ndarray of shape (L + 1, m)
        ``k C`` of every level, 0 for others.
    offset : ndarray of shape (L + 1, p)
        Means of the effects, 0 for others.
    """

    effect: object
    level: np.ndarray
    k: np.ndarray
    shift: np.ndarray
    offset: np.ndarray

    answers = frozenset([LEAVE_ONE_OUT, GRADIENTS])
    remedy = "Leave out the RandomEffect."
    points = None

    def mean(self, X, n_jobs=1):
        """Mean (n, p)."""

        def of_block(block):
            return self.features.raw(block) @ self.u + self.offset[self._places(block)[0]]

        return contract.by_blocks(of_block, X, row_blocks(len(X), self.width), n_jobs)

    def covariance(self, X):
        """Latent covariance (n, n)."""
        X = float64(X)
        V = self.features.whiten(self.features.raw(X))
        seen, _, variance = self.beside(X, V)
        W, levels = times_lower_transposed(seen, self.TB), self.effect.kernel.levels(X)
        same = levels[:, None] == levels
        cov = self.features.residual_covariance(X, V) + W @ W.T + same * variance
        cov.flat[:: len(cov) + 1] = contract.without_negative(
            cov.diagonal(), self.prior_variance(X)
        )
        return cov

    def deviations(self, X, n_samples, random_state):
        """Latent samples minus the mean (n, n_samples), whose effects are joint."""
        if len(X) <= JOINT_ROWS:
            return super().deviations(X, n_samples, random_state)
        weights = self.weights_of_samples(n_samples, random_state)[1]
        index = np.unique(self.effect.kernel.levels(float64(X)), return_inverse=True)[1]
        effects = random_state.normal(size=(index.max() + 1, n_samples))
        drawn = []
        for rows in row_blocks(len(X), self.width):
            _, V, rest = self.mean_and_rest(float64(X[rows]))
            seen, _, variance = self.beside(float64(X[rows]), V)
            one = seen @ weights + np.sqrt(variance)[:, None] * effects[index[rows]]
            drawn.append(one + np.sqrt(rest)[:, None] * random_state.normal(size=one.shape))
        return np.concatenate(drawn)

    def prior_variance(self, X):
        """Variance of the process and of the effects before any data."""
        known = ~np.isnan(self.effect.kernel.levels(float64(X)))
        return super().prior_variance(X) + self.effect.variance * known

    def beside(self, X, V):
        places, variance = self._places(X)
        return V - self.shift[places], self.offset[places], variance

    def _places(self, X):
        """Places of the levels of rows, the last one of all others, and variances of effects."""
        levels = self.effect.kernel.levels(X)
        places = np.searchsorted(self.level[:-1], levels)
        places = np.where(self.level[places] == levels, places, len(self.level) - 1)
        return places, np.where(np.isnan(levels), 0.0, self.k[places])


def of_others(effect, v):
    """As `Levels.known`, of all levels that are not known, for weights (m, p)."""
    m, p = v.shape
    return np.full(1, np.nan), np.full(1, effect.variance), np.zeros((1, m)), np.zeros((1, p))
