"""The inner loop: Gaussian sites of all rows, at one kernel and one basis.

A state is the natural parameters ``(λ1, λ2)`` of every row's site, one site in each process that
the likelihood sees: a `PerRow` (2, k, n). An iteration gives the sites to the basis, which answers
with the moments of every row, and the method makes the next site of a row from these.

Where the plain map oscillates, `AlternatingUpdates` move means and precisions of sites in turn.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from skgp_sparse.data.arrays import Bundles, PerRow, by_row
from skgp_sparse.engine.basis import Observations
from skgp_sparse.engine.collapsed_sites import Cores, ProjectedRows
from skgp_sparse.ground.parallel import ordered_map
from skgp_sparse.ground.validation import Array
from skgp_sparse.inference.contracts import SiteMethod, if_possible
from skgp_sparse.inference.optimizers import Solution, Step, solve_fixed_point
from skgp_sparse.likelihoods import Likelihood

_SMALLEST_PRECISION = 1e-300  # precision of a row without weight, for its logarithm
_LARGEST_LOG_STEP = np.log(10.0)  # in a step of a logarithm, or beyond the plain turn
_NEGLIGIBLE_PRECISION = 0.005  # c, so that a precision of so little beside 1/s counts as none
_SAME_COVARIANCE = 0.1  # largest difference of ψ up to which λ2 and β lead to the same covariance
_DIFFERENCE = 1e-4  # of means in standard deviations, and of variances relative
_CLIMB = 1e-4  # share of the predicted gain that a step of the means has to reach
_DECREASE_TOLERANCE = 1e-13  # by which the value may fall, relative
_OF_THE_GAP = 3e-3  # what the means may be short of, as a share of what the precisions are
_OF_TOL = 0.1  # the same, as a share of the tolerance
_OF_NEWTON = 1e-2  # of the tolerance, where one more step costs little and gives twice the digits
_MOST_STEPS, _MOST_HALVINGS = 50, 30
_STEPS_OF_SEVERAL = 3  # of the means of several latent values, of whose curvature β is the diagonal


class Means(NamedTuple):
    """Means of all rows, and what the likelihood says there."""

    mean: np.ndarray  # (k, n) m
    dual: np.ndarray  # (k, n) a
    slope: np.ndarray  # (k, n) α
    curvature: np.ndarray  # (k, n) β
    expected: float  # Σ w E[log p]
    quadratic: float  # Σ w a m

    @property
    def value(self) -> float:
        """Value ``Q = Σ w E[log p] - ½ Σ w a m`` at these means, in nats."""
        return self.expected - 0.5 * self.quadratic


@dataclass(frozen=True, eq=False)
class AlternatingUpdates:
    """Looks for the sites of all rows by turns, for a log-concave likelihood.

    Where the variance ``s`` of a row is large, its precision and its variance chase each other. The
    means are a concave problem once the variances are held. A turn

    1. holds the precisions ``λ2``, hence the variances ``s``, and maximises over the means by
       Newton's method. With ``a = λ1 - λ2 m``, in which the means are linear, the objective is

           Q = Σ w E[log p(y | f)] - ½ Σ w a m,    f ~ N(m, s),

       and a step leads to the posterior with the sites ``(β m + α, β)`` of `Variational`;
    2. moves the logarithms of the precisions half way to those of ``β`` at these means.

    Where rows are few, Newton's method takes steps in ``ψ = log(λ2 + c/s)`` in the place of 2, as
    precisions far below ``1/s`` say nothing, whatever they are. The equation is
    ``ψ = log(β + c/s)``. With the posterior covariance S of the rows, and as ``∂α/∂s = -½ ∂β/∂m``,

        ds = -(S∘S) w dλ2,    dm = S w (α - a + ∂α/∂s ds),    da = α - a + ∂α/∂s ds - β dm.

    The state is ``(m, a, log λ2)``. As m is linear in a, combinations of states are states.
    """

    loop: "SiteLoop"  # of variational inference

    @cached_property
    def rows(self) -> Observations:
        """`Observations` of all rows, arrays (n,)."""
        return Observations(*map(np.asarray, self.loop.observed))

    @cached_property
    def counts(self) -> Array:
        """1 for every row with a weight, 0 for the others, which nothing moves."""
        return (self.rows.weight > 0.0).astype(np.float64)

    @property
    def tol(self) -> float:
        """The tolerance of the turns."""
        return self.loop.inner.tol * (_OF_NEWTON if self.loop.is_small else 1.0)

    def solve(self, sites: PerRow) -> Solution:
        """The `Solution`, from sites to begin with; may raise ``LinAlgError``."""
        linear, precision = np.asarray(sites)
        logs = np.log(np.maximum(precision, _SMALLEST_PRECISION))
        solution = solve_fixed_point(
            partial(_tried, self.evaluate),
            np.stack([np.zeros_like(linear), linear, logs]),
            _admissible_both,
            tol=self.tol,
            max_iter=self.loop.inner.max_iter,
            propose=self._newton if self.loop.is_small else None,
        )
        (*_, means), precision = solution.step.result, self._precision(solution.state)
        sites = self._per_row(np.stack([precision * means.mean + means.dual, precision]))
        return solution._replace(state=sites, step=self.loop.evaluate(sites), history=())

    def evaluate(self, state: Array) -> Step:
        """The `Step` of one turn."""
        precision = self._precision(state)
        linear = precision * state[0] + self.counts * state[1]
        cores, mean, variance, v = self._posterior(linear, precision)
        start = self._means(mean, linear - precision * mean, variance)
        means = self._best_means(start, variance, precision)
        plain = np.log(np.maximum(means.curvature, _SMALLEST_PRECISION))
        total = self.loop.site_method.total(cores, means.expected, self.rows.weight.sum(), v)
        return Step(
            target=np.stack([means.mean, means.dual, 0.5 * (state[2] + plain)]),
            scaled=lambda change: self._of_precisions(precision * change[2], variance),
            gap=self._gap_of_means(means, variance)
            + self._gap_of_precisions(means, variance, precision),
            value=total - 0.5 * (means.quadratic - start.quadratic),
            climbs=True,
            result=(cores, variance, means),
        )

    def _precision(self, state: Array) -> Array:
        return self.counts * np.exp(state[2])

    def _per_row(self, values: Array) -> PerRow:
        """Numbers of every row by bundles."""
        edges = np.cumsum([len(weight) for weight in self.loop.observed.weight])[:-1]
        return PerRow(np.split(np.asarray(values), edges, axis=-1) if len(edges) else [values])

    def _posterior(self, linear: Array, precision: Array) -> tuple[Cores, Array, Array, Array]:
        """The cores, means and variances of the rows, and the share ``v`` of the residual."""
        cores, v = self.loop.posterior(self._per_row(np.stack([linear, precision])))
        mean, h = np.asarray(self.loop.projected.moments(cores))
        check_moments(mean, h, self.rows.residual)
        return cores, mean, v[:, None] * self.rows.residual + h, v

    def _means(self, mean: Array, dual: Array, variance: Array) -> Means:
        """`Means` at given ones."""
        likelihood = self.loop.expectations(*map(self._per_row, (mean, variance)))
        value, slope, curvature = (np.concatenate(part, axis=-1) for part in likelihood)
        weight = self.rows.weight
        return Means(mean, dual, slope, curvature, weight @ value, np.sum(weight * dual * mean))

    def _best_means(self, means: Means, variance: Array, precision: Array) -> Means:
        """The `Means` that maximise ``Q``, as closely as the precisions are worth it."""
        for _ in range(_MOST_STEPS if len(precision) == 1 else _STEPS_OF_SEVERAL):
            size = abs(means.value) if self.loop.size is None else self.loop.size
            least = _OF_TOL * self.tol * max(1.0, size)
            of_precisions = self._gap_of_precisions(means, variance, precision)
            if self._gap_of_means(means, variance) <= max(least, _OF_THE_GAP * of_precisions):
                break
            if (better := self._climbed(means, variance)) is None:  # nothing but rounding is left
                break
            means = better
        return means

    def _climbed(self, means: Means, variance: Array) -> Means | None:
        """The `Means` after a step of Newton's method, None if there are none that are better."""
        _, mean, dual = self._at_curvature(means)
        move, dual_move = mean - means.mean, dual - means.dual
        gain = np.sum(self.rows.weight * (means.slope - means.dual) * move)
        rounding = _DECREASE_TOLERANCE * max(1.0, abs(means.value))
        for step in 0.5 ** np.arange(_MOST_HALVINGS):
            trial = self._means(means.mean + step * move, means.dual + step * dual_move, variance)
            if trial.value >= means.value + _CLIMB * step * gain - rounding:
                return trial
        return None

    def _at_curvature(self, means: Means) -> tuple[Cores, Array, Array]:
        """The cores with the sites ``(β m + α, β)``, the means there and their ``a``."""
        precision = self.counts * means.curvature
        linear = precision * means.mean + self.counts * means.slope
        cores, mean, *_ = self._posterior(linear, precision)
        return cores, mean, linear - precision * mean

    def _gap_of_means(self, means: Means, variance: Array) -> float:
        return 0.5 * np.sum(self.rows.weight * variance * (means.slope - means.dual) ** 2)

    def _gap_of_precisions(self, means: Means, variance: Array, precision: Array) -> float:
        change = self.counts * means.curvature - precision
        return 0.5 * np.sum(self._of_precisions(change, variance) ** 2)

    def _of_precisions(self, change: Array, variance: Array) -> Array:
        """Changes of precisions in units in which half their squares are nats."""
        return np.sqrt(0.5 * self.rows.weight) * variance * change

    def _newton(self, state: Array, step: Step) -> Array:
        """The state to which Newton's method leads, where there is one latent value per row."""
        (core,), variance, means = step.result
        precision, curvature = self._precision(state)[0], self.counts * means.curvature[0]
        little = _NEGLIGIBLE_PRECISION / variance[0]
        rest = np.log((curvature + little) / (precision + little))
        S = of_means = self.loop.projected.covariance(core)
        if np.abs(rest).max() > _SAME_COVARIANCE:
            of_means = self.loop.projected.covariance(self._at_curvature(means)[0][0])
        weight, short = self.rows.weight, (means.slope - means.dual)[0]
        slopes = self._slopes(means, variance)
        along_mean, along_variance = slopes * curvature / (curvature + little)
        tilt = -0.5 * along_mean * (curvature + little)  # ∂α/∂s
        spread = -(S**2) * (weight * (precision + little))  # ds/dψ
        shift = of_means @ ((weight * tilt)[:, None] * spread)  # dm/dψ
        jacobian = -along_mean[:, None] * shift - along_variance[:, None] * spread
        jacobian.flat[:: len(S) + 1] += 1.0
        change = np.linalg.solve(jacobian, rest + along_mean * (of_means @ (weight * short)))
        change = np.clip(change, -_LARGEST_LOG_STEP, _LARGEST_LOG_STEP)
        relative = np.clip(spread @ change / variance[0], -_LARGEST_LOG_STEP, _LARGEST_LOG_STEP)
        tilted = short + tilt * variance[0] * np.expm1(relative)  # the variance of one row is 1/λ2
        move = of_means @ (weight * tilted)
        least = 0.1 * np.minimum(precision, curvature)
        precision = np.maximum((precision + little) * np.exp(change) - little, least)
        log_precision = np.log(np.maximum(precision, _SMALLEST_PRECISION))
        dual = means.dual + tilted - means.curvature * move
        return np.stack([means.mean + move, dual, log_precision[None]])

    def _slopes(self, means: Means, variance: Array) -> Array:
        """Slopes of ``log β`` along the mean and the variance of every row (2, n)."""
        step = _DIFFERENCE * np.sqrt(variance)
        twice = Observations(*(np.tile(part, 2) for part in self.rows))
        moved = np.hstack([means.mean + step, means.mean])
        wider = np.hstack([variance, (1.0 + _DIFFERENCE) * variance])
        curvature = self.loop.site_method.expectations(twice, moved, wider)[2]
        changes = np.log(curvature.reshape(2, -1) / means.curvature)
        return changes / np.vstack([step, _DIFFERENCE * variance])


