r"""Objectives with a likelihood: sites by an inner loop, then the Gaussian core with them.

A state is the natural parameters ``(λ1, λ2)`` of every row's site. At the fixed point the objective
is stationary in them, so that its gradient wrt theta and Z is that of the Gaussian objective with
pseudo-targets ``λ1/λ2`` of noise variance ``1/λ2``, and nothing here is differentiated.
"""

import copy
from collections import deque
from functools import partial
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skgp_sparse._engine import exact_sites, sites
from skgp_sparse._engine.problem import Evaluation, Problem
from skgp_sparse._warnings import warn
from skgp_sparse.inference.fixed_point import Step, solve_fixed_point

_NUMBERS = 50  # of every row that the inner loop holds
_SMALLEST = 1e-30  # precision of a site that says nothing
_USERS_TOLERANCE = 1e-15  # gradients are off by the root of what the value is off by
_OF_A_LABEL = 0.1  # of the rows of a start, where there are so many
_OF_THE_OUTER = 1e-3  # the inner loop closes to this share of what the outer one stops at ...
_FINEST, _COARSEST = 1e-11, 1e-6  # ... within these limits
_ROUGH = 1e-7  # the same for a fit that another one follows
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


class AtSites(NamedTuple):
    """What a method makes of the sites before the marginals are known."""

    a: np.ndarray  # precision of every row, as the inducing points see it
    b: np.ndarray  # its linear term
    v: float  # share of the residual variance in the marginals


class ByRow(NamedTuple):
    """What a method says of a block of rows, given their marginals."""

    linear: np.ndarray  # λ1 and λ2 to which the plain map leads
    precision: np.ndarray
    mean: np.ndarray  # marginals
    variance: np.ndarray
    value: np.ndarray  # part of the objective


class Inferred(NamedTuple):
    """What the inner loop found, besides sites."""

    core: sites.Core | exact_sites.Core
    v: float
    rows: ByRow


class SiteObjective:
    """Bound or approximate log evidence of rows with a likelihood, at inducing points Z.

    Parameters
    ----------
    rows : Rows
        Labels, not scaled.
    method : object
        `Variational` or `ExpectationPropagation`.
    inducing_points : ndarray of shape (m, d)
    options : Options
    inner : Inner
    project : callable
        ``Problem -> Projected``, or what has its methods: what the inner loop works on.
    warm : dict
        Where sites wait for the next evaluation; shared by the objectives that `at` makes.
    """

    def __init__(self, rows, method, inducing_points, options, inner, project=sites.project_rows):
        own = min(8.0 * _NUMBERS * len(rows), 0.5 * options.memory)
        self.rows, self.method, self.inner = rows, method, inner
        self.options = options._replace(memory=options.memory - own)
        self.inducing_points, self.project = inducing_points, project
        self.warm = {}
        self.inner_iterations = deque(maxlen=_REMEMBERED)

    def size(self):
        """Number of rows, each counted as often as its weight says."""
        return self.rows.total_weight()

    def at(self, Z):
        """The same objective at other inducing points."""
        other = copy.copy(self)
        other.inducing_points = Z
        return other

    def frozen(self):
        """The same objective, whose evaluations all start from the sites of now, and end later."""
        other = copy.copy(self)
        other.warm = {"sites": self.warm["sites"], "frozen": True}
        other.inner = self.inner._replace(tol=_USERS_TOLERANCE)
        return other

    def of_nothing(self):
        """Log likelihood of labels drawn with their own frequencies."""
        _, label = np.unique(self.rows.y[:, 0], return_inverse=True)
        count = np.bincount(label.ravel(), self.rows.weight)
        return count @ np.log(count / count.sum())

    def value(self, kernel):
        """The bound."""
        return self._infer(kernel)[1].step.value

    def value_and_gradient(self, kernel, inputs=False):
        """`Evaluation` with the gradient wrt theta and, if `inputs`, wrt Z."""
        projected, found = self._infer(kernel)
        core, v, _ = found.step.result
        bound = self.method.surrogate(v)
        theta_bar, Z_bar = projected.gradient(core, found.state, bound, inputs)
        return Evaluation(found.step.value, theta_bar, Z_bar, projected.jitter)

    def posterior(self, kernel):
        """`Posterior` and the jitter that it took."""
        projected, found = self._infer(kernel)
        if not found.converged:
            warn(
                f"The sites did not converge in {found.n_iter} inner iterations (short of the "
                f"optimum by about {found.step.gap:.1e} nats); the best state is used. Raise "
                f"max_iter_predict (now {self.inner.max_iter}), or lower the upper bound of the "
                "kernel's variance.",
                ConvergenceWarning,
            )
        return projected.posterior(found.step.result.core), projected.jitter

    def infer(self, kernel):
        """The sites, as a `Solution`: for tests and reports."""
        return self._infer(kernel)[1]

    def _problem(self, kernel):
        return Problem(
            kernel, self.inducing_points, self.rows, None, self.options, latent_noise=True
        )

    def _infer(self, kernel):
        projected = self.project(self._problem(kernel))
        start = self.warm.get("sites")
        if start is None:
            start = np.zeros((2, len(self.rows)))
            start[1] = _SMALLEST
        found = solve_fixed_point(
            lambda state: self._evaluate(projected, state),
            start,
            _admissible,
            tol=self.inner.tol,
            max_iter=self.inner.max_iter,
            history=self.warm.get("history", ()),
        )
        self.inner_iterations.append(found.n_iter)
        if not self.warm.get("frozen"):
            self.warm.update(sites=found.state, history=found.history)
        return projected, found

    def _evaluate(self, projected, state):
        method, rows, residual = self.method, self.rows, projected.residual
        weight = np.ones(len(rows)) if rows.weight is None else rows.weight
        at = method.at_sites(state, residual, weight)
        core = projected.solve(weight * at.a, weight * at.b)

        def visit(block, mean, h):
            if not (np.all(h >= 0.0) and np.isfinite(mean + h + residual[block]).all()):
                raise np.linalg.LinAlgError(
                    "A posterior variance is negative or no number: the kernel is not positive "
                    "definite at the rows, or its values are too large or too small."
                )
            y = rows.y[block, 0]
            return method.by_row(y, mean, h, residual[block], state[:, block], at.v)

        parts = projected.visit(core, visit)
        found = ByRow(*(np.concatenate(columns) for columns in zip(*parts)))
        target = np.stack([found.linear, np.maximum(found.precision, _SMALLEST)])
        target = np.where(weight > 0, target, state)  # nothing holds the others near the solution
        scaled = _metric(found, weight)
        return Step(
            target=target,
            scaled=scaled,
            gap=0.5 * np.sum(scaled(target - state) ** 2),
            value=method.total(core, weight, found.value, at.v),
            climbs=method.is_lower_bound,
            result=Inferred(core, at.v, found),
        )


