"""Names and defaults become objects, and choices are judged together. Nothing is computed here."""

from numbers import Real

import numpy as np
from sklearn import get_config
from sklearn.base import clone
from sklearn.gaussian_process.kernels import (
    ConstantKernel,
    Matern,
    WhiteKernel,
)
from sklearn.utils import check_array

from skgp_sparse import _checks, bounds, inducing, kernels, likelihoods
from skgp_sparse._engine.problem import Options
from skgp_sparse._parallel import resolve_n_jobs
from skgp_sparse.inference.methods import ExpectationPropagation, Variational
from skgp_sparse.inference.solvers import LBFGS, AsItIs, UserOptimizer
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
_VARIATIONAL = {"titsias": False, "vfe": False, "titsias_new": True, "artemev": True}
_PROPAGATION = ("fitc", "gfitc-ep")
_REGRESSION_ONLY = ("pep", "dtc")
_MULTI_CLASS = ("one_vs_rest", "one_vs_one")
LIKELIHOODS = {"probit": likelihoods.Probit, "logit": likelihoods.Logit}
_EXACT_ROWS, _EXACT_LABELS = 2000, 300  # distinct rows up to which "auto" is the exact process ...
_EXACT_QUIET = 5500  # ... the same where there is little noise: 1 GB of memory ...
_AUTO_ROWS, _AUTO_LABELS = 500, 200  # ... and the number of inducing points above
_EXACT_OPAQUE = 500  # the same, where the kernel's gradient is an array of n x n x p
_START_ROWS = 500  # of the exact fit that finds the first hyperparameters
_START_LABELS = 250  # the same where rows have labels, as an evaluation is an inner loop then ...
_START_SHARE, _FEWEST_LABELS = 8, 125  # ... or an eighth of them, if not less than that
_SAMPLE_ROWS = 10_000  # rows that an initialiser looks at, or ten per inducing point
_NOISE = {"noise_level": 0.1, "noise_level_bounds": (1e-6, 1e3)}


def resolve_bound(bound, name):
    """The bound object of a string or an instance."""
    if isinstance(bound, bounds.PEP):
        _checks.check_number(bound.alpha, "bound__alpha", name, Real, low=0, high=1)
    if isinstance(bound, bounds.Bound):
        return clone(bound)
    if isinstance(bound, str) and bound in BOUNDS:
        return BOUNDS[bound]()
    raise ValueError(
        f"The 'bound' parameter of {name} must be one of {sorted(BOUNDS)} or an instance of "
        f"skgp_sparse.bounds.Bound. Got {bound!r} instead."
    )


def resolve_method(bound, likelihood, name):
    """How to find the sites, from the names of the bound and of the likelihood."""
    offered = sorted((*_VARIATIONAL, *_PROPAGATION))
    if isinstance(bound, bounds.Bound) or (isinstance(bound, str) and bound in _REGRESSION_ONLY):
        raise ValueError(
            f"bound={bound!r} is defined for regression only; {name} offers the names {offered}."
        )
    if not isinstance(bound, str) or bound not in offered:
        raise ValueError(
            f"The 'bound' parameter of {name} must be one of {offered}. Got {bound!r} instead."
        )
    sigmoid = _resolve_likelihood(likelihood, name)
    if bound in _PROPAGATION:
        return ExpectationPropagation(sigmoid, _fitc)
    return Variational(sigmoid, _VARIATIONAL[bound], bounds.Spherical)


def _fitc(v):
    return bounds.FITC()


