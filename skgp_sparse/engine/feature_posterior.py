"""The posterior of a process that is written in features: exact, or in a basis.

    mean = K*u u,     cov = rest + (TB V*)ᵀ (TB V*),     V* = L⁻¹ Ku*,     rest = K** - V*ᵀ V*

with raw features ``K*u``, features ``V*``, and what those leave of the process, the residual, as
the basis says (here that of inducing points), and ``TB = LB⁻¹``. For the exact process L belongs to
the noisy kernel matrix and the last term is absent. Blocks of rows bound the memory of a
prediction.

`predict_normals` of a posterior goes to inputs that have a normal distribution each.
"""

from abc import abstractmethod
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from skgp_sparse import kernels
from skgp_sparse.data.arrays import DistinctInputs, GroupMeans
from skgp_sparse.data.dataset import Dataset, row_blocks
from skgp_sparse.engine import functions
from skgp_sparse.engine import posterior as contract
from skgp_sparse.engine.basis import Features
from skgp_sparse.engine.posterior import (
    BOUNDS,
    FUNCTIONS,
    GRADIENTS,
    JOINT_ROWS,
    LEAVE_ONE_OUT,
    NORMALS,
    LeftOut,
    Posterior,
    RowTerms,
    Slopes,
    float64,
)
from skgp_sparse.ground.linalg import (
    inverse_from_triangle,
    inverse_lower,
    product_norms,
    row_dots,
    times_lower_transposed,
)
from skgp_sparse.ground.validation import AnyArray, Array, Ints, Scalars


class Normals(NamedTuple):
    """Distributions of inputs, one for each row."""

    mean: np.ndarray  # (n, d)
    variance: np.ndarray  # (n, d)

    def of(self, rows):
        """Distributions of the inputs of some rows."""
        return Normals(self.mean[rows], self.variance[rows])


# With the expectations ``P`` and covariances ``C`` of `skgp_sparse.kernels.expectations`,
# ``V = T P`` and the posterior of the inducing points, ``B`` and ``u``,
#
#     mean = P u,     var = uᵀ C u + Vᵀ B⁻¹ V + tr(Tᵀ B⁻¹ T C) + E k(x, x) - ‖V‖² - tr(K⁻¹ C).
class InducingPosterior(NamedTuple):
    """The posterior of the inducing points, and matrices that rows are multiplied with."""

    features: Features
    of_column: np.ndarray  # (p,) the group that shares B
    v: np.ndarray | None  # (m, p); None where only predictions are wanted
    u: np.ndarray  # (m, p)
    TB: np.ndarray  # (g, m, m) LB⁻¹
    Binv: np.ndarray  # (g, m, m)
    A: np.ndarray  # (g, m, m)
    Kinv: np.ndarray  # (m, m)

    @classmethod
    def of(cls, features, of_column, v, u, TB):
        """The matrices that follow from a posterior in whitened features."""
        Binv = np.array([inverse_from_triangle(one) for one in TB])
        A = np.array([features.between_whitenings(one) for one in Binv])
        return cls(features, of_column, v, u, TB, Binv, A, features.inverse())

    def explained(self, inputs):
        """Mean and variance (n, p) of the features, and the variance that they leave (n,)."""
        expected = kernels.expectations(self.features.kernel, *inputs, self.features.Z)
        V, of_K = self.features.whiten(expected.cross), expected.inner([self.Kinv])[:, 0]
        rest = np.maximum(expected.prior - row_dots(V, V) - of_K, 0.0)
        within = np.stack([row_dots(V @ Binv, V) for Binv in self.Binv], axis=1)
        within += expected.inner(self.A)
        of_mean = expected.inner(self.u.T[:, :, None] * self.u.T[:, None])
        variance = np.maximum(of_mean + within[:, self.of_column], 0.0)
        return expected.cross @ self.u, variance, rest

    def predict(self, inputs, n_jobs=1):
        """Mean and variance (n, p) of the process at inputs that have a distribution."""
        width = kernels.expectation_width(self.features.kernel, *self.features.Z.shape)

        def of_block(rows):
            mean, variance, rest = self.explained(inputs.of(rows))
            return mean, variance + rest[:, None]

        return contract.joined(of_block, row_blocks(len(inputs.mean), width), n_jobs)


