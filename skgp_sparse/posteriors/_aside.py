"""Rows that are held aside, and what became of the models that predicted them."""

from time import perf_counter

import numpy as np

from skgp_sparse._engine.posterior import noise_variance
from skgp_sparse.posteriors._calibration import mean_log_density
from skgp_sparse.posteriors._contract import Candidate

_MOST, _SHARE = 3000, 5  # rows held aside: so many, and one in so many, at most


class Aside:
    """Random rows of a table that judge models.

    Parameters
    ----------
    rows : Table
    random_state : RandomState

    Attributes
    ----------
    chosen : ndarray of shape (n,)
        Their numbers in the table, sorted.
    count : ndarray of shape (n,)
        How often each of them counts.
    block : Block
    noise : ndarray of shape (n,)
        Known noise variance.
    candidates : list of Candidate
        Models that they have judged.
    """

    def __init__(self, rows, random_state):
        self.rows, self.random_state, self.candidates = rows, random_state, []
        sample, count = self.sample(_SHARE * _MOST)
        few = np.sort(random_state.permutation(len(sample))[: min(_MOST, len(rows) // _SHARE)])
        self.chosen, self.count = sample[few], count[few]
        self.block, self.clock = rows.block(self.chosen), perf_counter()
        self.noise = np.broadcast_to(self.block.noise, len(self.chosen)).astype(float)

    def others(self, size):
        """Numbers of about so many random rows beside these, and how often they count."""
        chosen, count = self.sample(size + len(self.chosen))
        kept = ~np.isin(chosen, self.chosen)
        return chosen[kept], count[kept]

    def table_of_others(self, most):
        """The table of all rows that are not held aside, or of so many random ones: a copy."""
        chosen, _ = self.others(most)
        return self.rows.sampled(chosen)

    def judge(self, name, mean, variance):
        """The `Candidate` that has predicted targets with these moments, in standardised units.

        Parameters
        ----------
        name : str
        mean : ndarray of shape (n, p)
        variance : ndarray of shape (n,)
            That of the noise included.
        """
        scale, errors = self.rows.y_scale, (self.block.y - mean) ** 2
        density = mean_log_density(errors, variance, self.count) - np.mean(np.log(scale))
        squared = np.average(errors * scale**2, axis=0, weights=self.count)
        seconds, self.clock = perf_counter() - self.clock, perf_counter()
        self.candidates.append(
            Candidate(name, float(density), float(np.sqrt(squared.mean())), seconds)
        )
        return self.candidates[-1]

    def judge_process(self, name, process, n_jobs):
        """The `Candidate` of a `Process` that has not seen these rows."""
        mean, variance = self.predicted(process, n_jobs)
        return self.judge(name, mean, variance + self.noise)

    def predicted(self, process, n_jobs):
        """Mean and variance by a `Process`, its learned noise included, and no known one."""
        mean, variance = process.mean_and_variance(self.block.X, n_jobs)
        variance = variance + noise_variance(process.kernel, self.block.X)
        return mean, np.maximum(variance, np.finfo(float).tiny)

    def sample(self, size):
        """Numbers of so many random rows of all, and how often they count."""
        rows = self.rows
        chosen = rows.sample(size, self.random_state)
        if rows.weight is None or len(chosen) < np.count_nonzero(rows.weight):
            return chosen, np.ones(len(chosen))
        return chosen, rows.weight[chosen]
