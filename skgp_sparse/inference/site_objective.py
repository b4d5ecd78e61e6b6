r"""Objectives with a likelihood: sites by an inner loop, then the Gaussian core with them.

At the fixed point of the inner loop (`skgp_sparse.inference.site_loop`), the objective is
stationary in the sites, so that its gradient wrt theta and Z is that of the Gaussian objective with
the sites in the place of noise and targets, and nothing here is differentiated.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skgp_sparse._engine import collapsed_sites
from skgp_sparse._engine.basis import Basis
from skgp_sparse._engine.posterior import Posteriors
from skgp_sparse._engine.problem import Evaluation, Options, Problem
from skgp_sparse._engine.table import Table
from skgp_sparse._ground.warnings import warn
from skgp_sparse.inference.contracts import Conclusion, Method, Objective
from skgp_sparse.inference.minibatches import SiteMinibatches
from skgp_sparse.inference.parameters import ParameterBlock, basis_block, kernel_block
from skgp_sparse.inference.site_loop import (
    ByRow,
    Inner,
    InnerState,
    SiteLoop,
    as_the_basis_sees,
)

_NUMBERS = 50  # of every site that the inner loop holds
_SQUARES = 6  # (m, m) arrays of every process but the first
_USERS_TOLERANCE = 1e-15  # gradients are off by the root of what the value is off by
_REMEMBERED = 10_000  # counts of inner iterations, for reports


@dataclass(frozen=True, eq=False)
class SiteObjective(Objective):
    """Bound or approximate log evidence of rows with a likelihood, in some basis.

    Parameters
    ----------
    rows : Table
        Observations, not scaled.
    method : Method
    basis : Basis
    options : Options
    inner : Inner
    project : callable
        ``Problem -> ProjectedRows``, or what has its methods: what the inner loop works on.
    inner_state : InnerState or None
        What an evaluation begins with where it is given none.
    """

    rows: Table
    method: Method
    basis: Basis
    options: Options
    inner: Inner = Inner()
    project: Callable = collapsed_sites.project_rows
    inner_state: InnerState | None = None

    @property
    def inducing_points(self):
        """Parameters of the basis (m, d)."""
        return self.basis.parameters

    @property
    def inner_iterations(self):
        """Of the evaluations of the fit that this objective comes from."""
        return self.inner_state.counts if self.inner_state else ()

    def size(self):
        """Number of rows, each counted as often as its weight says."""
        return self.rows.total_weight()

    def blocks(self, kernel, move_basis=False):
        """The kernel, the likelihood if it has parameters, the inducing points if they may move."""
        found = [kernel_block(kernel)]
        likelihood = self.method.likelihood
        if len(likelihood.theta):
            found.append(ParameterBlock("likelihood", likelihood.theta, limits=likelihood.limits))
        if move_basis:
            found.append(basis_block(kernel, self.basis.parameters, self.rows))
        return found

    def at(self, basis=None, likelihood=None):
        """The same objective at other inducing points, with other parameters of the likelihood."""
        found = self
        if basis is not None:
            found = replace(found, basis=self.basis.moved(basis))
        if likelihood is not None:
            moved = self.method.likelihood.with_theta(likelihood)
            found = replace(found, method=replace(self.method, likelihood=moved))
        return found

    def on(self, rows):
        """The same objective of other rows, whose sites are not known."""
        return replace(self, rows=rows, inner_state=None)

    def frozen(self, inner_state):
        """The same objective, whose evaluations all start from the sites of now, and end later."""
        inner_state = inner_state and inner_state._replace(history=())
        return replace(
            self, inner_state=inner_state, inner=self.inner._replace(tol=_USERS_TOLERANCE)
        )

    def constant_log_likelihood(self):
        """Log likelihood of observations whose distribution is the same for all rows."""
        block = self.rows.everything()
        others = np.broadcast_arrays(block.weight, block.offset, block.y[:, 0])
        return self.method.likelihood.constant_log_likelihood(block.y[:, 0], *others[:2])

    def value(self, kernel, inner_state=None):
        """The bound."""
        return self._infer(kernel, inner_state)[1].step.value

    def value_and_gradient(self, kernel, inputs=False, inner_state=None):
        """`Evaluation` with a gradient for each block, that of the basis only if `inputs`."""
        loop, found, inner_state = self._infer(kernel, inner_state)
        gradient = loop.gradient(found, inputs)
        return Evaluation(found.step.value, gradient, loop.projected.jitter, inner_state)

    def posterior(self, kernel, inner_state=None):
        """`Posterior`, or `Posteriors` of k processes, the jitter, and the sites to remember."""
        return self.conclude(kernel, inner_state)[1:]

    def conclude(self, kernel, inner_state=None):
        """`Conclusion` at a kernel."""
        loop, found, inner_state = self._infer(kernel, inner_state)
        projected = loop.projected
        if not found.converged:
            self._warn_of(found)
        each = tuple(map(projected.posterior, found.step.result.cores))
        posterior = each[0] if len(each) == 1 else Posteriors(each)
        return Conclusion(found.step.value, posterior, projected.jitter, inner_state)

    def solution(self, kernel):
        """The `SiteLoop` at a kernel, and where it ended."""
        return self._infer(kernel)[:2]

    def minibatches(self):
        """Gradients from some rows."""
        return SiteMinibatches(self.size())

    def settled(self, kernel, stop):
        """The sites of the first rows as `Sums`, where the last evaluation left them."""
        sites = np.asarray(self.inner_state.sites)[..., :stop]
        first = replace(self, rows=self.rows.subset(np.arange(stop)))
        as_seen = partial(as_the_basis_sees, self.method)
        return collapsed_sites.settle(first.problem(kernel), sites, as_seen)

    def infer(self, kernel, inner_state=None):
        """The sites, as a `Solution` of arrays, for tests and reports.

        Where there is one process, the axis of the processes is left out.
        """
        found = self._infer(kernel, inner_state)[1]
        result = found.step.result
        rows = ByRow(*map(_without_axis, result.rows))
        step = found.step._replace(
            result=result._replace(rows=rows), target=_without_axis(found.step.target)
        )
        return found._replace(state=_without_axis(found.state), step=step)

    def _warn_of(self, found):
        """Warn of sites that did not converge."""
        limit = f"{self.inner.parameter} (now {self.inner.max_iter})"
        remedy = f"Raise {limit}, or lower" if self.inner.parameter else "Lower"
        warn(
            f"The sites did not converge in {found.n_iter} inner iterations (short of the "
            f"optimum by about {found.step.gap:.1e} nats); the best state is used. {remedy} the "
            "upper bound of the kernel's variance.",
            ConvergenceWarning,
        )

    def problem(self, kernel):
        """The question of an evaluation."""
        k = self.method.likelihood.n_latent
        numbers = _NUMBERS * k * len(self.rows) + _SQUARES * (k - 1) * self.basis.size**2
        own = min(8.0 * numbers, 0.5 * self.options.memory)
        options = self.options._replace(memory=self.options.memory - own)
        return Problem(kernel, self.basis, self.rows, None, options, latent_noise=True)

    def _infer(self, kernel, inner_state=None):
        loop = SiteLoop(self.method, self.inner, self.project(self.problem(kernel)))
        known = inner_state or self.inner_state
        found = loop.solve(known)
        counts = (*(known.counts[-_REMEMBERED:] if known else ()), found.n_iter)
        return loop, found, InnerState(found.state, found.history, counts)


def _without_axis(numbers):
    """Numbers (..., k, n) of every row as an array, (..., n) where k is 1."""
    found = np.asarray(numbers)
    return found[..., 0, :] if found.ndim > 1 and found.shape[-2] == 1 else found
