"""The node of `Missing`: values of inputs with missing values, and their pullbacks."""

from functools import partial
from types import SimpleNamespace

import numpy as np

from skgp_sparse._ground.parallel import applied

from ._mapped import MappedNode
from ._nodes import node


class MissingNode(MappedNode):
    """A kernel of inputs with missing values."""

    def __init__(self, kernel):
        super().__init__(kernel)
        self.arrays, self.noisy = 2, kernel.is_noisy()

    def cross(self, X, Z):
        return self._times_factor(X, Z, *self.child.cross(self.kernel.see(X), self.kernel.see(Z)))

    def value(self, X, Z):
        factor, pull_factor = self.kernel.factor(X, Z)
        K = super().value(X, Z)
        return K if pull_factor is None else K * factor

    def stack(self, P):
        return self._times_factor(P, P, *self.child.stack(self.kernel.see(P)))

    def _times_factor(self, X, Z, K, pull):
        factor, pull_factor = self.kernel.factor(X, Z)
        value = K if pull_factor is None else applied(np.multiply, K, factor)
        return value, partial(_pull, self.kernel, X, Z, value, factor, pull_factor, pull)

    def diag(self, X):
        signal, noise, pull = self.child.diag(self.kernel.see(X))
        if self.noisy:
            noise = noise + self.kernel.own_noise(X)
        return signal, noise, partial(_pull_diag, self.kernel, X, pull)

    def places(self, X):
        return [*super().places(X), np.isnan(X) * np.sqrt(-np.log(self.kernel.rho(X.shape[1])))]

    def bare(self, columns):
        return columns[:0]

    def seen(self, columns):
        own = SimpleNamespace(hyperparameters=self.kernel.own_hyperparameters())
        return [*super().seen(columns), (SimpleNamespace(kernel=own), columns)]


def _pull(kernel, X, Z, value, factor, pull_factor, pull, G, inputs):
    slopes, bars = np.zeros(X.shape[-1]), []
    learns = pull_factor is not None and kernel.learns_neutral()
    if pull_factor is not None:
        slopes = pull_factor(applied(np.multiply, G, value))
        G = np.multiply(G, factor, out=G)
    rows = np.isnan(X).any(axis=-1)
    if learns and X.ndim == 2 and rows.any():  # the pullback is about the second of two arguments
        pull_first = node(kernel.kernel).cross(kernel.see(Z), kernel.see(X[rows]))[1]
        bars.append((X[rows], pull_first(np.ascontiguousarray(G[rows].T), True)[1]))
    theta_bar, bar = pull(G, inputs or learns)
    if learns:
        bars.append((Z, bar))
    return _joined(kernel, Z, theta_bar, kernel.own_gradient(slopes, *bars), bar, inputs)


def _pull_diag(kernel, X, pull, g_signal, g_noise, inputs):
    learns = kernel.learns_neutral() and np.isnan(X).any()
    theta_bar, bar = pull(g_signal, g_noise, inputs or learns)
    of_noise = np.broadcast_to(g_noise, len(X)) @ np.isnan(X) if kernel.is_noisy() else 0.0
    bars = [(X, bar)] if learns else []
    own = kernel.own_gradient(np.zeros(X.shape[-1]), *bars, of_noise=of_noise)
    return _joined(kernel, X, theta_bar, own, bar, inputs)


def _joined(kernel, points, theta_bar, own, bar, inputs):
    theta_bar = np.concatenate([theta_bar, own])
    return theta_bar, kernel.pull(points, bar) if inputs and np.ndim(bar) else 0.0
