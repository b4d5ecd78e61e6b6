r"""Objectives with a likelihood: sites by an inner loop, then the Gaussian core with them.

A state is the natural parameters ``(λ1, λ2)`` of every row's site. At the fixed point the objective
is stationary in them, so that its gradient wrt theta and Z is that of the Gaussian objective with
the sites in the place of noise and targets, and nothing here is differentiated.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skgp_sparse._engine import collapsed_sites, exact_sites
from skgp_sparse._engine.basis import Basis
from skgp_sparse._engine.problem import Evaluation, Options, Problem
from skgp_sparse._engine.table import PerRow, Table, by_row
from skgp_sparse._ground.warnings import warn
from skgp_sparse.inference.contracts import Method, Objective
from skgp_sparse.inference.fixed_point import Step, solve_fixed_point
from skgp_sparse.inference.parameters import ParameterBlock, basis_block, kernel_block

_NUMBERS = 50  # of every row that the inner loop holds
SMALLEST = 1e-30  # precision of a site that says nothing
_USERS_TOLERANCE = 1e-15  # gradients are off by the root of what the value is off by
_OF_THE_OUTER = 1e-3  # the inner loop closes to this share of what the outer one stops at ...
_FINEST, _COARSEST = 1e-11, 1e-6  # ... within these limits
_REMEMBERED = 10_000  # counts of inner iterations, for reports
_RELEASE = 10.0  # largest factor by which an accelerated precision may leave the plain one


class Inner(NamedTuple):
    """When the inner loop ends."""

    max_iter: int = 100
    tol: float = 1e-9

    @classmethod
    def within(cls, outer_tol, max_iter):
        """An inner loop that is smooth to an outer one with a tolerance of its own."""
        return cls(max_iter, min(max(_OF_THE_OUTER * outer_tol, _FINEST), _COARSEST))


class ByRow(NamedTuple):
    """What a method says of a block of rows, given their marginals."""

    linear: np.ndarray  # λ1 and λ2 to which the plain map leads
    precision: np.ndarray
    mean: np.ndarray  # marginals
    variance: np.ndarray
    value: np.ndarray  # part of the objective


class Inferred(NamedTuple):
    """What the inner loop found, besides sites."""

    core: collapsed_sites.Core | exact_sites.Core
    v: float
    rows: ByRow


class Memory(NamedTuple):
    """What an evaluation remembers for the next one."""

    sites: PerRow
    history: Sequence = ()  # of the steps of the inner loop
    counts: tuple = ()  # inner iterations of the evaluations so far, for reports


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
        ``Problem -> Projected``, or what has its methods: what the inner loop works on.
    memory : Memory or None
        What an evaluation begins with where it is given none.
    """

    rows: Table
    method: Method
    basis: Basis
    options: Options
    inner: Inner = Inner()
    project: Callable = collapsed_sites.project_rows
    memory: Memory | None = None

    @property
    def inducing_points(self):
        """Parameters of the basis (m, d)."""
        return self.basis.parameters

    @property
    def inner_iterations(self):
        """Of the evaluations of the fit that this objective comes from."""
        return self.memory.counts

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

    def frozen(self, memory):
        """The same objective, whose evaluations all start from the sites of now, and end later."""
        memory = memory._replace(history=())
        return replace(self, memory=memory, inner=self.inner._replace(tol=_USERS_TOLERANCE))

    def of_nothing(self):
        """Log likelihood of observations whose distribution is the same for all rows."""
        weight = self.rows.weight
        y = self.rows.targets()[:, 0]
        return self.method.likelihood.of_nothing(y, np.ones(len(y)) if weight is None else weight)

    def value(self, kernel, memory=None):
        """The bound."""
        return self._infer(kernel, memory)[1].step.value

    def value_and_gradient(self, kernel, inputs=False, memory=None):
        """`Evaluation` with a gradient for each block, that of the basis only if `inputs`."""
        projected, found, memory = self._infer(kernel, memory)
        gradient = {}
        if len(self.method.likelihood.theta):
            gradient["likelihood"] = self._slopes(projected, found)
        surrogate = self.method.surrogate(found.step.result.v)
        gradient |= projected.gradient(found.step.result.core, found.state, surrogate, inputs)
        return Evaluation(found.step.value, gradient, projected.jitter, memory)

    def posterior(self, kernel, memory=None):
        """`Posterior`, the jitter that it took, and the sites to remember."""
        projected, found, memory = self._infer(kernel, memory)
        if not found.converged:
            warn(
                f"The sites did not converge in {found.n_iter} inner iterations (short of the "
                f"optimum by about {found.step.gap:.1e} nats); the best state is used. Raise "
                f"max_iter_predict (now {self.inner.max_iter}), or lower the upper bound of the "
                "kernel's variance.",
                ConvergenceWarning,
            )
        return projected.posterior(found.step.result.core), projected.jitter, memory

    def infer(self, kernel, memory=None):
        """The sites, as a `Solution` of arrays: for tests and reports."""
        found = self._infer(kernel, memory)[1]
        result = found.step.result
        rows = ByRow(*map(np.asarray, result.rows))
        result, target = result._replace(rows=rows), np.asarray(found.step.target)
        step = found.step._replace(result=result, target=target)
        return found._replace(state=np.asarray(found.state), step=step)

    def _problem(self, kernel):
        own = min(8.0 * _NUMBERS * len(self.rows), 0.5 * self.options.memory)
        options = self.options._replace(memory=self.options.memory - own)
        return Problem(kernel, self.basis, self.rows, None, options, latent_noise=True)

    def _infer(self, kernel, memory=None):
        projected = self.project(self._problem(kernel))
        known = memory or self.memory
        if known is None:
            known = Memory(by_row(_silent, projected.residual))
        found = solve_fixed_point(
            lambda state: self._evaluate(projected, state),
            known.sites,
            partial(by_row, _admissible),
            tol=self.inner.tol,
            max_iter=self.inner.max_iter,
            history=known.history,
        )
        counts = (*known.counts[-_REMEMBERED:], found.n_iter)
        return projected, found, Memory(found.state, found.history, counts)

    def _slopes(self, projected, found):
        """Gradient wrt the parameters of the likelihood, sites held."""
        core, v, _ = found.step.result

        def visit(block, mean, h, r, site, weight):
            return (self.method.slopes(block.y[:, 0], mean, h, r, site, v) @ weight,), None

        residual, weight = projected.residual, projected.weight
        return projected.visit(core, visit, residual, found.state, weight)[0][0]

    def _evaluate(self, projected, state):
        method, weight, residual = self.method, projected.weight, projected.residual
        core = projected.solve(by_row(partial(_weighted, method), state, residual, weight))
        n = self.rows.total_weight()
        v = method.share(sum(map(_precision_of_residual, state, residual, weight)) / n)

        def visit(block, mean, h, r, site, weight):
            if not (np.all(h >= 0.0) and np.isfinite(mean + h + r).all()):
                raise np.linalg.LinAlgError(
                    "A posterior variance is negative or no number: the kernel is not positive "
                    "definite at the rows, or its values are too large or too small."
                )
            found = method.by_row(block.y[:, 0], mean, h, r, site, v)
            target = np.stack([found.linear, found.precision])
            target = np.where(weight > 0, target, site)  # nothing holds the others
            gap = np.sum(_in_nats(target - site, found, weight) ** 2)
            return (weight @ found.value, gap), (target, found)

        (value, gap), left = projected.visit(core, visit, residual, state, weight)
        target, found = zip(*left)
        return Step(
            target=PerRow(target),
            scaled=lambda change: by_row(_in_nats, change, found, weight),
            gap=0.5 * gap,
            value=method.total(core, value, n, v),
            climbs=method.is_lower_bound,
            result=Inferred(core, v, ByRow(*map(PerRow, zip(*found)))),
        )


def _silent(residual):
    """Sites that say nothing."""
    return np.stack([np.zeros_like(residual), np.full_like(residual, SMALLEST)])


def _weighted(method, site, residual, weight):
    return weight * method.at_site(site, residual)


def _precision_of_residual(site, residual, weight):
    return weight @ (site[1] * residual)


def _in_nats(change, found, weight):
    """A change of ``(λ1, λ2)`` in units in which half its square is nats, to second order."""
    first = np.sqrt(weight * found.variance) * (change[0] - found.mean * change[1])
    return np.stack([first, np.sqrt(0.5 * weight) * found.variance * change[1]])


def _admissible(proposal, plain):
    """The proposal, and the plain step where a precision left its neighbourhood."""
    wild = proposal[1] < plain[1] / _RELEASE
    wild |= proposal[1] > plain[1] * _RELEASE
    return np.where(wild, plain, proposal)
