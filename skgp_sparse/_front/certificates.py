"""Bounds of the exact evidence of a fitted regressor, and what they say of its inducing points."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from skgp_sparse._engine.evidence import certify
from skgp_sparse._engine.inducing_basis import InducingBasis
from skgp_sparse._engine.problem import Options
from skgp_sparse._front import checks
from skgp_sparse._front.choices import resolve_bound
from skgp_sparse._front.training_rows import with_noise_floor
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


def evidence_bounds(estimator, X, y, sample_weight):
    """What `SparseGPRegressor.evidence_bounds` does."""
    check_is_fitted(estimator, "kernel_")
    name = f"{type(estimator).__name__}.evidence_bounds"
    if estimator._likelihood is not None:
        raise ValueError(f"{name} needs likelihood='gaussian'. Got {estimator.likelihood!r}.")
    if X is None and not (y is None and sample_weight is None):
        raise ValueError(f"{name} needs X where y or sample_weight are given.")
    value = estimator.log_marginal_likelihood_value_
    if X is None and estimator.posterior_ == "exact":
        return EvidenceBounds(value, value, value, value, 0.0)
    bound = resolve_bound(estimator.bound, name)
    if X is None:
        return _bounds(estimator, _rows_of_fit(estimator, name), bound, value)
    return _bounds(estimator, _other_rows(estimator, X, y, sample_weight, name), bound, None)


def _rows_of_fit(estimator, name):
    objective = estimator._fits[0].objective
    if objective is None or not objective.rows.in_memory:
        raise ValueError(
            f"{name}: this estimator does not contain the training rows, because it was fitted on "
            "a cluster or from a large source, or loaded from a pickle. Pass X and y."
        )
    return objective.rows


def _other_rows(estimator, X, y, sample_weight, name):
    """The table of these rows, in the units of the fit."""
    if y is None:
        raise ValueError(f"{name} needs the targets y of X.")
    rows = estimator._training_rows(X, y, sample_weight, None, None, name, new=False)
    checks.check_columns(rows.y, len(estimator._y_train_std), name)
    rows = replace(rows, y_mean=estimator._y_train_mean, y_scale=estimator._y_train_std)
    return with_noise_floor(rows, estimator._fits[0].kernel)


def _bounds(estimator, rows, bound, own):
    kernel, n_jobs = estimator._fits[0].kernel, resolve_n_jobs(estimator.n_jobs)
    basis = InducingBasis(estimator.inducing_points_)
    options = Options(n_jobs=n_jobs)
    tol = min(_RESIDUAL, estimator.tol)

    def report(iteration, residual):
        if estimator.verbose and iteration % int(estimator.verbose) == 0:
            name = type(estimator).__name__
            print(
                f"[{name}] bounds, iteration {iteration}: residual {residual:.2e}, until {tol:.0e}"
            )

    with single_threaded_blas(), arithmetic():
        if own is None:
            own = CollapsedObjective(rows, bound, basis, options).value(kernel)
        found = certify(
            kernel,
            basis.at(kernel, options).for_prediction(),
            rows.everything(),
            n_jobs,
            tol=tol,
            max_iter=estimator.max_iter,
            scale=rows.scale(),
            report=report,
        )
    if found.residual > _RESIDUAL:
        warn(
            f"The solve for the bounds ended with a residual of {found.residual:.1e}, not "
            f"{_RESIDUAL:.0e}. The bounds hold, but could be closer. Raise max_iter (now "
            f"{estimator.max_iter}).",
            ConvergenceWarning,
        )
    own = own if bound.is_lower_bound else -np.inf
    lower = own, found.conjugate_gradients, found.nearest_neighbours
    gap = (found.upper - max(lower)) / (rows.total_weight() * rows.n_targets)
    return EvidenceBounds(*map(float, (*lower, found.upper, gap)))
