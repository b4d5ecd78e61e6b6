"""Where the search for a metric begins, from a kernel with a length scale for each column.

A full metric begins at the identity. One of rank r begins at r directions: with the length scales
s, ``G = S E[g gᵀ] S`` says along which directions the means of rows change (the average gradient
outer product of Radhakrishnan et al. 2024). Its first r eigenvectors U make ``W = l Uᵀ S⁻¹`` and a
kernel of r columns, whose length scales begin at l, the geometric mean of s.
"""

import numpy as np
from sklearn.base import clone

from skgp_sparse import kernels
from skgp_sparse._engine.neighbors_posterior import gradient_outer_product
from skgp_sparse.hyperpriors import NO_PRIOR
from skgp_sparse.inference.local_site_objective import MetricPrior

_MOST_ENTRIES = 2000  # of a full metric, unless it is asked for: more would fit noise
_LONGEST = 0.5  # length scale of a start, in units of the initial one
_NATS = 0.01  # per row, of a squared distance of an entry of the metric from its start ...
NATS_WITH_SITES = 0.1  # ... of a full one where rows have a likelihood


def rank(job):
    """Rank of the metric which a job asks for; None: any."""
    return None if isinstance(job.metric, str) else job.metric


def prior_of(job):
    """Prior of theta; none where a metric of some rank is learned, which sets the units."""
    return job.settings.prior if rank(job) is None else NO_PRIOR


def wants_full(job):
    """Whether a job asks for a full metric."""
    d, may_mix = job.rows.n_features, job.is_free and not job.model.has_sites
    is_tried = job.metric == "auto" and may_mix and d**2 <= _MOST_ENTRIES
    is_tried = is_tried and kernels.may_mix(job.kernel)
    return d > 1 and (job.metric == "full" or is_tried)


def full(kernel, d, nats=_NATS):
    """The kernel, and the `MetricPrior` of a metric (d, d) that may well rescale columns."""
    scale, unmixed = kernels.length_scales(kernel, np.ones(d)), np.eye(d)
    return kernel, MetricPrior(unmixed, scale[:, None] / scale, nats * (1.0 - unmixed))


def shortened(kernel, initial, d):
    """The kernel whose length scales are at most half of the initial ones, itself if they are."""
    if len(kernel.theta) != len(initial.theta):
        return kernel
    theta, shorter = initial.theta, kernel.theta
    for places, _ in kernels.length_scale_places(kernel, d):
        shorter[places] = np.minimum(shorter[places], theta[places] + np.log(_LONGEST))
    return kernel if np.array_equal(shorter, kernel.theta) else kernel.clone_with_theta(shorter)


def low_rank(kernel, left, r, n_jobs=1):
    """The kernel of r columns, and the `MetricPrior`, from the means of rows that are left out."""
    d = left.X.shape[1]
    scale = kernels.length_scales(kernel, np.ones(d))
    units = np.tile(_geometric_mean(scale) / scale, (r, 1))
    G = gradient_outer_product(kernel, left, n_jobs) * np.outer(scale, scale)
    directions = np.linalg.eigh(G)[1][:, ::-1][:, :r]
    nats = np.full(units.shape, _NATS)
    return of_columns(kernel, d, r), MetricPrior(units * directions.T, units, nats)


def of_columns(kernel, d, r):
    """The kernel of r columns in place of d, whose scales begin at the mean of what they were."""
    changes = {}
    for one in kernel.hyperparameters:
        if one.n_elements == d > 1:
            value = _geometric_mean(kernel.get_params()[one.name])
            changes[one.name] = value if r == 1 else np.full(r, value)
            limits = "fixed" if one.fixed else (one.bounds[:, 0].min(), one.bounds[:, 1].max())
            changes[f"{one.name}_bounds"] = limits
    return clone(kernel).set_params(**changes)


def name_of(metric):
    """Name of a metric, for users, and a comma; an empty string where there is none."""
    if metric is None:
        return ""
    r, d = metric.shape
    return "full metric, " if r == d else f"rank-{r} metric, "


def _geometric_mean(values):
    return float(np.exp(np.mean(np.log(values))))
