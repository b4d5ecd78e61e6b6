r"""Likelihoods ``p(y | f)`` of an observation ``y`` given the latent value ``f`` of its row.

A likelihood has two main methods for rows whose latent values are ``f ~ N(mean, variance)``:

- `expected` computes ``E[log p(y | f)]``, which variational bounds sum over the rows.
- `tilted` computes ``log E[p(y | f)]``, which expectation propagation needs.

Both methods also return the first derivative (slope) and the negative second derivative (curvature)
with respect to the mean. The subpackages ``inference`` and ``engine`` compute sites, gradients and
predictions from these. The site of a row is a Gaussian function of ``f`` that replaces
``p(y | f)``.

`Likelihood` is the contract, and its `Domain` says which observations it takes (``_base.py``). A
likelihood of your own is best a subclass of `Binary` if it is a sigmoid, or of `LogConcave`, which
integrates numerically; `expect` helps with its other methods.

``_binary.py``, ``_classes.py``
    Labels of two classes, of several, and of several in an order.
``_counts.py``, ``_beta.py``, ``_location_scale.py``
    Counts, positive numbers, numbers between 0 and 1, those with outliers, and censored numbers.
``_special.py``, ``_quantiles.py``
    Functions and quantiles that several likelihoods share, and probabilities of intervals.
"""

from skgp_sparse.likelihoods._base import Domain, Likelihood, LogConcave, expect
from skgp_sparse.likelihoods._base import check_parameters as check_parameters
from skgp_sparse.likelihoods._base import warn_outside_bounds as warn_outside_bounds
from skgp_sparse.likelihoods._binary import Binary, Logit, Probit
from skgp_sparse.likelihoods._classes import Ordinal
from skgp_sparse.likelihoods._counts import Beta, Gamma, NegativeBinomial, Poisson
from skgp_sparse.likelihoods._location_scale import Censored, StudentT

__all__ = [
    "Beta",
    "Binary",
    "Censored",
    "Domain",
    "Gamma",
    "Likelihood",
    "LogConcave",
    "Logit",
    "NegativeBinomial",
    "Ordinal",
    "Poisson",
    "Probit",
    "StudentT",
    "expect",
]

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
