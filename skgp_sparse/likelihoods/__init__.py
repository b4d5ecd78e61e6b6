r"""Likelihoods ``p(y | f)`` of an observation ``y`` given the latent value ``f`` of its row.

A likelihood has two main methods for rows whose latent values are ``f ~ N(mean, variance)``:

- `expected` computes ``E[log p(y | f)]``, which variational bounds sum over the rows.
- `tilted` computes ``log E[p(y | f)]``, which expectation propagation needs.

Both methods also return the first derivative (slope) and the negative second derivative (curvature)
with respect to the mean. The subpackages ``inference`` and ``_engine`` compute sites, gradients and
predictions from these. The site of a row is a Gaussian function of ``f`` that replaces
``p(y | f)``.

The contract is in ``base``. Labels are in ``binary``, several classes in ``softmax``, counts in
``counts``, positive numbers in ``gamma``, and any numbers in ``gaussian`` and ``student_t``. What
several of these share is in ``labels``, ``levelled`` (parameters and the level), ``special``
(functions) and ``quantiles``.
"""

from skgp_sparse.likelihoods._base import Likelihood
from skgp_sparse.likelihoods._binary import Binary, Logit, Probit
from skgp_sparse.likelihoods._counts import NegativeBinomial, Poisson
from skgp_sparse.likelihoods._gamma import Gamma
from skgp_sparse.likelihoods._gaussian import Gaussian
from skgp_sparse.likelihoods._softmax import Softmax
from skgp_sparse.likelihoods._student_t import StudentT

__all__ = [
    "Binary",
    "Gamma",
    "Gaussian",
    "Likelihood",
    "Logit",
    "NegativeBinomial",
    "Poisson",
    "Probit",
    "Softmax",
    "StudentT",
]
