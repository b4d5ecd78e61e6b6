"""Rows with Gaussian sites ``exp(λ1 f - ½ λ2 f²)``: everything O(n) of an inner iteration.

Where the noise of a row is not a number but a likelihood, an inner loop looks for the sites that
stand in for it. Features V do not change meanwhile: `project_rows` computes them once. With the
linear term ``b`` and the precision ``a`` of every row, as the method makes them from its site,

    B = I + V diag(a) Vᵀ = LB LBᵀ,    c = LB⁻¹ V b,    v = LB⁻ᵀ c,
    μ_i = V_iᵀ v,    h_i = ‖LB⁻¹ V_i‖².

Several processes may share the kernel and the basis; each has sites of its own.

`ProjectedRows` and `Cores` are what an inner loop uses; the exact process below has the same
methods where nothing needs to be projected.
"""

from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from skgp_sparse import kernels
from skgp_sparse.data.arrays import DistinctInputs, PerRow
from skgp_sparse.data.dataset import Layout, row_blocks
from skgp_sparse.engine import collapsed, exact
from skgp_sparse.engine.basis import Features, InducingFeatures, Observations, Problem
from skgp_sparse.engine.collapsed import Sums, core_of, pull_back
from skgp_sparse.engine.feature_posterior import ExactPosterior
from skgp_sparse.ground import linalg
from skgp_sparse.ground.linalg import TINY, product_norms, weighted_gram
from skgp_sparse.ground.parallel import for_each, ordered_map

NO_POSTERIOR = (
    "There is no posterior: the sites of the rows are not finite, or too many precisions negative. "
    "Check the scale of X and y and the bounds of the hyperparameters."
)


class ProjectedRows(NamedTuple):
    """The rows of a problem as its basis sees them."""

    problem: Problem
    features: Features
    layout: Layout
    projections: list  # of the blocks, None where memory did not suffice
    observed: Observations  # of `PerRow`
    jitter: float  # of the features

    def sums(self, natural):
        """`Sums` over rows for linear terms and precisions, a `PerRow` (2, k, n), VaV as a list."""
        features_of = self._features_of()

        def run(read, projection, site):
            V = features_of(read, projection)
            return (V.T @ site[0].T, *(weighted_gram(V, a) for a in site[1])), None

        (Vb, *VaV), _ = self._visit(run, natural, keep=[False] * len(natural))
        return Sums(VaV, Vb.T)

    def solve(self, natural):
        """The `Cores` for the same."""
        n_jobs, sums = self.problem.options.n_jobs, self.sums(natural)
        of_processes = map(Sums, sums.VaV, sums.Vay[:, :, None])  # linear terms are columns
        return Cores(core_of(one, n_jobs, failure=NO_POSTERIOR) for one in of_processes)

    def moments(self, cores):
        """Means ``μ`` and variances ``h`` of the rows, a `PerRow` (2, k, n)."""

        features_of = self._features_of()
        run = lambda read, projection: ((), cores.moments(features_of(read, projection)))
        return PerRow(self._visit(run)[1])

    def covariance(self, core):
        """Posterior covariance (n, n) of what the basis says of the rows."""
        features_of = self._features_of()
        run = lambda read, projection: ((), (features_of(read, projection) @ core.TB.T).T)
        root = np.asarray(PerRow(self._visit(run)[1]))
        return root.T @ root

    def gradient(self, cores, sites, bounds, inputs):
        """Gradients by the name of the block, sites (λ1, λ2) held, a `PerRow` (2, k, n)."""
        problem, features = self.problem, self.features
        problems = [problem._replace(bound=bound) for bound in bounds]

        def see(block, projection, site):
            projection = projection or problem.project(features, block.X)
            pairs = zip(problems, site.swapaxes(0, 1))
            return [collapsed.forward_block(at, projection, block, one) for at, one in pairs]

        probe = see(problem.rows.block(slice(0, 1)), None, sites[0][..., :1])
        kept = self.projections, list(sites)  # which are used up
        return pull_back(problems, features, self.layout, see, cores, probe, inputs, kept)

    def posterior(self, core):
        """The `SparsePosterior` over one of the processes."""
        return collapsed.posterior_of(self.features, core, self.problem.kernel)

    def _visit(self, function, *states, keep=None):
        kept, reads = (self.projections, *states), [one is None for one in self.projections]
        return self.problem.rows.visit(function, self.layout, *kept, keep=keep, reads=reads)

    def _features_of(self):
        """``(read, projection) -> V``, without numbers of rows: it may go where the rows are."""
        project = partial(self.problem.project, self.features)
        return lambda read, projection: project(read().X).V if projection is None else projection.V


