"""What a process is written in: the contract of a basis, and of its features at one kernel.

Given features ``V`` of the rows (n, m), a process is ``f = V w + rest`` with ``w ~ N(0, I)``; the
rest is independent between rows, of variance ``r``, the residual. Whatever the features are, the
statistics, the objectives, their gradients and the predictions of the engine follow from these two.

Features of inducing points (`skgp_sparse._engine.inducing_basis`) come from a kernel matrix in two
steps, ``V = K Tᵀ``, of which the second one, whitening, is the same for all rows: this is why a
gradient reaches the rows through `through_whitening` and `pull`, and the whitening itself, once for
all rows, through `pull_whitening`. A basis without the second step, as that of random Fourier
features (`skgp_sparse._engine.fourier_basis`), leaves these as they are here.
"""

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np


class Projection(NamedTuple):
    """A block of rows as the basis sees it: no targets, no objective."""

    V: np.ndarray  # (n, m) features
    residual: np.ndarray  # (n,) r
    noise: float | np.ndarray  # learned
    tape: object  # what `Features.pull` wants, plain data; None: it is made again from the rows


class Basis(ABC):
    """Functions of a row, with parameters of their own.

    Attributes
    ----------
    parameters : ndarray
        What an optimiser may move beside the kernel: the inducing points Z (m, d), say.
    size : int
        Number of features m.
    points : ndarray of shape (m, d) or None
        Inducing points; None: there are none.
    """

    points = None

    @abstractmethod
    def moved(self, parameters):
        """The same basis with other parameters."""

    @abstractmethod
    def units(self, kernel, spread):
        """Centre and unit of the parameters in an optimiser, of shapes that broadcast to theirs.

        `spread` (d,) is that of the inputs.
        """

    @abstractmethod
    def at(self, kernel, options):
        """The `Features` at a kernel; may raise ``LinAlgError``."""


class Features(ABC):
    """A basis at one kernel.

    Attributes
    ----------
    size : int
        Number of features m.
    jitter : float
        What their whitening took, in the units of the `Jitter` that was asked for.
    complete : bool
        Whether the features are the whole process, so that the residual is 0. Otherwise it is what
        they leave of the kernel's diagonal: ``r = k(x, x) - ‖V‖²``.
    kind : str
        What the data are given by; see `Process`.
    """

    jitter = 0.0
    complete = False
    kind = "inducing"

    def for_prediction(self, mean_only=False):
        """The same without what only gradients want, and variances if only means are wanted."""
        return self

    @abstractmethod
    def raw(self, X):
        """Features before whitening (n, m)."""

    def whiten(self, K, out=None):
        """Features V (n, m) from raw ones; in `out` if given, which may be K."""
        if out is None or out is K:
            return K
        out[:] = K
        return out

    def weights(self, v):
        """``Tᵀ v``: weights of the raw features from those of V (m, p)."""
        return v

    @abstractmethod
    def linearise(self, X):
        """Raw features and the tape for `pull`."""

    @abstractmethod
    def pull(self, tape, K_bar, inputs):
        """Gradients wrt theta and, if `inputs`, wrt the basis' own parameters.

        Parameters
        ----------
        tape : object
        K_bar : ndarray of shape (n, m)
            Gradient wrt the raw features; may be overwritten.
        inputs : bool
        """

    @abstractmethod
    def slopes(self, X, K_bar):
        """Gradient wrt the rows (n, d) themselves, from that wrt the raw features (n, m)."""

    def through_whitening(self, A, out=None):
        """``A T``: gradients wrt raw features from those wrt V; in `out` if given, maybe A."""
        return A

    def pull_whitening(self, S, u, inputs):
        """Gradients wrt theta and the basis' own parameters through the whitening.

        Parameters
        ----------
        S : ndarray of shape (m, m)
            Minus half of ``Σ V_bar Vᵀ`` over the rows, but for the part ``½ v vᵀ`` ...
        u : ndarray of shape (m, p)
            ... which is ``½ u uᵀ`` after whitening.
        inputs : bool
        """
        return 0.0, 0.0

    @abstractmethod
    def rest(self, X, V, signal):
        """Variance of the process that V leaves unexplained (n,), of which rounding may be < 0."""

    @abstractmethod
    def rest_covariance(self, X, V):
        """The same for all pairs of rows (n, n)."""
