"""Problem of one evaluation: which model, on which rows, computed how."""

from typing import NamedTuple

import numpy as np

from skgp_sparse import kernels
from skgp_sparse._engine.data.dataset import Dataset
from skgp_sparse._engine.features.basis import Basis, Projection
from skgp_sparse._ground.linalg import Jitter


class Options(NamedTuple):
    """How to compute, as opposed to what."""

    jitter: Jitter = Jitter()
    n_jobs: int = 1
    memory: float = np.inf  # bytes


class Tape(NamedTuple):
    """Data that pull gradients of a block of rows back to theta and to the basis."""

    features: object  # for `Features.pull`
    diagonal: object  # pullback of k(x, x)


class Observations(NamedTuple):
    """Data of rows that a likelihood needs: arrays, or a `PerRow` of each."""

    y: object  # (n,)
    offset: object  # (n,)
    weight: object  # (n,)
    residual: object  # (n,) r, what the basis leaves of the row


class Problem(NamedTuple):
    """A model and its training rows."""

    kernel: object  # white noise included
    basis: Basis
    rows: Dataset
    bound: object
    options: Options = Options()
    targets: float = 1.0  # factor of all of them
    latent_noise: bool = False  # white noise belongs to the process: a likelihood follows

    def features(self):
        """The basis at the kernel."""
        return self.basis.at(self.kernel, self.options)

    def layout(self):
        """How the rows are cut, and what may wait between two visits."""
        return self.rows.layout(self.basis.size, kernels.footprint(self.kernel), self.options)

    def project(self, features, X, out=None):
        """The `Projection` of some rows, its V in `out` if given."""
        K, cross = features.linearise(X)
        V = features.whiten(K, out)
        signal, noise, diagonal = kernels.diagonal(self.kernel, X)
        residual = np.zeros(len(X))
        if not features.complete:
            residual = np.maximum(
                features.residual_variance(X, V, signal + noise * self.latent_noise), 0.0
            )
        elif self.latent_noise:
            residual += noise
        return Projection(V, residual, 0.0 if self.latent_noise else noise, Tape(cross, diagonal))

    def tape(self, features, X):
        """The `Tape` of a projection that was kept without it."""
        return Tape(features.linearise(X)[1], kernels.diagonal(self.kernel, X)[2])


class Evaluation(NamedTuple):
    """Objective and gradient at one point."""

    value: float
    gradient: dict  # by the name of the block of parameters
    jitter: float
    inner_state: object = None  # of an inner loop, for the next evaluation

    theta_bar = property(lambda self: self.gradient["kernel"])
    Z_bar = property(lambda self: self.gradient.get("basis"))  # None where it was not wanted