def check_moments(mean: Array, variance: Array, residual: Array) -> None:
    """Raise ``LinAlgError`` unless the moments of some rows are numbers that can be."""
    if not (np.all(variance >= 0.0) and np.isfinite(mean.sum() + variance.sum() + residual.sum())):
        raise np.linalg.LinAlgError(
            "A posterior variance is negative or no number: the kernel is not positive definite at "
            "the rows, or its values are too large or too small. Check the bounds of its "
            "hyperparameters and the scale of X."
        )


def _admissible_both(proposal: Array, plain: Array) -> Array:
    """The proposal, whose precisions stay in the neighbourhood of the plain turn."""
    log_precision = np.clip(proposal[2], plain[2] - _LARGEST_LOG_STEP, plain[2] + _LARGEST_LOG_STEP)
    return np.stack([*proposal[:2], log_precision])


_MOST = 100
_MOST_PLAIN = 40  # of these, before turns go on
FEW_ROWS = 500  # up to which Newton's method for the precisions pays
_OF_THE_OUTER = 1e-3  # the inner loop closes to this share of what the outer one stops at ...
_FINEST, _COARSEST = 1e-11, 1e-6  # ... within these limits
_ROUGH = 1e-4  # tolerance of an inner loop that another one follows
_RELEASE = 10.0  # largest factor by which an accelerated precision may leave the plain one
_SITES_WORTH_THREADS = 8192  # sites from which threads gain more than they wait


