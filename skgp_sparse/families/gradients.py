"""Gradients of predictions with respect to the query, in units of y."""

import numpy as np

from skgp_sparse import kernels
from skgp_sparse._engine import slopes
from skgp_sparse._engine.metric import ProcessInMetric
from skgp_sparse._engine.metric import in_metric as seen_in
from skgp_sparse._ground.parallel import resolve_n_jobs, single_threaded_blas

_TINY = np.finfo(float).tiny


def gradients(view, X, latent, parameters, name):
    """Means, standard deviations and their gradients, (n,) or (n, p), and (n, d) or (n, p, d).

    Parameters
    ----------
    view : TargetView
    X : ndarray of shape (n, d)
    latent : bool
        Whether standard deviations leave out the noise of the kernel.
    parameters : SparseGPRegressor
    name : str
        Of the method, for errors.
    """
    process, metric = view.process, None
    if isinstance(process, ProcessInMetric):
        process, metric = process.process, process.metric
    if not kernels.differentiable(process.kernel):
        raise ValueError(
            f"{name}: gradients need a kernel with derivative rules, but a part of "
            f"{process.kernel} has none. Add one with skgp_sparse.kernels.register."
        )
    of = slopes.slopes_of(process)
    if of is None:
        raise ValueError(
            f"{name}: gradients are known for any posterior_ but 'rows', without n_mean and "
            f"tight_variance. Got {process.kind!r}. Set posterior to 'inducing'."
        )
    seen = seen_in(metric, X)
    with np.errstate(all="ignore"), single_threaded_blas():
        found = of(seen, latent, resolve_n_jobs(parameters.n_jobs))
        found = found if metric is None else slopes.in_metric(found, metric)
        std = np.sqrt(np.maximum(found.variance, _TINY))
    scale = view.y_scale
    mean, std_slope = found.mean * scale + view.y_mean, 0.5 * found.variance_slope / std[:, None]
    mean_slope = found.mean_slope * scale[:, None]
    std, std_slope = std[:, None] * scale, std_slope[:, None] * scale[:, None]
    columns = mean, std, mean_slope, std_slope
    return [column[:, 0] for column in columns] if view.one_column else list(columns)
