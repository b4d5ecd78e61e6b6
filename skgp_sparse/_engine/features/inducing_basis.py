"""The basis of inducing points: ``V = Kfu L⁻ᵀ`` with ``Kuu + jitter I = L Lᵀ``.

Fits multiply by ``T = L⁻¹``, which takes less time. Predictions solve with L, which keeps the
digits of small variances (`skgp_sparse._ground.linalg`).

Problem of one evaluation: which model, on which rows, computed how.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from skgp_sparse import kernels
from skgp_sparse._engine.data.dataset import Dataset
from skgp_sparse._engine.features.basis import Basis, Features, Projection
from skgp_sparse._ground import linalg
from skgp_sparse._ground.linalg import Jitter


class Options(NamedTuple):
    """How to compute, as opposed to what."""

    jitter: Jitter = Jitter()
    n_jobs: int = 1
    memory: float = np.inf  # bytes


class Tape(NamedTuple):
    """Data that pull gradients of a block of rows back to theta and to the basis."""

    features: object  # for `Features.pull`
    diagonal: object  # pullback of k(x, x)


class Observations(NamedTuple):
    """Data of rows that a likelihood needs: arrays, or a `PerRow` of each."""

    y: object  # (n,)
    offset: object  # (n,)
    weight: object  # (n,)
    residual: object  # (n,) r, what the basis leaves of the row


class Problem(NamedTuple):
    """A model and its training rows."""

    kernel: object  # white noise included
    basis: Basis
    rows: Dataset
    bound: object
    options: Options = Options()
    targets: float = 1.0  # factor of all of them
    latent_noise: bool = False  # white noise belongs to the process: a likelihood follows

    def features(self):
        """The basis at the kernel."""
        return self.basis.at(self.kernel, self.options)

    def layout(self):
        """How the rows are cut, and what may wait between two visits."""
        return self.rows.layout(self.basis.size, kernels.footprint(self.kernel), self.options)

    def project(self, features, X, out=None):
        """The `Projection` of some rows, its V in `out` if given."""
        K, cross = features.linearise(X)
        V = features.whiten(K, out)
        signal, noise, diagonal = kernels.diagonal(self.kernel, X)
        residual = np.zeros(len(X))
        if not features.complete:
            residual = np.maximum(
                features.residual_variance(X, V, signal + noise * self.latent_noise), 0.0
            )
        elif self.latent_noise:
            residual += noise
        return Projection(V, residual, 0.0 if self.latent_noise else noise, Tape(cross, diagonal))

    def tape(self, features, X):
        """The `Tape` of a projection that was kept without it."""
        return Tape(features.linearise(X)[1], kernels.diagonal(self.kernel, X)[2])


class Evaluation(NamedTuple):
    """Objective and gradient at one point."""

    value: float
    gradient: dict  # by the name of the block of parameters
    jitter: float
    inner_state: object = None  # of an inner loop, for the next evaluation

    theta_bar = property(lambda self: self.gradient["kernel"])
    Z_bar = property(lambda self: self.gradient.get("basis"))  # None where it was not wanted


_LITTLE_JITTER = linalg.Jitter(1e-12)  # less than most noise
_UNIT_OF_POINTS = 3.0  # unit of Z in an optimiser, in length scales or, if shorter, spreads


@dataclass(frozen=True, eq=False)
class InducingBasis(Basis):
    """Kernel functions centred at points of the input space.

    Parameters
    ----------
    points : ndarray of shape (m, d)
        The inducing points Z. Where a value is missing, it stays so.
    """

    points: np.ndarray

    @property
    def parameters(self):
        """Z, with numbers that do not matter where values are missing."""
        return np.where(np.isnan(self.points), 0.0, self.points)

    def moved(self, parameters):
        """Other inducing points."""
        missing = np.isnan(self.points)
        return InducingBasis(np.where(missing, np.nan, parameters) if missing.any() else parameters)

    size = property(lambda self: len(self.points))

    def units(self, kernel, spread):
        """Median of the inducing points, and length scales or, if shorter, spreads."""
        shorter = np.minimum(kernels.length_scales(kernel, spread), spread)
        return np.median(self.parameters, axis=0), _UNIT_OF_POINTS * shorter

    def at(self, kernel, options):
        """Factorise the kernel at the inducing points."""
        Z = self.points
        K, pull = kernels.linearize(kernel, Z, Z)
        L, used = linalg.jittered_cholesky(K, options.jitter, options.n_jobs)
        T, moves = linalg.inverse_lower(L, options.n_jobs), used * options.jitter.relative
        return InducingFeatures(kernel, Z, L, T, used, moves, pull, options.n_jobs)


@dataclass(frozen=True, eq=False)
class InducingFeatures(Features):
    """Inducing points at one kernel.

    Parameters
    ----------
    kernel : sklearn kernel, its white noise included
    Z : ndarray of shape (m, d)
    L : ndarray of shape (m, m) or None
        Lower triangular. None: only means are wanted.
    T : ndarray of shape (m, m) or None
        ``L⁻¹``. None: V is computed by substitution.
    jitter : float
        As used, in the units of the Jitter that was asked for.
    relative_jitter : float
        The same where it is a share of the mean of the diagonal, and moves with it.
    pull_Kuu : callable or None
        Pullback of the kernel at the inducing points; None where only predictions are wanted.
    n_jobs : int
    """

    kernel: object
    Z: np.ndarray
    L: np.ndarray | None
    T: np.ndarray | None = None
    jitter: float = 0.0
    relative_jitter: float = 0.0
    pull_Kuu: object = None
    n_jobs: int = 1

    def __getstate__(self):
        """Without the pullback of the whitening, which stays where it was made."""
        return {**vars(self), "pull_Kuu": None}

    size = property(lambda self: len(self.Z))

    def for_prediction(self, mean_only=False):
        """A copy without the parts that only gradients need, and without L for means only."""
        return replace(self, L=None if mean_only else self.L, T=None, pull_Kuu=None)

    def first(self, size):
        """Features of the first inducing points only, with the leading block of the factor L."""
        L = self.L[:size, :size].copy()
        return replace(self, Z=self.Z[:size], L=L, T=None, pull_Kuu=None)

    def without_data(self):
        """Features of the process itself, where L belongs to a kernel matrix with noise."""
        options = Options(jitter=_LITTLE_JITTER)
        return InducingBasis(self.Z).at(self.kernel, options).for_prediction()

    def raw(self, X):
        """``Kfu``."""
        return kernels.evaluate(self.kernel, X, self.Z)

    def whiten(self, K, out=None):
        """``Kfu L⁻ᵀ``."""
        if self.T is None:
            return linalg.over_lower_transposed(K, self.L, out)
        return linalg.times_lower_transposed(K, self.T, out)

    def weights(self, v):
        """``L⁻ᵀ v``."""
        return linalg.over_lower(v.T, self.L).T if self.T is None else self.T.T @ v

    def linearise(self, X):
        """``Kfu`` and its pullback."""
        return kernels.linearize(self.kernel, X, self.Z)

    def pull(self, tape, K_bar, inputs):
        """Gradients wrt theta and Z through ``Kfu``."""
        return tape(K_bar, inputs=inputs)

    def slopes(self, X, K_bar):
        """Gradient wrt the rows, which are the second argument of ``Kuf``."""
        return kernels.linearize(self.kernel, self.Z, X)[1](K_bar.T, True)[1]

    def through_whitening(self, A, out=None):
        """``A L⁻¹``, tiles of a new array shared by threads."""
        if self.T is None:
            return linalg.over_lower(A, self.L, out)
        if out is None:
            return linalg.square_times_lower(A, self.T, self.n_jobs)
        return linalg.times_lower(A, self.T, out)

    def between_whitenings(self, M):
        """``L⁻ᵀ M L⁻¹``."""
        return self.through_whitening(self.weights(M))

    def inverse(self):
        """``(Kuu + jitter I)⁻¹``."""
        return self.between_whitenings(np.eye(self.size))

    def pull_whitening(self, S, u, inputs):
        """Gradients wrt theta and Z through ``Kuu``, of which it is ``Tᵀ S T - ½ u uᵀ``."""
        K_bar = linalg.congruence(S, self.T, self.n_jobs)
        K_bar -= (0.5 * u) @ u.T
        if self.relative_jitter:  # jitter = used · mean(diag Kuu) moves with the diagonal
            K_bar.flat[:: len(K_bar) + 1] += self.relative_jitter * np.trace(K_bar) / len(K_bar)
        theta_bar, Z_bar = self.pull_Kuu(K_bar, inputs=inputs)
        return theta_bar, 2.0 * Z_bar if inputs else 0.0  # both arguments of k(Z, Z) move

    def residual_variance(self, X, V, signal):
        """``kff - diag VVᵀ``."""
        return signal - linalg.row_dots(V, V)

    def residual_covariance(self, X, V):
        """``Kff - VVᵀ``."""
        return kernels.evaluate(self.kernel, X, X) - V @ V.T
