"""Checks of parameters, whose errors say what was passed and how to correct it."""

from dataclasses import fields
from numbers import Integral, Real
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, is_classifier, is_regressor
from sklearn.gaussian_process.kernels import CompoundKernel, Kernel, Sum, WhiteKernel

from skgp_sparse import kernels
from skgp_sparse.choices.plan import resolve_posterior
from skgp_sparse.data.checks import is_gaussian
from skgp_sparse.data.columns import ColumnTable
from skgp_sparse.ground.validation import BOOLS, as_text, check_number, is_auto, is_name, require
from skgp_sparse.hyperpriors import HyperPrior
from skgp_sparse.inference.contracts import Solver
from skgp_sparse.likelihoods import Likelihood
from skgp_sparse.methods.contract import Job

_LOWEST = {"max_iter": 1, "n_restarts_optimizer": 0, "max_iter_predict": 1}
_CHOICES: dict[str, tuple[Any, ...]] = {
    "metric": ("auto", "ard", "full"),
    "multi_class": ("one_vs_rest", "one_vs_one", "softmax"),
    "noise": ("auto", "constant", "learned"),
    "calibration": ("auto", None),
}
_MEANS = ("auto", "boosting", "linear")
_PRIORS = ("auto", "scaled")
_SOLVERS = ("auto", "lbfgs", "stochastic")


def parameters_of(estimator: BaseEstimator) -> dict:
    """Parameters of an estimator by name, as attributes: a subclass may take others in __init__."""
    return {one.name: getattr(estimator, one.name) for one in fields(estimator) if one.init}


def check_kernel(kernel: Kernel | None, name: str) -> None:
    """Raise unless `kernel` is None or a covariance function of vectors."""
    if kernel is None:
        return
    must = "None or a kernel from sklearn.gaussian_process.kernels"
    require(isinstance(kernel, Kernel), "kernel", kernel, name, must)
    if isinstance(kernel, CompoundKernel):
        raise ValueError(
            f"{name}: kernel cannot be a CompoundKernel, which contains several kernels. Add or "
            "multiply these kernels instead."
        )
    with np.errstate(all="ignore"):
        try:
            theta, given = kernel.theta, kernel.get_params().items()
            parts = [one for path, one in given if path.split("__")[-1] in ("k1", "k2", "kernel")]
        except AttributeError:  # of a string, say, that should be a kernel
            parts = [None]
    if not all(isinstance(part, Kernel) for part in parts):
        raise ValueError(
            f"{name}: a part of kernel={kernel} is no kernel. Use those of "
            "sklearn.gaussian_process.kernels and skgp_sparse.kernels."
        )
    if np.isnan(theta).any():
        raise ValueError(
            f"{name}: hyperparameters must be positive, and correlations below 1. Got {kernel}."
        )


def check_parameters(estimator: BaseEstimator, name: str) -> None:
    """Raise unless every parameter that needs no data to be judged is of the right kind."""
    check_search(estimator, name)
    given, m = parameters_of(estimator), estimator.n_inducing
    for parameter in _CHOICES.keys() & given.keys():
        value, names = given[parameter], _CHOICES[parameter]
        is_right = is_name(value, *names) or (value is None and None in names)
        require(is_right, parameter, value, name, f"one of {names}")
    check_mixes(estimator.metric, estimator.kernel, name)
    check_prior(estimator.prior, name)
    solver, optimizer = estimator.solver, estimator.optimizer
    must = f"one of {_SOLVERS} or an object such as solvers.LBFGS()"
    is_known = isinstance(solver, Solver) or is_name(solver, *_SOLVERS)
    require(is_known, "solver", solver, name, must)
    for parameter in {"optimize_inducing", "normalize_y", "warm_start"} & given.keys():
        value = given[parameter]
        require(isinstance(value, BOOLS), parameter, value, name, "True or False")
    if given.get("noise") == "learned":
        check_learned_noise(estimator, name)
    check_mean(estimator.mean, is_classifier(estimator), name)
    if "class_weight" in given:
        check_class_weight(estimator.class_weight, name)
    if given.get("n_targets") is not None:
        check_number(estimator.n_targets, "n_targets", name, Integral, low=1)
    is_size = is_auto(m) or (isinstance(m, Integral) and not isinstance(m, BOOLS) and int(m) >= 1)
    require(is_size, "n_inducing", m, name, '"auto" or an int in the range [1, inf)')
    is_known = optimizer is None or callable(optimizer) or is_name(optimizer, "fmin_l_bfgs_b")
    require(is_known, "optimizer", optimizer, name, "'fmin_l_bfgs_b', a callable or None")


