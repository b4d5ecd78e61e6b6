"""Gradients of predictions with respect to the query, in units of y."""

import numpy as np

from skgp_sparse import kernels
from skgp_sparse._engine.predictions.posterior import GRADIENTS, require
from skgp_sparse._ground.parallel import resolve_n_jobs, single_threaded_blas
from skgp_sparse._ground.plain_text import as_text
from skgp_sparse.parameters.choices import is_gaussian

_TINY = np.finfo(float).tiny
_RELATIVE_VARIANCE_ROUNDING = np.finfo(float).eps  # variance of the prior's that is told from none


def check_question(parameters, return_cov, latent, known, name):
    """Raise unless the gradients can be those of a prediction that is asked for so.

    Parameters
    ----------
    parameters : SparseGPRegressor
    return_cov, latent : bool
    known : iterable
        Of what is known of the query points; None: nothing.
    name : str
        Of the method, for errors.
    """
    if return_cov or any(one is not None for one in known):
        raise ValueError(
            f"{name}: return_gradient goes with return_std, but neither with return_cov nor with "
            "offset or X_std. Leave these out."
        )
    if not (latent or is_gaussian(parameters.likelihood)):
        raise ValueError(
            f"{name}: gradients of responses to likelihood={as_text(parameters.likelihood)} are "
            "not known. Set latent to True for those of the latent value."
        )


def gradients(view, X, latent, parameters, name):
    """Means, standard deviations and their gradients, (n,) or (n, p), and (n, d) or (n, p, d).

    Parameters
    ----------
    view : TargetView or ResponseView
    X : ndarray of shape (n, d)
    latent : bool
        Whether standard deviations leave out the noise of the kernel.
    parameters : SparseGPRegressor
    name : str
        Of the method, for errors.
    """
    view = view.of_latent()
    latent = latent and is_gaussian(parameters.likelihood)  # elsewhere, the value has white noise
    posterior = view.process
    if not kernels.differentiable(posterior.kernel):
        raise ValueError(
            f"{name}: gradients need a kernel with derivative rules, but a part of "
            f"{posterior.kernel} has none. Add one with skgp_sparse.kernels.register."
        )
    require(posterior, GRADIENTS, f"{name}: return_gradient")
    with np.errstate(all="ignore"), single_threaded_blas():
        found = posterior.gradients(X, latent, resolve_n_jobs(parameters.n_jobs))
        signal = posterior.prior_variance(X)
    units, std = view.units, np.sqrt(found.variance)[:, None]
    least = np.sqrt(np.maximum(found.variance, _RELATIVE_VARIANCE_ROUNDING * signal + _TINY))
    std_slope = 0.5 * found.variance_slope / least[:, None]
    mean_slope = units.among_constants(found.mean_slope) * units.scale[:, None]
    std_slope = std_slope[:, None] * units.scale[:, None]
    columns = units.inverse(found.mean), units.inverse_std(std), mean_slope, std_slope
    return [column[:, 0] for column in columns] if view.one_column else list(columns)
