"""What the other rows say of every training row, hyperparameters held: in units of y."""

from typing import NamedTuple

import numpy as np

from skgp_sparse._engine import cavities
from skgp_sparse._engine.cavities import LeftOut
from skgp_sparse._engine.metric import ProcessInMetric
from skgp_sparse._engine.nearest import DistinctRows
from skgp_sparse._engine.neighbors_posterior import NeighborsPosterior
from skgp_sparse._engine.pooled import PooledProcess
from skgp_sparse._engine.posterior import Posterior, noise_variance
from skgp_sparse._engine.rows_posterior import RowsPosterior
from skgp_sparse._engine.visited_rows import known_rows
from skgp_sparse._ground.normal import log_normal_density
from skgp_sparse._ground.parallel import resolve_n_jobs, single_threaded_blas
from skgp_sparse.inference.local_site_objective import LocalSiteObjective
from skgp_sparse.inference.site_objective import SiteObjective

_NEIGHBORS = 100  # whose variances are taken where those of all rows are not known


class LooPrediction(NamedTuple):
    """Predictions of training rows, each given all others; see `SparseGPRegressor.loo_predict`.

    Parameters
    ----------
    mean : ndarray of shape (n_samples,) or (n_samples, n_targets)
        In units of y.
    std : ndarray of shape (n_samples,) or (n_samples, n_targets)
        Standard deviations, the noise included.
    log_density : ndarray of shape (n_samples,) or (n_samples, n_targets)
        Log densities of the targets, in nats.
    """

    mean: np.ndarray
    std: np.ndarray
    log_density: np.ndarray


def loo_prediction(fit, parameters, name):
    """The `LooPrediction` of the user's own rows, in their order; raises where it is not known.

    Parameters
    ----------
    fit : Fit
    parameters : SparseGPRegressor
    name : str
        Of the method, for errors.
    """
    rows, posterior = _rows_of(fit, name), fit.posterior
    posterior = posterior.process if isinstance(posterior, ProcessInMetric) else posterior
    n_jobs = resolve_n_jobs(parameters.n_jobs)
    with single_threaded_blas():
        if isinstance(fit.objective, SiteObjective | LocalSiteObjective):
            found = _of_responses(_with_sites(posterior, fit, rows, n_jobs), fit, rows)
        else:
            found = _of_numbers(_of_normal(posterior, fit, rows, n_jobs, name), posterior, rows)
    columns = found if rows.places is None else [column[rows.places] for column in found]
    is_one = rows.n_targets == 1
    return LooPrediction(*(column[:, 0] if is_one else column for column in columns))


def _rows_of(fit, name):
    """The training rows; raises unless they are known."""
    rows = None if fit.objective is None else fit.objective.rows
    if rows is None or not rows.in_memory:
        raise ValueError(
            f"{name}: this estimator does not contain the training rows, because it was fitted on "
            "a cluster or from a large source, or loaded from a pickle. Fit it to arrays."
        )
    if rows.X_std is not None:
        raise ValueError(f"{name} takes inputs as known, but fit was given X_std.")
    if np.any(rows.places == -1) or (rows.weight is not None and not rows.weight.all()):
        raise ValueError(
            f"{name} cannot leave out rows of weight zero, which were not in the fit. Fit without "
            "them, and use predict for these rows."
        )
    return rows


def _of_normal(posterior, fit, rows, n_jobs, name):
    """`LeftOut` where the noise is Gaussian."""
    if isinstance(posterior, Posterior):
        if posterior.TB is None:
            return cavities.of_exact(posterior, rows)
        return cavities.of_basis(posterior, rows, fit.objective.bound, n_jobs)
    if isinstance(posterior, PooledProcess):
        return cavities.of_pool(posterior, rows)
    if isinstance(posterior, RowsPosterior):
        known = known_rows(rows)
        near = NeighborsPosterior.of(posterior.prior, known, _NEIGHBORS, None, posterior.factor)
        return cavities.of_rows(posterior, rows, near, n_jobs)
    if isinstance(posterior, NeighborsPosterior) and isinstance(posterior.rows, DistinctRows):
        return cavities.of_neighbors(posterior, rows, n_jobs)
    raise ValueError(
        f"{name} does not know the rows of posterior_={posterior.kind!r} one by one. Set n_mean to "
        "None and tight_variance to False, and call fit, not partial_fit."
    )


def _with_sites(posterior, fit, rows, n_jobs):
    """`LeftOut` where rows have a likelihood."""
    if isinstance(fit.objective, LocalSiteObjective):
        mean, variance = fit.objective.cavities(fit.kernel)
        return LeftOut(mean[:, None], variance)
    sites = np.asarray(fit.objective.inner_state.sites)
    return cavities.of_sites(posterior, rows, fit.objective.method, sites, n_jobs)


def _of_numbers(left, posterior, rows):
    """Means, standard deviations and log densities (n, p)."""
    block = rows.everything()
    noise = noise_variance(posterior.kernel, block.X) + block.noise
    std = np.sqrt(np.maximum(left.variance + noise, np.finfo(float).tiny))[:, None]
    density = log_normal_density(block.y, left.mean, std) - np.log(rows.y_scale)
    return left.mean * rows.y_scale + rows.y_mean, std * rows.y_scale, density


def _of_responses(left, fit, rows):
    """The same of a likelihood, (n, 1)."""
    block, likelihood = rows.everything(), fit.objective.likelihood
    latent, y = left.mean[:, 0] + block.offset, block.y[:, 0]
    mean, variance = likelihood.response(latent, left.variance)
    density = likelihood.tilted(y, latent, left.variance)[0] - np.log(rows.y_scale[0])
    columns = mean * rows.y_scale + rows.y_mean, np.sqrt(variance) * rows.y_scale, density
    return [column[:, None] for column in columns]
