"""Several processes, averaged: the mean and the covariance of their mixture.

    mean = Σ w_k m_k,     cov = Σ w_k (C_k + m_k m_kᵀ) - mean meanᵀ,     Σ w_k = 1

Where processes disagree, the variance is larger than theirs.
"""

from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np
from scipy.special import logsumexp
from sklearn.gaussian_process.kernels import ConstantKernel

from skgp_sparse._engine.process import Process

_LEAST = 1e-3  # weight of a process that counts
_ITERATIONS, _CLOSE = 2000, 1e-8  # until weights change by less


@dataclass(frozen=True, eq=False)
class PooledProcess(Process):
    """The average of several processes of one target.

    Parameters
    ----------
    processes : tuple of Process
    weights : ndarray of shape (k,)
        They add up to 1.
    names : tuple of str
    """

    processes: tuple
    weights: np.ndarray
    names: tuple

    kind = "pool"

    @classmethod
    def of(cls, processes, weights, names):
        """That of the processes that count."""
        kept = np.flatnonzero(weights >= _LEAST)
        weights = weights[kept] / weights[kept].sum()
        return cls(tuple(processes[k] for k in kept), weights, tuple(names[k] for k in kept))

    @property
    def members(self):
        """Names, weights and kernels."""
        kernels = (one.kernel for one in self.processes)
        return list(zip(self.names, self.weights.tolist(), kernels))

    width = property(lambda self: max(one.width for one in self.processes))
    n_rows_kept = property(lambda self: self.processes[0].n_rows_kept)

    @property
    def kernel(self):
        """The average of the kernels."""
        weighted = (ConstantKernel(w, "fixed") * kernel for _, w, kernel in self.members)
        return reduce(add, weighted)

    def mean(self, X, n_jobs=1):
        """Mean (n, 1)."""
        return self.average([one.mean(X, n_jobs) for one in self.processes])

    def mean_and_variance(self, X, n_jobs=1):
        """Mean (n, 1) and latent variance (n,)."""
        means, variances = zip(*(one.mean_and_variance(X, n_jobs) for one in self.processes))
        mean = self.average(means)
        squares = [(m - mean)[:, 0] ** 2 for m in means]
        return mean, self.average(variances) + self.average(squares)

    def covariance(self, X):
        """Latent covariance (n, n)."""
        covariance = np.zeros((len(X), len(X)))
        for w, one, apart in zip(self.weights, self.processes, self._apart(X)):
            covariance += w * (one.covariance(X) + apart @ apart.T)
        return covariance

    def deviations(self, X, n_samples, random_state):
        """Latent samples minus the mean (n, n_samples), each of a process drawn by its weight."""
        drawn = random_state.choice(len(self.weights), size=n_samples, p=self.weights)
        samples = np.empty((len(X), n_samples))
        for k, (one, apart) in enumerate(zip(self.processes, self._apart(X))):
            own = np.flatnonzero(drawn == k)
            if len(own):
                samples[:, own] = one.deviations(X, len(own), random_state) + apart
        return samples

    def _apart(self, X):
        """Means of the processes (n, 1) minus that of all."""
        means = [one.mean(X) for one in self.processes]
        mean = self.average(means)
        return [one - mean for one in means]

    def average(self, arrays):
        """The average of one array for each process."""
        return sum(w * array for w, array in zip(self.weights, arrays))


def mixture_weights(log_densities, prior, count, strength):
    """Weights (k,) that make rows likely which were left out, and are near to those of a prior.

    They maximise ``Σ_i c_i log Σ_k w_k p_ik + s Σ_k w0_k log w_k``, a concave function, by
    expectation-maximisation from equal weights.

    Parameters
    ----------
    log_densities : ndarray of shape (k, n)
        ``log p_ik`` of the rows.
    prior : ndarray of shape (k,)
        w0.
    count : ndarray of shape (n,)
        c, how often a row counts.
    strength : float
        s, the number of rows that the prior stands for.
    """
    weights, last = np.full(len(prior), 1.0 / len(prior)), np.inf
    for _ in range(_ITERATIONS):
        if np.max(np.abs(weights - last)) < _CLOSE:
            break
        last = weights
        shares = np.log(np.maximum(weights, np.finfo(float).tiny))[:, None] + log_densities
        shares = np.exp(shares - logsumexp(shares, axis=0))
        weights = shares @ count + strength * prior
        weights = weights / weights.sum()
    return weights