def check_class_weight(weights: object, name: str) -> None:
    """Raise unless weights of classes are None, "balanced" or positive numbers by label."""
    known = weights.values() if isinstance(weights, dict) else ()
    are_positive = all(isinstance(one, Real) and 0 < float(one) < np.inf for one in known)
    is_right = weights is None or is_name(weights, "balanced") or isinstance(weights, dict)
    must = 'None, "balanced" or a dict of positive numbers by label'
    require(is_right and are_positive, "class_weight", weights, name, must)


def check_search(estimator: BaseEstimator, name: str) -> None:
    """Raise unless the kernel is one, and how hyperparameters are looked for can be followed."""
    given = parameters_of(estimator)
    for parameter in _LOWEST.keys() & given.keys():
        check_number(given[parameter], parameter, name, Integral, _LOWEST[parameter])
    _check_number_or("auto", estimator.tol, "tol", name, low=0)
    if not isinstance(estimator.verbose, BOOLS):
        check_number(estimator.verbose, "verbose", name, Integral, low=0)
    if estimator.time_limit is not None:
        check_number(estimator.time_limit, "time_limit", name, Real, low=0)
    check_kernel(estimator.kernel, name)
    n_jobs = estimator.n_jobs
    is_count = n_jobs is None or (isinstance(n_jobs, Integral) and n_jobs != 0)
    require(is_count, "n_jobs", n_jobs, name, "None or an int other than 0")


def _check_number_or(word: str, value: object, parameter: str, name: str, low: float) -> None:
    """Raise unless a parameter is a word or a number."""
    if isinstance(value, str):
        require(value == word, parameter, value, name, f'"{word}" or a float')
    else:
        check_number(value, parameter, name, Real, low)


def check_latent(estimator: BaseEstimator, name: str) -> None:
    """Raise unless the parameters of a model with latent inputs can be used."""
    check_search(estimator, name)
    check_number(estimator.n_components, "n_components", name, Integral, low=1)
    check_number(estimator.n_inducing, "n_inducing", name, Integral, low=1)
    noise, kernel = estimator.noise_variance, estimator.kernel
    _check_number_or("learn", noise, "noise_variance", name, low=np.finfo(float).tiny)
    if kernel is None:
        return
    for parameter, value in kernel.get_params().items():
        if parameter.endswith("length_scale") and np.size(value) not in (1, estimator.n_components):
            raise ValueError(
                f"{name}: a part of kernel={kernel} has {np.size(value)} length scales. Pass "
                f"one, or one for each of the {estimator.n_components} components."
            )
    if not kernels.differentiable(kernel):
        raise ValueError(
            f"{name} moves the positions of the rows, so that the kernel must be differentiable. A "
            f"part of {kernel} has no derivative rule. Add one with skgp_sparse.kernels.register."
        )
    if noise != "learn" and kernels.has_noise(kernel):
        raise ValueError(
            f"{name}: the noise is given twice, by noise_variance={as_text(noise)} and by a "
            f"WhiteKernel in kernel={kernel}. Remove it, or set noise_variance to 'learn'."
        )


def check_quantiles(quantiles: npt.ArrayLike, name: str) -> npt.NDArray[np.float64]:
    """Probabilities as an array of shape () or (k,); raises unless all are between 0 and 1."""
    q = np.asarray(quantiles)
    is_right = q.dtype.kind in "fiu" and q.ndim <= 1 and q.size > 0 and np.all((q > 0) & (q < 1))
    must = "a number or a list of numbers between 0 and 1, both excluded"
    require(is_right, "quantiles", quantiles, name, must)
    return q.astype(float)


def check_mean(mean: object, labels: bool, name: str) -> None:
    """Raise unless a mean is one."""
    if mean is None or is_name(mean, *_MEANS):
        return
    kind, is_right = ("classifier", is_classifier) if labels else ("regressor", is_regressor)
    predicts = hasattr(mean, "fit") and hasattr(mean, "predict_proba" if labels else "predict")
    takes = predicts and not isinstance(mean, type) and is_right(mean)
    must = f"None, one of {_MEANS}, or a {kind} object{' with predict_proba' if labels else ''}"
    require(takes, "mean", mean, name, must)


