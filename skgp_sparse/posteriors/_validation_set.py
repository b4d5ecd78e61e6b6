"""Rows that are held out, the models that predicted them, and a common factor of variances."""

from copy import copy
from dataclasses import replace
from time import perf_counter
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from skgp_sparse._ground.linalg import LOG_2PI
from skgp_sparse.posteriors._contract import Candidate

_LIMIT = 1.959964**2  # of normal deviates, 95 % have squares below this
_ENOUGH = 100  # rows that tell a share
_DOUBT = 20  # rows that speak for a factor of 1
_LARGEST = 1e6  # factor


def variance_factor(errors, variance, known, weight, central, least):
    """The factor of predicted variances that makes some rows most likely.

    A few rows more, which would have it 1, have a say where there are not many. Where errors are
    not normal, it may be larger, so that intervals of 95 % contain a share of these rows.

    Parameters
    ----------
    errors : ndarray of shape (n, p)
        Squared.
    variance : ndarray of shape (n,)
        Predicted, learned noise included.
    known : ndarray of shape (n,)
        Known noise, which has no factor.
    weight : ndarray of shape (n,)
    central : float
        The share.
    least : float
        The smallest factor.

    Returns
    -------
    float
    """
    squares, limits = errors.mean(axis=1), (least, _LARGEST)

    def loss(log_factor):
        total = np.exp(log_factor) * variance + known
        of_rows = weight @ (np.log(total) + squares / total) / weight.mean()
        return of_rows + _DOUBT * (log_factor + np.exp(-log_factor))

    likely = np.exp(minimize_scalar(loss, bounds=np.log(limits), method="bounded").x)
    if len(errors) < _ENOUGH:
        return float(likely)
    needed = ((errors / _LIMIT - known[:, None]) / variance[:, None]).ravel()
    order = np.argsort(needed)
    total = np.cumsum(np.repeat(weight, errors.shape[1])[order])
    needed = needed[order[np.searchsorted(total, central * total[-1])]]
    return float(np.clip(max(likely, needed), *limits))


def log_densities(errors, variance):
    """Log N(y; m, v) of rows (n,), the mean over targets, from squared errors (n, p) and v (n,)."""
    return -0.5 * (np.log(variance) + LOG_2PI + errors.mean(axis=1) / variance)


_MOST_ROWS = 2000  # rows held out
_SHARE, _SHARE_WITH_SITES = 2, 5  # one in so many is, at most: sites are learned without them
_WEIGHT_TOLERANCE = 1e-9  # of a row's weight


class ValidationScore(NamedTuple):
    """How likely a model makes the rows held out."""

    of_rows: np.ndarray  # (n,) log density, the mean over targets
    count: np.ndarray  # (n,) how often each row counts

    density = property(lambda self: float(np.average(self.of_rows, weights=self.count)))

    def take(self, rows):
        """Score of some of the rows."""
        return ValidationScore(self.of_rows[rows], self.count[rows])

    @classmethod
    def of_failure(cls, count):
        """Score of a model that could not be computed."""
        return cls(np.full(len(count), -np.inf), count)

    @classmethod
    def joined(cls, scores):
        """Score of all rows, from scores of parts of them."""
        return cls(*map(np.concatenate, zip(*scores)))

    def is_better_than(self, other, errors=1.0):
        """Whether it is ahead of another one by so many standard errors of their difference."""
        if not (np.isfinite(self.density) and np.isfinite(other.density)):
            return self.density > other.density
        gain = self.of_rows - other.of_rows
        mean = np.average(gain, weights=self.count)
        spread = np.average((gain - mean) ** 2, weights=self.count)
        return mean > errors * np.sqrt(spread / self.count.sum())