class Cores(tuple):
    """The posteriors of independent processes."""

    def moments(self, V):
        """Means ``μ`` and variances ``h`` of rows with these features (2, k, n)."""
        means = [(V @ core.v)[:, 0] for core in self]
        return np.stack([means, [product_norms(V, core.TB) for core in self]])

    def divergence(self):
        """``KL[q ‖ p]`` of all processes."""
        return sum(core.divergence() for core in self)

    def log_normaliser(self):
        """``log E[exp(Σ b f - ½ a f²)]`` of all processes under the prior."""
        return sum(core.log_normaliser() for core in self)


# Where memory does not allow everything, features have precedence: the inner loop reads them many
# times, and the backward pass the rest once. They are one array, which goes back to the system as
# a whole.
def project_rows(problem):
    """The `ProjectedRows` of a problem, which keep what memory allows."""
    features, layout = problem.features(), problem.layout()
    whole = all(layout.whole)
    kept = [rows.stop for rows, keep in zip(layout.blocks, layout.features) if keep]
    V = np.empty((max(kept, default=0), problem.basis.size))
    places = [V[rows] if keep else None for rows, keep in zip(layout.blocks, layout.features)]

    def run(read, place):
        block = read()
        complete = problem.project(features, block.X, place)
        observed = observe(block, complete.residual)
        projection = None if place is None else complete if whole else complete._replace(tape=None)
        return (), (projection, observed)

    _, waiting = problem.rows.visit(run, layout, places)
    projections, observed = zip(*waiting)
    observed = Observations(*map(PerRow, zip(*observed)))
    return ProjectedRows(problem, features, layout, list(projections), observed, features.jitter)


def observe(block, residual):
    """The `Observations` of a block, every part an array (n,)."""
    offset, weight = (np.broadcast_to(one, len(residual)) for one in (block.offset, block.weight))
    return Observations(block.observed, offset, weight, residual)


# -- gradients from some of the rows, with the posterior of the weights held -----------------------
# A collapsed objective is the best value, over ``q(w) = N(v, S)``, of a sum over rows,
#
#     F = Σ w [ log N(y; Vᵀv, λ) - h/2λ ] - reduce(Σ w φ) - KL[q ‖ N(0, I)],        h = Vᵀ S V,
#
# so that some rows, weighted up to all of them, say where it increases (Hensman, Fusi and Lawrence
# 2013; Titsias 2025, eq. 18, 19 and 23). The optimum of q given theta and the basis is that of
# `skgp_sparse.engine.collapsed`,
#
#     S = B⁻¹,    v = B⁻¹ V (a y),    B = I + V diag(a) Vᵀ,
#
# here with means over many rows in the place of the sums. Through the features ``V = T K``, q held,
#
#     W = V_bar Vᵀ = v (V a e)ᵀ - P S V diag(a) Vᵀ - 2 V diag(t) Vᵀ,      Kuu_bar = -Tᵀ sym Φ(W) T,
#
# where Φ takes the lower triangle and half of its diagonal. At the optimum for all rows W is
# symmetric, and this is the gradient of the collapsed objective.


class Minibatch(NamedTuple):
    """Some rows at one kernel and one basis, and what waits for their gradients."""

    problems: list  # of `Problem`, the same but for its bound, for each process
    features: Features
    layout: Layout
    waiting: list  # of the `Forward` of every process, for each block
    sums: list  # of `Sums`, one for each process
    n: float  # Σ w
    totals: np.ndarray  # Σ w φ, or what the view adds up


