"""Rows with a likelihood: their objectives, the factory of these, and updates of sites.

An inner loop finds the sites; with them, the objective is that of Gaussian noise. At the fixed
point of the loop (`skgp_sparse.inference.site_loop`), the objective is stationary in the sites, so
that its gradient wrt theta and Z is that of the Gaussian objective with the sites in the place of
noise and targets, and nothing here is differentiated.

`Variational` and `ExpectationPropagation` update sites one row at a time, from marginals
``N(m, s)`` of a row whose residual variance is ``r``, and ``μ`` and ``h`` from the inducing points
(`skgp_sparse.engine.collapsed_sites`). The likelihood sees ``f + o`` with the known offset ``o`` of
the row.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skgp_sparse.data.arrays import DistinctInputs
from skgp_sparse.data.dataset import Dataset
from skgp_sparse.engine import collapsed_sites, exact
from skgp_sparse.engine.basis import (
    Basis,
    Evaluation,
    InducingBasis,
    Observations,
    Options,
    Problem,
)
from skgp_sparse.engine.collapsed import Sums, core_of, visit_of
from skgp_sparse.engine.collapsed_sites import NO_POSTERIOR, Cores, RowSums
from skgp_sparse.engine.posterior import IndependentPosteriors, Posterior, RowTerms
from skgp_sparse.exceptions import warn
from skgp_sparse.ground.linalg import SMALLEST_PRECISION
from skgp_sparse.ground.validation import (
    AnyArray,
    Array,
    Bools,
    Ints,
    Kernel,
    Pair,
    Rng,
    Scalars,
    Triple,
)
from skgp_sparse.inference import contracts
from skgp_sparse.inference.contracts import Conclusion, ExactFit, SiteMethod
from skgp_sparse.inference.optimizers import Solution
from skgp_sparse.inference.site_loop import Inner, InnerState, NextSites, SiteLoop
from skgp_sparse.inference.stochastic import SHARE_OF_A_KIND
from skgp_sparse.likelihoods import Likelihood

_NUMBERS = 50  # of every site that the inner loop holds
_SQUARES = 6  # (m, m) arrays of every process but the first
_USERS_TOLERANCE = 1e-12  # of values; gradients are off by the root of what the value is off by
_OF_GRADIENTS = 1e-15
_USERS_LIMIT = 1e-6  # gap of which users are warned, in nats per row
_Inferred = tuple[SiteLoop, Solution, InnerState]
_PASSES = 20  # over all rows after a fit to parts of them
_CONVERGED = 1e-5  # nats per row that a pass gains when it is the last one
_SMALLEST_SHARE = 1e-3  # of a pass in the means, below which there is no posterior
_NOT_FINITE = "The bound of all rows is not finite. Check the scale of X and y."
_ROUGH = 1e-7  # tolerance of the inner loop in a fit that another one follows


@dataclass(frozen=True, eq=False)
class SiteObjective(ExactFit, contracts.SparseFit):
    """Bound or approximate log evidence of rows with a likelihood, in some basis."""

    rows: Dataset  # observations, not scaled
    site_method: "Variational | ExpectationPropagation"
    basis: Basis
    options: Options
    inner: Inner = Inner()
    project: Callable = collapsed_sites.project_rows  # Problem -> what the inner loop works on
    inner_state: InnerState | None = None  # to begin with, where an evaluation is given none
    starts: list | None = None  # of users' evaluations: theta and state of the fit and the last one

    likelihood = property(lambda self: self.site_method.likelihood)

    def size(self) -> float:
        """Number of rows, each counted as often as its weight says."""
        return self.rows.total_weight()

    def at(self, *, likelihood: Array | None = None, **blocks: Array) -> "SiteObjective":
        """A copy of the objective with other inducing points and parameters of the likelihood."""
        if likelihood is not None:
            method = replace(self.site_method, likelihood=self.likelihood.with_theta(likelihood))
            return replace(self, site_method=method).at(**blocks)
        return super().at(**blocks)

    def on(self, rows: Dataset) -> "SiteObjective":
        """A copy of the objective with other rows, whose sites are not known."""
        return replace(self, rows=rows, inner_state=None, starts=None)

    def terms(self, kernel: Kernel) -> RowTerms:
        """`RowTerms` with the sites, where the solver kept them."""
        sites = None if self.inner_state is None else np.asarray(self.inner_state.sites)
        return RowTerms(site_method=self.site_method, sites=sites)

    def for_users(
        self, kernel: Kernel | None = None, inner_state: InnerState | None = None
    ) -> "SiteObjective":
        """Objective whose evaluations end at rounding, from near sites, or else warn."""
        inner = self.inner._replace(tol=_USERS_TOLERANCE, exactly=True)
        starts = [(kernel.theta, inner_state)] if kernel is not None and inner_state else []
        return replace(self, inner=inner, inner_state=inner_state, starts=starts)

    def constant_log_likelihood(self) -> float:
        """Log likelihood of observations whose distribution is the same for all rows."""
        block, n = self.rows.everything(), len(self.rows)
        weight, offset = (np.broadcast_to(one, n) for one in (block.weight, block.offset))
        return self.site_method.likelihood.constant_log_likelihood(block.observed, weight, offset)

    def value(self, kernel: Kernel, inner_state: object = None) -> float:
        """Value of the bound at the sites of the inner loop, in nats."""
        return self.infer(kernel, inner_state)[1].step.value

    def value_and_gradient(
        self, kernel: Kernel, inputs: bool = False, inner_state: object = None
    ) -> Evaluation:
        """`Evaluation` with a gradient for each block, that of the basis only if `inputs`."""
        objective = self
        if self.starts is not None:
            objective = replace(self, inner=self.inner._replace(tol=_OF_GRADIENTS))
        loop, solution, inner_state = objective.infer(kernel, inner_state)
        gradient = loop.gradient(solution, inputs)
        return Evaluation(solution.step.value, gradient, loop.projected.jitter, inner_state)

    def conclude(self, kernel: Kernel, inner_state: object = None) -> Conclusion:
        """`Conclusion` at a kernel, with `IndependentPosteriors` of several processes."""
        loop, solution, inner_state = self.infer(kernel, inner_state)
        if not solution.converged:
            self._warn_of(solution)
        each = tuple(map(loop.projected.posterior, solution.step.result[0]))
        posterior = each[0] if len(each) == 1 else IndependentPosteriors(each)
        objective = self.for_users(kernel, inner_state._replace(history=()))
        return Conclusion(solution.step.value, posterior, loop.projected.jitter, objective)

    def of_sample(self, kernel: Kernel) -> tuple[Posterior, tuple]:
        """Posterior given the rows by the inner loop; its cores, and shares of the residual."""
        loop, solution, _ = self.infer(kernel)
        cores, v, _ = solution.step.result
        return cores.process(loop.projected.features, kernel), (cores, v)

    def log_densities(self, posterior: Posterior) -> Array:
        """Log densities (n,) of the rows."""
        block = self.rows.everything()
        mean, variance, noise = posterior.moments(block.X, self.options.n_jobs)
        mean, variance = mean.T + block.offset, (variance.reshape(len(mean), -1) + noise[:, None]).T
        if self.likelihood.n_latent == 1:
            mean, variance = mean[0], variance[0]
        return self.likelihood.log_density(block.observed, mean, variance)

    def conclude_from(self, kernel: Kernel, sample: tuple) -> Conclusion:
        """`Conclusion` after passes over all rows until one gains little; losses halve the step."""
        if self.site_method.uses_last_site:
            return self.conclude(kernel)
        visit, (cores, v), total = visit_of(self.problem(kernel)), sample, self.size()
        sums = [Sums(core.VaV, core.VaV @ core.v + core.v) for core in cores]
        now = _Average([one.times(1.0 / total) for one in sums], 1.0 / v - 1.0, cores)
        value, share = -np.inf, 1.0
        for _ in range(_PASSES):
            v = self.site_method.share(now.residual)
            rows = collapsed_sites.with_sites(visit, now.cores, self.site_method.update, v)
            trial = self.site_method.total(now.cores, rows.value, rows.n, v)
            if value == -np.inf and not np.isfinite(trial):
                raise np.linalg.LinAlgError(_NOT_FINITE)
            gain = trial - value
            converged = share == 1.0 and abs(gain) < _CONVERGED * total
            if gain > 0.0:
                best, value, share = (now, rows), trial, 1.0
            else:
                share *= 0.5
            if converged:
                break
            now = best[0].moved(best[1], share, total, self.options.n_jobs)
        else:
            warn(
                f"The sites of all rows did not converge in {_PASSES} passes (the last one changed "
                f"the bound by {gain / total:.1e} nats per row). Lower the upper bound of the "
                "kernel's variance, or use solver='lbfgs'.",
                ConvergenceWarning,
            )
        process = best[0].cores.process(visit.features, kernel)
        return Conclusion(value, process, visit.features.jitter, self.for_users())

    def _warn_of(self, solution: Solution) -> None:
        """Warn of sites that did not converge."""
        limit = f"{self.inner.parameter} (now {self.inner.max_iter})"
        remedy = f"Raise {limit}, or lower" if self.inner.parameter else "Lower"
        warn(
            f"The sites did not converge in {solution.n_iter} inner iterations (short of the "
            f"optimum by about {solution.step.gap:.1e} nats); the best state is used. {remedy} the "
            "upper bound of the kernel's variance.",
            ConvergenceWarning,
        )

    def problem(self, kernel: Kernel) -> Problem:
        """The question of an evaluation."""
        k = self.site_method.likelihood.n_latent
        numbers = _NUMBERS * k * len(self.rows) + _SQUARES * (k - 1) * self.basis.size**2
        of_sites = min(8.0 * numbers, 0.5 * self.options.memory)
        options = self.options._replace(memory=self.options.memory - of_sites)
        return Problem(kernel, self.basis, self.rows, None, options, latent_noise=True)

    def infer(self, kernel: Kernel, inner_state: object = None) -> "_Inferred":
        """The `SiteLoop` at a kernel, where it ended, and what it remembers."""
        loop = SiteLoop(self.site_method, self.inner, self.project(self.problem(kernel)))
        last: InnerState | None = inner_state or self.inner_state  # type: ignore[assignment]
        if self.starts is not None:
            away = lambda pair: np.linalg.norm(pair[0] - kernel.theta)
            last = min(self.starts, key=away)[1] if self.starts else None
        solution = loop.solve(last)
        inner_state = InnerState(solution.state, solution.history)
        if self.starts is not None:
            if not solution.step.gap <= _USERS_LIMIT * max(1.0, self.size()):
                self._warn_of(solution)
            self.starts[1:] = [(kernel.theta, inner_state._replace(history=()))]  # beside the fit's
        return loop, solution, inner_state


class _Average(NamedTuple):
    """Means over rows with sites, and the posteriors of the weights that follow from them."""

    means: list  # of `Sums` per row, one for each process
    residual: Array  # mean of λ2 r in each process
    cores: Cores

    def moved(self, rows: RowSums, share: float, total: float, n_jobs: int) -> "_Average":
        """The average after a natural-gradient step; a shorter one if it has no posterior."""
        while True:
            means = [
                one.times(1.0 - share) + sums.times(1.0 / rows.n).times(share)
                for one, sums in zip(self.means, rows.of_processes)
            ]
            residual = (1.0 - share) * self.residual + share * (rows.residual / rows.n)
            try:
                cores = (core_of(one.times(total), n_jobs, failure=NO_POSTERIOR) for one in means)
                return _Average(means, residual, Cores(cores))
            except np.linalg.LinAlgError:  # precisions of some likelihoods may be negative
                share *= 0.5
                if share < _SMALLEST_SHARE:
                    raise


@dataclass(frozen=True)
class SiteObjectives(contracts.ObjectiveFactory):
    """Rows with a likelihood, whose sites a method finds in an inner loop."""

    site_method: "Variational | ExpectationPropagation"
    inner: Inner = Inner()

    has_sites = True

    def sample(self, rows: Dataset, size: int, random_state: Rng) -> Ints:
        """Indices of the rows of the small fit that comes first: a share of those of each kind."""
        chosen = rows.sample(size, random_state)
        kinds = self.kinds(rows)
        counts = True if rows.weight is None else rows.weight > 0
        for kind in range(kinds.max() + 1):
            of_kind = (kinds == kind) & counts
            missing = int(size * SHARE_OF_A_KIND) - int(np.count_nonzero(of_kind[chosen]))
            if missing > 0 and len(chosen) == size:
                chosen = _with_more(chosen, of_kind, missing, random_state)
        return chosen

    def kinds(self, rows: Dataset) -> AnyArray:
        """Kinds of all rows, numbered in their order."""
        parts = [self.site_method.likelihood.kinds(rows.targets(at)[:, 0]) for at in rows.pieces()]
        kinds = np.unique(np.concatenate([np.unique(part) for part in parts]))
        smallest = np.min_scalar_type(len(kinds))
        return np.concatenate([np.searchsorted(kinds, part).astype(smallest) for part in parts])

    def informed_by(self, objective: ExactFit) -> "SiteObjectives":
        """The objectives with the parameters of the likelihood that a small fit found."""
        return replace(self, site_method=replace(self.site_method, likelihood=objective.likelihood))

    def exact(self, rows: Dataset, options: Options, rough: bool = False) -> SiteObjective:
        """Objective whose inducing points are the distinct rows; `rough` to start from."""
        tol = max(self.inner.tol, _ROUGH if rough else 0.0)
        groups = DistinctInputs.of(rows)
        basis, inner = InducingBasis(groups.X), self.inner._replace(tol=tol)
        project = partial(exact.join_rows, groups)
        return SiteObjective(rows, self.site_method, basis, options, inner, project)

    def in_basis(self, rows: Dataset, basis: Basis, options: Options) -> SiteObjective:
        """Objective in a basis."""
        return SiteObjective(rows, self.site_method, basis, options, self.inner)


def _with_more(chosen: Ints, of_kind: Bools, missing: int, random_state: Rng) -> Ints:
    """The chosen rows, some of which give way to `missing` further rows of a kind."""
    spare = np.setdiff1d(np.flatnonzero(of_kind), chosen)
    if len(spare) == 0:
        return chosen
    drawn = random_state.choice(spare, min(missing, len(spare)), replace=False)
    stay = random_state.permutation(chosen[~of_kind[chosen]])[len(drawn) :]
    return np.sort(np.concatenate([chosen[of_kind[chosen]], stay, drawn]))


@dataclass(frozen=True)
class Surrogate:
    """A Gaussian objective whose gradient, sites held, is that of a method of sites.

    The engine takes it in the place of a `Bound`. Its value is not used: the term
    ``-n/2 (v - log v - 1)`` stands in `Variational.total`. Without a power it is Titsias' bound,
    the residual variance scaled by ``v``. With one it is `PEP`, of a power that is at most the
    weight of the row: the cavity of a row never contains less than the other rows say.
    """

    v: Scalars = 1.0  # scale of the residual; above 1 where precisions are negative
    noise_share: Scalars = 0.0  # the power (n,); 0: there is none

    def for_weights(self, weight: Scalars) -> "Surrogate":
        """Surrogate with the power of each row; see `Bound.for_weights`."""
        a = self.noise_share
        if not np.any(a):
            return self
        return replace(self, noise_share=np.where(weight > 0, np.minimum(a, weight), a))

    def penalty(self, x: Array) -> tuple[Array, Scalars]:
        """``v x / 2`` or ``(1-a)/(2a) log(1 + a x)``, and its slope; see `Bound.penalty`."""
        a = self.noise_share
        if not np.any(a):
            return 0.5 * self.v * x, 0.5 * self.v
        return 0.5 * (1 - a) / a * np.log1p(a * x), 0.5 * (1 - a) / (1 + a * x)

    def reduce(self, total: float, n: float) -> tuple[float, float]:
        """The sum itself; see `Bound.reduce`."""
        return total, 1.0


@dataclass(frozen=True)
class Variational(SiteMethod):
    """Expected log likelihood minus divergence.

    With ``m = μ``, ``s = v r + h``, ``α = E[∂ log p(y|f)]`` and ``β = -E[∂² log p(y|f)]``, the
    update

        λ1 ← β m + α,    λ2 ← β,

    is a natural-gradient step of size one: Titsias (2025), "New bounds for sparse variational
    Gaussian processes", eq. 20 (``v = 1``) and eq. 23 (spherical: one ``v`` for all rows, whose
    optimum given the sites is ``1 / (1 + mean λ2 r)``); Adam, Chang, Khan and Solin (2021), "Dual
    parameterization of sparse variational Gaussian processes". Where the likelihood is not
    log-concave, a precision ``λ2`` may be negative.
    """

    likelihood: Likelihood
    spherical: bool  # whether ``v`` is free

    is_lower_bound = True

    @property
    def takes_turns(self) -> bool:  # type: ignore[override]
        """Whether the means are a concave problem at fixed variances."""
        return self.likelihood.is_log_concave

    def at_site(self, site: Array, residual: Array, weight: Scalars) -> Array:
        """Linear terms and precisions of rows, as the basis sees them: the sites as they are."""
        return site

    def share(self, mean: Array) -> Array:
        """The best ``v`` of each process, the mean of ``λ2 r`` being this."""
        return 1.0 / (1.0 + mean) if self.spherical else np.ones_like(mean)

    def update(self, rows: Observations, mean: Array, h: Array, site: Array, v: Array) -> NextSites:
        """Update of the sites of some rows: one natural-gradient step."""
        variance = v[:, None] * rows.residual + h
        value, slope, curvature = self.expectations(rows, mean, variance)
        return NextSites(curvature * mean + slope, curvature, mean, variance, value)

    def expectations(self, rows: Observations, mean: Array, variance: Array) -> Triple:
        """``E[log p]`` (n,), and ``α`` and ``β`` (k, n), at these marginals."""
        value, *derivatives = self.likelihood.expected(rows.y, *self._latent(rows, mean, variance))
        slope, curvature = np.atleast_2d(*derivatives)
        if self.likelihood.is_log_concave:
            curvature = np.maximum(curvature, SMALLEST_PRECISION)
        return value, slope, curvature

    def slopes(self, rows: Observations, mean: Array, variance: Array, site: Array) -> Array:
        """Slopes of the expected log likelihood with respect to its parameters."""
        return self.likelihood.expected_slopes(rows.y, *self._latent(rows, mean, variance))

    def total(self, cores: collapsed_sites.Cores, value: float, n: float, v: Array) -> float:
        """The bound, from the sum over rows, and how many there are."""
        return value - cores.divergence() - 0.5 * n * np.sum(v - np.log(v) - 1.0)

    def surrogate(self, v: Scalars) -> Surrogate:
        """The Gaussian objective with the same gradient, for a process with this ``v``."""
        return Surrogate(v)

    def _latent(self, rows: Observations, mean: Array, variance: Array) -> tuple:
        """Mean and variance of what the likelihood sees, (n,) if it is one value per row."""
        mean = mean + rows.offset
        return (mean[0], variance[0]) if self.likelihood.n_latent == 1 else (mean, variance)


@dataclass(frozen=True)
class ExpectationPropagation(SiteMethod):
    """Moments of every row matched under the FITC prior, or a share of each row, the power.

    The power ``a`` is at most the weight of the row. The prior has residuals of a share ``a``, so
    that the residual of a row is updated by its site: ``γ = 1 + a r λ2``, ``m = (μ + a r λ1)/γ``,
    ``s = r/γ + h/γ²``,

        cavity  C = s/(1 - a s λ2),    q = (m - a s λ1)/(1 - a s λ2),
        λ1 ← (α + q β)/(a (1 - C β)),    λ2 ← β/(a (1 - C β)),

    with the slope ``α`` and the negative curvature ``β`` of ``log ∫ N(f; q, C) p(y|f)^a df`` in q.
    Power 1 is Naish-Guzman and Holden (2008), "The generalized FITC approximation"; other powers
    are Bui, Yan and Turner (2017), "A unifying framework for Gaussian process pseudo-point
    approximations using power expectation propagation". The limit of power 0 is `Variational`.
    """

    likelihood: Likelihood  # of one latent value per row, log-concave
    power: float  # in (0, 1]

    uses_last_site = True

    def at_site(self, site: Array, residual: Array, weight: Scalars) -> Array:
        """Linear terms and precisions of rows, a share of their residual integrated out."""
        return site / (1.0 + self._powers(weight) * residual * site[1])

    def share(self, mean: Array) -> Array:
        """Ones: the residual variance of every process counts in full."""
        return np.ones_like(mean)

    def update(self, rows: Observations, mean: Array, h: Array, site: Array, v: Array) -> NextSites:
        """Update of the sites of some rows: one parallel step of EP."""
        a, residual = self._powers(rows.weight), rows.residual
        linear, precision = a * site[:, 0]
        gain = 1.0 + residual * precision
        mean, variance = (mean[0] + residual * linear) / gain, (residual + h[0] / gain) / gain
        centre, cavity = _cavity(mean, variance, linear, precision)
        value, slope, curvature = self.likelihood.tilted(rows.y, centre + rows.offset, cavity, a)
        curvature = np.maximum(curvature, a * SMALLEST_PRECISION)
        rest = a * np.maximum(1.0 - cavity * curvature, np.finfo(float).eps)
        # log of the tilted normaliser over that of the site, both under the cavity, and the
        # integral over the residual
        of_cavity = 1.0 + cavity * precision
        exponent = cavity * linear**2 + 2.0 * linear * centre - precision * centre**2
        ratio = np.log(of_cavity / gain) - exponent / of_cavity + residual * linear**2 / gain
        sites = (slope + centre * curvature) / rest, curvature / rest
        return NextSites._make([*np.atleast_2d(*sites, mean, variance), (value + 0.5 * ratio) / a])

    def slopes(self, rows: Observations, mean: Array, variance: Array, site: Array) -> Array:
        """Slopes of the logarithms of the tilted normalisers wrt the likelihood's parameters."""
        a = self._powers(rows.weight)
        centre, cavity = _cavity(mean[0], variance[0], *(a * site[:, 0]))
        return self.likelihood.tilted_slopes(rows.y, centre + rows.offset, cavity, a) / a

    def total(self, cores: collapsed_sites.Cores, value: float, n: float, v: Array) -> float:
        """Log of the approximate evidence, from the sum over rows."""
        return value + cores.log_normaliser()

    def surrogate(self, v: Scalars) -> Surrogate:
        """The Gaussian objective with the same gradient."""
        return Surrogate(noise_share=self.power)

    def _powers(self, weight: Scalars) -> Scalars:
        """Power of each row, as the surrogate has it."""
        return self.surrogate(1.0).for_weights(weight).noise_share


def _cavity(mean: Array, variance: Array, linear: Array, precision: Array) -> Pair:
    """Mean and variance of rows without these sites."""
    left = np.maximum(1.0 - variance * precision, np.finfo(float).eps)
    return (mean - variance * linear) / left, variance / left