class ValidationSet:
    """Random rows of a table that compare models.

    Of a row that counts several times, some copies may be held out and others not.

    Parameters
    ----------
    rows : Dataset
    random_state : RandomState
    has_sites : bool
        Whether rows have a likelihood.

    Attributes
    ----------
    chosen : ndarray of shape (n,)
        Their numbers in the table, sorted.
    count : ndarray of shape (n,)
        How often each of them counts.
    block : Batch
    noise : ndarray of shape (n,)
        Known noise variance.
    candidates : list of Candidate
        Models that were compared.
    """

    def __init__(self, rows, random_state, has_sites=False):
        self.rows, self.random_state, self.candidates = rows, random_state, []
        share = _SHARE_WITH_SITES if has_sites else _SHARE
        sample, count = self.sample(share * _MOST_ROWS)
        drawn = copies(count, min(_MOST_ROWS, max(len(rows) // share, 1)), random_state)
        self.chosen, self.count = sample[drawn > 0], drawn[drawn > 0]
        self.block, self.clock = rows.block(self.chosen), perf_counter()
        self.scale = rows.units.scale[rows.units.scale > 0]  # of the targets that vary
        self.noise = np.broadcast_to(self.block.noise, len(self.chosen)).astype(float)

    def some(self, size):
        """The first so many of a random order of the rows, whose order stays; and their places."""
        if size >= len(self.chosen):
            return self, slice(None)
        places = np.sort(self.random_state.permutation(len(self.chosen))[:size])
        other = copy(self)
        other.chosen, other.count = self.chosen[places], self.count[places]
        other.block, other.noise = self.rows.block(other.chosen), self.noise[places]
        return other, places

    def others(self, size):
        """Numbers of at most so many random rows beside these, and how often they count."""
        chosen, count = self.sample(size + len(self.chosen))
        left, place = np.ones(len(chosen)), np.searchsorted(self.chosen, chosen)
        if self.rows.weight is not None:
            left = self.rows.weight[chosen]
        is_held_out = np.append(self.chosen, -1)[place] == chosen
        held = np.append(self.count, 0.0)[place] * np.minimum(left, 1.0)
        left = np.minimum(count, left - is_held_out * held)
        places = np.flatnonzero(left > _WEIGHT_TOLERANCE)
        if len(places) > size:
            places = np.sort(self.random_state.permutation(places)[:size])
        return chosen[places], left[places]

    def training_rows(self, most):
        """The table of all rows that are not held out, or of so many random ones: a copy."""
        chosen, count = self.others(most)
        weight = None if self.rows.weight is None else count
        return replace(self.rows.subset(chosen), weight=weight)

    def score(self, name, mean, variance):
        """The `ValidationScore` of a model that predicts targets with these moments.

        They are in standardised units, and so are its log densities.

        Parameters
        ----------
        name : str
        mean : ndarray of shape (n, p)
        variance : ndarray of shape (n,)
            That of the noise included.
        """
        errors = (self.block.y - mean) ** 2
        squared = np.average(errors * self.scale**2, axis=0, weights=self.count)
        densities = log_densities(errors, variance)
        return self._logged(name, densities, float(np.sqrt(squared.mean())))

    def score_posterior(self, name, process, n_jobs, likelihood=None):
        """The `ValidationScore` of a `Posterior` that has not seen these rows."""
        mean, variance = self.predicted(process, n_jobs)
        if likelihood is None:
            return self.score(name, mean, variance + self.noise)
        y, latent = self.block.observed, mean[:, 0] + self.block.offset
        return self._logged(name, likelihood.log_density(y, latent, variance), np.nan)

    def _logged(self, name, densities, rmse):
        """The `ValidationScore` of log densities (n,); their model becomes a candidate."""
        score = ValidationScore(densities, self.count)
        density = score.density - np.mean(np.log(self.scale))
        seconds, self.clock = perf_counter() - self.clock, perf_counter()
        self.candidates.append(Candidate(name, float(density), rmse, seconds))
        return score

    def predicted(self, process, n_jobs):
        """Mean and variance by a `Posterior`, its learned noise included, and no known one."""
        mean, variance = process.mean_and_variance(self.block.X, n_jobs)
        variance = variance + process.noise_variance(self.block.X)
        return mean, np.maximum(variance, np.finfo(float).tiny)

    def sample(self, size):
        """Numbers of so many random rows of all, and how often they count."""
        rows = self.rows
        chosen = rows.sample(size, self.random_state)
        if rows.weight is None or len(chosen) < np.count_nonzero(rows.weight):
            return chosen, np.ones(len(chosen))
        return chosen, rows.weight[chosen]


def copies(weight, size, random_state):
    """How many of `size` random rows are copies of each row; those of a weight below 1 have one."""
    order = random_state.permutation(len(weight))
    total = np.cumsum(weight[order])
    places = (np.arange(size) + random_state.uniform()) * total[-1] / max(size, 1)
    drawn = np.empty(len(weight))
    drawn[order] = np.bincount(np.searchsorted(total, places, "right"), minlength=len(weight))
    return np.minimum(drawn, np.maximum(np.floor(weight), 1.0))