# ``view(block, Projection)`` returns the `Forward` of every process, and numbers to add up.
def _look(problems, view, keep):
    """The `Minibatch` of rows seen by a `view`; without `keep`, no gradient follows."""
    problem = problems[0]
    features, layout = problem.features(), problem.layout()

    def run(read):
        block = read()
        forwards, totals = view(block, problem.project(features, block.X))
        sums = chain.from_iterable(collapsed.posterior_sums(forward, block) for forward in forwards)
        totals = np.asarray(totals, dtype=float)
        return (collapsed.sum_of(block.weight, block), totals, *sums), forwards if keep else None

    kept = None if keep else [False] * len(layout.blocks)
    (n, totals, *parts), waiting = problem.rows.visit(run, layout, keep=kept)
    size = len(Sums._fields)
    sums = [Sums(*parts[k : k + size]) for k in range(0, len(parts), size)]
    return Minibatch(problems, features, layout, waiting, sums, n, totals)


def with_noise(problem, keep=True):
    """The `Minibatch` of rows with Gaussian noise; adds up their penalties."""

    def view(block, projection):
        forward = collapsed.forward_block(problem, projection, block)
        weight = np.broadcast_to(block.weight, len(block.X))
        return [forward], weight @ np.broadcast_to(forward.phi, len(block.X))

    return _look([problem], view, keep)


# It adds up the values of the rows, λ2 r in every process, and gradients wrt the likelihood.
def with_sites(problem, cores, method, v, keep=True):
    """The `Minibatch` of rows whose sites follow from the posteriors of now by a `Method`."""
    problems = [problem._replace(bound=method.surrogate(one)) for one in v]

    def view(block, projection):
        rows = observe(block, projection.residual)
        by_row = method.update(rows, *cores.moments(projection.V), None, v)
        pairs = zip(problems, np.stack([by_row.linear, by_row.precision], axis=1))
        forwards = [collapsed.forward_block(p, projection, block, site) for p, site in pairs]
        totals = [rows.weight @ by_row.value, *(by_row.precision @ (rows.weight * rows.residual))]
        if len(method.likelihood.theta):
            totals += [*method.slopes(rows, by_row.mean, by_row.variance, None) @ rows.weight]
        return forwards, totals

    return _look(problems, view, keep)


def gradient(batch, cores, slope, inputs):
    """Gradients by the name of the block from a batch, which is used up, the posteriors held."""
    *given, waiting, sums, _, _ = batch
    kept, see = [list(waiting)], lambda _, forwards: forwards
    return pull_back(*given, see, cores, waiting[0], inputs, kept, 1.0, slope, sums)


_FLAT = 1e-4  # a_g K_gg below which 1 - [B⁻¹]_gg has lost digits
_NO_KERNEL = (
    "The kernel matrix of the rows is not finite, or not positive definite. Check the kernel, the "
    "bounds of its hyperparameters, and the scale of X."
)


