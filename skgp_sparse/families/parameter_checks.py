"""Checks of parameters, whose errors say what was passed and how to correct it."""

from numbers import Integral, Real

import numpy as np
from sklearn.gaussian_process.kernels import CompoundKernel, Kernel

from skgp_sparse.rows.checks import check_number
from skgp_sparse.solvers import Minibatches, check_solver

_BOOLS = (bool, np.bool_)
_LOWEST = {"max_iter": 1, "n_restarts_optimizer": 0, "max_iter_predict": 1}
_SWITCHES = {"optimize_inducing", "normalize_y", "warm_start"}


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
            f"{name}: kernel cannot be a CompoundKernel, which contains several kernels. Add or "
            "multiply these kernels instead."
        )
    with np.errstate(all="ignore"):
        theta = kernel.theta
    if np.isnan(theta).any():
        raise ValueError(f"{name}: hyperparameters of a kernel must be positive. Got {kernel}.")


def check_parameters(estimator, name):
    """Raise unless every parameter that needs no data to be judged is of the right kind."""
    given = estimator.get_params(deep=False)
    for parameter in _LOWEST.keys() & given.keys():
        check_number(given[parameter], parameter, name, Integral, _LOWEST[parameter])
    _check_n_inducing(estimator.n_inducing, name)
    for parameter in _SWITCHES & given.keys():
        _check_bool(given[parameter], parameter, name)
    check_number(estimator.tol, "tol", name, Real, low=0)
    if not isinstance(estimator.verbose, _BOOLS):
        check_number(estimator.verbose, "verbose", name, Integral, low=0)
    if given.get("n_targets") is not None:
        check_number(estimator.n_targets, "n_targets", name, Integral, low=1)
    _check_n_jobs(estimator.n_jobs, name)
    check_kernel(estimator.kernel, name)
    _check_optimizer(estimator.optimizer, name)
    check_solver(estimator.solver, name)


def check_quantiles(quantiles, name):
    """Probabilities as an array of shape () or (k,); raises unless all are between 0 and 1."""
    found = np.asarray(quantiles)
    is_list = found.dtype.kind in "fiu" and found.ndim <= 1 and found.size > 0
    if not (is_list and np.all((found > 0) & (found < 1))):
        raise ValueError(
            f"The 'quantiles' parameter of {name} must be a number or a list of numbers between 0 "
            f"and 1, both excluded. Got {quantiles!r} instead."
        )
    return found.astype(float)


def check_restarts(estimator, kernel):
    """Raise unless restarts, where there are any, have finite bounds to draw from."""
    starts_are_drawn = estimator.optimizer is not None and estimator.n_restarts_optimizer > 0
    if starts_are_drawn and not np.isfinite(kernel.bounds).all():
        raise ValueError(
            "Multiple optimizer restarts (n_restarts_optimizer>0) requires that all bounds are "
            "finite."
        )


def _check_n_jobs(n_jobs, name):
    if n_jobs is not None and (n_jobs == 0 or not isinstance(n_jobs, Integral)):
        raise ValueError(
            f"The 'n_jobs' parameter of {name} must be None or an int other than 0. Got "
            f"{n_jobs!r} instead."
        )


def _check_n_inducing(n_inducing, name):
    is_auto = isinstance(n_inducing, str) and n_inducing == "auto"
    is_number = isinstance(n_inducing, Integral) and not isinstance(n_inducing, _BOOLS)
    if not (is_auto or (is_number and n_inducing >= 1)):
        raise ValueError(
            f"The 'n_inducing' parameter of {name} must be \"auto\" or an int in the range "
            f"[1, inf). Got {n_inducing!r} instead."
        )


def check_strategy(strategy, parameters, likelihood, bound, name):
    """Raise if the posterior cannot be given what is asked for."""
    reason = strategy.refuses(parameters, likelihood, bound)
    if reason is not None:
        raise ValueError(
            f"{name}: posterior={parameters.posterior!r} {reason}. Set posterior to 'inducing'."
        )


def check_no_alpha(parameters, name):
    """Raise if there is known Gaussian noise beside a likelihood."""
    if parameters.alpha is not None:
        raise ValueError(
            f"{name}: alpha is the variance of known Gaussian noise, which "
            f"likelihood={parameters.likelihood!r} does not have. Set alpha to None."
        )


def check_minibatches(parameters, method, name):
    """Raise if minibatches are asked for, and the method has none."""
    if method.uses_last_site and isinstance(parameters.solver, Minibatches):
        raise ValueError(
            f"{name}: bound={parameters.bound!r} is expectation propagation, which has no "
            "minibatches, because the next site of a row depends on its last one. Got solver="
            f"{parameters.solver!r}. Set solver to 'auto', or bound to 'titsias_new'."
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