class SiteModel(NamedTuple):
    """Rows with a likelihood.

    Parameters
    ----------
    method : object
        `Variational` or `ExpectationPropagation`.
    inner : Inner
    """

    method: object
    inner: Inner = Inner()

    def sample(self, rows, size, random_state):
        """Indices of the rows of the small fit that comes first: a share of them of each label."""
        y = rows.y[:, 0] if rows.weight is None else np.where(rows.weight > 0, rows.y[:, 0], 0.0)
        chosen = rows.sample(size, random_state)
        for label in (-1.0, 1.0):
            missing = int(size * _OF_A_LABEL) - np.count_nonzero(y[chosen] == label)
            spare = np.setdiff1d(np.flatnonzero(y == label), chosen)
            if missing > 0 and len(spare) > 0 and len(chosen) == size:
                drawn = random_state.choice(spare, min(missing, len(spare)), replace=False)
                others = random_state.permutation(chosen[y[chosen] != label])[len(drawn) :]
                chosen = np.sort(np.concatenate([chosen[y[chosen] == label], others, drawn]))
        return chosen

    def exact(self, rows, options, rough=False):
        """Objective whose inducing points are the distinct rows; `rough` to start from."""
        tol = max(self.inner.tol, _ROUGH if rough else 0.0)
        inputs, index = exact_sites.group_inputs(rows)
        project = partial(exact_sites.join_rows, index)
        return SiteObjective(
            rows, self.method, inputs, options, self.inner._replace(tol=tol), project
        )

    def sparse(self, rows, Z, options):
        """Objective at inducing points Z."""
        return SiteObjective(rows, self.method, Z, options, self.inner)

    def adapt(self, kernel, objective):
        """The kernel of a small exact fit, as it is."""
        return kernel

    def is_quiet(self, kernel, rows):
        """Never: the noise of a label is that of its likelihood."""
        return False

    def warn_of(self, objective, kernel):
        """Nothing: a likelihood has no noise that could be negligible."""


def _metric(found, weight):
    """Changes of ``(λ1, λ2)`` in units in which half their squares are nats, to second order."""
    first = np.sqrt(weight * found.variance)
    second = np.sqrt(0.5 * weight) * found.variance

    def scaled(change):
        linear, precision = change[..., 0, :], change[..., 1, :]
        return np.stack([first * (linear - found.mean * precision), second * precision], axis=-2)

    return scaled


def _admissible(proposal, plain):
    """The proposal, and the plain step where a precision left its neighbourhood."""
    wild = proposal[1] < plain[1] / _RELEASE
    wild |= proposal[1] > plain[1] * _RELEASE
    return np.where(wild, plain, proposal)