# -- the exact process on few distinct inputs, seen through Gaussian sites -------------------------
# Where every distinct input is an inducing point there is nothing to project: sites act on the
# kernel matrix K of the distinct inputs. Rows of the same input share its latent value; white noise
# comes on top, of variance ``r_i`` and for every copy of a row its own, and is integrated. With the
# natural parameters ``λ1, λ2`` of the sites and ``γ_i = 1 + r_i λ2``, sums over the rows i of group
# g,
#
#     a_g = Σ w_i λ2/γ_i,    b_g = Σ w_i λ1/γ_i,    s = √a,
#     B = I + diag(s) K diag(s) = L Lᵀ,    T = L⁻¹,    α = s B⁻¹ (b/s),    μ = K α,
#     h_g = (1 - [B⁻¹]_gg)/a_g                                   (posterior variance of the process)
#     m_i = (μ + r_i λ1)/γ_i,    v_i = r_i/γ_i + h/γ_i²          (marginal of a row, noise included)
#     KL = ½ (tr B⁻¹ - u + μᵀα + log|B|)
#          + ½ Σ w_i (1/γ_i - 1 + log γ_i + r_i ((λ1 - λ2 μ)² + λ2² h)/γ_i²)
#     log normaliser = ½ (bᵀμ - log|B|) + ½ Σ w_i (r_i λ1²/γ_i - log γ_i).
#
# The gradient is that of ``log N(λ1/λ2; 0, Cov)``, where every row has noise ``r_i + 1/λ2``:
#
#     ∂/∂K = ½ (α αᵀ - diag(s) B⁻¹ diag(s)),
#     ∂/∂r_i = ½ w_i ((λ1 - λ2 μ)² - λ2 γ_i + λ2² h)/γ_i².
#
# B is at least the identity, so that no jitter is needed however close inputs are. See Rasmussen
# and Williams (2006), sections 3.4 and 3.6; their ``α = b - s B⁻¹ (s K b)`` loses digits where the
# variance is large. An inner iteration takes ``⅔ u³`` multiplications and additions.
#
# Where precisions are negative, ``s = √|a|``, and their signs σ take the place of the identity in
# B. With the negative ones last, ``B⁻¹ = Tᵀ D T`` with ``D = ±1`` and
# ``h_g = (σ_g - [B⁻¹]_gg)/s_g²``. There is a posterior if as many of D as of σ are negative.


class JointCore(NamedTuple):
    """The Gaussian posterior over the process at the distinct inputs, given all sites."""

    T: np.ndarray  # (u, u) L⁻¹, lower triangular if no precision is negative
    s: np.ndarray  # (u,)
    a: np.ndarray  # (u,)
    b: np.ndarray  # (u,)
    alpha: np.ndarray  # (u,)
    mean: np.ndarray  # (u,) μ
    variance: np.ndarray  # (u,) h
    log_det: float  # log |B|
    noise: "Noise"

    def divergence(self):
        """``KL[q ‖ p]`` of the process and of its white noise at the rows."""
        process = self.mean @ self.alpha - self.a @ self.variance + self.log_det
        return 0.5 * process + self.noise.divergence(self)

    def log_normaliser(self):
        """``log E[exp(Σ b f - ½ a f²)]`` under the prior."""
        return 0.5 * (self.b @ self.mean - self.log_det) + self.noise.log_normaliser()


class Noise(NamedTuple):
    """White noise of every row, integrated: what it makes of the sites."""

    index: Any  # (n,) group of each row
    r: np.ndarray  # (n,)
    weight: np.ndarray  # (n,) copies of a row that have noise of their own
    linear: np.ndarray  # (n,) λ1, and ...
    precision: np.ndarray  # (n,) ... λ2 of one copy
    gain: np.ndarray  # (n,) γ

    def marginals(self, rows, core):
        """Mean and variance of some rows, their noise included."""
        r, gain = self.r[rows], self.gain[rows]
        mean, variance = core.mean[self.index[rows]], core.variance[self.index[rows]]
        return (mean + r * self.linear[rows]) / gain, r / gain + variance / gain**2

    def divergence(self, core):
        """Mean divergence of the noise, given the process."""
        spread = 1.0 / self.gain - 1.0 + np.log(self.gain)
        return 0.5 * self.weight @ (spread + self.r * self._squares(core))

    def log_normaliser(self):
        """The part of the log normaliser that is not seen by the process."""
        return 0.5 * self.weight @ (self.r * self.linear**2 / self.gain - np.log(self.gain))

    def gradient(self, core):
        """Gradient of the surrogate wrt r."""
        return 0.5 * self.weight * (self._squares(core) - self.precision / self.gain)

    def _squares(self, core):
        mean, variance = core.mean[self.index], core.variance[self.index]
        slope = self.linear - self.precision * mean
        return (slope**2 + self.precision**2 * variance) / self.gain**2


