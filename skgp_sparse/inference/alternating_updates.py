r"""Means and precisions of sites in turn, where the plain map of the inner loop oscillates.

Where the variance ``s`` of a row is large, its precision and its variance chase each other: a small
precision makes the variance large, and there the likelihood asks for a large precision. For a
log-concave likelihood, the means are a concave problem once the variances are held. A turn

1. holds the precisions ``λ2``, hence the variances ``s``, and maximises over the means by Newton's
   method. With ``a = λ1 - λ2 m``, in which the means are linear, the objective is

       Q = Σ w E[log p(y | f)] - ½ Σ w a m,    f ~ N(m, s),

   and a step leads to the posterior with the sites ``(β m + α, β)``, where α and β are those of
   `methods.Variational`;
2. moves the logarithms of the precisions half way to those of ``β`` at these means.

`fixed_point.solve_fixed_point` accelerates the turns. Where rows are few, Newton's method takes
steps in ``ψ = log(λ2 + c/s)`` instead, as precisions far below ``1/s`` say nothing, whatever they
are. The equation is ``ψ = log(β + c/s)``. With the posterior covariance S of the rows, and as
``∂α/∂s = -½ ∂β/∂m``,

    ds = -(S∘S) w dλ2,    dm = S w (α - a + ∂α/∂s ds),    da = α - a + ∂α/∂s ds - β dm.

The state is ``(m, a, log λ2)``. As m is linear in a, combinations of states are states.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from skgp_sparse._engine.data.array_dataset import PerRow
from skgp_sparse._engine.features.problem import Observations
from skgp_sparse.inference.fixed_point import Step, solve_fixed_point

FEW_ROWS = 500  # up to which Newton's method for the precisions pays
_SMALLEST_PRECISION = 1e-300  # precision of a row without weight, for its logarithm
_LARGEST_LOG_STEP = np.log(
    10.0
)  # largest change of a logarithm in a step, or beyond the plain turn
_NEGLIGIBLE_PRECISION = 0.005  # c, so that a precision of so little beside 1/s counts as none
_SAME_COVARIANCE = 0.1  # largest difference of ψ up to which λ2 and β lead to the same covariance
_CLIMB = 1e-4  # share of the predicted gain that a step of the means has to reach
_DECREASE_TOLERANCE = 1e-13  # by which the value may fall, relative
_OF_THE_GAP = 3e-3  # what the means may be short of, as a share of what the precisions are
_OF_TOL = 0.1  # the same, as a share of the tolerance
_OF_NEWTON = 1e-2  # of the tolerance, where one more step costs little and gives twice the digits
_MOST_STEPS, _MOST_HALVINGS = 50, 30
_STEPS_OF_SEVERAL = 3  # of the means of several latent values, of whose curvature β is the diagonal
_DIFFERENCE = 1e-4  # of means in standard deviations, and of variances relative


class Means(NamedTuple):
    """Means of all rows, and what the likelihood says there."""

    mean: np.ndarray  # (k, n) m
    dual: np.ndarray  # (k, n) a
    slope: np.ndarray  # (k, n) α
    curvature: np.ndarray  # (k, n) β
    expected: float  # Σ w E[log p]
    quadratic: float  # Σ w a m

    @property
    def value(self):
        """``Q``."""
        return self.expected - 0.5 * self.quadratic


class Turn(NamedTuple):
    """Results of a turn that a step of Newton's method needs."""

    cores: tuple
    variance: np.ndarray  # (k, n) s
    means: Means


