"""Fits that explain no more than a constant, although rows that are near to each other are alike.

Rows are alike where the correlation c of the targets of near rows is clearly positive: of rows that
are next to each other in the order of a column, or of nearest rows in all columns. A share of about
c of the variance can be explained then.
"""

import numpy as np

from skgp_sparse._engine.data.moments import or_one
from skgp_sparse._engine.exact.scale_evidence import lag_correlation
from skgp_sparse._ground.parallel import single_threaded_blas
from skgp_sparse._ground.warnings import ConstantFitWarning, warn
from skgp_sparse.posteriors._scales import some_rows

_FEWEST_ROWS = 20  # that can tell
_ROWS, _NEAR_ROWS = 200, 2000  # that are predicted, and that are compared
_LITTLE, _SHARE = 0.05, 0.25  # a fit explains nothing below these shares of the variance, and of c
_CORRELATION, _STANDARD_ERRORS = 0.1, 4.0  # of near rows, at least


def warn_of_constant_fits(family, jobs, fits):
    """Warn once of all classes or targets of which fits explain no more than a constant.

    Parameters
    ----------
    family : ObservationModel
    jobs : list of Job
    fits : list of Fit
    """
    if not family.moves():
        return
    with single_threaded_blas():
        named = [name for job, fit in zip(jobs, fits) for name in _unexplained(family, job, fit)]
    if not named:
        return
    listed = ", ".join(filter(None, named))
    of = f" of {listed}" if listed else ""
    warn(
        f"{family.name}: the fit{of} explains no more than a constant, but rows that are near to "
        "each other are more alike than others. It may have missed structure that is finer than "
        "the length scales at which the search began. Pass a kernel that begins with shorter "
        "length scales, set n_restarts_optimizer, raise n_inducing where it is set, or set "
        "posterior='neighbors'.",
        ConstantFitWarning,
    )


def _unexplained(family, job, fit):
    """Names of the targets that a fit has missed; of a single one, that of the job."""
    if not job.is_complete or job.rows.total_weight() < _FEWEST_ROWS:
        return
    explained = _explained(job, fit)
    if explained.min() >= _LITTLE:
        return
    rows, codes = some_rows(job, _NEAR_ROWS), family.columns().codes()
    X = np.delete(rows.X, codes, axis=1)  # codes of levels have no order
    for k in np.flatnonzero(explained < _LITTLE):
        alike = _likeness(X, rows.y[:, k] - rows.y[:, k].mean())
        if alike > max(_CORRELATION, explained[k] / _SHARE):
            yield job.name if len(explained) == 1 else family.target_name(k)


def _explained(job, fit):
    """Shares (p,) of the variance of the targets of some rows that their means explain."""
    chosen = job.rows.sample(_ROWS, np.random.RandomState(0))
    block = job.rows.block(chosen)
    mean, y = fit.posterior.mean(block.X, job.settings.options.n_jobs), block.y
    if job.model.has_sites:
        y, mean = _responses(fit.likelihood, block, mean)
    total = np.sum((y - y.mean(axis=0)) ** 2, axis=0)
    share = 1.0 - np.sum((y - mean) ** 2, axis=0) / or_one(total)
    return np.where(total > 0, share, 1.0)


def _responses(likelihood, block, latent):
    """Observations (n, p) and their means at latent values; classes of a softmax are columns."""
    if likelihood.n_latent > 1:
        classes = np.arange(likelihood.n_latent)
        return block.y == classes, likelihood.probability(latent.T, np.zeros(latent.T.shape)).T
    mean = likelihood.response(latent[:, 0] + block.offset, np.zeros(len(latent)))[0]
    y = likelihood.decode(block.observed)[1]
    return np.where(np.isnan(y), mean, y)[:, None], mean[:, None]


def _likeness(X, y):
    """The correlation of targets (n,) of near rows; 0 where it is not clearly positive."""
    variance = np.mean(y**2)
    if variance == 0.0:
        return 0.0
    shuffled = np.random.RandomState(0).permutation(len(X))  # of equal rows, any may be nearest
    X, y = X[shuffled], y[shuffled]
    there = ~np.isnan(X).any(axis=0) & (np.ptp(X, axis=0) > 0)
    X = X[:, there] / np.std(X[:, there], axis=0)
    found = [lag_correlation(x, y) for x in X.T]
    if X.shape[1] > 1:
        from sklearn.neighbors import NearestNeighbors  # an import that takes .1 s

        near = NearestNeighbors(n_neighbors=1).fit(X).kneighbors(return_distance=False)[:, 0]
        found.append(1.0 - 0.5 * np.mean((y - y[near]) ** 2) / variance)
    likeness = max(found, default=0.0)
    return likeness if likeness > _STANDARD_ERRORS / np.sqrt(len(y)) else 0.0
