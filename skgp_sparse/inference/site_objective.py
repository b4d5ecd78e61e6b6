r"""Rows with a likelihood: their objectives, and the model that makes these.

An objective finds sites by an inner loop, then has the Gaussian core with them. At the fixed
point of the loop (`skgp_sparse.inference.site_loop`), the objective is stationary in the sites, so
that its gradient wrt theta and Z is that of the Gaussian objective with the sites in the place of
noise and targets, and nothing here is differentiated.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skgp_sparse._engine import collapsed_sites
from skgp_sparse._engine.array_dataset import DistinctInputs
from skgp_sparse._engine.basis import Basis, Evaluation, InducingBasis, Options, Problem
from skgp_sparse._engine.dataset import Dataset
from skgp_sparse._engine.passes import Sums
from skgp_sparse._engine.posterior import IndependentPosteriors, RowTerms
from skgp_sparse.exceptions import warn
from skgp_sparse.inference.contracts import (
    Conclusion,
    ExactFit,
    Method,
    ObjectiveFactory,
    SparseFit,
)
from skgp_sparse.inference.minibatches import SiteMinibatchView
from skgp_sparse.inference.parameter_vectors import ParameterBlock, basis_block, kernel_block
from skgp_sparse.inference.site_loop import Inner, InnerState, SiteLoop, natural_parameters

_NUMBERS = 50  # of every site that the inner loop holds
_SQUARES = 6  # (m, m) arrays of every process but the first
_USERS_TOLERANCE = 1e-12  # of values; gradients are off by the root of what the value is off by
_OF_GRADIENTS = 1e-15
_USERS_LIMIT = 1e-6  # gap of which users are warned, in nats per row
_REMEMBERED = 10_000  # counts of inner iterations, for reports
_OF_A_KIND = 0.1  # of the rows of a start, where there are so many
_ROUGH = 1e-7  # tolerance of the inner loop in a fit that another one follows


class Starts:
    """Where users' evaluations begin: the sites of the fit, and of the evaluation before."""

    def __init__(self, kernel=None, inner_state=None):
        self._known = [(kernel.theta, inner_state)] if inner_state else []

    def nearest(self, kernel):
        """The `InnerState` that is known at the nearest theta, None if there is none."""
        known = sorted(self._known, key=lambda one: np.linalg.norm(one[0] - kernel.theta))
        return known[0][1] if known else None

    def keep(self, kernel, inner_state):
        """Keep an `InnerState` beside that of the fit."""
        self._known = [*self._known[:1], (kernel.theta, inner_state._replace(history=()))]