class JointRows(NamedTuple):
    """The rows of a problem as the process at all inputs; as `ProjectedRows`."""

    problem: Problem
    layout: Layout
    groups: DistinctInputs
    K: np.ndarray  # (u, u)
    pulls: list
    r: np.ndarray  # (n,) white noise
    pull_diagonal: Any  # of `kernels.diagonal`
    jitter: float = 0.0

    @property
    def observed(self):
        """The rows; the residual is 0, as nothing is left that the process does not know."""
        blocks = map(self.problem.rows.block, self.layout.blocks)
        of_blocks = (observe(block, np.zeros(len(block.X))) for block in blocks)
        return Observations(*map(PerRow, zip(*of_blocks)))

    def solve(self, natural):
        """The `Cores` for linear terms and precisions of the rows, a `PerRow` (2, k, n)."""
        return Cores(self._solve(*pair) for pair in np.asarray(natural).swapaxes(0, 1))

    def moments(self, cores):
        """Means and variances of the rows, their noise included, a `PerRow` (2, k, n)."""
        return PerRow(
            np.stack([core.noise.marginals(rows, core) for core in cores], axis=1)
            for rows in self.layout.blocks
        )

    def covariance(self, core):
        """Posterior covariance of the rows, their noise included (n, n)."""
        root = core.T @ (core.s[:, None] * self.K)
        noise, index = core.noise, self.groups.index
        S = (self.K - root.T @ root)[np.ix_(index, index)]
        S /= noise.gain[:, None] * noise.gain
        S.flat[:: len(S) + 1] += noise.r / noise.gain
        return S

    def gradient(self, cores, sites, bounds, inputs):
        """Gradients by the name of the block; without a residual, all bounds have the same."""
        n_jobs = self.problem.options.n_jobs
        inverses = [_inverse(core, n_jobs) for core in cores]

        def cotangent(*at):
            return sum(_cotangent(*pair, *at) for pair in zip(cores, inverses))

        of_process = exact.pull_back(self.pulls, cotangent, n_jobs)
        noise_bar = sum(self.groups.sum(core.noise.gradient(core)) for core in cores)
        of_noise = self.pull_diagonal(np.zeros(len(self.K)), noise_bar)[0]
        return {"kernel": of_process + of_noise}

    def posterior(self, core):
        """The `ExactPosterior` of a process; by all rows as features where a < 0."""
        kernel = self.problem.kernel
        if np.any(core.a < 0.0):
            noise = core.noise
            natural = noise.weight * np.stack([noise.linear, noise.precision])[:, None]
            rows = project_rows(self.problem)
            blocks = PerRow(natural[..., block] for block in rows.layout.blocks)
            return rows.posterior(rows.solve(blocks)[0])
        L = _factor_of_sites(self.K, core.s, self.problem.options.n_jobs) / core.s[:, None]
        features = InducingFeatures(kernel, self.groups.X, L)
        return ExactPosterior(kernel, features, core.alpha[:, None])

    def _solve(self, b, a):
        n_jobs = self.problem.options.n_jobs
        noise = self._noise(a, b)
        a, b = self.groups.sum(a / noise.gain), self.groups.sum(b / noise.gain)
        s = np.sqrt(np.maximum(np.abs(a), TINY))
        if np.any(a < 0.0):
            T, log_det = _inverse_with_signs(self.K, s, a < 0.0, n_jobs)
        else:
            L = _factor_of_sites(self.K, s, n_jobs)
            log_det = linalg.log_det_from_cholesky(L)
            T = linalg.inverse_lower(L, n_jobs)
            del L
        alpha = s * (T.T @ (_signs(a) * (T @ (np.where(a < 0.0, -b, b) / s))))
        variance = _variances(self.K, s, a, T, n_jobs)
        return JointCore(T, s, a, b, alpha, self.K @ alpha, variance, log_det, noise)

    def _noise(self, a, b):
        index, weight = self.groups.index, self.groups.weight
        copies = np.maximum(weight, 1.0)  # less than one is one that says less
        linear, precision = b / copies, a / copies
        gain = 1.0 + self.r * precision
        if np.any(gain <= 0.0):
            raise np.linalg.LinAlgError(NO_POSTERIOR)
        return Noise(index, self.r, copies * (weight > 0), linear, precision, gain)