class Inner(NamedTuple):
    """When the inner loop ends."""

    max_iter: int = _MOST
    tol: float = 1e-9
    parameter: str = ""  # of the estimator, that sets max_iter
    exactly: bool = False  # whether rounding is all that may be left

    @classmethod
    def within(cls, outer_tol: float, max_iter: int = _MOST, parameter: str = "") -> "Inner":
        """An inner loop that is smooth to an outer one with a tolerance of its own."""
        return cls(max_iter, min(max(_OF_THE_OUTER * outer_tol, _FINEST), _COARSEST), parameter)

    def roughly(self) -> "Inner":
        """The loop that ends where an outer one does not see what is left."""
        return self._replace(tol=max(self.tol, _ROUGH))


class NextSites(NamedTuple):
    """Updated sites of rows, given their marginals, and the part of the objective.

    They are arrays, or a `PerRow` of each.
    """

    linear: Any  # λ1 and λ2 to which the plain map leads (k, n)
    precision: Any
    mean: Any  # marginals (k, n)
    variance: Any
    value: Any  # part of the objective (n,)


class InnerState(NamedTuple):
    """State of the inner loop that an evaluation leaves for the next one."""

    sites: PerRow
    history: Sequence = ()  # of the steps of the inner loop


@dataclass(frozen=True, eq=False)
class SiteLoop:
    """Looks for the sites of all rows.

    Methods integrate many small arrays, which threads would spend waiting for the interpreter:
    they see several blocks at once, `Bundles` of some thousand rows.
    """

    site_method: SiteMethod
    inner: Inner
    projected: ProjectedRows  # or what has its methods

    @cached_property
    def bundles(self) -> Bundles:
        """`Bundles` of rows that the method sees at once."""
        least = _SITES_WORTH_THREADS // self.site_method.likelihood.n_latent
        return Bundles(self.projected.layout.blocks, least)

    @cached_property
    def observed(self) -> Observations:
        """`Observations` rows, by bundles."""
        return Observations(*map(self.bundles.join, self.projected.observed))

    @property
    def takes_turns(self) -> bool:
        """Whether `AlternatingUpdates` find sites where the plain map does not; many are slow."""
        pays = self.inner.exactly or self.site_method.likelihood.n_latent == 1
        return pays and self.site_method.takes_turns

    @property
    def is_small(self) -> bool:
        """Whether the covariance of all rows is cheap, of one latent value each."""
        return self.site_method.likelihood.n_latent == 1 and sum(self.bundles.sizes) <= FEW_ROWS

    @cached_property
    def size(self) -> float | None:
        """Unit of gaps: the rows, or None for the value, where targets have no unit."""
        domain = self.site_method.likelihood.domain
        if 0.0 in domain.without and np.isinf(domain.high):
            return sum(map(np.sum, self.observed.weight))
        return None

    def solve(self, last: "InnerState | None" = None) -> Solution:
        """The `Solution`, from the `InnerState` of an earlier evaluation or from the start."""
        if last is not None:
            with suppress(np.linalg.LinAlgError):  # sites of other hyperparameters need not do
                solution = self._solve_from(last.sites, last.history, is_warm=True)
                if solution.converged or not self.inner.exactly:
                    return solution
        return self._solve_from(self._first_sites())

    def gradient(self, solution: Solution, inputs: bool) -> dict:
        """Gradients by the name of the block, sites held."""
        cores, v, _ = solution.step.result
        surrogates = [self.site_method.surrogate(one) for one in v]
        sites = self.bundles.split(solution.state)
        gradient = self.projected.gradient(cores, sites, surrogates, inputs)
        if len(self.site_method.likelihood.theta):
            gradient["likelihood"] = self._slopes(solution)
        return gradient

    def evaluate(self, state: PerRow) -> Step:
        """The `Step` from one state; may raise ``LinAlgError``."""
        method, rows, bundles = self.site_method, self.observed, self.bundles
        cores, v = self.posterior(state)
        moments = bundles.join(self.projected.moments(cores))
        parts = list(self._by_bundle(partial(_update, method, v), moments, state))
        values, gaps, targets, updates = zip(*parts)
        update = NextSites(*map(PerRow, zip(*updates)))
        return Step(
            target=PerRow(targets),
            scaled=lambda d: by_row(_in_nats, d, update.mean, update.variance, rows.weight),
            gap=0.5 * sum(gaps),
            value=method.total(cores, sum(values), sum(map(np.sum, rows.weight)), v),
            climbs=method.is_lower_bound,
            result=(cores, v, update),
        )

    def posterior(self, state: PerRow) -> tuple[Cores, Array]:
        """The `Cores` that sites lead to, and the share ``v`` of each process."""
        rows = self.observed
        at_site = self.site_method.at_site
        natural = by_row(lambda s, r, w: w * at_site(s, r, w), state, rows.residual, rows.weight)
        cores = self.projected.solve(self.bundles.split(natural))
        known = list(zip(state.parts, rows.weight, rows.residual))
        total = sum(np.sum(s[1] * (w * r), axis=-1) for s, w, r in known)
        v = self.site_method.share(total / sum(map(np.sum, rows.weight)))
        if not np.all(v > 0.0):
            raise np.linalg.LinAlgError(
                "The scale v of the residual variance is not positive. Check the scale of X and y "
                "and the bounds of the hyperparameters."
            )
        return cores, v

    def expectations(self, mean: PerRow, variance: PerRow) -> Iterable[tuple]:
        """Values, slopes and curvatures of expected log likelihoods at marginals, by bundles."""
        return zip(*self._by_bundle(self.site_method.expectations, mean, variance))

    def _solve_from(self, sites: PerRow, history: Sequence = (), is_warm: bool = False) -> Solution:
        """The `Solution` from given sites: by the plain map, and by turns where it oscillates."""
        if self.inner.exactly and self.takes_turns and self.is_small:
            return AlternatingUpdates(self).solve(sites)
        most = self.inner.max_iter
        few = min(most, _MOST_PLAIN) if self.takes_turns else most
        plain = self._solve_plainly(sites, history, few, is_warm)
        if plain.converged or plain.n_iter >= most or not self.takes_turns:
            return plain
        rest = self.inner._replace(max_iter=most - plain.n_iter)
        turned = AlternatingUpdates(replace(self, inner=rest)).solve(plain.state)
        return turned._replace(n_iter=plain.n_iter + turned.n_iter)

    def _solve_plainly(self, sites: PerRow, history: Sequence, most: int, warm: bool) -> Solution:
        """The `Solution` of an accelerated fixed-point iteration of all sites."""
        evaluate: Callable = self.evaluate
        admissible: Callable = partial(by_row, _admissible)
        if not self.site_method.likelihood.is_log_concave:  # precisions may have any sign
            evaluate = evaluate if warm else partial(_tried, evaluate)  # or from the start
            admissible = lambda proposal, plain: proposal
        options: dict = {"tol": self.inner.tol, "max_iter": most, "size": self.size}
        return solve_fixed_point(evaluate, sites, admissible, history=history, **options)

    def _first_sites(self) -> PerRow:
        """Sites to begin with where there was no evaluation before."""
        likelihood = self.site_method.likelihood
        sites = PerRow(self._by_bundle(partial(_first_sites, likelihood)))
        if (majorised := likelihood.majorised()) is None:
            return sites
        method, inner = replace(self.site_method, likelihood=majorised), self.inner
        rough = replace(self, site_method=method, inner=inner._replace(tol=_ROUGH))
        return rough._solve_from(sites).state

    def _slopes(self, solution: Solution) -> Array:
        """Gradient wrt the parameters of the likelihood, sites held."""
        *_, rows = solution.step.result
        slopes = lambda observed, *at: self.site_method.slopes(observed, *at) @ observed.weight
        return sum(self._by_bundle(slopes, rows.mean, rows.variance, solution.state))

    def _by_bundle(self, function: Callable, *values: PerRow) -> Iterable:
        """``function(observed, *values)`` of every bundle, in order."""

        def run(index: int) -> Any:
            observed = Observations(*(part[index] for part in self.observed))
            return function(observed, *(value[index] for value in values))

        return ordered_map(run, range(len(self.bundles.groups)), self.projected.layout.threads)


