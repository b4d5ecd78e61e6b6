"""Names and defaults become objects, and choices are judged together. Nothing is computed here."""

from numbers import Integral, Real

import numpy as np
from sklearn import get_config
from sklearn.base import clone
from sklearn.gaussian_process.kernels import (
    CompoundKernel,
    ConstantKernel,
    Kernel,
    Matern,
    WhiteKernel,
)
from sklearn.utils import check_array

from skgp_sparse import bounds, inducing, kernels
from skgp_sparse._engine.problem import Options
from skgp_sparse._parallel import resolve_n_jobs
from skgp_sparse.inference.training import Plan

BOUNDS = {
    "titsias": bounds.Titsias,
    "vfe": bounds.Titsias,
    "titsias_new": bounds.TitsiasNew,
    "artemev": bounds.Artemev,
    "fitc": bounds.FITC,
    "gfitc-ep": bounds.FITC,  # EP is exact for a Gaussian likelihood
    "pep": bounds.PEP,
    "dtc": bounds.DTC,
}
_BOOLS = (bool, np.bool_)
_LOWEST = {"n_inducing": 1, "max_iter": 1, "n_restarts_optimizer": 0}
_START_ROWS = 500  # of the exact fit that finds the first hyperparameters
_SAMPLE_ROWS = 10_000  # rows that an initialiser looks at, or ten per inducing point
_NOISE = {"noise_level": 0.1, "noise_level_bounds": (1e-6, 1e3)}


def resolve_bound(bound, name):
    """The bound object of a string or an instance."""
    if isinstance(bound, bounds.PEP):
        check_number(bound.alpha, "bound__alpha", name, Real, low=0, high=1)
    if isinstance(bound, bounds.Bound):
        return clone(bound)
    if isinstance(bound, str) and bound in BOUNDS:
        return BOUNDS[bound]()
    raise ValueError(
        f"The 'bound' parameter of {name} must be one of {sorted(BOUNDS)} or an instance of "
        f"skgp_sparse.bounds.Bound. Got {bound!r} instead."
    )


def check_kernel(kernel, name):
    """Raise unless `kernel` is None or a covariance function of vectors."""
    if kernel is None:
        return
    if not isinstance(kernel, Kernel):
        raise ValueError(
            f"The 'kernel' parameter of {name} must be None or a kernel from "
            f"sklearn.gaussian_process.kernels. Got {kernel!r} instead."
        )
    if isinstance(kernel, CompoundKernel):
        raise ValueError(
            f"The 'kernel' parameter of {name} cannot be a CompoundKernel, which is several "
            "kernels and not one. Add or multiply them instead."
        )


def check_inputs(X, kernel, name):
    """Raise if inputs are structured objects that only a structured kernel understands."""
    if kernel is None or kernel.requires_vector_input or np.asarray(X).dtype.kind in "biuf":
        return
    raise ValueError(
        f"{name} takes numeric arrays of shape (n_samples, n_features) only: inducing points are "
        f"vectors. For structured inputs of {kernel!r} use GaussianProcessRegressor."
    )


def resolve_kernel(kernel, alpha, rows):
    """A clone of the kernel, or the default one, with the noise that is to be learned."""
    y_variance = rows.target_variance()
    signal = default_signal(rows.scale(), y_variance) if kernel is None else clone(kernel)
    probe = rows.block(slice(0, 1)).X
    kernels.evaluate(signal, probe, probe)  # length scales for other columns are refused here
    noise_is_known = alpha is not None and kernel is not None
    if noise_is_known or kernels.has_noise(signal):
        return signal
    level, limits = _NOISE["noise_level"], _NOISE["noise_level_bounds"]
    return signal + WhiteKernel(
        level * y_variance, (limits[0] * y_variance, limits[1] * y_variance)
    )


def users_part(fitted, kernel):
    """What of a fitted kernel the user wrote: all but appended noise; None for the default."""
    if kernel is None:
        return None
    return fitted.k1 if len(fitted.theta) > len(kernel.theta) else fitted


def default_signal(scale, y_variance):
    """``ConstantKernel() * Matern(ARD, nu=2.5)`` in the units of the data."""
    if not np.isfinite(scale).all():
        raise ValueError("The spread of X overflows float64. Rescale X, or give a kernel.")
    typical = scale * np.sqrt(len(scale))  # makes two typical rows correlate by about exp(-1)
    limits = np.column_stack([1e-3 * typical, 1e4 * typical])
    variance = ConstantKernel(y_variance, (1e-3 * y_variance, 1e4 * y_variance))
    return variance * Matern(typical, limits, nu=2.5)


def _resolve_inducing(init, n_inducing, X, name):
    """Initialiser ``(rows, kernel, random_state) -> Z``, and whether Z is the user's own."""
    if isinstance(init, str) and init in inducing.BY_NAME:
        return _from_sample(inducing.BY_NAME[init], n_inducing), False
    if callable(init):
        return _from_callable(init, n_inducing, X, name), False
    if isinstance(init, str) or np.ndim(init) == 0:
        raise ValueError(
            f"The 'inducing_init' parameter of {name} must be one of {sorted(inducing.BY_NAME)}, "
            f"an array of shape (m, n_features) or a callable. Got {init!r} instead."
        )
    Z = _check_inducing(init, X.shape[1], name)
    return lambda rows, kernel, random_state: Z, True


