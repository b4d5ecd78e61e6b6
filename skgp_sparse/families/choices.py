"""Names become objects, and choices are judged together. Nothing is computed here."""

from collections.abc import Callable
from numbers import Real
from typing import NamedTuple

from sklearn.base import clone

from skgp_sparse import bounds, likelihoods
from skgp_sparse.inference.methods import ExpectationPropagation, Variational
from skgp_sparse.rows.checks import check_number


class Offer(NamedTuple):
    """What the name of a bound stands for."""

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


def resolve_bound(bound, name):
    """The bound object of a string or an instance."""
    if isinstance(bound, bounds.PEP):
        check_number(bound.alpha, "bound__alpha", name, Real, low=0, high=1)
    if isinstance(bound, bounds.Bound):
        return clone(bound)
    if isinstance(bound, str) and bound in BOUNDS:
        return BOUNDS[bound].bound()
    raise ValueError(
        f"The 'bound' parameter of {name} must be one of {sorted(BOUNDS)} or an instance of "
        f"skgp_sparse.bounds.Bound. Got {bound!r} instead."
    )


def resolve_method(bound, likelihood, name):
    """How to find the sites of a likelihood, from the bound or its name."""
    offer = _offer(bound)
    offered = sorted(key for key, one in BOUNDS.items() if one.method is not None)
    if offer is None and not isinstance(bound, bounds.Bound):
        raise ValueError(
            f"The 'bound' parameter of {name} must be one of {offered}. Got {bound!r} instead."
        )
    if offer is None or offer.method is None:
        raise ValueError(
            f"bound={bound!r} is defined for Gaussian noise only. With other likelihoods, the "
            f"'bound' parameter of {name} must be one of {offered}, or an instance such as PEP()."
        )
    method = offer.method(likelihood, resolve_bound(bound, name))
    if isinstance(method, ExpectationPropagation):
        _check_propagation(bound, likelihood, name)
    return method


def _offer(bound):
    """What the name or the class of a bound stands for, None if it is not in the table."""
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
            f"{name}: bound={bound!r} is expectation propagation, which {reason}. Use "
            "bound='titsias_new' or bound='titsias'."
        )


def resolve_sigmoid(likelihood, name):
    """The likelihood of labels of a name or an instance."""
    if isinstance(likelihood, likelihoods.Binary):
        return clone(likelihood)
    if isinstance(likelihood, str) and likelihood in likelihoods.SIGMOIDS:
        return likelihoods.SIGMOIDS[likelihood]()
    raise ValueError(
        f"The 'likelihood' parameter of {name} must be one of {sorted(likelihoods.SIGMOIDS)} or an "
        f"instance of skgp_sparse.likelihoods.Binary. Got {likelihood!r} instead."
    )


def is_gaussian(likelihood):
    """Whether the noise is part of the kernel."""
    return isinstance(likelihood, str) and likelihood == "gaussian"


def resolve_likelihood(likelihood, name):
    """The likelihood of numbers of a name or an instance."""
    if isinstance(likelihood, str) and likelihood in likelihoods.BY_NAME:
        return likelihoods.BY_NAME[likelihood]()
    is_of_labels = isinstance(likelihood, likelihoods.Binary)
    if isinstance(likelihood, likelihoods.Likelihood) and not is_of_labels:
        likelihoods.check_parameters(likelihood, name)
        return clone(likelihood)
    names = ["gaussian", *likelihoods.BY_NAME]
    raise ValueError(
        f"The 'likelihood' parameter of {name} must be one of {names} or an instance of a "
        "class of skgp_sparse.likelihoods that is not for labels. Gaussian noise is part of the "
        f"kernel, so that it has a name only. Got {likelihood!r} instead."
    )


def resolve_strategy(multi_class, n_classes, name):
    """How several classes are handled; two classes are one binary problem in any case."""
    if not isinstance(multi_class, str) or multi_class not in MULTI_CLASS:
        raise ValueError(
            f"The 'multi_class' parameter of {name} must be one of {MULTI_CLASS}. "
            f"Got {multi_class!r} instead."
        )
    return multi_class if n_classes > 2 else "one_vs_rest"