def check_learned_noise(parameters: BaseEstimator, name: str) -> None:
    """Raise unless noise can vary."""
    if not is_gaussian(parameters.likelihood):
        raise ValueError(
            f"{name}: noise='learned' is that of likelihood='gaussian'. Got likelihood="
            f"{as_text(parameters.likelihood)}. Leave one of them out."
        )
    if parameters.optimizer is None:
        raise ValueError(f"{name}: noise='learned' needs an optimizer. Got optimizer=None. Set it.")


def check_mixes(metric: str, kernel: Kernel | None, name: str) -> None:
    """Raise if columns should be mixed that a kernel does not see alike."""
    if metric == "full" and kernel is not None and not kernels.may_mix(kernel):
        raise ValueError(
            f"{name}: metric='full' mixes columns of stationary kernels that have a "
            f"derivative rule and see all columns alike. Got {kernel}. Change this, or set "
            "metric='ard'."
        )


def check_coded(own: Kernel | None, kernel: Kernel, table: ColumnTable, d: int, name: str) -> None:
    """Raise if the user's kernel sees the codes of a category as numbers."""
    codes = table.codes()
    if own is None or not codes:
        return
    wrong = np.flatnonzero(kernels.touched(kernel, d, but="takes_codes")[codes])
    if len(wrong):
        label = table.label(codes[wrong[0]])
        raise ValueError(
            f"{name}: column {label!r} of X is a category, but kernel={own} sees its codes as "
            f"numbers. Choose the numbers by Columns, as in Columns(RBF(), ...) * "
            f"Columns(Categorical(), [{label!r}]), or leave kernel=None."
        )


def check_prior(prior: object, name: str) -> None:
    """Raise unless a prior is a name, one of `skgp_sparse.hyperpriors`, or a list of these."""
    several: list = [*prior] if isinstance(prior, (list, tuple)) else [prior]
    if all(isinstance(one, HyperPrior) for one in several):
        for one in several:
            one.check_parameters(name)
        return
    must = f"one of {_PRIORS}, None, an object of skgp_sparse.hyperpriors, or a list of these"
    require(prior is None or is_name(prior, *_PRIORS), "prior", prior, name, must)


def check_gaussian(likelihood: Likelihood | str, name: str, remedy: str) -> None:
    """Raise unless the noise is Gaussian, which a method needs."""
    if not is_gaussian(likelihood):
        got = as_text(likelihood)
        raise ValueError(f"{name} needs likelihood='gaussian'. Got likelihood={got}. {remedy}")


def can_learn_later(estimator: BaseEstimator) -> bool:
    """Whether rows that arrive later can be learned: with one basis of inducing points."""
    name = type(estimator).__name__
    try:
        reason = resolve_posterior(estimator.posterior, name).refuses_later_rows()
        if estimator.metric == "full":
            reason = "metric='full' is learned from all rows at once"
    except ValueError:  # which partial_fit will say
        return True
    if reason is not None:
        raise AttributeError(
            f"{name}.partial_fit learns rows that arrive later with one basis of inducing points, "
            f"but {reason}. Set posterior to 'inducing' and metric to 'ard', or call fit "
            "with all rows."
        )
    return True


def why_noise_is_constant(job: Job) -> str | None:
    """Why the noise of no fit of a job can vary, as part of an error; None: it may."""
    kernel, method, solver = job.kernel, job.posterior_method, job.settings.solver
    is_appended = isinstance(kernel, Sum) and type(kernel.k2) is WhiteKernel
    if not is_appended or isinstance(kernel.k2.noise_level_bounds, str):
        return (
            "takes the place of a WhiteKernel whose level is learned, and which is added last to "
            f"the other kernels. Got kernel={kernel}. Add WhiteKernel() to a kernel without noise."
        )
    if job.rows.X_std is not None:
        return "takes inputs as known, but fit was given X_std."
    if not method.takes_learned_noise:
        return f"is not available for posterior={method.name!r}. {method.remedy}"
    if not solver.starts_on_subset:
        return "needs a solver that sees all rows. Set solver='lbfgs', optimizer='fmin_l_bfgs_b'."
    return None