_LEAST_SHARE = 1e-12  # of 1 - q: a row that no other one says anything of


class FeaturePosterior(Posterior):
    """A posterior whose mean is a weighted sum of raw features."""

    features: Features  # at the kernel
    u: np.ndarray  # (m, p) weights of the raw features in the mean

    width = property(attrgetter("features.size"))

    def why_not(self, question: str) -> str | None:
        """Functions need a kernel whose spectral density is known."""
        reason = super().why_not(question)
        if reason or question != FUNCTIONS or kernels.spectrum(self.kernel) is not None:
            return reason
        return (
            "draws frequencies of sums, products and powers of RBF, Matern, RationalQuadratic and "
            f"constants, on chosen columns, too. Got kernel_={self.kernel}. Pass such a kernel, "
            "or use sample_y."
        )

    @abstractmethod
    def weight_variance(self, V: Array) -> Scalars:
        """Variance (n,) that the weights of features V (n, m) have given the data."""

    @abstractmethod
    def weight_products(self, V: Array) -> Array:
        """Features V (n, m) times the covariance of their weights given the data."""

    @abstractmethod
    def _weights(self):
        """Features of the process itself, and R, where ``RᵀR`` is the covariance of weights."""

    def mean(self, X: AnyArray, n_jobs: int = 1) -> Array:
        """Mean (n, p)."""
        return self._by_blocks(lambda block: self.features.raw(block) @ self.u, X, n_jobs)

    def mean_and_variance(self, X: AnyArray, n_jobs: int = 1) -> tuple[Array, Array]:
        """Mean (n, p) and latent variance (n,)."""
        joined = self._by_blocks(self._mean_variance_and_signal, X, n_jobs)
        return joined[:, :-2], contract.without_negative(joined[:, -2], joined[:, -1])

    def covariance(self, X: AnyArray) -> Array:
        """Latent covariance (n, n)."""
        X = float64(X)
        V = self.features.whiten(self.features.raw(X))
        cov = self._plus_weights(self.features.residual_covariance(X, V), V)
        signal = kernels.diagonal(self.kernel, X)[0]
        cov.flat[:: len(cov) + 1] = contract.without_negative(cov.diagonal(), signal)
        return cov

    def deviations(self, X: AnyArray, n_samples: int, random_state: np.random.RandomState) -> Array:
        """Latent samples minus the mean (n, n_samples); beyond features, many are independent."""
        if len(X) <= JOINT_ROWS:
            return contract.joint_deviations(self, X, n_samples, random_state)
        features, R = self._weights()
        weights = R.T @ random_state.normal(size=(n_samples, len(R))).T

        def deviate(block):
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

        def of_block(block):
            block = float64(X[block])
            K = features.raw(block)
            V = features.whiten(K)
            left = np.zeros_like(V) if features.complete else V  # by which the residual is smaller
            known = self.weight_products(V)
            signal, noise, pull_diagonal = kernels.diagonal(self.kernel, block)
            own = np.full(len(block), 0.0 if latent else 1.0)
            of_signal = np.full(len(block), 0.0 if features.complete else 1.0)
            variance = of_signal * signal + row_dots(V, known) - row_dots(V, left)
            variance_slope = pull_diagonal(of_signal, own, inputs=True)[1]
            K_bar = features.weights((2.0 * (known - left)).T).T
            variance_slope = variance_slope + features.slopes(block, K_bar)
            each = [features.slopes(block, np.tile(u, (len(block), 1))) for u in self.u.T]
            variance = np.maximum(variance, 0.0) + own * noise
            return Slopes(K @ self.u, variance, np.stack(each, axis=1), variance_slope)

        return Slopes(*contract.joined(of_block, row_blocks(len(X), self.width), n_jobs))

    def weights_of_samples(
        self, n_samples: int, random_state: np.random.RandomState
    ) -> tuple[Features, Array]:
        """Features of the process itself, and samples of their weights (m, n_samples)."""
        features, R = self._weights()
        return features, R.T @ random_state.normal(size=(n_samples, len(R))).T

    def sample_functions(self, n_functions, n_frequencies, random_state):
        """`SampledFunctions` in units of the standardised targets."""
        return functions.drawn(self, n_functions, n_frequencies, random_state)

    # A training row is a Gaussian factor ``N(y; g, λ/c)`` of what the posterior is made of: g is
    # the process at the row, or what inducing points say of it, λ its effective noise, and c the
    # copy that is left out, one or, if the row weighs less, its weight. With the mean m and the
    # variance h of g given all rows, what is left without the factor is its cavity,
    #
    #     q = c h / λ,      mean = y - (y - m)/(1 - q),      variance = h/(1 - q) + r,
    #
    # where r is the prior variance that inducing points leave. Of the exact process, 1 - q
    # follows from the diagonal of ``(K + D)⁻¹`` without rounding (Rasmussen and Williams 2006,
    # section 5.4.2).
    def _left_out_of_sites(
        self, rows: Dataset, chosen: Ints, terms: RowTerms, n_jobs: int
    ) -> LeftOut:
        """`LeftOut` given Gaussian sites; ``_given_all(X)`` has m, h and r."""
        rows, terms = _some(rows, chosen), terms._replace(sites=terms.sites[..., chosen])

        def of_block(some):
            block = rows.block(some)
            mean, h, rest = self._given_all(block.X)
            rest = rest + kernels.diagonal(self.kernel, block.X)[1]
            weight = np.broadcast_to(block.weight, len(rest))
            linear, precision = self._natural_parameters(terms, some, rest, weight)[:, 0]
            count = np.minimum(weight, 1.0)
            others = np.maximum(1.0 - count * h * precision, _LEAST_SHARE)
            mean = (mean[:, 0] - count * h * linear) / others
            return mean[:, None], h / others + rest

        return LeftOut(*contract.joined(of_block, row_blocks(len(rows), self.width), n_jobs))

    def _mean_variance_and_signal(self, X: Array) -> Array:
        K = self.features.raw(X)
        mean, V = K @ self.u, self.features.whiten(K, K)
        signal = kernels.diagonal(self.kernel, X)[0]
        variance = self.features.residual_variance(X, V, signal) + self.weight_variance(V)
        return np.column_stack([mean, variance, np.broadcast_to(signal, len(X))])

    def mean_and_rest(self, X: Array) -> tuple[Array, Array, Array]:
        """Mean (n, p), features and residual variance (n,) of rows."""
        K = self.features.raw(X)
        V = self.features.whiten(K)
        signal = kernels.diagonal(self.kernel, X)[0]
        return K @ self.u, V, np.maximum(self.features.residual_variance(X, V, signal), 0.0)

    def _by_blocks(self, function, X, n_jobs):
        return contract.by_blocks(function, X, row_blocks(len(X), self.width), n_jobs)


