"""Bounds of the exact evidence of a fitted regressor, and what they say of its inducing points."""

from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skgp_sparse._engine.evidence import certify
from skgp_sparse._engine.inducing_points import InducingPoints
from skgp_sparse._engine.problem import Options
from skgp_sparse._ground.parallel import resolve_n_jobs, single_threaded_blas
from skgp_sparse._ground.warnings import warn
from skgp_sparse.inference.objectives import CollapsedObjective, arithmetic

_RESIDUAL = 1e-3  # of the solve: it costs the bounds about its square over the noise


class EvidenceBounds(NamedTuple):
    """Bounds of the exact log marginal likelihood at the fitted hyperparameters.

    Values are those of the normalised targets, in nats, for all rows together.
    """

    own: float
    conjugate_gradients: float
    nearest_neighbours: float
    upper: float
    gap_per_row: float


def rows_of_fit(estimator, name):
    """The table of the training rows."""
    objective = estimator._fits[0].objective
    if objective is None or not objective.rows.in_memory:
        raise ValueError(
            f"{name}: this estimator does not contain the training rows, because it was fitted on "
            "a cluster or from a large source, or loaded from a pickle. Pass X and y."
        )
    return objective.rows


def evidence_bounds(estimator, rows, bound, own=None):
    """Compute the `EvidenceBounds` of a fitted estimator.

    Parameters
    ----------
    estimator : SparseGPRegressor
    rows : Table
        In memory.
    bound : Bound
    own : float or None
        Value of the objective, if it is known.
    """
    kernel, n_jobs = estimator._fits[0].kernel, resolve_n_jobs(estimator.n_jobs)
    basis = InducingPoints(estimator.inducing_points_)
    options = Options(n_jobs=n_jobs)
    with single_threaded_blas(), arithmetic():
        if own is None:
            own = CollapsedObjective(rows, bound, basis, options).value(kernel)
        found = certify(
            kernel,
            basis.at(kernel, options).for_prediction(),
            rows.block(slice(None)),
            n_jobs,
            tol=min(_RESIDUAL, estimator.tol),
            max_iter=estimator.max_iter,
        )
    if found.residual > _RESIDUAL:
        warn(
            f"The solve for the bounds ended with a residual of {found.residual:.1e}, not "
            f"{_RESIDUAL:.0e}. The bounds hold, but could be closer. Raise max_iter (now "
            f"{estimator.max_iter}).",
            ConvergenceWarning,
        )
    own = own if bound.is_lower_bound else -np.inf
    values = own, found.conjugate_gradients, found.nearest_neighbours, found.upper
    gap = (found.upper - max(values[:3])) / (rows.total_weight() * rows.n_targets)
    return EvidenceBounds(*values, gap)