def _cotangent(core, inverse, rows, columns):
    """Gradient wrt some entries of K, from the lower triangle of ``B⁻¹``."""
    G = inverse[rows, columns] * (-0.5 * core.s[rows, None])
    G *= core.s[columns]
    G += (0.5 * core.alpha[rows, None]) * core.alpha[columns]
    return G


def join_rows(groups, problem):
    """The `JointRows` of a problem whose basis are the distinct inputs of its `DistinctInputs`."""
    K, pulls = exact.kernel_matrix(problem.kernel, groups.X, problem.options.n_jobs)
    _, noise, pull_diagonal = kernels.diagonal(problem.kernel, groups.X)
    r = np.broadcast_to(noise, len(groups.X))[groups.index]
    K = linalg.mirror_lower(K)
    return JointRows(problem, problem.layout(), groups, K, pulls, r, pull_diagonal)


def _factor_of_sites(K, s, n_jobs):
    """Cholesky factor of ``B``, of which only the lower triangle is made."""
    B = np.zeros(K.shape)

    def fill(rows):
        head = slice(0, rows.stop)
        np.multiply(K[rows, head], s[head], out=B[rows, head])
        B[rows, head] *= s[rows, None]

    for_each(fill, row_blocks(*K.shape), n_jobs)
    B.flat[:: len(B) + 1] += 1.0
    return linalg.cholesky(B, n_jobs, failure=_NO_KERNEL)


def _inverse_with_signs(K, s, negative, n_jobs):
    """``T`` where some precisions are negative, its columns in the order of K, and ``log |B|``."""
    p, q = np.flatnonzero(~negative), np.flatnonzero(negative)
    L = _factor_of_sites(K[np.ix_(p, p)], s[p], n_jobs)
    first = linalg.inverse_lower(L, n_jobs)
    C = (s[q, None] * K[np.ix_(q, p)] * s[p]) @ first.T
    rest = C @ C.T - s[q, None] * K[np.ix_(q, q)] * s[q]
    rest.flat[:: len(q) + 1] += 1.0
    last = linalg.cholesky(rest, n_jobs, failure=NO_POSTERIOR)
    log_det = linalg.log_det_from_cholesky(L) + linalg.log_det_from_cholesky(last)
    last = linalg.inverse_lower(last, n_jobs)
    T = np.zeros(K.shape)
    T[: len(p), p] = first
    T[len(p) :, p] = -last @ (C @ first)
    T[len(p) :, q] = last
    return T, log_det


def _signs(a):
    """``D``: those of the precisions, where the negative ones come last."""
    return np.where(np.arange(len(a)) < np.count_nonzero(a >= 0.0), 1.0, -1.0)


def _inverse(core, n_jobs):
    """``B⁻¹``, of which the lower triangle is known."""
    if np.any(core.a < 0.0):
        return (core.T.T * _signs(core.a)) @ core.T
    return linalg.lower_gram(core.T, n_jobs)


def _variances(K, s, a, T, n_jobs):
    """``h``, from what is left of the prior variance where a site hardly changes it."""
    prior, signs = np.array(K.diagonal()), _signs(a)
    if s**2 @ prior < np.finfo(float).eps:  # a bound of the relative change of all of them
        return prior
    h = (np.where(a < 0.0, -1.0, 1.0) - signs @ T**2) / s**2
    flat = np.flatnonzero(s**2 * prior < _FLAT)
    blocks = [flat[rows] for rows in row_blocks(len(flat), len(K))]
    lost = ordered_map(lambda block: (K[block] * s @ T.T) ** 2 @ signs, blocks, n_jobs)
    for block, change in zip(blocks, lost):
        h[block] = prior[block] - change
    return h
