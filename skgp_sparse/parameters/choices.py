"""Names become objects: bounds, likelihoods, kernels in the units of the data, initialisers."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.gaussian_process.kernels import WhiteKernel
from sklearn.utils import check_array

from skgp_sparse import bounds, inducing, kernels, likelihoods
from skgp_sparse._engine.data.moments import or_one
from skgp_sparse._ground.plain_text import as_text
from skgp_sparse._ground.validation import is_auto, require
from skgp_sparse.inference.methods import ExpectationPropagation, Variational
from skgp_sparse.inference.settings import ThoroughSearch
from skgp_sparse.parameters.default_kernels import default_signal, without_unclear_noise
from skgp_sparse.parameters.linear_mean import with_linear_mean
from skgp_sparse.rows.columns import NUMBERS
from skgp_sparse.rows.missing import check_missing


class Offer(NamedTuple):
    """Bound that a name stands for, and the method of its sites."""

    bound: type  # of the Gaussian objective
    method: Callable | None  # (likelihood, bound) -> how its sites are found; None: Gaussian only


def _plain(likelihood, bound):
    return Variational(likelihood, spherical=False)


def _spherical(likelihood, bound):
    return Variational(likelihood, spherical=True)


def _propagation(likelihood, bound):
    return ExpectationPropagation(likelihood, power=1.0)


def _power_propagation(likelihood, bound):
    if bound.alpha < _LEAST_POWER:
        return _plain(likelihood, bound)
    return ExpectationPropagation(likelihood, power=bound.alpha)


BOUNDS = {
    "auto": Offer(bounds.TitsiasNew, _spherical),
    "titsias": Offer(bounds.Titsias, _plain),
    "vfe": Offer(bounds.Titsias, _plain),
    "titsias_new": Offer(bounds.TitsiasNew, _spherical),
    "artemev": Offer(bounds.Artemev, _spherical),
    "fitc": Offer(bounds.FITC, _propagation),
    "gfitc-ep": Offer(bounds.FITC, _propagation),  # EP is exact for a Gaussian likelihood
    "pep": Offer(bounds.PEP, _power_propagation),
    "dtc": Offer(bounds.DTC, None),
}
MULTI_CLASS = ("one_vs_rest", "one_vs_one", "softmax")
_LEAST_POWER = 0.01  # below, powers cost digits and iterations, and the answer is that of power 0
_NOISE = 0.1, 1e-6, 1e3  # level and bounds, in units of the variance of y
_LITTLE_NOISE, _NEXT_TO_NO_NOISE = 1e-3, 1e-10  # a further start of small fits, and their bound
_LARGEST_CODE = 2.0**53  # from which on numbers in double precision have gaps
_SMALLEST_NOISE = 1e-12  # in units of the standardised targets' variance
_SAMPLE_ROWS = 10_000  # rows that an initialiser looks at, or ten per inducing point


def resolve_bound(bound, name):
    """The bound object of a string or an instance."""
    if isinstance(bound, bounds.Bound):
        bound.check_parameters(name)
        return clone(bound)
    must = f"one of {sorted(BOUNDS)} or an instance of skgp_sparse.bounds.Bound"
    require(isinstance(bound, str) and bound in BOUNDS, "bound", bound, name, must)
    return BOUNDS[bound].bound()


def resolve_method(bound, likelihood, name):
    """How to find the sites of a likelihood, from the bound or its name."""
    offer = _offer(bound)
    offered = sorted(key for key, one in BOUNDS.items() if one.method is not None)
    is_bound = offer is not None or isinstance(bound, bounds.Bound)
    require(is_bound, "bound", bound, name, f"one of {offered}")
    if offer is None or offer.method is None:
        raise ValueError(
            f"bound={as_text(bound)} is defined for Gaussian noise only. With other likelihoods, "
            f"the 'bound' parameter of {name} must be one of {offered}, or an instance such as "
            "PEP()."
        )
    method = offer.method(likelihood, resolve_bound(bound, name))
    if isinstance(method, ExpectationPropagation):
        _check_propagation(bound, likelihood, name)
    return method


def _offer(bound):
    """`Offer` of the name or the class of a bound, None if it is not in the table."""
    if isinstance(bound, str):
        return BOUNDS.get(bound)
    return next((offer for offer in BOUNDS.values() if offer.bound is type(bound)), None)


def _check_propagation(bound, likelihood, name):
    reason = None
    if likelihood.n_latent > 1:
        reason = "needs a likelihood of one latent value per row, and softmax has one per class"
    elif not likelihood.is_log_concave:
        reason = (
            f"needs a log-concave likelihood. {type(likelihood).__name__} is not log-concave: if a "
            "row is an outlier, its latent value may have two modes, and its moments mislead"
        )
    if reason is not None:
        raise ValueError(
            f"{name}: bound={as_text(bound)} is expectation propagation, which {reason}. Use "
            "bound='titsias_new' or bound='titsias'."
        )


def resolve_sigmoid(likelihood, name):
    """The likelihood of labels of a name or an instance."""
    if isinstance(likelihood, likelihoods.Binary):
        return clone(likelihood)
    names = sorted(likelihoods.OF_LABELS)
    must = f"one of {names} or an instance of skgp_sparse.likelihoods.Binary"
    is_name = isinstance(likelihood, str) and likelihood in names
    require(is_name, "likelihood", likelihood, name, must)
    return likelihoods.OF_LABELS[likelihood]()


def is_gaussian(likelihood):
    """Whether the noise is part of the kernel."""
    return isinstance(likelihood, str) and likelihood == "gaussian"


def resolve_likelihood(likelihood, name):
    """The likelihood of numbers of a name or an instance."""
    if isinstance(likelihood, str) and likelihood in likelihoods.BY_NAME:
        return likelihoods.BY_NAME[likelihood]()
    is_of_numbers = isinstance(likelihood, likelihoods.Likelihood)
    is_of_numbers &= not isinstance(likelihood, (likelihoods.Binary, likelihoods.Ordinal))
    must = (
        f"one of {['gaussian', *likelihoods.BY_NAME]} or an object (no class) of a subclass "
        "of likelihoods.Likelihood that is not for labels (Gaussian noise is part of the kernel)"
    )
    require(is_of_numbers, "likelihood", likelihood, name, must)
    likelihoods.check_parameters(likelihood, name)
    return clone(likelihood)


def resolve_multi_class(multi_class, n_classes, name):
    """How several classes are handled; two classes are one binary problem in any case."""
    is_name = isinstance(multi_class, str) and multi_class in MULTI_CLASS
    require(is_name, "multi_class", multi_class, name, f"one of {MULTI_CLASS}")
    return multi_class if n_classes > 2 else "one_vs_rest"


def resolve_kernel(kernel, alpha, rows, columns=NUMBERS):
    """A clone of the kernel, or the default one, with the noise that is to be learned.

    `columns`: what the default kernel follows.
    """
    y_variance = rows.target_variance()
    is_smooth = rows.X_std is not None  # expectations of the default kernel have a closed form
    if kernel is None:
        signal = default_signal(rows, y_variance, is_smooth=is_smooth, columns=columns)
    else:
        signal = with_linear_mean(clone(kernel), y_variance, rows, columns)
    signal = _informed(signal, rows, columns, is_default=kernel is None)
    probe = rows.block(slice(0, 1)).X
    kernels.evaluate(signal, probe, probe)  # length scales for other columns are refused here
    noise_is_known = alpha is not None and kernel is not None
    if noise_is_known or kernels.has_noise(signal):
        return signal
    level, low, high = (share * y_variance for share in _NOISE)
    return signal + WhiteKernel(level, (low, high))


def thorough_search(kernel, given, rows):
    """`ThoroughSearch` of a fit from a kernel: with less noise, if noise was appended.

    `kernel` is what `resolve_kernel` made of the parameters that are `given`.
    """
    if given.kernel is not None and (given.alpha is not None or kernels.has_noise(given.kernel)):
        return ThoroughSearch(kernel)
    y_variance, high = rows.target_variance(), kernel.k2.noise_level_bounds[1]
    noise = WhiteKernel(_LITTLE_NOISE * y_variance, (_NEXT_TO_NO_NOISE * y_variance, high))
    quiet = kernel.k1 + noise
    return ThoroughSearch(quiet, (quiet.theta,))


def resolve_latent_kernel(kernel, likelihood, rows, columns=NUMBERS, spread=1.0):
    """A clone of the kernel of a process that a likelihood follows, or that of such a spread."""
    if kernel is None:
        variance = spread**2
        signal = default_signal(rows, variance, likelihood.latent_variance, columns=columns)
        return _informed(signal, rows, columns, is_default=True)
    kernel = with_linear_mean(clone(kernel), 1.0, rows, columns)
    kernel, probe = _informed(kernel, rows, columns), rows.block(slice(0, 1)).X
    kernels.evaluate(kernel, probe, probe)  # length scales for other columns are refused here
    return kernel


def _informed(kernel, rows, columns, is_default=False):
    """The kernel, whose parts know where values are missing."""
    d = rows.n_features
    if kernels.parts(kernel, kernels.Missing):
        mean, spread, missing = rows.input_moments()
        kernel = kernels.with_missing(kernel, d, missing > 0, mean, or_one(spread))
        if is_default:
            kernel = without_unclear_noise(kernel, rows.total_weight() - missing)
    _check_codes(kernel, rows, columns)
    return kernel


def _check_codes(kernel, rows, columns):
    """Raise if the codes of a category are no whole numbers, where rows are in memory."""
    for part, column in kernels.categories(kernel, rows.n_features) if rows.in_memory else ():
        values = rows.stored_inputs()[:, column]
        is_whole = (values == np.rint(values)) & (np.abs(values) < _LARGEST_CODE)
        wrong = values[~is_whole]
        if len(wrong):
            raise ValueError(
                f"A {type(part).__name__} kernel sees column {columns.label(column)!r}, whose "
                "values are not codes: the first one that is no whole number below 2**53 is "
                f"{wrong[0]:g}. Choose another column, or encode the category by OrdinalEncoder of "
                "scikit-learn."
            )


def with_noise_floor(rows, kernel):
    """The rows with known noise above what the arithmetic needs, where no noise is learned."""
    return rows if kernels.has_noise(kernel) else replace(rows, least_noise=_SMALLEST_NOISE)


def resolve_inducing(init, n_inducing, n_features, name):
    """Initialiser ``(rows, kernel, random_state) -> Z``, and whether Z is the user's own."""
    init = "k-means" if is_auto(init) else init
    if isinstance(init, str) and init in inducing.BY_NAME:
        return _from_sample(inducing.BY_NAME[init], n_inducing), False
    if callable(init):
        return _from_callable(init, n_inducing, name), False
    names = sorted(["auto", *inducing.BY_NAME])
    must = f"one of {names}, an array of shape (m, n_features) or a callable"
    is_array = not isinstance(init, str) and np.ndim(init) > 0
    require(is_array, "inducing_init", init, name, must)
    Z = _check_inducing(init, n_features, name)
    return lambda rows, kernel, random_state: _checked_points(Z, kernel, name), True


