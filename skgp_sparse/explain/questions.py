"""Questions to a fitted regressor: gradients with respect to queries, and bounds of the evidence.

Gradients are in units of y. The bounds say what more inducing points could gain.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from skgp_sparse import kernels
from skgp_sparse.bounds import Titsias
from skgp_sparse.choices.choices import resolve_bound, with_noise_floor
from skgp_sparse.choices.plan import tolerance
from skgp_sparse.data.arrays import ArrayDataset
from skgp_sparse.data.checks import is_gaussian
from skgp_sparse.engine.basis import InducingBasis, Options, Problem
from skgp_sparse.engine.iterative import upper_bound
from skgp_sparse.engine.posterior import BOUNDS, GRADIENTS, require
from skgp_sparse.exceptions import warn
from skgp_sparse.explain.leave_one_out import why_no_rows
from skgp_sparse.explain.views import RealView, TargetView
from skgp_sparse.ground.parallel import resolve_n_jobs, single_threaded_blas
from skgp_sparse.ground.validation import Array, as_text
from skgp_sparse.inference.contracts import arithmetic
from skgp_sparse.inference.objectives import GaussianObjectives
from skgp_sparse.methods.contract import FittedJob

Rows = ArrayDataset | None  # rows of a call; None: those of the fit
_RESIDUAL = 1e-3  # of the solve: it costs the bound about its square over the noise


class EvidenceBounds(NamedTuple):
    """Bounds of the exact log marginal likelihood at the fitted hyperparameters.

    Values are those of the normalised targets, in nats, for all rows together. The method
    `SparseGPRegressor.evidence_bounds` returns them.

    Parameters
    ----------
    own : float
        The collapsed bound at the inducing points, minus infinity if it is no lower bound.
    upper : float
        The upper bound.
    gap_per_row : float
        The difference of the two, per row and target.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse import SparseGPRegressor
    >>> X = np.random.RandomState(0).uniform(-3, 3, size=(300, 1))
    >>> y = np.sin(3 * X[:, 0]) + 0.1 * np.cos(50 * X[:, 0])
    >>> bounds = SparseGPRegressor(n_inducing=10, random_state=0).fit(X, y).evidence_bounds()
    >>> bool(bounds.own < bounds.upper)
    True
    """

    own: float
    upper: float
    gap_per_row: float


def evidence_bounds(
    fit: FittedJob, fitted: BaseEstimator, others: Rows, tell: Callable, name: str
) -> EvidenceBounds:
    """Bounds of the evidence of the rows of a fit, or of others in its units."""
    rows, n_jobs = fit.rows, resolve_n_jobs(fitted.n_jobs)
    if rows is not None and rows.X_std is not None:
        raise ValueError(
            f"{name} takes inputs as known, but fit was called with X_std. Judge the fit by the "
            "density of rows that it has not seen."
        )
    require(fit.posterior, BOUNDS, name)
    bound = resolve_bound(fitted.bound, name)
    value = None if fit.all_rows is not None or others is not None else fit.fit.value
    if others is not None:
        rows = with_noise_floor(others, fit.kernel)
    elif fit.posterior.is_exact and value is not None:
        return EvidenceBounds(float(value), float(value), 0.0)
    elif (reason := why_no_rows(fit, "Pass X and y.")) is not None:
        raise ValueError(f"{name} {reason}")
    basis, options = InducingBasis(fitted.inducing_points_), Options(n_jobs=n_jobs)
    with single_threaded_blas(), arithmetic():
        if value is None:
            objective = GaussianObjectives(bound).sparse(rows, basis.parameters, options)
            value = objective.value(fit.kernel)
        upper = _upper(Problem(fit.kernel, basis, rows, Titsias(), options), fitted, tell)
    own = value if bound.is_lower_bound else -np.inf
    gap = (upper - own) / (rows.total_weight() * rows.n_targets)
    return EvidenceBounds(*map(float, (own, upper, gap)))


def _upper(problem: Problem, parameters: BaseEstimator, progress: Callable) -> float:
    """The upper bound, with a warning where its solve has not converged."""
    tol = min(_RESIDUAL, tolerance(parameters.tol))

    def report(iteration: int, excess: float) -> bool:
        progress(iteration, about="bounds", note=f"residual {tol * excess:.2e}, until {tol:.0e}")
        return False

    upper, excess = upper_bound(problem, tol=tol, max_iter=parameters.max_iter, report=report)
    if tol * excess > _RESIDUAL:
        warn(
            f"The solve for the bounds ended with a residual of {tol * excess:.1e}, not "
            f"{_RESIDUAL:.0e}. The upper bound holds, but could be closer. Raise max_iter (now "
            f"{parameters.max_iter}).",
            ConvergenceWarning,
        )
    return upper


def check_question(
    parameters: BaseEstimator, return_cov: bool, latent: bool, extras: Iterable[object], name: str
) -> None:
    """Raise unless the gradients can be those of a prediction that is asked for so."""
    if return_cov or any(one is not None for one in extras):
        raise ValueError(
            f"{name}: return_gradient goes with return_std, but neither with return_cov nor with "
            "offset or X_std. Leave these out."
        )
    if not (latent or is_gaussian(parameters.likelihood)):
        raise ValueError(
            f"{name}: gradients of responses to likelihood={as_text(parameters.likelihood)} are "
            "not known. Set latent to True for those of the latent value."
        )


def gradients(view: RealView, X: Array, latent: bool, name: str) -> list[Array]:
    """Means, standard deviations and their gradients, (n,) or (n, p), and (n, d) or (n, p, d)."""
    latent = latent and isinstance(view, TargetView)  # elsewhere, the value has white noise
    view = view.of_latent()
    posterior = view.process
    if not kernels.differentiable(posterior.kernel):
        raise ValueError(
            f"{name}: gradients need a kernel with derivative rules, but a part of "
            f"{posterior.kernel} has none. Add one with skgp_sparse.kernels.register."
        )
    require(posterior, GRADIENTS, f"{name}: return_gradient")
    with np.errstate(all="ignore"), single_threaded_blas():
        found = posterior.gradients(X, latent, resolve_n_jobs(view.n_jobs))
        signal = posterior.prior_variance(X)
    rounding = np.finfo(float).eps * signal + np.finfo(float).tiny  # told from no variance
    scaler, std = view.scaler, np.sqrt(np.maximum(found.variance, rounding))[:, None]
    std_slope = 0.5 * found.variance_slope / std
    mean_slope = scaler.among_constants(found.mean_slope) * scaler.scale[:, None]
    std_slope = std_slope[:, None] * scaler.scale[:, None]
    columns = scaler.inverse(found.mean), scaler.inverse_std(std), mean_slope, std_slope
    return [column[:, 0] for column in columns] if view.one_column else list(columns)
