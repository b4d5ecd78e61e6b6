r"""Objectives with a likelihood: sites by an inner loop, then the Gaussian core with them.

A state is the natural parameters ``(λ1, λ2)`` of every row's site, one site in each process that
the likelihood sees: an array (2, k, n) in each block of rows. At the fixed point the objective
is stationary in them, so that its gradient wrt theta and Z is that of the Gaussian objective with
the sites in the place of noise and targets, and nothing here is differentiated.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skgp_sparse._engine import collapsed_sites
from skgp_sparse._engine.basis import Basis
from skgp_sparse._engine.posterior import Posteriors
from skgp_sparse._engine.problem import Evaluation, Options, Problem
from skgp_sparse._engine.table import PerRow, Table, by_row
from skgp_sparse._ground.warnings import warn
from skgp_sparse.inference.contracts import Method, Objective
from skgp_sparse.inference.fixed_point import Step, solve_fixed_point
from skgp_sparse.inference.parameters import ParameterBlock, basis_block, kernel_block

_NUMBERS = 50  # of every site that the inner loop holds
_MOST_ITERATIONS = 100
_ROUGH_START = 1e-4  # tolerance of an inner loop that another one follows
SMALLEST = 1e-30  # precision of a site that says nothing
_USERS_TOLERANCE = 1e-15  # gradients are off by the root of what the value is off by
_OF_THE_OUTER = 1e-3  # the inner loop closes to this share of what the outer one stops at ...
_FINEST, _COARSEST = 1e-11, 1e-6  # ... within these limits
_REMEMBERED = 10_000  # counts of inner iterations, for reports
_RELEASE = 10.0  # largest factor by which an accelerated precision may leave the plain one


class Inner(NamedTuple):
    """When the inner loop ends."""

    max_iter: int = _MOST_ITERATIONS
    tol: float = 1e-9
    parameter: str = ""  # of the estimator, that sets max_iter

    @classmethod
    def within(cls, outer_tol, max_iter=_MOST_ITERATIONS, parameter=""):
        """An inner loop that is smooth to an outer one with a tolerance of its own."""
        return cls(max_iter, min(max(_OF_THE_OUTER * outer_tol, _FINEST), _COARSEST), parameter)


class ByRow(NamedTuple):
    """What a method says of a block of rows, given their marginals."""

    linear: np.ndarray  # λ1 and λ2 to which the plain map leads (k, n)
    precision: np.ndarray
    mean: np.ndarray  # marginals (k, n)
    variance: np.ndarray
    value: np.ndarray  # part of the objective (n,)


class Inferred(NamedTuple):
    """What the inner loop found, besides sites."""

    cores: collapsed_sites.Cores
    v: np.ndarray  # (k,)
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
        block = self.rows.block(slice(None))
        others = np.broadcast_arrays(block.weight, block.offset, block.y[:, 0])
        return self.method.likelihood.of_nothing(block.y[:, 0], *others[:2])

    def value(self, kernel, memory=None):
        """The bound."""
        return self._infer(kernel, memory)[1].step.value

    def value_and_gradient(self, kernel, inputs=False, memory=None):
        """`Evaluation` with a gradient for each block, that of the basis only if `inputs`."""
        projected, found, memory = self._infer(kernel, memory)
        gradient = {}
        if len(self.method.likelihood.theta):
            gradient["likelihood"] = self._slopes(projected, found)
        cores, v, _ = found.step.result
        surrogates = [self.method.surrogate(one) for one in v]
        gradient |= projected.gradient(cores, found.state, surrogates, inputs)
        return Evaluation(found.step.value, gradient, projected.jitter, memory)

    def posterior(self, kernel, memory=None):
        """`Posterior`, or `Posteriors` of k processes, the jitter, and the sites to remember."""
        projected, found, memory = self._infer(kernel, memory)
        if not found.converged:
            self._warn_of(found)
        each = tuple(map(projected.posterior, found.step.result.cores))
        return each[0] if len(each) == 1 else Posteriors(each), projected.jitter, memory

    def infer(self, kernel, memory=None):
        """The sites, as a `Solution` of arrays, for tests and reports.

        Where there is one process, the axis of the processes is left out.
        """
        found = self._infer(kernel, memory)[1]
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

    def _problem(self, kernel):
        numbers = 8.0 * _NUMBERS * self.method.likelihood.n_latent * len(self.rows)
        own = min(numbers, 0.5 * self.options.memory)
        options = self.options._replace(memory=self.options.memory - own)
        return Problem(kernel, self.basis, self.rows, None, options, latent_noise=True)

    def _infer(self, kernel, memory=None):
        projected = self.project(self._problem(kernel))
        known = memory or self.memory
        if known is None:
            known = Memory(self._first_sites(projected))
        try:
            found = self._iterate(projected, known.sites, known.history)
        except np.linalg.LinAlgError:
            if memory is None and self.memory is None:
                raise
            found = self._iterate(projected, self._first_sites(projected))
        counts = (*known.counts[-_REMEMBERED:], found.n_iter)
        return projected, found, Memory(found.state, found.history, counts)

    def _iterate(self, projected, sites, history=()):
        """The `Solution` of the inner loop; may raise ``LinAlgError`` where it cannot begin."""
        concave = self.method.likelihood.is_log_concave
        evaluate = self._evaluate if concave else self._evaluate_if_possible
        return solve_fixed_point(
            partial(evaluate, projected),
            sites,
            partial(by_row, _admissible if concave else _anything),
            tol=self.inner.tol,
            max_iter=self.inner.max_iter,
            history=history,
        )

    def _first_sites(self, projected):
        """Sites to begin with where nothing is known."""
        likelihood = self.method.likelihood

        def visit(read):
            block = read()
            linear, precision = likelihood.first_sites(block.y[:, 0])
            sites = np.stack([linear - precision * block.offset, precision])
            sites *= np.greater(block.weight, 0.0)  # nothing moves the others
            return (), sites.reshape(2, likelihood.n_latent, -1)

        sites = PerRow(self.rows.visit(visit, projected.layout)[1])
        majorised = likelihood.majorised()
        if majorised is None:
            return sites
        rough = replace(self, method=replace(self.method, likelihood=majorised))
        rough = replace(rough, inner=self.inner._replace(tol=_ROUGH_START))
        return rough._iterate(projected, sites).state

    def _slopes(self, projected, found):
        """Gradient wrt the parameters of the likelihood, sites held."""
        cores, v, _ = found.step.result

        def visit(block, mean, h, r, site, weight):
            return (self.method.slopes(block, mean, h, r, site, v) @ weight,), None

        residual, weight = projected.residual, projected.weight
        return projected.visit(cores, visit, residual, found.state, weight)[0][0]

    def _evaluate_if_possible(self, projected, state):
        """The same where precisions may be negative, so that there need not be a posterior."""
        try:
            return self._evaluate(projected, state)
        except np.linalg.LinAlgError:
            return Step(state, None, np.nan, -np.inf, True, None)

    def _evaluate(self, projected, state):
        method, weight, residual = self.method, projected.weight, projected.residual
        cores = projected.solve(by_row(partial(_weighted, method), state, residual, weight))
        n = self.rows.total_weight()
        v = method.share(sum(map(_precision_of_residual, state, residual, weight)) / n)

        def visit(block, mean, h, r, site, weight):
            if not (np.all(h >= 0.0) and np.isfinite(mean + h + r).all()):
                raise np.linalg.LinAlgError(
                    "A posterior variance is negative or no number: the kernel is not positive "
                    "definite at the rows, or its values are too large or too small."
                )
            found = method.by_row(block, mean, h, r, site, v)
            target = np.stack([found.linear, found.precision])
            target = np.where(weight > 0, target, site)  # nothing holds the others
            gap = np.sum(_in_nats(target - site, found, weight) ** 2)
            return (weight @ found.value, gap), (target, found)

        (value, gap), left = projected.visit(cores, visit, residual, state, weight)
        target, found = zip(*left)
        return Step(
            target=PerRow(target),
            scaled=lambda change: by_row(_in_nats, change, found, weight),
            gap=0.5 * gap,
            value=method.total(cores, value, n, v),
            climbs=method.is_lower_bound,
            result=Inferred(cores, v, ByRow(*map(PerRow, zip(*found)))),
        )


def _without_axis(numbers):
    """Numbers (..., k, n) of every row as an array, (..., n) where k is 1."""
    found = np.asarray(numbers)
    return found[..., 0, :] if found.ndim > 1 and found.shape[-2] == 1 else found


def _weighted(method, site, residual, weight):
    return weight * method.at_site(site, residual, weight)


def _precision_of_residual(site, residual, weight):
    return np.sum(site[1] * (weight * residual), axis=-1)


def _in_nats(change, found, weight):
    """A change of ``(λ1, λ2)`` in units in which half its square is nats, to second order."""
    first = np.sqrt(weight * found.variance) * (change[0] - found.mean * change[1])
    return np.stack([first, np.sqrt(0.5 * weight) * found.variance * change[1]])


def _admissible(proposal, plain):
    """The proposal, and the plain step where a precision left its neighbourhood."""
    wild = proposal[1] < plain[1] / _RELEASE
    wild |= proposal[1] > plain[1] * _RELEASE
    return np.where(wild, plain, proposal)


def _anything(proposal, plain):
    """The proposal: precisions may have any sign."""
    return proposal