def _from_sample(function, n_inducing):
    def initialise(rows, kernel, random_state, n_inducing=n_inducing):
        few = rows.sampled(rows.sample(max(_SAMPLE_ROWS, 10 * n_inducing), random_state))
        X = few.everything().X
        return function(X, n_inducing, kernel, random_state, sample_weight=few.weight)

    return initialise


def _from_callable(function, n_inducing, name):
    def initialise(rows, kernel, random_state, n_inducing=n_inducing):
        Z = function(rows.inputs(), n_inducing, kernel, random_state)
        return _checked_points(_check_inducing(Z, rows.n_features, name), kernel, name)

    return initialise


def _checked_points(Z, kernel, name):
    """The points; raises if a value is missing that the kernel sees without `Missing`."""
    during = "the kernel takes none. Impute them."
    check_missing(Z, kernel, range(Z.shape[1]), f"inducing_init of {name}", during)
    return Z


def _check_inducing(Z, n_features, name):
    must = f"or return an array of shape (m, {n_features})"
    require(np.ndim(Z) == 2, "inducing_init", Z, name, must)
    options = {"dtype": float, "copy": True, "ensure_all_finite": "allow-nan"}
    Z = check_array(Z, **options, input_name="inducing_init")
    if Z.shape[1] != n_features:
        raise ValueError(
            f"The 'inducing_init' parameter of {name} has {Z.shape[1]} columns, but X has "
            f"{n_features} features. Give every point a value of each feature."
        )
    return Z
