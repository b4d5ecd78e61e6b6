"""Likelihoods ``p(y | f)`` of an observation ``y`` given the latent value ``f`` of its row.

`expected` and `tilted` of a likelihood return ``E[log p(y | f)]`` and ``log E[p(y | f)]`` of rows
whose latent values are ``f ~ N(mean, variance)``, with the first derivative (slope) and the
negative second derivative (curvature) with respect to the mean. Variational bounds sum the former
over the rows, and expectation propagation needs the latter. ``inference`` and ``engine`` compute
sites, gradients and predictions from these. The site of a row is a Gaussian function of ``f`` that
replaces ``p(y | f)``.

- ``_base.py``: the contract `Likelihood`, the `Domain` of observations, and bases. A likelihood of
  your own is best a subclass of `Binary` if it is a sigmoid, or of `LogConcave`, which integrates
  numerically; `expect` helps with its other methods.
- ``_labels.py``: labels of two classes, of several, and of several in an order
- ``_counts.py``, ``_location_scale.py``: counts, positive numbers, numbers between 0 and 1, those
  with outliers, and censored numbers
- ``_special.py``: functions and quantiles that likelihoods share
"""

from ._base import Domain, Likelihood, LogConcave, expect
from ._base import check_parameters as check_parameters
from ._base import warn_outside_bounds as warn_outside_bounds
from ._counts import Beta, Gamma, NegativeBinomial, Poisson
from ._labels import Binary, Logit, Ordinal, Probit
from ._location_scale import Censored, StudentT

__all__ = ["Beta", "Binary", "Censored", "Domain", "Gamma", "Likelihood", "LogConcave", "Logit"]
__all__ += ["NegativeBinomial", "Ordinal", "Poisson", "Probit", "StudentT", "expect"]

SIGMOIDS = {"probit": Probit, "logit": Logit}  # by the names that a classifier takes ...
OF_LABELS = {**SIGMOIDS, "ordinal": Ordinal}  # ... and that of labels which have an order
BY_NAME = {  # that a regressor takes
    "poisson": Poisson,
    "negative_binomial": NegativeBinomial,
    "gamma": Gamma,
    "beta": Beta,
    "student_t": StudentT,
}


def domain_of(likelihood: object) -> Domain:
    """The `Domain` of a likelihood or of a name in `BY_NAME`; all numbers for anything else."""
    if isinstance(likelihood, str):
        likelihood = BY_NAME.get(likelihood)
    return getattr(likelihood, "domain", Domain())