def _from_sample(function, n_inducing):
    def initialise(rows, kernel, random_state):
        chosen = rows.sample(max(_SAMPLE_ROWS, 10 * n_inducing), random_state)
        block = rows.block(chosen)
        all_rows_seen = rows.weight is not None and len(chosen) == np.count_nonzero(rows.weight)
        weight = block.weight if all_rows_seen else None  # a sample is drawn by weight already
        return function(block.X, n_inducing, kernel, random_state, sample_weight=weight)

    return initialise


def _from_callable(function, n_inducing, X, name):
    def initialise(rows, kernel, random_state):
        Z = function(X, n_inducing, kernel, random_state)
        return _check_inducing(Z, X.shape[1], name)

    return initialise


def _check_inducing(Z, n_features, name):
    Z = check_array(Z, dtype=float, copy=True, input_name="inducing_init")
    if Z.shape[1] != n_features:
        raise ValueError(
            f"The 'inducing_init' parameter of {name} has {Z.shape[1]} columns, but X has "
            f"{n_features} features."
        )
    return Z


def check_parameters(estimator, name):
    """Raise unless every parameter that needs no data to be judged is of the right kind."""
    for parameter, low in _LOWEST.items():
        check_number(getattr(estimator, parameter), parameter, name, Integral, low)
    for parameter in ("optimize_inducing", "normalize_y"):
        _check_bool(getattr(estimator, parameter), parameter, name)
    check_number(estimator.tol, "tol", name, Real, low=0)
    if not isinstance(estimator.verbose, _BOOLS):
        check_number(estimator.verbose, "verbose", name, Integral, low=0)
    if estimator.n_targets is not None:
        check_number(estimator.n_targets, "n_targets", name, Integral, low=1)
    check_kernel(estimator.kernel, name)
    _check_optimizer(estimator.optimizer, name)


def check_n_targets(n_targets, seen):
    """Raise unless the targets are as many as announced."""
    if n_targets is not None and n_targets != seen:
        raise ValueError(
            "The number of targets seen in `y` is different from the parameter "
            f"`n_targets`. Got {seen} != {n_targets}."
        )


def check_theta(theta, kernel):
    """Log hyperparameters as an array of the right shape."""
    theta, expected = np.asarray(theta, dtype=np.float64), kernel.theta.shape
    if theta.shape != expected:
        raise ValueError(
            f"theta must hold the {expected[0]} log hyperparameters of kernel_ that are not fixed. "
            f"Got shape {theta.shape}."
        )
    return theta


def check_restarts(estimator, kernel):
    """Raise unless restarts, where there are any, have finite bounds to draw from."""
    starts_are_drawn = estimator.optimizer is not None and estimator.n_restarts_optimizer > 0
    if starts_are_drawn and not np.isfinite(kernel.bounds).all():
        raise ValueError(
            "Multiple optimizer restarts (n_restarts_optimizer>0) requires that all bounds are "
            "finite."
        )


def plan_of(estimator, X, progress, name):
    """How to fit, from the parameters of the estimator."""
    initialise, fixed = _resolve_inducing(estimator.inducing_init, estimator.n_inducing, X, name)
    memory = get_config()["working_memory"] * 2**20
    return Plan(
        n_inducing=estimator.n_inducing,
        initialise=initialise,
        fixed_inducing=fixed,
        optimize_inducing=estimator.optimize_inducing,
        optimizer=estimator.optimizer,
        n_restarts=estimator.n_restarts_optimizer,
        max_iter=estimator.max_iter,
        tol=estimator.tol,
        start_rows=_START_ROWS,
        options=Options(n_jobs=resolve_n_jobs(estimator.n_jobs), memory=memory),
        progress=progress,
    )


def _check_optimizer(optimizer, name):
    known = isinstance(optimizer, str) and optimizer == "fmin_l_bfgs_b"
    if not (optimizer is None or callable(optimizer) or known):
        raise ValueError(
            f"The 'optimizer' parameter of {name} must be 'fmin_l_bfgs_b', a callable or None. "
            f"Got {optimizer!r} instead."
        )


def _check_bool(value, parameter, name):
    if not isinstance(value, _BOOLS):
        raise ValueError(
            f"The {parameter!r} parameter of {name} must be True or False. Got {value!r} instead."
        )


def check_number(value, parameter, name, kind, low, high=np.inf):
    """Raise unless the parameter is a number of that kind between low and high."""
    is_number = isinstance(value, kind) and not isinstance(value, _BOOLS)
    if not (is_number and low <= value <= high and value < np.inf):
        noun = "an int" if kind is Integral else "a float"
        closed = ")" if high == np.inf else "]"
        raise ValueError(
            f"The {parameter!r} parameter of {name} must be {noun} in the range "
            f"[{low}, {high}{closed}. Got {value!r} instead."
        )
