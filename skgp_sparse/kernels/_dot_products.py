"""The constant kernel and the dot product.

Constant    k = c                       dk/dlog c = c
DotProduct  k = s0^2 + x.z              dk/dlog s0 = 2 s0^2,  dk/dz = x
"""

from __future__ import annotations

from functools import partial

import numpy as np

from ._rules import KernelRule


class ConstantRule(KernelRule):
    """A scalar everywhere."""

    footprint = 0

    def cross(self, kernel, X, Z):
        return self.diag(kernel, X)

    def diag(self, kernel, X):
        value = float(kernel.constant_value)
        return value, partial(_pull_constant, kernel, value)


def _pull_constant(kernel, value, G, inputs):
    # a fixed constant needs no pass over G
    fixed = kernel.hyperparameter_constant_value.fixed
    return ({} if fixed else {"constant_value": value * np.sum(G)}), 0.0


class DotProductRule(KernelRule):
    """``s0^2 + x.z``; not centred, for the kernel is not stationary."""

    footprint = 1

    def cross(self, kernel, X, Z):
        variance = float(kernel.sigma_0) ** 2
        K = X @ Z.T
        K += variance
        return K, partial(_pull_product, variance, X)

    def diag(self, kernel, X):
        variance = float(kernel.sigma_0) ** 2
        return variance + np.einsum("ij,ij->i", X, X), partial(_pull_square, variance, X)


def _pull_product(variance, X, G, inputs):
    return {"sigma_0": 2.0 * variance * np.sum(G)}, G.T @ X if inputs else 0.0


def _pull_square(variance, X, g, inputs):
    return {"sigma_0": 2.0 * variance * np.sum(g)}, 2.0 * g[:, None] * X
