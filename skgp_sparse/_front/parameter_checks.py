"""Checks of parameters, whose errors say what was passed and how to correct it."""

from numbers import Integral, Real

import numpy as np
from sklearn.gaussian_process.kernels import CompoundKernel, Kernel

from skgp_sparse._front.checks import check_one_column

_BOOLS = (bool, np.bool_)
SOLVERS = ("auto", "lbfgs", "stochastic")
POSTERIORS = ("auto", "inducing", "rows")
_LOWEST = {"max_iter": 1, "n_restarts_optimizer": 0, "max_iter_predict": 1}
_ESTIMATED = ("level", "scale")  # parameters of likelihoods that may be None
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
    _check_solver(estimator, name)
    if "posterior" in given:
        _check_posterior(estimator.posterior, name)


def _check_posterior(posterior, name):
    if not isinstance(posterior, str) or posterior not in POSTERIORS:
        raise ValueError(
            f"The 'posterior' parameter of {name} must be one of {POSTERIORS}. Got {posterior!r} "
            "instead."
        )


def check_likelihood_parameters(likelihood, name):
    """Raise unless every parameter that has bounds is a number, and its bounds are bounds."""
    given = likelihood.get_params(deep=False)
    for parameter in given:
        if f"{parameter}_bounds" in given:
            _check_parameter(parameter, given[parameter], name)
            _check_bounds(parameter, given[f"{parameter}_bounds"], name)


def _check_parameter(parameter, value, name):
    if value is None and parameter in _ESTIMATED:
        return
    is_number = isinstance(value, Real) and not isinstance(value, _BOOLS) and np.isfinite(value)
    if not is_number or (parameter != "level" and value <= 0):
        raise ValueError(
            f"The 'likelihood__{parameter}' parameter of {name} must be a finite number"
            f"{'' if parameter == 'level' else ' above 0'}"
            f"{' or None' if parameter in _ESTIMATED else ''}. Got {value!r} instead."
        )


def _check_bounds(parameter, limits, name):
    if isinstance(limits, str) and limits == "fixed":
        return
    pair = np.asarray(limits, dtype=object)
    is_pair = pair.shape == (2,) and all(isinstance(one, Real) for one in pair)
    is_above = is_pair and (parameter == "level" or pair[0] > 0)
    if not (is_above and pair[0] < pair[1]):
        raise ValueError(
            f"The 'likelihood__{parameter}_bounds' parameter of {name} must be 'fixed', or a lower "
            f"and a higher number{'' if parameter == 'level' else ', both above 0'}. Got "
            f"{limits!r} instead."
        )


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


def _check_solver(estimator, name):
    if not isinstance(estimator.solver, str) or estimator.solver not in SOLVERS:
        raise ValueError(
            f"The 'solver' parameter of {name} must be one of {SOLVERS}. Got "
            f"{estimator.solver!r} instead."
        )
    if isinstance(estimator.batch_size, str) and estimator.batch_size == "auto":
        return
    check_number(estimator.batch_size, "batch_size", name, Integral, low=1)
    if estimator.solver != "stochastic":
        raise ValueError(
            f"The 'batch_size' parameter of {name} is used with solver='stochastic' only. Got "
            f"{estimator.batch_size!r} with solver={estimator.solver!r}. Set batch_size to 'auto', "
            "or solver to 'stochastic'."
        )


def check_posterior(estimator, likelihood, rows, name):
    """Raise if the posterior cannot be given all rows, and should be."""
    reason = None
    if likelihood is not None:
        reason = f"has no posterior given all rows with likelihood={estimator.likelihood!r}"
    elif not rows.in_memory:
        reason = "needs arrays for a posterior given all rows, and X is read in parts"
    elif not isinstance(estimator.inducing_init, str):
        reason = "takes no array as inducing_init with posterior='rows'"
    elif estimator.solver == "stochastic":
        reason = "learns from random rows with solver='stochastic', and not with posterior='rows'"
    if estimator.posterior == "rows" and reason is not None:
        raise ValueError(f"{name} {reason}. Set posterior to 'inducing'.")


def check_mean_basis(estimator, bound, likelihood, name):
    """Raise if the mean cannot have a basis of its own, and should have one."""
    if estimator.n_mean is None:
        return
    check_number(estimator.n_mean, "n_mean", name, Integral, low=1)
    reason = None
    if likelihood is not None:
        reason = f"likelihood='gaussian'. Got likelihood={estimator.likelihood!r}"
    elif estimator.posterior == "rows":
        reason = "inducing points. Got posterior='rows', whose mean has all rows for a basis"
    elif np.any(bound.noise_share):
        reason = f"a bound whose noise is that of the rows. Got bound={estimator.bound!r}"
    if reason is not None:
        raise ValueError(f"The 'n_mean' parameter of {name} needs {reason}. Set n_mean to None.")


def check_response(estimator, y, name):
    """Raise if other parameters or the targets do not go with a likelihood."""
    check_one_column(y, estimator.likelihood, name)
    if estimator.alpha is not None:
        raise ValueError(
            f"{name}: alpha is the variance of known Gaussian noise, which "
            f"likelihood={estimator.likelihood!r} does not have. Set alpha to None."
        )


def check_minibatches(estimator, method, name):
    """Raise if minibatches are asked for, and the method has none."""
    if method.uses_last_site and estimator.batch_size != "auto":
        raise ValueError(
            f"{name}: bound={estimator.bound!r} is expectation propagation, which has no "
            "minibatches, because the next site of a row depends on its last one. Got batch_size="
            f"{estimator.batch_size!r}. Set batch_size to 'auto', or bound to 'titsias_new'."
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