@dataclass(frozen=True, eq=False)
class ExactPosterior(FeaturePosterior):
    """The posterior given all rows, whose distinct inputs are the points of its features."""

    kernel: object
    features: Features  # in which the noise of the rows is
    u: np.ndarray

    name = "exact"
    answers = frozenset([LEAVE_ONE_OUT, GRADIENTS, FUNCTIONS, BOUNDS])
    holds_rows = is_exact = True
    n_rows_kept = property(attrgetter("width"))
    points = property(lambda self: (self.features.Z, self.u))

    def weight_variance(self, V: Array) -> Scalars:
        """Zero: all rows are features."""
        return 0.0

    def weight_products(self, V: Array) -> Array:
        """Zeros (n, m): all rows are features."""
        return np.zeros_like(V)

    def leave_one_out(
        self, rows: Dataset, chosen: Ints, terms: RowTerms, n_jobs: int = 1
    ) -> LeftOut:
        """`LeftOut` of chosen rows, in O(n³) time without sites."""
        if terms.method is not None:
            return self._left_out_of_sites(rows, chosen, terms, n_jobs)
        groups = DistinctInputs.of(rows)
        means = GroupMeans(self.kernel, groups)
        of_row = means.s2 / np.minimum(groups.weight, 1.0)  # noise of the copy that is left out
        D, alpha = means.D[groups.index], self.u[groups.index]
        T = inverse_lower(self.features.L)
        A = np.einsum("ij,ij->j", T, T)[groups.index]  # the diagonal of (K + D)⁻¹
        error = means.rest + D[:, None] * alpha
        others = 1.0 - D / of_row + D * (D / of_row) * A  # 1 - q, all of its terms positive
        mean = groups.y - error / others[:, None]
        variance = np.maximum(D * (1.0 - D * A) / others, 0.0)
        return LeftOut(mean[chosen], variance[chosen])

    def _plus_weights(self, cov: Array, V: Array) -> Array:
        return cov

    def _weights(self):
        features = self.features.without_data()  # its basis are the rows
        return features, features.whiten(contract.root_of_covariance(self, features.Z).T)

    def _given_all(self, X: Array) -> tuple[Array, Array, Array]:
        """Mean, variance and 0: what is left of a row is what the rows do not know."""
        mean, _, rest = self.mean_and_rest(X)
        return mean, rest, np.zeros(len(X))

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
    _of_any_basis = frozenset([LEAVE_ONE_OUT, GRADIENTS])
    _of_points = _of_any_basis | {FUNCTIONS, NORMALS, BOUNDS}
    answers = property(lambda self: self._of_any_basis if self.points is None else self._of_points)

    @property
    def points(self):
        """Inducing points and weights; None where the basis has no points."""
        Z = getattr(self.features, "Z", None)
        return None if Z is None else (Z, self.u)

    def weight_variance(self, V: Array) -> Scalars:
        """Variance (n,) that the weights of features V (n, m) have given the data."""
        return product_norms(V, self.TB)

    def weight_products(self, V: Array) -> Array:
        """Features V (n, m) times the covariance of their weights."""
        return (V @ self.TB.T) @ self.TB

    def leave_one_out(
        self, rows: Dataset, chosen: Ints, terms: RowTerms, n_jobs: int = 1
    ) -> LeftOut:
        """`LeftOut` of chosen rows, in O(n m²) time."""
        if terms.method is not None:
            return self._left_out_of_sites(rows, chosen, terms, n_jobs)
        rows = _some(rows, chosen)

        def of_block(some):
            block = rows.block(some)
            mean, h, rest = self._given_all(block.X)
            share = terms.bound.for_weights(block.weight).noise_share
            learned = kernels.diagonal(self.kernel, block.X)[1]
            noise = learned + block.noise + share * rest
            q = np.minimum(block.weight, 1.0) * h / noise
            others = np.maximum(1.0 - q, _LEAST_SHARE)
            return block.y - (block.y - mean) / others[:, None], h / others + rest

        return LeftOut(*contract.joined(of_block, row_blocks(len(rows), self.width), n_jobs))

    def predict_normals(self, X: AnyArray, X_std: AnyArray, n_jobs: int = 1) -> tuple[Array, Array]:
        """Mean and variance (n, p) at inputs that have a normal distribution each."""
        one_group = np.zeros(self.u.shape[1], dtype=int)
        given = InducingPosterior.of(self.features, one_group, None, self.u, self.TB[None])
        return given.predict(Normals(float64(X), float64(X_std) ** 2), n_jobs)

    def _plus_weights(self, cov: Array, V: Array) -> Array:
        W = times_lower_transposed(V, self.TB)
        cov += W @ W.T
        return cov

    def _weights(self):
        return self.features, self.TB

    def _given_all(self, X: Array) -> tuple[Array, Array, Array]:
        """Mean and variance of what the features say of rows, and the residual variance."""
        mean, V, rest = self.mean_and_rest(X)
        return mean, product_norms(V, self.TB), rest

    @staticmethod
    def _natural_parameters(terms: RowTerms, some: slice, rest: Array, weight: Array) -> Array:
        """Natural parameters of sites as the features see them."""
        return terms.method.at_site(terms.sites[..., some], rest, weight)


def _some(rows, chosen):
    return rows if len(chosen) == len(rows) else rows.subset(chosen)


def noise_variance(kernel, X):
    """Learned noise variance at the rows of X, scalar or (n,)."""
    return kernels.diagonal(kernel, float64(X))[1]
