"""Views of objectives for the stochastic solver: gradients from some rows, a running posterior.

The posterior of the weights of the features follows from means over rows, to which every batch adds
its share (`RunningPosterior`): a natural-gradient step of this size (Hensman, Fusi and Lawrence
2013; in dual form, Adam, Chang, Khan and Solin 2021). Theta and the basis move a little from batch
to batch; the means do not move with them, but forget.

With a likelihood, the sites of a row follow from its marginal. Rows may then pass by without a
trace, and a few passes over all of them give the posterior: nothing is kept per row.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skgp_sparse._engine.predictions.feature_posterior import SparsePosterior, noise_variance
from skgp_sparse._engine.predictions.independent_posteriors import IndependentPosteriors
from skgp_sparse._engine.sparse import minibatch
from skgp_sparse._engine.sparse.collapsed_sites import Cores
from skgp_sparse._engine.sparse.passes import Sums
from skgp_sparse._ground.normal import log_normal_density
from skgp_sparse._ground.warnings import warn
from skgp_sparse.inference.contracts import Conclusion, MinibatchView

_PASSES = 20  # over all rows, for sites
_CONVERGED = 1e-5  # nats per row that a pass gains when it is the last one
_SMALLEST_SHARE = 1e-3  # of a batch in the means, below which there is no posterior


class RunningPosterior(NamedTuple):
    """Running means over rows, and the posterior of the weights that follows from them."""

    means: list  # of `Sums` per row, one for each process
    penalty: np.ndarray  # mean of φ or, of rows with sites, of λ2 r in each process
    cores: Cores
    features: object  # at which the last batch was seen

    def mixed(self, means, penalty, share):
        """Means and penalty after a batch, whose own have a share."""
        kept = 1.0 - share
        means = [a.times(kept) + b.times(share) for a, b in zip(self.means, means)]
        return means, kept * self.penalty + share * penalty

    def process(self, kernel):
        """The posterior process, at the features where the rows were seen last."""
        features = self.features.for_prediction()
        each = tuple(
            SparsePosterior(kernel, features, features.weights(core.v), core.TB)
            for core in self.cores
        )
        return each[0] if len(each) == 1 else IndependentPosteriors(each)


@dataclass(frozen=True)
class GaussianMinibatchView(MinibatchView):
    """Rows with Gaussian noise. Means are per unit of precision: they need not follow the noise.

    Parameters
    ----------
    total : float
        Number of all rows.
    """

    total: float

    def start(self, objective, kernel):
        """Posterior from the rows of an objective, which stand for all rows."""
        problem = objective.problem(kernel)
        batch = minibatch.look(problem, minibatch.with_noise(problem), keep=False)
        return self._posterior(batch, *_per_unit(batch), objective)

    def step(self, objective, kernel, posterior, share, inputs):
        """Gradients by the name of the block, per row, and the next posterior."""
        problem, bound = objective.problem(kernel), objective.bound
        batch = minibatch.look(problem, minibatch.with_noise(problem))
        mixed = posterior.mixed(*_per_unit(batch), share)
        posterior = self._posterior(batch, *mixed, objective)
        slope = bound.reduce(self.total * float(posterior.penalty), self.total)[1]
        gradient = minibatch.gradient(problem, batch, posterior.cores, [bound], slope, inputs)
        return _per_row(gradient, batch), posterior

    def log_densities(self, objective, kernel, posterior):
        """Log densities (n,) of the rows of an objective, of several targets their means."""
        block, mean, variance = _predicted(objective, kernel, posterior)
        variance = (variance + noise_variance(kernel, block.X) + block.noise)[:, None]
        return log_normal_density(block.y, mean, np.sqrt(variance)).mean(axis=1)

    def conclude(self, objective, kernel, posterior):
        """`Conclusion` from all rows of an objective: one pass."""
        return objective.conclude(kernel)

    def _posterior(self, batch, means, penalty, objective):
        n = self.total * batch.sums[0].a / batch.n
        core = minibatch.posterior_of(means[0], n, objective.options.n_jobs)
        return RunningPosterior(means, penalty, Cores([core]), batch.features)


@dataclass(frozen=True)
class SiteMinibatchView(MinibatchView):
    """Rows with a likelihood.

    Parameters
    ----------
    total : float
        Number of all rows.
    """

    total: float

    def start(self, objective, kernel):
        """Posterior from the rows of an objective, which stand for all rows: by its inner loop."""
        loop, solution, _ = objective.infer(kernel)
        cores, v, _ = solution.step.result
        sums = [Sums(core.VaV, core.VaV @ core.v + core.v, 1.0) for core in cores]
        means = [one.times(1.0 / self.total) for one in sums]
        return RunningPosterior(means, 1.0 / v - 1.0, cores, loop.projected.features)

    def step(self, objective, kernel, posterior, share, inputs):
        """Gradients by the name of the block, per row, and the next posterior."""
        problem, k = objective.problem(kernel), len(posterior.cores)
        batch, surrogates = self._look(objective, problem, posterior, keep=True)
        gradient = minibatch.gradient(problem, batch, posterior.cores, surrogates, 1.0, inputs)
        if len(batch.totals) > 1 + k:
            gradient["likelihood"] = batch.totals[1 + k :]
        return _per_row(gradient, batch), self._moved(posterior, batch, share, objective)

    def log_densities(self, objective, kernel, posterior):
        """Log densities (n,) of the rows of an objective."""
        block, mean, variance = _predicted(objective, kernel, posterior)
        noise = np.reshape(noise_variance(kernel, block.X), (-1, 1))
        latent = mean.T + block.offset, (variance.reshape(len(mean), -1) + noise).T
        if len(posterior.cores) == 1:
            latent = [part[0] for part in latent]
        return objective.method.likelihood.log_density(block.observed, *latent)

    def conclude(self, objective, kernel, posterior):
        """`Conclusion` from all rows of an objective: passes until one gains next to nothing.

        Where a pass loses, half of the step is taken back.
        """
        if objective.method.uses_last_site:
            return objective.conclude(kernel)
        problem = objective.problem(kernel)
        best, value, share = None, -np.inf, 1.0
        for _ in range(_PASSES):
            batch, _ = self._look(objective, problem, posterior, keep=False)
            v = objective.method.share(posterior.penalty)
            trial = objective.method.total(posterior.cores, batch.totals[0], batch.n, v)
            if best is None and not np.isfinite(trial):
                raise np.linalg.LinAlgError(
                    "The bound of all rows is not finite. Check the scale of X and y."
                )
            gain = trial - value
            converged = share == 1.0 and abs(gain) < _CONVERGED * self.total
            if gain > 0.0:
                best, value, share = (posterior, batch), trial, 1.0
            else:
                share *= 0.5
            if converged:
                break
            posterior = self._moved(*best, share, objective)
        else:
            warn(
                f"The sites of all rows did not converge in {_PASSES} passes (the last one changed "
                f"the bound by {gain / self.total:.1e} nats per row). Lower the upper bound of the "
                "kernel's variance, or use solver='lbfgs'.",
                ConvergenceWarning,
            )
        posterior, batch = best
        process = posterior._replace(features=batch.features).process(kernel)
        return Conclusion(value, process, batch.features.jitter, objective.for_users())

    def _look(self, objective, problem, posterior, keep):
        method = objective.method
        v = method.share(posterior.penalty)
        surrogates = [method.surrogate(one) for one in v]
        has_slopes = len(method.likelihood.theta) > 0

        def update(rows, mean, h):
            sites = method.update(rows, mean, h, None, v)
            if not has_slopes:
                return sites, ()
            return sites, method.slopes(rows, sites.mean, sites.variance, None) @ rows.weight

        view = minibatch.with_sites(problem, posterior.cores, update, surrogates)
        return minibatch.look(problem, view, keep), surrogates

    def _moved(self, posterior, batch, share, objective):
        """The posterior after a natural-gradient step; a shorter one if there is none."""
        means = [sums.times(1.0 / batch.n) for sums in batch.sums]
        penalty, n_jobs = batch.totals[1 : 1 + len(means)] / batch.n, objective.options.n_jobs
        while True:
            mixed, mixed_penalty = posterior.mixed(means, penalty, share)
            try:
                cores = Cores(minibatch.posterior_of(one, self.total, n_jobs) for one in mixed)
                return RunningPosterior(mixed, mixed_penalty, cores, batch.features)
            except np.linalg.LinAlgError:  # precisions of some likelihoods may be negative
                share *= 0.5
                if share < _SMALLEST_SHARE:
                    raise


def _predicted(objective, kernel, posterior):
    """The rows of an objective, and the mean and the variance of the process there."""
    block = objective.rows.everything()
    process = posterior.process(kernel)
    return block, *process.mean_and_variance(block.X, objective.options.n_jobs)


def _per_unit(batch):
    """Means per unit of precision, and the mean penalty."""
    return [sums.times(1.0 / sums.a) for sums in batch.sums], batch.totals / batch.n


def _per_row(gradient, batch):
    return {name: part / batch.n for name, part in gradient.items()}
