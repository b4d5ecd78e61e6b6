"""The posterior of a process that is written in features: exact, or in a basis.

    mean = K*u u,     cov = rest + (TB V*)ᵀ (TB V*),     V* = L⁻¹ Ku*,     rest = K** - V*ᵀ V*

with raw features ``K*u``, features ``V*``, and what those leave of the process, the residual, as
the basis says (here that of inducing points), and ``TB = LB⁻¹``. For the exact process L belongs to
the noisy kernel matrix and the last term is absent. Blocks of rows bound the memory of a
prediction.

`predict_normals` of a posterior goes to inputs that have a normal distribution each.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import Any, NamedTuple, cast

import numpy as np
from sklearn.gaussian_process.kernels import ConstantKernel

from skgp_sparse import kernels
from skgp_sparse.data.arrays import DistinctInputs, GroupMeans
from skgp_sparse.data.dataset import Dataset, row_blocks
from skgp_sparse.engine import posterior as contract
from skgp_sparse.engine.basis import Features, FourierBasis, InducingFeatures, Options
from skgp_sparse.engine.functions import SampledFunctions, by_target
from skgp_sparse.engine.posterior import Posterior, RowTerms, Slopes, float64
from skgp_sparse.ground import linalg
from skgp_sparse.ground.parallel import single_threaded_blas
from skgp_sparse.ground.validation import AnyArray, Array, Index, Ints, Pair, Rng, Scalars


class Normals(NamedTuple):
    """Distributions of inputs, one for each row."""

    mean: Array  # (n, d)
    variance: Array  # (n, d)

    def of(self, rows: Index) -> "Normals":
        """Distributions of the inputs of some rows."""
        return Normals(self.mean[rows], self.variance[rows])


# With the expectations ``P`` and covariances ``C`` of `skgp_sparse.kernels.expectations`,
# ``V = T P`` and the posterior of the inducing points, ``B`` and ``u``,
#
#     mean = P u,     var = uᵀ C u + Vᵀ B⁻¹ V + tr(Tᵀ B⁻¹ T C) + E k(x, x) - ‖V‖² - tr(K⁻¹ C).
class InducingPosterior(NamedTuple):
    """The posterior of the inducing points, and matrices that rows are multiplied with."""

    features: InducingFeatures
    of_column: Ints  # (p,) the group that shares B
    v: Array | Any  # (m, p); None where only predictions are wanted
    u: np.ndarray  # (m, p)
    TB: np.ndarray  # (g, m, m) LB⁻¹
    Binv: np.ndarray  # (g, m, m)
    A: np.ndarray  # (g, m, m)
    Kinv: np.ndarray  # (m, m)

    @classmethod
    def of(
        cls, features: InducingFeatures | Any, of_column: Ints, v: Array | None, u: Array, TB: Array
    ) -> "InducingPosterior":
        """The matrices that follow from a posterior in whitened features."""
        Binv = np.array([linalg.inverse_from_triangle(one) for one in TB])
        A = np.array([features.between_whitenings(one) for one in Binv])
        return cls(features, of_column, v, u, TB, Binv, A, features.inverse())

    def explained(self, inputs: Normals) -> tuple[Array, Array, Array]:
        """Mean and variance (n, p) of the features, and the variance that they leave (n,)."""
        kernel, Z = self.features.kernel, self.features.Z
        expected = kernels.expectations(kernel, inputs.mean, inputs.variance, Z)
        V, of_K = self.features.whiten(expected.cross), expected.inner(self.Kinv[None])[:, 0]
        rest = np.maximum(expected.prior - linalg.row_dots(V, V) - of_K, 0.0)
        within = np.stack([linalg.row_dots(V @ Binv, V) for Binv in self.Binv], axis=1)
        within += expected.inner(self.A)
        of_mean = expected.inner(self.u.T[:, :, None] * self.u.T[:, None])
        return expected.cross @ self.u, np.maximum(of_mean + within[:, self.of_column], 0.0), rest

    def predict(self, inputs: Normals, n_jobs: int = 1) -> Pair:
        """Mean and variance (n, p) of the process at inputs that have a distribution."""
        width = kernels.expectation_width(self.features.kernel, *self.features.Z.shape)

        def of_block(rows: slice) -> Pair:
            mean, variance, rest = self.explained(inputs.of(rows))
            return mean, variance + rest[:, None]

        return contract.joined(of_block, row_blocks(len(inputs.mean), width), n_jobs)


_OF_ANY_FEATURES = frozenset([contract.LEAVE_ONE_OUT, contract.GRADIENTS])  # are answers
_LEAST_SHARE = 1e-12  # of 1 - q: a row that no other one says anything of


class FeaturePosterior(Posterior):
    """A posterior whose mean is a weighted sum of raw features."""

    features: Features  # at the kernel
    u: np.ndarray  # (m, p) weights of the raw features in the mean
    TB: np.ndarray  # ``LB⁻¹``, (m, m), or (0, m) where all rows are features: nothing varies then

    _given_all: Callable  # of X: m, h and r, as below
    _natural_parameters: Callable
    width = property(attrgetter("features.size"))

    @property
    def points(self) -> Pair | Any:  # type: ignore[override]
        """Points and weights; None where the basis has no points."""
        Z = getattr(self.features, "Z", None)
        return None if Z is None else (Z, self.u)

    def why_not(self, question: str) -> str | None:
        """Functions need a kernel whose spectral density is known."""
        reason = super().why_not(question)
        if reason or question != contract.FUNCTIONS or kernels.spectrum(self.kernel) is not None:
            return reason
        return (
            "draws frequencies of sums, products and powers of RBF, Matern, RationalQuadratic and "
            f"constants, on chosen columns, too. Got kernel_={self.kernel}. Use sample_y instead."
        )

    @abstractmethod
    def weights(self) -> tuple[Features, Array]:
        """Features of the process itself, and R, where ``RᵀR`` is the covariance of weights."""

    def mean(self, X: AnyArray, n_jobs: int = 1) -> Array:
        """Mean (n, p)."""
        return self._by_blocks(lambda block: self.features.raw(block) @ self.u, X, n_jobs)

    def mean_and_variance(self, X: AnyArray, n_jobs: int = 1) -> Pair:
        """Mean (n, p) and latent variance (n,)."""

        def of_block(block: Array) -> Array:
            mean, h, rest, signal = self._moments(block)
            return np.column_stack([mean, rest + h, np.broadcast_to(signal, len(block))])

        joined = self._by_blocks(of_block, X, n_jobs)
        return joined[:, :-2], contract.without_negative(joined[:, -2], joined[:, -1])

    def covariance(self, X: AnyArray) -> Array:
        """Latent covariance (n, n)."""
        X = float64(X)
        V = self.features.whiten(self.features.raw(X))
        W = self._spread(V)
        cov = self.features.residual_covariance(X, V) + W @ W.T
        signal = kernels.diagonal(self.kernel, X)[0]
        variance = self._not_below_noise(cov.diagonal().copy(), V, signal)
        cov.flat[:: len(cov) + 1] = contract.without_negative(variance, signal)
        return cov

    def deviations(self, X: AnyArray, n_samples: int, random_state: Rng) -> Array:
        """Latent samples minus the mean (n, n_samples); beyond features, many are independent."""
        if len(X) <= contract.JOINT_ROWS:
            return contract.joint_deviations(self, X, n_samples, random_state)
        features, R = self.weights()
        weights = R.T @ random_state.normal(size=(n_samples, len(R))).T

        def deviate(block: Array) -> Array:
            V = features.whiten(features.raw(block))
            rest = self.mean_and_variance(block)[1] - ((V @ R.T) ** 2).sum(axis=1)
            normal = random_state.normal(size=(len(block), n_samples))
            return V @ weights + np.sqrt(np.maximum(rest, 0.0))[:, None] * normal

        return self._by_blocks(deviate, X, 1)

    # A gradient is a pullback through K, with the cotangents ``u`` of the mean and
    # ``2 Tᵀ (TBᵀ TB V - V)`` of the variance.
    def gradients(self, X: AnyArray, latent: bool, n_jobs: int = 1) -> Slopes:
        """`Slopes` at the rows of X."""
        features = self.features

        def of_block(some: slice) -> Slopes:
            block = float64(X[some])
            K = features.raw(block)
            V = features.whiten(K)
            left = np.zeros_like(V) if features.complete else V  # by which the residual is smaller
            known = (V @ self.TB.T) @ self.TB
            signal, noise, pull_diagonal = kernels.diagonal(self.kernel, block)
            own = np.full(len(block), 0.0 if latent else 1.0)
            of_signal = np.full(len(block), 0.0 if features.complete else 1.0)
            variance = of_signal * signal + linalg.row_dots(V, known) - linalg.row_dots(V, left)
            variance_slope = pull_diagonal(of_signal, own, inputs=True)[1]
            K_bar = features.weights((2.0 * (known - left)).T).T
            variance_slope = variance_slope + features.slopes(block, K_bar)
            each = [features.slopes(block, np.tile(u, (len(block), 1))) for u in self.u.T]
            variance = np.maximum(self._not_below_noise(variance, V, signal), 0.0) + own * noise
            return Slopes(K @ self.u, variance, np.stack(each, axis=1), variance_slope)

        return Slopes(*contract.joined(of_block, row_blocks(len(X), self.width), n_jobs))

    def sample_functions(
        self, n_functions: int, n_frequencies: int, random_state: Rng
    ) -> SampledFunctions:
        """`SampledFunctions` in units of the standardised targets."""
        (Z, u), kernel, k = self.points, self.kernel, n_functions
        p = u.shape[1]
        of_prior, of_data = (np.random.RandomState(random_state.randint(2**31)) for _ in range(2))
        with single_threaded_blas():
            basis = FourierBasis.drawn(kernel, n_frequencies, Z[0], random_state)
            harmonics = basis.at(kernel, Options())
            weights = by_target(of_prior.normal(size=(k * p, harmonics.size)).T, p)
            features, R = self.weights()
            v = by_target(R.T @ of_data.normal(size=(k * p, len(R))).T, p)
            prior = features.whiten((harmonics.raw(Z) @ weights).T).T
            coefficients = np.repeat(u, k, axis=1) + features.weights(v - prior)
        shape = (k,) if p == 1 else (p, k)
        return SampledFunctions(harmonics, weights, kernel, Z, coefficients, shape)

    # A training row is a Gaussian factor ``N(y; g, λ/c)`` of what the posterior is made of: g is
    # the process at the row, or what inducing points say of it, λ its effective noise, and c the
    # weight that is left out (`Dataset.weight_left_out`). With the mean m and the variance h of g
    # given all rows, what is left without the factor is its cavity,
    #
    #     q = c h / λ,      mean = y - (y - m)/(1 - q),      variance = h/(1 - q) + r,
    #
    # where r is the prior variance that inducing points leave. Of the exact process, 1 - q
    # follows from the diagonal of ``(K + D)⁻¹`` without rounding (Rasmussen and Williams 2006,
    # section 5.4.2).
    def _left_out_of_sites(self, rows: Dataset, chosen: Ints, terms: RowTerms, n_jobs: int) -> Pair:
        """Moments given Gaussian sites; ``_given_all(X)`` has m, h and r."""
        rows = rows if len(chosen) == len(rows) else rows.subset(chosen)
        terms = terms._replace(sites=terms.sites[..., chosen])

        def of_block(some: slice) -> Pair:
            block = rows.block(some)
            mean, h, rest = self._given_all(block.X)
            rest = rest + kernels.diagonal(self.kernel, block.X)[1]
            weight = np.broadcast_to(block.weight, len(rest))
            linear, precision = self._natural_parameters(terms, some, rest, weight)[:, 0]
            count = rows.weight_left_out(weight)
            others = np.maximum(1.0 - count * h * precision, _LEAST_SHARE)
            mean = (mean[:, 0] - count * h * linear) / others
            return mean[:, None], h / others + rest

        return contract.joined(of_block, row_blocks(len(rows), self.width), n_jobs)

    def _spread(self, V: Array) -> Array:
        """W (n, k), where ``W Wᵀ`` is what the weights of features V (n, m) add to covariances."""
        return linalg.times_lower_transposed(V, self.TB) if len(self.TB) else V[:, :0]

    def _moments(self, X: Array) -> tuple[Array, Array, Array, Scalars]:
        """Mean (n, p), variance (n,) of the weights, residual variance and prior variance."""
        K = self.features.raw(X)
        mean, V = K @ self.u, self.features.whiten(K, K)
        W, signal = self._spread(V), kernels.diagonal(self.kernel, X)[0]
        rest = self._not_below_noise(self.features.residual_variance(X, V, signal), V, signal)
        return mean, linalg.row_dots(W, W), rest, signal

    def _not_below_noise(self, variance: Array, V: Array, signal: Scalars) -> Array:
        """Variances given features V (n, m), which may be changed where they are rounding."""
        return variance

    def _by_blocks(self, function: Callable, X: AnyArray, n_jobs: int) -> Array:
        return contract.by_blocks(function, X, row_blocks(len(X), self.width), n_jobs)


@dataclass(frozen=True, eq=False)
class ExactPosterior(FeaturePosterior):
    """The posterior given all rows, whose distinct inputs are the points of its features."""

    kernel: object
    features: InducingFeatures  # in which the noise of the rows is
    u: np.ndarray
    factor: float = 1.0  # of all variances, that of the kernel included: the mean is the same

    name = "exact"
    answers = _OF_ANY_FEATURES | {contract.FUNCTIONS, contract.BOUNDS}
    holds_rows = is_exact = True
    n_rows_kept = property(attrgetter("width"))
    TB = property(lambda self: np.empty((0, self.width)))

    def leave_one_out(self, rows: Dataset, chosen: Ints, terms: RowTerms, n_jobs: int = 1) -> Pair:
        """Moments of chosen rows, each given all others, in O(n³) time without sites."""
        if terms.site_method is not None:
            return self._left_out_of_sites(rows, chosen, terms, n_jobs)
        groups = DistinctInputs.of(rows)
        groups = groups._replace(noise=self.factor * groups.noise)
        means = GroupMeans(self.kernel, groups)
        of_row = means.s2 / rows.weight_left_out(groups.weight)  # noise of what is left out
        D, alpha = means.D[groups.index], self.u[groups.index]
        A = self._diagonal_of_inverse[groups.index]
        error = means.rest + D[:, None] * alpha
        others = 1.0 - D / of_row + D * (D / of_row) * A  # 1 - q, all of its terms positive
        mean = groups.y - error / others[:, None]
        return mean[chosen], np.maximum(D * (1.0 - D * A) / others, 0.0)[chosen]

    @cached_property
    def _diagonal_of_inverse(self) -> Array:
        """The diagonal (n,) of ``(K + D)⁻¹``, which takes O(n³) time."""
        T = linalg.inverse_lower(self.features.L)
        return np.einsum("ij,ij->j", T, T)

    def scaled(self, factor: float) -> "ExactPosterior":
        """The posterior with all variances, that of the noise included, times a factor."""
        kernel, own = ConstantKernel(factor, "fixed") * self.kernel, cast(Any, self.features)
        features = replace(own, kernel=kernel, L=np.sqrt(factor) * own.L, D=factor * own.D)
        return ExactPosterior(kernel, features, self.u / factor, factor * self.factor)

    def weights(self) -> tuple[Features, Array]:
        """Features of the process itself, whose basis are the rows, and R."""
        features = self.features.without_data()
        return features, features.whiten(contract.root_of_covariance(self, features.Z).T)

    # The variance is ``Var(f - wᵀf_rows) + wᵀ D w`` with the weights ``w = L⁻ᵀ v`` of the rows. Its
    # second part has all digits where the difference ``k(x, x) - ‖v‖²`` has none.
    def _not_below_noise(self, variance: Array, V: Array, signal: Scalars) -> Array:
        """Variances, where they are rounding no smaller than what the noise of the rows adds."""
        D, low = getattr(self.features, "D", None), variance < contract.ROUNDED * signal
        if D is not None and low.any():
            variance[low] = np.maximum(variance[low], D @ self.features.weights(V[low].T) ** 2)
        return variance

    def _given_all(self, X: Array) -> tuple[Array, Array, Array]:
        """Mean, variance and 0, the residual: all rows are features."""
        mean, h, rest, _ = self._moments(X)
        return mean, np.maximum(rest, 0.0), h

    @staticmethod
    def _natural_parameters(terms: RowTerms, some: slice, rest: Array, weight: Array) -> Array:
        """Natural parameters of sites, in which white noise is integrated whatever the method."""
        return terms.sites[..., some] / (1.0 + rest * terms.sites[1:, :, some])


@dataclass(frozen=True, eq=False)
class SparsePosterior(FeaturePosterior):
    """The posterior in a basis, of inducing points or of random features."""

    kernel: object
    features: Features
    u: np.ndarray
    TB: np.ndarray  # (m, m) ``LB⁻¹``

    name = property(attrgetter("features.kind"))
    _of_points = _OF_ANY_FEATURES | {contract.FUNCTIONS, contract.NORMALS, contract.BOUNDS}
    answers = property(lambda self: _OF_ANY_FEATURES if self.points is None else self._of_points)

    def leave_one_out(self, rows: Dataset, chosen: Ints, terms: RowTerms, n_jobs: int = 1) -> Pair:
        """Moments of chosen rows, each given all others, in O(n m²) time."""
        if terms.site_method is not None:
            return self._left_out_of_sites(rows, chosen, terms, n_jobs)
        rows = rows if len(chosen) == len(rows) else rows.subset(chosen)

        def of_block(some: slice) -> Pair:
            block = rows.block(some)
            mean, h, rest = self._given_all(block.X)
            share = terms.bound.for_weights(block.weight).noise_share
            noise = kernels.diagonal(self.kernel, block.X)[1] + block.noise + share * rest
            others = np.maximum(1.0 - rows.weight_left_out(block.weight) * h / noise, _LEAST_SHARE)
            return block.y - (block.y - mean) / others[:, None], h / others + rest

        return contract.joined(of_block, row_blocks(len(rows), self.width), n_jobs)

    def predict_normals(self, X: AnyArray, X_std: AnyArray, n_jobs: int = 1) -> Pair:
        """Mean and variance (n, p) at inputs that have a normal distribution each."""
        one_group = np.zeros(self.u.shape[1], dtype=int)
        given = InducingPosterior.of(self.features, one_group, None, self.u, self.TB[None])
        return given.predict(Normals(float64(X), float64(X_std) ** 2), n_jobs)

    def weights(self) -> tuple[Features, Array]:
        """The features, and R."""
        return self.features, self.TB

    def _given_all(self, X: Array) -> tuple[Array, Array, Array]:
        """Mean and variance of what the features say of rows, and the residual variance."""
        mean, h, rest, _ = self._moments(X)
        return mean, h, np.maximum(rest, 0.0)

    @staticmethod
    def _natural_parameters(terms: RowTerms, some: slice, rest: Array, weight: Array) -> Array:
        """Natural parameters of sites as the features see them."""
        return terms.site_method.at_site(terms.sites[..., some], rest, weight)
