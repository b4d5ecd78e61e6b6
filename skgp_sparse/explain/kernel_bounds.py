"""Hyperparameters of a user's kernel that end close to a bound."""

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skgp_sparse._ground.warnings import about, warn
from skgp_sparse.kernels import has_noise, length_scale_places


def warn_of_kernels_at_bounds(family, jobs, fits):
    """Warn of hyperparameters of the user's kernel that were learned and are close to bounds."""
    given, names = family.parameters.kernel, family.feature_names()
    if given is None or not family.moves():
        return
    for job, fit in zip(jobs, fits):
        appended = has_noise(fit.kernel) and not has_noise(given)
        with about(job.name):
            warn_at_bounds(fit.kernel.k1 if appended else fit.kernel, names)


def warn_at_bounds(kernel, columns=None):
    """Warn, in the words of scikit-learn, of every hyperparameter close to a bound.

    `columns` are names of the inputs, None where they have none.
    """
    called = {} if columns is None else _columns_of(kernel, columns)
    free = [hyper for hyper in kernel.hyperparameters if not hyper.fixed]
    names = [(hyper, dim) for hyper in free for dim in range(hyper.n_elements)]
    close = np.isclose(kernel.bounds, kernel.theta[:, None])
    for place, ((hyper, dim), (at_lower, at_upper)) in enumerate(zip(names, close)):
        if hyper.name.split("__")[-1] == "correlation":  # learned downwards; 1 says: no matter
            at_lower, at_upper = at_upper, False
        if at_lower or at_upper:
            _warn_at_bound(hyper, dim, "lower" if at_lower else "upper", called.get(place))


def _columns_of(kernel, columns):
    """Names of the columns of length scales, by place in theta."""
    found = {}
    for places, numbers in length_scale_places(kernel, len(columns)):
        if len(places) == len(numbers):
            found.update(zip(places.tolist(), np.asarray(columns, dtype=object)[numbers]))
    return found


def _warn_at_bound(hyper, dim, side, column):
    bound, remedy = hyper.bounds[dim], "Decreasing"
    if side == "upper":
        bound, remedy = bound[::-1], "Increasing"
    about = "" if column is None else f", that of column {column!r},"
    warn(
        f"The optimal value found for dimension {dim} of parameter {hyper.name}{about} is close to "
        f"the specified {side} bound {bound[0]}. {remedy} the bound and calling fit again may find "
        "a better value.",
        ConvergenceWarning,
    )
