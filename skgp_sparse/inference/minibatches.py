"""What the stochastic solver asks of objectives: gradients from some rows, and a running posterior.

The posterior of the weights of the features follows from means over rows (`Means`), to which every
batch adds its share: a natural-gradient step of this size (Hensman, Fusi and Lawrence 2013; in dual
form, Adam, Chang, Khan and Solin 2021). Theta and the basis move a little from batch to batch; the
means do not move with them, but forget.

With a likelihood, the sites of a row follow from its marginal. Rows may then pass by without a
trace, and a few passes over all of them give the posterior: nothing is kept per row.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skgp_sparse._engine import collapsed, minibatch
from skgp_sparse._engine.collapsed_sites import Cores
from skgp_sparse._engine.forward import Sums
from skgp_sparse._engine.posterior import Posterior, Posteriors, noise_variance
from skgp_sparse._ground.normal import log_normal_density
from skgp_sparse._ground.warnings import warn
from skgp_sparse.inference.contracts import Conclusion, Minibatches

_PASSES = 20  # over all rows, for sites
_SETTLED = 1e-5  # nats per row that a pass gains when it is the last one


class Means(NamedTuple):
    """Running means over rows, and the posterior that follows from them."""

    sums: list  # of `Sums` per row, one for each process
    own: np.ndarray  # means of what the view of a batch adds up
    cores: Cores
    features: object  # at which the last batch was seen


def _mixed(old, new, share):
    """Running means: those of a batch have a share."""
    return [a.times(1.0 - share) + b.times(share) for a, b in zip(old, new)]


@dataclass(frozen=True)
class GaussianMinibatches(Minibatches):
    """Rows with Gaussian noise. Means are per unit of precision: they need not follow the noise.

    Parameters
    ----------
    total : float
        Number of all rows.
    """

    total: float

    def start(self, objective, kernel):
        """Means of the rows of an objective, which stand for all rows."""
        problem = objective.problem(kernel)
        batch = minibatch.look(problem, minibatch.with_noise(problem), keep=False)
        return self._means(batch, _per_unit(batch), batch.totals / batch.n, objective)

    def step(self, objective, kernel, means, share, inputs):
        """Gradients by the name of the block, per row, and the next means."""
        problem, bound = objective.problem(kernel), objective.bound
        batch = minibatch.look(problem, minibatch.with_noise(problem))
        sums = _mixed(means.sums, _per_unit(batch), share)
        own = (1.0 - share) * means.own + share * batch.totals / batch.n
        means = self._means(batch, sums, own, objective)
        slope = bound.reduce(self.total * float(own), self.total)[1]
        found = minibatch.gradient(problem, batch, means.cores, [bound], slope, inputs)
        return {name: part / batch.n for name, part in found.items()}, means

    def log_densities(self, objective, kernel, means):
        """Log densities (n,) of the rows of an objective, of several targets their means."""
        block = objective.rows.everything()
        mean, variance = _process(kernel, means).mean_and_variance(
            block.X, objective.options.n_jobs
        )
        variance = (variance + noise_variance(kernel, block.X) + block.noise)[:, None]
        return log_normal_density(block.y, mean, np.sqrt(variance)).mean(axis=1)

    def conclude(self, objective, kernel, means):
        """`Conclusion` from all rows of an objective: one pass."""
        return Conclusion(*collapsed.conclude(objective.problem(kernel)), None)

    def _means(self, batch, sums, own, objective):
        n = self.total * batch.sums[0].a / batch.n
        core = minibatch.posterior_of(sums[0], n, objective.options.n_jobs)
        return Means(sums, own, Cores([core]), batch.features)


@dataclass(frozen=True)
class SiteMinibatches(Minibatches):
    """Rows with a likelihood.

    Parameters
    ----------
    total : float
        Number of all rows.
    """

    total: float

    def start(self, objective, kernel):
        """Means of the rows of an objective, which stand for all rows: sites by its inner loop."""
        loop, found = objective.solution(kernel)
        cores, v, _ = found.step.result
        sums = [_sums_of(core).times(1.0 / self.total) for core in cores]
        return Means(sums, 1.0 / v - 1.0, cores, loop.projected.features)

    def step(self, objective, kernel, means, share, inputs):
        """Gradients by the name of the block, per row, and the next means."""
        problem = objective.problem(kernel)
        batch, surrogates = self._look(objective, problem, means, keep=True)
        found = minibatch.gradient(problem, batch, means.cores, surrogates, 1.0, inputs)
        k = len(means.cores)
        if len(batch.totals) > 1 + k:
            found["likelihood"] = batch.totals[1 + k :]
        found = {name: part / batch.n for name, part in found.items()}
        return found, self._moved(means, batch, share, objective)

    def log_densities(self, objective, kernel, means):
        """Log densities (n,) of the rows of an objective, of several targets their means."""
        block = objective.rows.everything()
        mean, variance = _process(kernel, means).mean_and_variance(
            block.X, objective.options.n_jobs
        )
        variance = variance.reshape(len(mean), -1) + np.reshape(
            noise_variance(kernel, block.X), (-1, 1)
        )
        latent = mean.T + block.offset, variance.T
        if len(means.cores) == 1:
            latent = [part[0] for part in latent]
        return objective.method.likelihood.log_density(block.y[:, 0], *latent)

    def conclude(self, objective, kernel, means):
        """`Conclusion` from all rows of an objective: passes until one gains next to nothing.

        Where a pass loses, half of the step is taken back.
        """
        if objective.method.uses_last_site:
            return objective.conclude(kernel)
        problem = objective.problem(kernel)
        best, value, gain, share = None, -np.inf, np.inf, 1.0
        for _ in range(_PASSES):
            batch, _ = self._look(objective, problem, means, keep=False)
            found = self._value(objective, batch, means)
            if best is None and not np.isfinite(found):
                raise np.linalg.LinAlgError("The bound of all rows is not finite.")
            gain = found - value
            settled = share == 1.0 and abs(gain) < _SETTLED * self.total
            if gain > 0.0:
                best, value, share = (means, batch), found, 1.0
            else:
                share *= 0.5
            if settled:
                break
            means = self._moved(*best, share, objective)
        if not settled:
            warn(
                f"The sites of all rows did not converge in {_PASSES} passes (the last one changed "
                f"the bound by {gain / self.total:.1e} nats per row). Lower the upper bound of the "
                "kernel's variance, or use solver='lbfgs'.",
                ConvergenceWarning,
            )
        means = best[0]._replace(features=best[1].features)
        return Conclusion(value, _process(kernel, means), means.features.jitter, None)

    def _look(self, objective, problem, means, keep):
        method = objective.method
        v = method.share(means.own)
        surrogates = [method.surrogate(one) for one in v]
        has_slopes = len(method.likelihood.theta) > 0

        def update(rows, mean, h):
            found = method.by_row(rows, mean, h, None, v)
            if not has_slopes:
                return found, ()
            slopes = method.slopes(rows, found.mean, found.variance, None)
            return found, slopes @ rows.weight

        view = minibatch.with_sites(problem, means.cores, update, surrogates)
        return minibatch.look(problem, view, keep), surrogates

    def _moved(self, means, batch, share, objective):
        """Means and posteriors after a natural-gradient step; a shorter one if there are none."""
        now = [own.times(1.0 / batch.n) for own in batch.sums]
        own = batch.totals[1 : 1 + len(now)] / batch.n
        n_jobs = objective.options.n_jobs
        while True:
            sums = _mixed(means.sums, now, share)
            try:
                cores = Cores(minibatch.posterior_of(one, self.total, n_jobs) for one in sums)
            except np.linalg.LinAlgError:  # precisions of some likelihoods may be negative
                share *= 0.5
                if share < 1e-3:
                    raise
                continue
            return Means(sums, (1.0 - share) * means.own + share * own, cores, batch.features)

    def _value(self, objective, batch, means):
        v = objective.method.share(means.own)
        return objective.method.total(means.cores, batch.totals[0], batch.n, v)


def _per_unit(batch):
    return [own.times(1.0 / own.a) for own in batch.sums]


def _sums_of(core):
    """The `Sums` that a posterior came from."""
    return Sums(core.VaV, core.VaV @ core.v + core.v, 1.0)


def _process(kernel, means):
    """The posterior process, at the features where the rows were seen last."""
    features = means.features.for_prediction()
    each = tuple(
        Posterior(kernel, features, features.weights(core.v), core.TB) for core in means.cores
    )
    return each[0] if len(each) == 1 else Posteriors(each)