@dataclass(frozen=True, eq=False)
class AlternatingUpdates:
    """Looks for the sites of all rows by turns.

    Parameters
    ----------
    loop : SiteLoop
        Of variational inference with a log-concave likelihood.
    """

    loop: object

    @cached_property
    def rows(self):
        """`Observations` of all rows, arrays (n,)."""
        return Observations(*map(np.asarray, self.loop.observed))

    @cached_property
    def counts(self):
        """1 for every row with a weight, 0 for the others, which nothing moves."""
        return (self.rows.weight > 0.0).astype(np.float64)

    def _evaluate_if_possible(self, state):
        """`Step` of one turn; where numbers overflow, one that is taken back."""
        try:
            return self.evaluate(state)
        except np.linalg.LinAlgError:
            return Step(state, None, np.nan, -np.inf, True, None)

    @property
    def _tol(self):
        return self.loop.inner.tol * (_OF_NEWTON if self.loop.is_small else 1.0)

    def solve(self, sites):
        """The `Solution`, from sites to begin with; may raise ``LinAlgError``."""
        linear, precision = np.asarray(sites)
        solution = solve_fixed_point(
            self._evaluate_if_possible,
            np.stack(
                [np.zeros_like(linear), linear, np.log(np.maximum(precision, _SMALLEST_PRECISION))]
            ),
            _admissible,
            tol=self._tol,
            max_iter=self.loop.inner.max_iter,
            propose=self._newton if self.loop.is_small else None,
        )
        means, precision = solution.step.result.means, self._precision(solution.state)
        sites = self._per_row(np.stack([precision * means.mean + means.dual, precision]))
        return solution._replace(state=sites, step=self.loop.evaluate(sites), history=())

    def evaluate(self, state):
        """The `Step` of one turn."""
        precision = self._precision(state)
        linear = precision * state[0] + self.counts * state[1]
        cores, mean, variance, v = self._posterior(linear, precision)
        start = self._means(mean, linear - precision * mean, variance)
        means = self._best_means(start, variance, precision)
        plain = np.log(np.maximum(means.curvature, _SMALLEST_PRECISION))
        total = self.loop.method.total(cores, means.expected, self.rows.weight.sum(), v)
        return Step(
            target=np.stack([means.mean, means.dual, 0.5 * (state[2] + plain)]),
            scaled=lambda change: self._of_precisions(precision * change[2], variance),
            gap=self._gap(means, variance, precision),
            value=total - 0.5 * (means.quadratic - start.quadratic),
            climbs=True,
            result=Turn(cores, variance, means),
        )

    def _precision(self, state):
        return self.counts * np.exp(state[2])

    def _per_row(self, values):
        """Numbers of every row by bundles."""
        edges = np.cumsum([len(weight) for weight in self.loop.observed.weight])[:-1]
        return PerRow(np.split(np.asarray(values), edges, axis=-1) if len(edges) else [values])

    def _posterior(self, linear, precision):
        """The cores, means and variances of the rows, and the share ``v`` of the residual."""
        cores, v = self.loop.posterior(self._per_row(np.stack([linear, precision])))
        moments = self.loop.projected.moments(cores)
        mean, h = np.asarray(moments)
        variance = v[:, None] * self.rows.residual + h
        check_moments(mean, h, self.rows.residual)
        return cores, mean, variance, v

    def _means(self, mean, dual, variance):
        """`Means` at given ones."""
        likelihood = self.loop.expectations(*map(self._per_row, (mean, variance)))
        value, slope, curvature = (np.concatenate(part, axis=-1) for part in likelihood)
        weight = self.rows.weight
        return Means(mean, dual, slope, curvature, weight @ value, np.sum(weight * dual * mean))

    def _best_means(self, means, variance, precision):
        """The `Means` that maximise ``Q``, as closely as the precisions are worth it."""
        for _ in range(_MOST_STEPS if len(precision) == 1 else _STEPS_OF_SEVERAL):
            size = abs(means.value) if self.loop.size is None else self.loop.size
            least = _OF_TOL * self._tol * max(1.0, size)
            of_precisions = self._gap_of_precisions(means, variance, precision)
            if self._gap_of_means(means, variance) <= max(least, _OF_THE_GAP * of_precisions):
                break
            better = self._climbed(means, variance)
            if better is None:  # nothing but rounding is left
                break
            means = better
        return means

    def _climbed(self, means, variance):
        """The `Means` after a step of Newton's method, None if there are none that are better."""
        _, mean, dual = self._at_curvature(means)
        move, dual_move = mean - means.mean, dual - means.dual
        gain = np.sum(self.rows.weight * (means.slope - means.dual) * move)
        rounding = _DECREASE_TOLERANCE * max(1.0, abs(means.value))
        for length in 0.5 ** np.arange(_MOST_HALVINGS):
            moved = means.mean + length * move, means.dual + length * dual_move
            trial = self._means(*moved, variance)
            if trial.value >= means.value + _CLIMB * length * gain - rounding:
                return trial
        return None

    def _at_curvature(self, means):
        """The cores with the sites ``(β m + α, β)``, the means there and their ``a``."""
        precision = self.counts * means.curvature
        linear = precision * means.mean + self.counts * means.slope
        cores, mean, *_ = self._posterior(linear, precision)
        return cores, mean, linear - precision * mean

    def _gap(self, means, variance, precision):
        of_precisions = self._gap_of_precisions(means, variance, precision)
        return self._gap_of_means(means, variance) + of_precisions

    def _gap_of_means(self, means, variance):
        return 0.5 * np.sum(self.rows.weight * variance * (means.slope - means.dual) ** 2)

    def _gap_of_precisions(self, means, variance, precision):
        change = self.counts * means.curvature - precision
        return 0.5 * np.sum(self._of_precisions(change, variance) ** 2)

    def _of_precisions(self, change, variance):
        """Changes of precisions in units in which half their squares are nats."""
        return np.sqrt(0.5 * self.rows.weight) * variance * change

    def _newton(self, state, step):
        """The state to which Newton's method leads, where there is one latent value per row."""
        (core,), variance, means = step.result
        precision, curvature = self._precision(state)[0], self.counts * means.curvature[0]
        little = _NEGLIGIBLE_PRECISION / variance[0]
        rest = np.log((curvature + little) / (precision + little))
        S = of_means = self.loop.projected.covariance(core)
        if np.abs(rest).max() > _SAME_COVARIANCE:
            of_means = self.loop.projected.covariance(self._at_curvature(means)[0][0])
        weight, short = self.rows.weight, (means.slope - means.dual)[0]
        along_mean, along_variance = (
            self._slopes(means, variance) * curvature / (curvature + little)
        )
        tilt = -0.5 * along_mean * (curvature + little)  # ∂α/∂s
        spread = -(S**2) * (weight * (precision + little))  # ds/dψ
        shift = of_means @ ((weight * tilt)[:, None] * spread)  # dm/dψ
        due = of_means @ (weight * short)
        jacobian = -along_mean[:, None] * shift - along_variance[:, None] * spread
        jacobian.flat[:: len(S) + 1] += 1.0
        change = np.linalg.solve(jacobian, rest + along_mean * due)
        change = np.clip(change, -_LARGEST_LOG_STEP, _LARGEST_LOG_STEP)
        relative = np.clip(spread @ change / variance[0], -_LARGEST_LOG_STEP, _LARGEST_LOG_STEP)
        tilted = short + tilt * variance[0] * np.expm1(relative)  # the variance of one row is 1/λ2
        move = of_means @ (weight * tilted)
        least = 0.1 * np.minimum(precision, curvature)
        precision = np.maximum((precision + little) * np.exp(change) - little, least)
        return np.stack(
            [
                means.mean + move,
                means.dual + tilted - means.curvature * move,
                np.log(np.maximum(precision, _SMALLEST_PRECISION))[None],
            ]
        )

    def _slopes(self, means, variance):
        """Slopes of ``log β`` along the mean and the variance of every row (2, n)."""
        step = _DIFFERENCE * np.sqrt(variance)
        moved = np.hstack([means.mean + step, means.mean])
        wider = np.hstack([variance, (1.0 + _DIFFERENCE) * variance])
        curvature = self.loop.method.expectations(self._twice, moved, wider)[2]
        changes = np.log(curvature.reshape(2, -1) / means.curvature)
        return changes / np.vstack([step, _DIFFERENCE * variance])

    @cached_property
    def _twice(self):
        return Observations(*(np.tile(part, 2) for part in self.rows))


def check_moments(mean, variance, residual):
    """Raise ``LinAlgError`` unless the moments of some rows are numbers that can be."""
    if not (np.all(variance >= 0.0) and np.isfinite(mean.sum() + variance.sum() + residual.sum())):
        raise np.linalg.LinAlgError(
            "A posterior variance is negative or no number: the kernel is not positive definite at "
            "the rows, or its values are too large or too small. Check the bounds of its "
            "hyperparameters and the scale of X."
        )


def _admissible(proposal, plain):
    """The proposal, whose precisions stay in the neighbourhood of the plain turn."""
    log_precision = np.clip(proposal[2], plain[2] - _LARGEST_LOG_STEP, plain[2] + _LARGEST_LOG_STEP)
    return np.stack([*proposal[:2], log_precision])
