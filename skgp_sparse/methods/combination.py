"""Neighbours, a mean and a global process of inducing points, with weights from rows held out.

Rows that are held out are predicted from all others, and some of them from random parts of these, a
4th, a 16th and a 64th, so that both near and far rows occur. Weights of means have the least Huber
loss, and factors of variances the highest density.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import huber

from skgp_sparse.engine.neighbors import NeighborsPosterior
from skgp_sparse.engine.posterior import noise_in_blocks
from skgp_sparse.engine.posteriors_around import CombinationWeights, CombinedPosterior, MeanWeights
from skgp_sparse.ground.linalg import TINY, log_normal_density
from skgp_sparse.ground.validation import Array, Triple
from skgp_sparse.inference.contracts import arithmetic
from skgp_sparse.methods.contract import ValidationScore, ValidationSet
from skgp_sparse.solvers import Fit, fit_at

_PARTS, _FEW = (1 / 4, 1 / 16, 1 / 64), 500  # of the rows, and how many rows each of them predicts
_FEWEST = 30  # rows of a part
_NEAR = 2.0  # weight of rows that all others predict, in units of that of all parts
_HUBER = 3.0  # units, beyond which an error counts by its size and not its square
_STARTS, _LIMITS = (0.0, 2.0, -2.0), [(-6.0, 6.0), (0.0, 5.0)]  # of intercepts; and of slopes
_LIMITS_OF_MEAN = [(-8.0, 8.0), (-3.0, 5.0)]
_RIDGE, _RIDGE_OF_MEAN, _RIDGE_OF_FACTOR = 1e-3, [1e-4, 1e-3], np.array([0.1, 0.01])
ALONE = 0.02  # mean weight of one of the two, below which the other one is alone


class Part(NamedTuple):
    """Rows held out, and the rows that predict them."""

    rows: ValidationSet
    table: Any  # that predicts them; None: all rows but the one
    moments: Triple  # from a global process


class Combination(NamedTuple):
    """A global process beside neighbours."""

    fit: Fit  # of the process to all rows
    weights: CombinationWeights | Any = None  # None: they are not learned yet
    share: float = 1.0  # mean weight of neighbours, over rows held out
    parts: tuple[Part, ...] = ()

    @classmethod
    def of(cls, fit: Fit, validation: ValidationSet, n_jobs: int) -> "Combination":
        """The combination with the `Fit` of a process, before its weights are learned."""
        rows, process, terms = validation.rows, fit.posterior, fit.objective.terms(fit.kernel)
        with arithmetic():
            moments = process.leave_one_out(rows, validation.chosen, terms, n_jobs)
            noise = noise_in_blocks(process, validation.block.X)
            parts = [Part(validation, None, (*moments, noise))]
            for share in _PARTS:
                size = int(share * (len(rows) - len(validation.chosen)))
                if size >= _FEWEST:
                    table, few = validation.training_rows(size), validation.some(_FEW)[0]
                    process = fit_at(fit.objective.on(table), fit.kernel, 0).posterior
                    parts.append(Part(few, table, process.moments(few.block.X, n_jobs)))
        return cls(fit, parts=tuple(parts))

    def local(self, near: NeighborsPosterior, first: tuple) -> list[Triple]:
        """Moments of the rows of all parts from neighbours, from those of the first part."""
        others = self.parts[1:]
        with arithmetic():
            return [first, *(near.given(one.table).moments(one.rows.block.X) for one in others)]

    def learned(
        self,
        near: Sequence[Triple],
        mean: MeanWeights | None = None,
        predicted: Sequence[Array] = (),
    ) -> tuple["Combination", MeanWeights | None]:
        """The combination and a mean with weights that are learned together.

        The rows of all parts have moments from neighbours, and predictions of the mean, if any.
        """
        stacked = StackedPredictions(self.parts, near, mean, predicted)
        weights, mean = stacked.weights()
        share = stacked.combined(weights, mean)[2]
        return self._replace(weights=weights, share=float(np.mean(share))), mean

    def score(self, first: tuple) -> ValidationScore:
        """The `ValidationScore` beside neighbours, whose moments of the first part are given."""
        near = self.parts[0]
        mean, variance, _ = self.weights.combined(first, near.moments)
        return near.rows.score(CombinedPosterior.name, mean, variance + near.rows.noise)

    def around(self, view: Any) -> Any:
        """The view whose process is beside the global one."""
        around = partial(CombinedPosterior, other=self.fit.posterior, weights=self.weights)
        return view.each(lambda part: part._replace(process=around(part.process)))


class StackedPredictions:
    """Rows of all parts, as neighbours, a mean and a global process predict them.

    `mean` has the weights that were learned without the global process, None where there is none.
    """

    def __init__(
        self, parts: Sequence[Part], near: Sequence, mean: MeanWeights | None, predicted: Sequence
    ):
        rows = [part.rows for part in parts]
        self.near, self.other = _joined(near), _joined([part.moments for part in parts])
        self.mean, self.predicted = mean, np.concatenate(predicted) if predicted else np.zeros(0)
        self.y = np.concatenate([one.block.y for one in rows])
        self.known = np.concatenate([one.noise for one in rows])
        share = [one.count / one.count.sum() for one in rows]
        share[0] = _NEAR * max(len(rows) - 1, 1) * share[0]
        self.share = np.concatenate(share) / np.sum(np.concatenate(share))
        totals = [one[1] + one[2] + self.known for one in (self.near, self.other)]
        self.unit = np.sqrt(np.sqrt(np.maximum(totals[0] * totals[1], TINY)))[:, None]
        self.noise = float(np.exp(np.mean(np.log(np.maximum(near[0][2], TINY)))))

    def combined(self, weights: CombinationWeights, mean: MeanWeights | None) -> Triple:
        """Means, variances with the learned noise, and weights, as of `CombinationWeights`."""
        near = self.near if mean is None else mean.beside(self.near, self.predicted)
        return weights.combined(near, self.other)

    def weights(self) -> tuple[CombinationWeights, MeanWeights | None]:
        """The best weights: Huber's loss for means, then densities for factors of variances."""
        own = np.zeros(0) if self.mean is None else np.append(self.mean.intercept, self.mean.slope)
        ridge = np.append([_RIDGE] * 2, np.repeat(_RIDGE_OF_MEAN, len(own) // 2))
        limits = np.vstack([_LIMITS, np.repeat(_LIMITS_OF_MEAN, len(own) // 2, axis=0)])

        def loss(theta: Array) -> float:
            weights, mean = self._at(theta)
            errors = (self.y - self.combined(weights, mean)[0]) / self.unit
            change = theta - np.eye(len(theta))[1]  # from an intercept of 0 and a slope of 1
            return float(self.share @ huber(_HUBER, errors).mean(axis=1) + ridge @ change**2)

        starts = [np.append([a, 1.0], own) for a in _STARTS]
        runs = [minimize(loss, start, method="L-BFGS-B", bounds=limits) for start in starts]
        weights, mean = self._at(min(runs, key=lambda run: run.fun).x)
        if mean is None:
            return weights, mean

        def surprise(factor: Array) -> float:
            m, v, _ = self.combined(weights, mean._replace(log_factor=(factor[0], factor[1])))
            density = log_normal_density(self.y, m, np.sqrt(v + self.known)[:, None]).mean(axis=1)
            return float(_RIDGE_OF_FACTOR @ factor**2 - self.share @ density)

        factor = minimize(surprise, mean.log_factor, method="Nelder-Mead").x
        return weights, mean._replace(log_factor=(float(factor[0]), float(factor[1])))

    def _at(self, theta: Array) -> tuple[CombinationWeights, Any]:
        """The weights of numbers, the intercept and slope of the combination first."""
        intercept, slope = theta[2:].reshape(2, -1)
        mean = self.mean and self.mean._replace(intercept=intercept, slope=slope)
        return CombinationWeights(float(theta[0]), float(theta[1]), self.noise), mean


def _joined(parts: Sequence[Triple]) -> Any:
    """Moments of the rows of all parts."""
    return tuple(map(np.concatenate, zip(*parts)))
