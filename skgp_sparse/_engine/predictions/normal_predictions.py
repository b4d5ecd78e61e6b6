"""Predictions at inputs that have a normal distribution each.

With the expectations ``P`` and covariances ``C`` of `skgp_sparse.kernels.expectations`, ``V = T P``
and the posterior of the inducing points, ``B`` and ``u``,

    mean = P u,     var = uᵀ C u + Vᵀ B⁻¹ V + tr(Tᵀ B⁻¹ T C) + E k(x, x) - ‖V‖² - tr(K⁻¹ C).
"""

from typing import NamedTuple

import numpy as np

from skgp_sparse import kernels
from skgp_sparse._engine.data.dataset import row_blocks
from skgp_sparse._engine.features.basis import Features
from skgp_sparse._ground.linalg import inverse_from_triangle, row_dots
from skgp_sparse._ground.parallel import ordered_map


class Normals(NamedTuple):
    """Distributions of inputs, one for each row."""

    mean: np.ndarray  # (n, d)
    variance: np.ndarray  # (n, d)

    def of(self, rows):
        """Distributions of the inputs of some rows."""
        return Normals(self.mean[rows], self.variance[rows])


class InducingPosterior(NamedTuple):
    """The posterior of the inducing points, and matrices that rows are multiplied with."""

    features: Features
    of_column: np.ndarray  # (p,) the group that shares B
    v: np.ndarray | None  # (m, p); None where only predictions are wanted
    u: np.ndarray  # (m, p)
    TB: np.ndarray  # (g, m, m) LB⁻¹
    Binv: np.ndarray  # (g, m, m)
    A: np.ndarray  # (g, m, m)
    Kinv: np.ndarray  # (m, m)

    @classmethod
    def of(cls, features, of_column, v, u, TB):
        """The matrices that follow from a posterior in whitened features."""
        Binv = np.array([inverse_from_triangle(one) for one in TB])
        A = np.array([features.between_whitenings(one) for one in Binv])
        return cls(features, of_column, v, u, TB, Binv, A, features.inverse())


def mean_and_variance(kernel, posterior, inputs):
    """Mean and variance (n, p) of the process at inputs that have a distribution."""
    mean, variance, rest = explained(kernel, posterior, inputs)
    return mean, variance + rest[:, None]


def predict(posterior, inputs, n_jobs=1):
    """Mean and variance (n, p) of a `SparsePosterior` of inducing points at such inputs."""
    one_group, u = np.zeros(posterior.u.shape[1], dtype=int), posterior.u
    found = InducingPosterior.of(posterior.features, one_group, None, u, posterior.TB[None])
    return predict_blocks(posterior.kernel, found, inputs, n_jobs)


def predict_blocks(kernel, posterior, inputs, n_jobs=1):
    """`mean_and_variance` by blocks of rows, which bound its memory."""
    width = kernels.expectation_width(kernel, *posterior.features.Z.shape)

    def run(rows):
        return mean_and_variance(kernel, posterior, inputs.of(rows))

    parts = ordered_map(run, row_blocks(len(inputs.mean), width), n_jobs)
    return tuple(np.concatenate(part) for part in zip(*parts))


def explained(kernel, posterior, inputs):
    """Mean and variance (n, p) that the features have, and the variance that they leave (n,)."""
    expected = kernels.expectations(kernel, *inputs, posterior.features.Z)
    V = posterior.features.whiten(expected.cross)
    rest = np.maximum(expected.prior - row_dots(V, V) - expected.inner([posterior.Kinv])[:, 0], 0.0)
    within = np.stack([row_dots(V @ Binv, V) for Binv in posterior.Binv], axis=1)
    within += expected.inner(posterior.A)
    of_mean = expected.inner(posterior.u.T[:, :, None] * posterior.u.T[:, None])
    variance = np.maximum(of_mean + within[:, posterior.of_column], 0.0)
    return expected.cross @ posterior.u, variance, rest
