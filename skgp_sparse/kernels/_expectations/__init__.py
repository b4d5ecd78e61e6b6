r"""Expectations and covariances of a kernel whose first argument has a normal distribution.

For rows ``x_i ~ N(μ_i, diag s_i)`` and points ``Z``:

    prior_i = E k(x_i, x_i),        cross_ij = E k(x_i, z_j) = P_ij,        C_i = Cov k(x_i, Z),

which are known as ψ0, ψ1 and ``ψ2_i - ψ1_i ψ1_iᵀ``. The matrices ``C_i`` (m, m) are never returned.
What is asked of them are sums over rows and inner products with a few matrices, and a cotangent of
each is a combination of a few matrices, too.

A closed form exists for sums of terms ``c k``, where k is an RBF, a DotProduct or 1
(`normal_terms`). Every other kernel is integrated numerically. The rule of integration is part of
the definition then, and does not depend on the rows.
"""

from typing import NamedTuple

from sklearn.gaussian_process import kernels as _sk

from .._heteroscedastic_noise import HeteroscedasticNoise
from .normal_terms import ClosedExpectations, NodeExpectations, rule_of


class ClosedTerm(NamedTuple):
    """A product of constants, and of one other kernel at most."""

    constant: float
    leaf: object  # RBF, DotProduct, or None
    constants: tuple  # positions in theta of the constants that are free
    start: int  # position in theta of the first hyperparameter of the leaf

    def times(self, other):
        """The product; raises `_NoClosedForm` if both have another kernel."""
        if self.leaf is not None and other.leaf is not None:
            raise _NoClosedForm
        with_leaf = self if other.leaf is None else other
        return with_leaf._replace(
            constant=self.constant * other.constant, constants=self.constants + other.constants
        )


class _NoClosedForm(Exception):
    """A kernel is no sum of terms with a closed form."""


def expectations(kernel, mean, variance, Z, rule=None):
    """Expectations of a kernel under one normal distribution for each row.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel expression. Its white noise is left out.
    mean, variance : ndarray of shape (n, d)
        Of the rows, float64.
    Z : ndarray of shape (m, d)
        Second point set, float64.
    rule : tuple of ndarray (h, d) and ndarray (h,), default=None
        Nodes and weights for expectations under N(0, I), where there is no closed form. None means
        Gauss-Hermite nodes for up to three columns, and quasi-random ones for more.

    Returns
    -------
    ClosedExpectations or NodeExpectations
        An object with the following members:

        - ``prior`` (n,) and ``cross`` (n, m).
        - ``sums(coef)``: the matrices ``Σ_i coef_ig C_i`` (g, m, m), from coefficients (n, g).
        - ``inner(matrices)``: the numbers ``tr(A_g C_i)`` (n, g), from symmetric ``A`` (g, m, m).
        - ``pull(prior_bar, cross_bar, coef, matrices)``: the gradients ``theta``, ``Z``, ``mean``
          and ``variance``, where the cotangent of ``C_i`` is ``Σ_g coef_ig A_g``.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skgp_sparse import kernels
    >>> at = kernels.expectations(RBF(1.0), np.zeros((1, 1)), np.ones((1, 1)), np.zeros((1, 1)))
    >>> at.cross.round(4).tolist(), at.sums(np.ones((1, 1))).round(4).tolist()
    ([[0.7071]], [[[0.0774]]])
    """
    terms = closed_terms(kernel)
    if terms is None:
        rule = rule_of(Z.shape[1]) if rule is None else rule
        return NodeExpectations(kernel, mean, variance, Z, rule)
    return ClosedExpectations(kernel, terms, mean, variance, Z)


def expectation_width(kernel, m, d):
    """Count the numbers per row of the largest array that `expectations` makes."""
    if closed_terms(kernel) is None:
        return len(rule_of(d)[1]) * m
    return m * (m + 1) // 2


def closed_terms(kernel, start=0):
    """The terms whose sum a kernel is without its noise; None if it is no such sum."""
    try:
        return _terms(kernel, start)
    except _NoClosedForm:
        return None


def _terms(kernel, start):
    if type(kernel) in (_sk.Sum, _sk.Product):
        left, right = _terms(kernel.k1, start), _terms(kernel.k2, start + kernel.k1.n_dims)
        if type(kernel) is _sk.Sum:
            return left + right
        return [one.times(other) for one in left for other in right]
    if type(kernel) in (_sk.WhiteKernel, HeteroscedasticNoise):
        return []
    if type(kernel) is _sk.ConstantKernel:
        free = () if kernel.hyperparameter_constant_value.fixed else (start,)
        return [ClosedTerm(float(kernel.constant_value), None, free, start)]
    if type(kernel) in (_sk.RBF, _sk.DotProduct):
        return [ClosedTerm(1.0, kernel, (), start)]
    raise _NoClosedForm
