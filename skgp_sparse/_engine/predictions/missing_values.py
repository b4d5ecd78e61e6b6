r"""A process of rows that lack values of columns in which no training row lacked one.

A missing value is taken to be one of K values that are spread as those of its column in training,
whatever the row is otherwise. With the moments m_k and C_k of rows x_k that have these values,

    mean = Σ m_k / K,     var = Σ (v_k + (m_k - mean)²) / K + s u · (number of missing values).

Off the diagonal, the covariance is the mean of C_k, where rows have values that are independent of
each other's. What it may say that a value is missing is noise: a share s, that of the start of the
noise of `Missing`, of the variance u of means of rows whose values are those of all columns.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skgp_sparse._engine.predictions.posterior import PosteriorAround, float64
from skgp_sparse._ground.parallel import slices

_NOISE_SHARE = 0.02  # s
_VALUES = 32  # K
_ROWS_PER_BLOCK = 1024  # rows whose moments with all values are computed together
_ROWS = 20_000  # of training, which tell how values are spread


def spread_values(X, weight):
    """Values (K, d) that are spread as those of columns, independent; NaN where one is missing.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Training rows.
    weight : ndarray of shape (n,) or None
    """
    few = np.unique(np.linspace(0, len(X) - 1, _ROWS).astype(int))
    X, weight = float64(X[few]), np.ones(len(few)) if weight is None else weight[few]
    columns, random_state = [], np.random.RandomState(0)
    for x in X.T:
        order = np.argsort(x, kind="stable")
        total = np.cumsum(weight[order])
        levels = (random_state.permutation(_VALUES) + 0.5) / _VALUES * total[-1]
        values = x[order][np.searchsorted(total, levels)]
        columns.append(np.full(_VALUES, np.nan) if np.isnan(x).any() else values)
    return np.column_stack(columns)


def missing_entries(X, values):
    """Whether entries (n, d) of rows are missing in columns that have `spread_values`."""
    return np.isnan(X) & ~np.isnan(values[0])


def averaged(function, X, values):
    """A function (n, q) of rows (n, d), averaged over the values of those that are missing.

    Parameters
    ----------
    function : callable
        ``X -> (n, q)``, of rows without missing values in columns that have `values`.
    X : ndarray of shape (n, d)
    values : ndarray of shape (K, d)
        As of `spread_values`.
    """
    is_missing = missing_entries(X, values)
    found = function(np.where(is_missing, values[0], X))
    rows = np.flatnonzero(is_missing.any(axis=1))
    for block in slices(len(rows), _ROWS_PER_BLOCK):
        some = rows[block]
        every = np.where(is_missing[some], values[:, None], X[some]).reshape(-1, X.shape[1])
        found[some] = function(every).reshape(len(values), len(some), -1).mean(axis=0)
    return found


@dataclass(frozen=True, eq=False)
class PosteriorWithMissingValues(PosteriorAround):
    """A posterior at rows in which values may be missing.

    Parameters
    ----------
    posterior : Posterior
    values : ndarray of shape (K, d)
        As of `spread_values`.
    """

    values: np.ndarray

    remedy = "No value was missing in these columns in fit: impute those of X."

    def noise_variance(self, X):
        """Learned noise variance where missing values are medians."""
        X, medians = float64(X), np.sort(self.values, axis=0)[_VALUES // 2]
        return self.posterior.noise_variance(np.where(missing_entries(X, self.values), medians, X))

    def mean(self, X, n_jobs=1):
        """Mean, in the shape of that of the process."""
        X, missing = self._parts(X)
        mean = self.posterior.mean(self._filled(X, 0), n_jobs)
        for rows in self._blocks(missing):
            mean[rows] = self._each(self.posterior.mean(self._all(X[rows]), n_jobs)).mean(axis=0)
        return mean

    def mean_and_variance(self, X, n_jobs=1):
        """Mean and latent variance."""
        X, missing = self._parts(X)
        mean, variance = self.posterior.mean_and_variance(self._filled(X, 0), n_jobs)
        for rows in self._blocks(missing):
            moments = self.posterior.mean_and_variance(self._all(X[rows]), n_jobs)
            means, variances = map(self._each, moments)
            mean[rows] = means.mean(axis=0)
            variance[rows] = variances.mean(axis=0) + self._own(X[rows], means, variance.ndim)
        return mean, variance

    def covariance(self, X):
        """Latent covariance."""
        X = float64(X)
        filled = [self._filled(X, k) for k in range(_VALUES)]
        cov = sum(self.posterior.covariance(one) for one in filled) / _VALUES
        means = np.stack([self.posterior.mean(one) for one in filled])
        rows = np.arange(len(X))
        cov[rows, rows] += self._own(X, means, cov.ndim - 1)
        return cov

    def deviations(self, X, n_samples, random_state):
        """Latent samples minus the mean, each with values that are drawn."""
        X, mean = float64(X), self.mean(X)
        of_missing = np.random.RandomState(random_state.randint(2**31))
        drawn, parts = random_state.randint(_VALUES, size=n_samples), []
        for k in np.unique(drawn):
            own, filled = np.flatnonzero(drawn == k), self._filled(X, k)
            draws = self.posterior.deviations(filled, len(own), random_state)
            apart = self.posterior.mean(filled) - mean
            targets = own * mean.shape[1] // n_samples  # one after the other
            parts.append(draws + (apart[:, targets] if draws.ndim == 2 else apart[:, None]))
        draws = np.concatenate(parts, axis=1)
        draws[:, np.argsort(drawn, kind="stable")] = draws.copy()
        noise = np.sqrt(self._noise(X, draws.ndim - 1))
        normal = of_missing.normal(size=(n_samples, *draws.shape[2:], len(X)))
        return draws + np.moveaxis(normal, -1, 0) * noise.reshape(len(X), *[1] * (draws.ndim - 1))

    def _parts(self, X):
        """Rows, and which of them (n,) lack a value."""
        X = float64(X)
        return X, missing_entries(X, self.values).any(axis=1)

    def _blocks(self, missing):
        """Numbers of rows that lack a value, in blocks."""
        rows = np.flatnonzero(missing)
        return [rows[block] for block in slices(len(rows), _ROWS_PER_BLOCK)]

    def _filled(self, X, k):
        """Rows with the value number k, and others in other rows, where they lack one."""
        places = (k + np.arange(len(X))) % _VALUES
        return np.where(np.isnan(X), self.values[places], X)

    def _all(self, X):
        """Rows (K n, d) with all values."""
        return np.where(np.isnan(X), self.values[:, None], X).reshape(-1, X.shape[1])

    def _each(self, moments):
        return moments.reshape(_VALUES, -1, *moments.shape[1:])

    def _own(self, X, means, ndim):
        """Additional variance (n,) or (n, k) of rows because of their missing values."""
        spread = means.var(axis=0)
        return (spread.max(axis=1) if ndim == 1 else spread) + self._noise(X, ndim)

    def _noise(self, X, ndim):
        count = missing_entries(X, self.values).sum(axis=1)
        noise = _NOISE_SHARE * self._unit
        return count * noise.max() if ndim == 1 else count[:, None] * noise

    @cached_property
    def _unit(self):
        """Variances of means over rows like those of training, of each target or process."""
        return self.posterior.mean(self.values).var(axis=0)