@dataclass(frozen=True, eq=False)
class SiteObjective(ExactFit, SparseFit):
    """Bound or approximate log evidence of rows with a likelihood, in some basis.

    Parameters
    ----------
    rows : Dataset
        Observations, not scaled.
    method : Method
    basis : Basis
    options : Options
    inner : Inner
    project : callable
        ``Problem -> ProjectedRows``, or what has its methods: what the inner loop works on.
    inner_state : InnerState or None
        What an evaluation begins with where it is given none.
    starts : Starts or None
        Those of users' evaluations.
    """

    rows: Dataset
    method: Method
    basis: Basis
    options: Options
    inner: Inner = Inner()
    project: Callable = collapsed_sites.project_rows
    inner_state: InnerState | None = None
    starts: Starts | None = None

    likelihood = property(lambda self: self.method.likelihood)

    @property
    def inducing_points(self):
        """Inducing points (m, d) of the basis, None if it has none."""
        return self.basis.points

    @property
    def inner_iterations(self):
        """Inner iterations of the evaluations of the fit that this objective comes from."""
        return self.inner_state.counts if self.inner_state else ()

    def size(self):
        """Number of rows, each counted as often as its weight says."""
        return self.rows.total_weight()

    def blocks(self, kernel, move_basis=False):
        """The kernel, the likelihood if it has parameters, the inducing points if they may move."""
        blocks, likelihood = [kernel_block(kernel)], self.method.likelihood
        if len(likelihood.theta):
            blocks.append(ParameterBlock("likelihood", likelihood.theta, limits=likelihood.limits))
        if move_basis:
            blocks.append(basis_block(kernel, self.basis, self.rows.scale()))
        return blocks

    def at(self, basis=None, likelihood=None):
        """A copy of the objective with other inducing points and parameters of the likelihood."""
        objective = self
        if basis is not None:
            objective = replace(objective, basis=self.basis.moved(basis))
        if likelihood is not None:
            likelihood = self.method.likelihood.with_theta(likelihood)
            objective = replace(objective, method=replace(self.method, likelihood=likelihood))
        return objective

    def on(self, rows):
        """A copy of the objective with other rows, whose sites are not known."""
        return replace(self, rows=rows, inner_state=None, starts=None)

    def terms(self, kernel):
        """`RowTerms` with the sites, where the solver kept them."""
        sites = None if self.inner_state is None else np.asarray(self.inner_state.sites)
        return RowTerms(method=self.method, sites=sites)

    def for_users(self, kernel=None, inner_state=None):
        """A copy of the objective whose evaluations end at rounding, and warn where they do not.

        They begin with the sites of the fit, or those of the evaluation before.
        """
        inner = self.inner._replace(tol=_USERS_TOLERANCE, exactly=True)
        starts = Starts(kernel, inner_state)
        return replace(self, inner=inner, inner_state=inner_state, starts=starts)

    def noise_and_residual(self, kernel):
        """1 and 0: the noise is that of the likelihood."""
        return 1.0, 0.0

    def constant_log_likelihood(self):
        """Log likelihood of observations whose distribution is the same for all rows."""
        block, n = self.rows.everything(), len(self.rows)
        weight, offset = (np.broadcast_to(one, n) for one in (block.weight, block.offset))
        return self.method.likelihood.constant_log_likelihood(block.observed, weight, offset)

    def value(self, kernel, inner_state=None):
        """The bound."""
        return self.infer(kernel, inner_state)[1].step.value

    def value_and_gradient(self, kernel, inputs=False, inner_state=None):
        """`Evaluation` with a gradient for each block, that of the basis only if `inputs`."""
        objective = self
        if self.starts is not None:
            objective = replace(self, inner=self.inner._replace(tol=_OF_GRADIENTS))
        loop, solution, inner_state = objective.infer(kernel, inner_state)
        gradient = loop.gradient(solution, inputs)
        return Evaluation(solution.step.value, gradient, loop.projected.jitter, inner_state)

    def conclude(self, kernel, inner_state=None):
        """`Conclusion` at a kernel, with `IndependentPosteriors` of several processes."""
        loop, solution, inner_state = self.infer(kernel, inner_state)
        if not solution.converged:
            self._warn_of(solution)
        each = tuple(map(loop.projected.posterior, solution.step.result.cores))
        posterior = each[0] if len(each) == 1 else IndependentPosteriors(each)
        objective = self.for_users(kernel, inner_state._replace(history=()))
        return Conclusion(solution.step.value, posterior, loop.projected.jitter, objective)

    def minibatch_view(self):
        """Gradients from some rows, and a running posterior."""
        return SiteMinibatchView(self.size())

    def frozen_sites(self, kernel, stop):
        """The sites of the first rows as `Sums`, where the last evaluation left them."""
        sites = np.asarray(self.inner_state.sites)[..., :stop]
        first = replace(self, rows=self.rows.subset(np.arange(stop)))
        to_natural = partial(natural_parameters, self.method)
        return collapsed_sites.sums_at_sites(first.problem(kernel), sites, to_natural)

    def _warn_of(self, solution):
        """Warn of sites that did not converge."""
        limit = f"{self.inner.parameter} (now {self.inner.max_iter})"
        remedy = f"Raise {limit}, or lower" if self.inner.parameter else "Lower"
        warn(
            f"The sites did not converge in {solution.n_iter} inner iterations (short of the "
            f"optimum by about {solution.step.gap:.1e} nats); the best state is used. {remedy} the "
            "upper bound of the kernel's variance.",
            ConvergenceWarning,
        )

    def problem(self, kernel):
        """The question of an evaluation."""
        k = self.method.likelihood.n_latent
        numbers = _NUMBERS * k * len(self.rows) + _SQUARES * (k - 1) * self.basis.size**2
        of_sites = min(8.0 * numbers, 0.5 * self.options.memory)
        options = self.options._replace(memory=self.options.memory - of_sites)
        return Problem(kernel, self.basis, self.rows, None, options, latent_noise=True)

    def infer(self, kernel, inner_state=None):
        """The `SiteLoop` at a kernel, where it ended, and what it remembers."""
        loop = SiteLoop(self.method, self.inner, self.project(self.problem(kernel)))
        last = inner_state or self.inner_state
        if self.starts is not None:
            last = self.starts.nearest(kernel)
        solution = loop.solve(last)
        counts = (*(last.counts[-_REMEMBERED:] if last else ()), solution.n_iter)
        inner_state = InnerState(solution.state, solution.history, counts)
        if self.starts is not None:
            if not solution.step.gap <= _USERS_LIMIT * max(1.0, self.size()):
                self._warn_of(solution)
            self.starts.keep(kernel, inner_state)
        return loop, solution, inner_state