def _first_sites(likelihood: Likelihood, rows: Observations) -> Array:
    linear, precision = likelihood.first_sites(rows.y)
    sites = np.stack([linear - precision * rows.offset, precision])
    sites *= rows.weight > 0.0  # nothing moves rows without weight
    return sites.reshape(2, likelihood.n_latent, -1)


def _update(
    site_method: SiteMethod, v: Array, rows: Observations, moments: Array, site: Array
) -> tuple:
    """Part of the objective, of the gap, the next sites, and what the method says."""
    check_moments(moments[0], moments[1], rows.residual)
    update = site_method.update(rows, moments[0], moments[1], site, v)
    target = np.stack([update.linear, update.precision])
    target = np.where(rows.weight > 0, target, site)  # rows without weight hold nothing
    gap = np.sum(_in_nats(target - site, update.mean, update.variance, rows.weight) ** 2)
    return rows.weight @ np.where(rows.weight > 0, update.value, 0.0), gap, target, update


def _in_nats(change: Array, mean: Array, variance: Array, weight: Array) -> Array:
    """A change of ``(λ1, λ2)`` in units in which half its square is nats, to second order."""
    first = np.sqrt(weight * variance) * (change[0] - mean * change[1])
    return np.stack([first, np.sqrt(0.5 * weight) * variance * change[1]])


def _tried(evaluate: Callable, state: Array | PerRow) -> Step:
    """`Step` from a state; where numbers overflow or allow no posterior, one that is taken back."""
    return if_possible(evaluate, state, otherwise=Step(state, None, np.nan, -np.inf, True, None))


def _admissible(proposal: Array, plain: Array) -> Array:
    """The proposal, and the plain step where a precision left its neighbourhood."""
    wild = (proposal[1] < plain[1] / _RELEASE) | (proposal[1] > plain[1] * _RELEASE)
    return np.where(wild, plain, proposal)
