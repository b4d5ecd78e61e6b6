"""Names become objects, and choices are judged together. Nothing is computed here."""

from collections.abc import Callable
from functools import partial
from numbers import Real
from typing import NamedTuple

from sklearn.base import clone

from skgp_sparse import bounds, likelihoods
from skgp_sparse._front import checks
from skgp_sparse.inference.methods import ExpectationPropagation, Variational
from skgp_sparse.inference.solvers import LBFGS, AsItIs, UserOptimizer


class Offer(NamedTuple):
    """What the name of a bound stands for."""

    bound: type  # of the Gaussian objective
    method: Callable | None  # likelihood -> how its sites are found; None: regression only


def _fitc(v):
    return bounds.FITC()


_plain = partial(Variational, spherical=False, bound=bounds.Spherical)
_spherical = partial(Variational, spherical=True, bound=bounds.Spherical)
_propagation = partial(ExpectationPropagation, bound=_fitc)
BOUNDS = {
    "titsias": Offer(bounds.Titsias, _plain),
    "vfe": Offer(bounds.Titsias, _plain),
    "titsias_new": Offer(bounds.TitsiasNew, _spherical),
    "artemev": Offer(bounds.Artemev, _spherical),
    "fitc": Offer(bounds.FITC, _propagation),
    "gfitc-ep": Offer(bounds.FITC, _propagation),  # EP is exact for a Gaussian likelihood
    "pep": Offer(bounds.PEP, None),
    "dtc": Offer(bounds.DTC, None),
}
LIKELIHOODS = {"probit": likelihoods.Probit, "logit": likelihoods.Logit}
_MULTI_CLASS = ("one_vs_rest", "one_vs_one")


def resolve_bound(bound, name):
    """The bound object of a string or an instance."""
    if isinstance(bound, bounds.PEP):
        checks.check_number(bound.alpha, "bound__alpha", name, Real, low=0, high=1)
    if isinstance(bound, bounds.Bound):
        return clone(bound)
    if isinstance(bound, str) and bound in BOUNDS:
        return BOUNDS[bound].bound()
    raise ValueError(
        f"The 'bound' parameter of {name} must be one of {sorted(BOUNDS)} or an instance of "
        f"skgp_sparse.bounds.Bound. Got {bound!r} instead."
    )


def resolve_method(bound, likelihood, name):
    """How to find the sites, from the names of the bound and of the likelihood."""
    offered = sorted(key for key, offer in BOUNDS.items() if offer.method is not None)
    known = isinstance(bound, str) and bound in BOUNDS
    if isinstance(bound, bounds.Bound) or (known and BOUNDS[bound].method is None):
        raise ValueError(
            f"bound={bound!r} is defined for regression only. The 'bound' parameter of {name} must "
            f"be one of {offered}."
        )
    if not known:
        raise ValueError(
            f"The 'bound' parameter of {name} must be one of {offered}. Got {bound!r} instead."
        )
    return BOUNDS[bound].method(_resolve_likelihood(likelihood, name))


def _resolve_likelihood(likelihood, name):
    if isinstance(likelihood, likelihoods.Binary):
        return clone(likelihood)
    if isinstance(likelihood, str) and likelihood in LIKELIHOODS:
        return LIKELIHOODS[likelihood]()
    raise ValueError(
        f"The 'likelihood' parameter of {name} must be one of {sorted(LIKELIHOODS)} or an "
        f"instance of skgp_sparse.likelihoods.Binary. Got {likelihood!r} instead."
    )


def is_one_vs_one(multi_class, name):
    """Whether several classes are compared in pairs."""
    if not isinstance(multi_class, str) or multi_class not in _MULTI_CLASS:
        raise ValueError(
            f"The 'multi_class' parameter of {name} must be one of {_MULTI_CLASS}. "
            f"Got {multi_class!r} instead."
        )
    return multi_class == "one_vs_one"


def resolve_solver(optimizer):
    """The solver of a name, a callable or None, which `check_parameters` has seen."""
    if optimizer is None:
        return AsItIs()
    return UserOptimizer(optimizer) if callable(optimizer) else LBFGS()