@dataclass(frozen=True)
class SiteObjectives(ObjectiveFactory):
    """Rows with a likelihood.

    Parameters
    ----------
    method : Method
    inner : Inner
    frozen_sites : Sums or None
        What rows say that are no longer in the table, for objectives at inducing points.
    """

    method: Method
    inner: Inner = Inner()
    frozen_sites: Sums | None = None

    has_sites = True

    def sample(self, rows, size, random_state):
        """Indices of the rows of the small fit that comes first: a share of those of each kind."""
        chosen = rows.sample(size, random_state)
        kinds = self.kinds(rows)
        counts = True if rows.weight is None else rows.weight > 0
        for kind in range(kinds.max() + 1):
            of_kind = (kinds == kind) & counts
            missing = int(size * _OF_A_KIND) - np.count_nonzero(of_kind[chosen])
            if missing > 0 and len(chosen) == size:
                chosen = _with_more(chosen, of_kind, missing, random_state)
        return chosen

    def kinds(self, rows):
        """Kinds of all rows, numbered in their order."""
        likelihood = self.method.likelihood
        parts = [likelihood.kinds(rows.targets(piece)[:, 0]) for piece in rows.pieces()]
        kinds = np.unique(np.concatenate([np.unique(part) for part in parts]))
        smallest = np.min_scalar_type(len(kinds))
        return np.concatenate([np.searchsorted(kinds, part).astype(smallest) for part in parts])

    def informed_by(self, objective):
        """The model with the parameters of the likelihood that a small fit found."""
        likelihood = objective.method.likelihood
        return replace(self, method=replace(self.method, likelihood=likelihood))

    def exact(self, rows, options, rough=False):
        """Objective whose inducing points are the distinct rows; `rough` to start from."""
        tol = max(self.inner.tol, _ROUGH if rough else 0.0)
        groups = DistinctInputs.of(rows)
        basis, inner = InducingBasis(groups.X), self.inner._replace(tol=tol)
        project = partial(collapsed_sites.join_rows, groups)
        return SiteObjective(rows, self.method, basis, options, inner, project)

    def in_basis(self, rows, basis, options):
        """Objective in a basis."""
        project = partial(collapsed_sites.project_rows, frozen_sites=self.frozen_sites)
        return SiteObjective(rows, self.method, basis, options, self.inner, project)


def _with_more(chosen, of_kind, missing, random_state):
    """The chosen rows, some of which give way to `missing` further rows of a kind."""
    spare = np.setdiff1d(np.flatnonzero(of_kind), chosen)
    if len(spare) == 0:
        return chosen
    drawn = random_state.choice(spare, min(missing, len(spare)), replace=False)
    stay = random_state.permutation(chosen[~of_kind[chosen]])[len(drawn) :]
    return np.sort(np.concatenate([chosen[of_kind[chosen]], stay, drawn]))
