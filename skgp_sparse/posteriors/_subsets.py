"""Hyperparameters of exact fits to more and more rows, each of which goes on from the one before.

A fit hands on its curvature, so that the next one needs few iterations. Of few rows the noise may
seem to be next to nothing, and more rows would end in another optimum from there: where more noise
is likelier with more rows, it is taken, and the curvature is forgotten.
"""

import numpy as np

from skgp_sparse import kernels
from skgp_sparse.inference.optimizers import climb
from skgp_sparse.inference.parameter_vectors import VectorFunction, value_or_minus_inf
from skgp_sparse.inference.starts import fit_exact

_SUBSETS = (1, 100), (2, 40)  # rows, in units of those of a start, and iterations at most
_WORTH_A_SUBSET = 1.3  # rows, in units of those of a subset, from which it is fitted first
_TOL = 2e-3  # nats per row
_MORE_NOISE = 1.0, 3.0, 6.0  # logarithms of factors


def started_on_subsets(job, random_state):
    """The `Job` with the hyperparameters of exact fits to random subsets, and the curvature there.

    Parameters
    ----------
    job : Job
        Whose noise is Gaussian.
    random_state : RandomState

    Returns
    -------
    job : Job
    curvature : object
        For `maximise`.
    """
    kernel, curvature, settings = job.kernel, None, job.settings
    settings = settings._replace(tol=max(_TOL, settings.tol), progress=None, thorough=None)
    n = len(job.rows)
    for starts, most in _SUBSETS:
        size = starts * settings.start_rows
        if curvature is not None and n < _WORTH_A_SUBSET * size:
            break
        subset = job.rows.sampled(job.model.sample(job.rows, size, random_state))
        objective = job.model.exact(subset, settings.options, rough=True)
        settings = settings._replace(max_iter=most)
        if curvature is None:
            function, maximum = fit_exact(objective, kernel, settings, random_state)
        else:
            function, maximum = goes_on(objective, kernel, settings, curvature)
        kernel, curvature = function.at(maximum.x)[1], maximum.curvature
    job = job._replace(kernel=kernel).with_settings(n_restarts=0, find_periods=False)
    return job, curvature


def goes_on(objective, kernel, settings, curvature):
    """The `VectorFunction` and the `Maximum` of a fit that goes on from one to fewer rows."""
    likelier = _with_likelier_noise(objective, kernel, settings.prior)
    curvature = curvature if likelier is kernel else None
    function = VectorFunction(objective, likelier, prior=settings.prior)
    return function, climb(function, settings, curvature=curvature)


def _with_likelier_noise(objective, kernel, prior):
    """The kernel, or the same with more noise where that is likelier."""
    places = np.concatenate([*kernels.positions_of(kernel, "noise_level"), []]).astype(int)
    if not len(places):
        return kernel

    def value(candidate):
        return value_or_minus_inf(objective, candidate, False, prior=prior)

    return max([kernel, *(with_noise(kernel, places, more) for more in _MORE_NOISE)], key=value)


def with_noise(kernel, places, more):
    """The kernel whose noise has other logarithms, within its bounds."""
    theta = kernel.theta
    theta[places] += more
    return kernel.clone_with_theta(np.clip(theta, *kernel.bounds.T))