def _resolve_likelihood(likelihood, name):
    if isinstance(likelihood, likelihoods.Binary):
        return clone(likelihood)
    if isinstance(likelihood, str) and likelihood in LIKELIHOODS:
        return LIKELIHOODS[likelihood]()
    raise ValueError(
        f"The 'likelihood' parameter of {name} must be one of {sorted(LIKELIHOODS)} or an "
        f"instance of skgp_sparse.likelihoods.Binary. Got {likelihood!r} instead."
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


def resolve_latent_kernel(kernel, likelihood, rows):
    """A clone of the kernel of a process that a likelihood follows, or the default one."""
    if kernel is None:
        return default_signal(rows.scale(), 1.0, likelihood.latent_variance)
    probe = rows.block(slice(0, 1)).X
    kernels.evaluate(kernel, probe, probe)  # length scales for other columns are refused here
    return clone(kernel)


def users_part(fitted, kernel):
    """What of a fitted kernel the user wrote: all but appended noise; None for the default."""
    if kernel is None:
        return None
    return fitted.k1 if len(fitted.theta) > len(kernel.theta) else fitted


def default_signal(scale, y_variance, limits=(1e-3, 1e4)):
    """``ConstantKernel() * Matern(ARD, nu=2.5)`` in the units of the data."""
    typical = scale * np.sqrt(len(scale))  # makes two typical rows correlate by about exp(-1)
    lengths = np.column_stack([1e-3 * typical, 1e4 * typical])
    if not (np.isfinite(lengths).all() and lengths.min() >= np.finfo(float).tiny):
        raise ValueError(
            "The spread of a column of X is too close to the limits of float64, or beyond. Rescale "
            "X, or give a kernel."
        )
    variance = ConstantKernel(y_variance, (limits[0] * y_variance, limits[1] * y_variance))
    return variance * Matern(typical, lengths, nu=2.5)


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
        few = rows.sampled(rows.sample(max(_SAMPLE_ROWS, 10 * n_inducing), random_state))
        X = few.block(slice(None)).X
        return function(X, n_inducing, kernel, random_state, sample_weight=few.weight)

    return initialise


def _from_callable(function, n_inducing, X, name):
    def initialise(rows, kernel, random_state):
        Z = function(X, n_inducing, kernel, random_state)
        return _check_inducing(Z, X.shape[1], name)

    return initialise


def _check_inducing(Z, n_features, name):
    if np.ndim(Z) != 2:
        raise ValueError(
            f"The 'inducing_init' parameter of {name} must be or return an array of shape (m, "
            f"{n_features}). Got {Z!r} instead."
        )
    Z = check_array(Z, dtype=float, copy=True, input_name="inducing_init")
    if Z.shape[1] != n_features:
        raise ValueError(
            f"The 'inducing_init' parameter of {name} has {Z.shape[1]} columns, but X has "
            f"{n_features} features."
        )
    return Z


def is_one_vs_one(multi_class, name):
    """Whether several classes are compared in pairs."""
    if not isinstance(multi_class, str) or multi_class not in _MULTI_CLASS:
        raise ValueError(
            f"The 'multi_class' parameter of {name} must be one of {_MULTI_CLASS}. "
            f"Got {multi_class!r} instead."
        )
    return multi_class == "one_vs_one"


def plan_of(estimator, X, kernel, progress, name, n_labels=None):
    """How to fit, from the parameters of the estimator.

    `n_labels` is the number of rows of the table, where they have labels.
    """
    n_inducing, exact, quiet = _resolve_size(estimator.n_inducing, kernel, n_labels is not None)
    initialise, fixed = _resolve_inducing(estimator.inducing_init, n_inducing, X, name)
    memory = get_config()["working_memory"] * 2**20
    return Plan(
        n_inducing=n_inducing,
        most_exact=0 if fixed else exact,
        most_quiet=0 if fixed else quiet,
        initialise=initialise,
        fixed_inducing=fixed,
        optimize_inducing=estimator.optimize_inducing,
        solver=resolve_solver(estimator.optimizer),
        n_restarts=estimator.n_restarts_optimizer,
        max_iter=estimator.max_iter,
        tol=estimator.tol,
        start_rows=_START_ROWS if n_labels is None else _rows_of_start(n_labels),
        options=Options(n_jobs=resolve_n_jobs(estimator.n_jobs), memory=memory),
        progress=progress,
    )


def _rows_of_start(n):
    """How many rows with labels the first fit sees: it should be cheap beside an evaluation."""
    return min(_START_LABELS, max(_FEWEST_LABELS, n // _START_SHARE))


def _resolve_size(n_inducing, kernel, labelled):
    """Number of inducing points, `most_exact` and `most_quiet` of the `Plan`."""
    if n_inducing != "auto":
        return n_inducing, n_inducing, n_inducing
    if labelled:
        return _AUTO_LABELS, _EXACT_LABELS, _EXACT_LABELS
    if not kernels.differentiable(kernel):
        return _AUTO_ROWS, _EXACT_OPAQUE, _EXACT_OPAQUE
    return _AUTO_ROWS, _EXACT_ROWS, _EXACT_QUIET


def resolve_solver(optimizer):
    """The solver of a name, a callable or None, which `check_parameters` has seen."""
    if optimizer is None:
        return AsItIs()
    return UserOptimizer(optimizer) if callable(optimizer) else LBFGS()


def same_structure(kernel, other):
    """Whether two kernels have the same hyperparameters, whatever their values."""

    def outline(of):
        free = [(hyper.name, hyper.n_elements, hyper.fixed) for hyper in of.hyperparameters]
        return type(of), free

    return outline(kernel) == outline(other)
