"""Contracts of a basis, in which a process is written, and of its features at one kernel.

Given features ``V`` of the rows (n, m), a process is ``f = V w + rest`` with ``w ~ N(0, I)``; the
rest is independent between rows, of variance ``r``, the residual. Whatever the features are, the
statistics, the objectives, their gradients and the predictions of the engine follow from these two.

Features of inducing points (`skgp_sparse._engine.features.inducing_basis`) come from a kernel
matrix in two steps, ``V = K Tᵀ``, of which the second one, whitening, is the same for all rows:
this is why a gradient reaches the rows through `through_whitening` and `pull`, and the whitening
itself, once for all rows, through `pull_whitening`. A basis without the second step, as that of
random Fourier features (`skgp_sparse._engine.features.fourier_basis`), leaves these as they are
here.
"""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

from sklearn.gaussian_process.kernels import Kernel

from skgp_sparse._ground.validation import Array, Scalars

Gradients = tuple[Scalars, Scalars]  # wrt theta (p,), and the parameters of the basis; 0.0: none


class Projection(NamedTuple):
    """A block of rows as the basis sees it: no targets, no objective."""

    V: Array  # (n, m) features
    residual: Array  # (n,) r
    noise: Scalars  # learned
    tape: object  # what `Features.pull` wants, plain data; None: it is made again from the rows


class Basis(ABC):
    """Functions of a row, which may have parameters of their own.

    Attributes
    ----------
    parameters : ndarray or None
        What an optimiser may move beside the kernel: the inducing points Z (m, d), say. None: there
        is nothing to move, and neither `moved` nor `units` is called.
    size : int
        Number of features m.
    points : ndarray of shape (m, d) or None
        Inducing points; None: there are none.
    """

    parameters: Array | None = None
    size: int
    points: Array | None = None

    def moved(self, parameters: Array) -> "Basis":
        """Return the same basis with other parameters.

        Parameters
        ----------
        parameters : ndarray
            Values in the shape of the attribute `parameters`. The basis may keep the array, which
            nobody changes.

        Returns
        -------
        Basis
            A new basis. This one does not change.
        """
        raise NotImplementedError

    def units(self, kernel: Kernel, spread: Array) -> tuple[Scalars, Scalars]:
        """Say in which units an optimiser sees the parameters.

        Parameters
        ----------
        kernel : sklearn kernel
            The kernel from which the optimiser starts.
        spread : ndarray of shape (d,)
            Spread of each column of the inputs.

        Returns
        -------
        centre, unit : float or ndarray
            The optimiser moves ``(parameters - centre) / unit``. Their shapes broadcast to that of
            the parameters.
        """
        raise NotImplementedError

    @abstractmethod
    def at(self, kernel: Kernel, options: Any) -> "Features":
        """Compute what all rows share at one kernel.

        Parameters
        ----------
        kernel : sklearn kernel, its white noise included
            The features may keep it, and do not change it.
        options : Options
            Jitter, number of threads and memory.

        Returns
        -------
        Features
            The basis at this kernel.

        Raises
        ------
        LinAlgError
            If a matrix cannot be factorised. An optimiser then steps back.
        """


class Features(ABC):
    """A basis at one kernel.

    Features never change, and several threads call their methods at the same time, each with other
    rows. X (n, d) is float64 in all methods. A method does not overwrite X or V, and the arrays
    that it returns are new, unless its docstring says otherwise.

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
        What the data are given by; see `Posterior`.
    """

    size: int
    jitter: float = 0.0
    complete: bool = False
    kind: str = "inducing"

    def for_prediction(self, mean_only: bool = False) -> "Features":
        """Leave out what predictions do not need.

        Parameters
        ----------
        mean_only : bool
            Whether means are all that is wanted, so that what only variances want is left out, too.

        Returns
        -------
        Features
            These features, or others without what only gradients want. A pickle of them has no
            pullback.
        """
        return self

    @abstractmethod
    def raw(self, X: Array) -> Array:
        """Compute features before whitening.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Rows of training or of a query.

        Returns
        -------
        ndarray of shape (n, m)
            Raw features K.
        """

    def whiten(self, K: Array, out: Array | None = None) -> Array:
        """Compute features V from raw ones.

        Parameters
        ----------
        K : ndarray of shape (n, m)
            Raw features. They are not overwritten, unless `out` is K.
        out : ndarray of shape (n, m) or None
            Where V is written. None: into a new array, or V is K itself where there is nothing to
            whiten.

        Returns
        -------
        ndarray of shape (n, m)
            V, which is `out` if that is given.
        """
        if out is None or out is K:
            return K
        out[:] = K
        return out

    def weights(self, v: Array) -> Array:
        """Compute weights of the raw features, ``Tᵀ v``.

        Parameters
        ----------
        v : ndarray of shape (m, p)
            Weights of V.

        Returns
        -------
        ndarray of shape (m, p)
            Weights u such that ``K u`` is ``V v``. They may be `v` itself.
        """
        return v

    @abstractmethod
    def linearise(self, X: Array) -> tuple[Array, Any]:
        """Compute raw features, and remember what their gradient wants.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Rows of a block. The tape may keep them.

        Returns
        -------
        K : ndarray of shape (n, m)
            Raw features, as of `raw`. The tape may keep this array, too.
        tape : object
            What `pull` wants. It is plain data, or a pullback that can be pickled, as it may wait
            in another process. The plan of memory expects it to keep as many arrays (n, m) as
            `skgp_sparse.kernels.footprint` says.
        """

    @abstractmethod
    def pull(self, tape: Any, K_bar: Array, inputs: bool) -> Gradients:
        """Pull the gradient with respect to raw features back.

        Parameters
        ----------
        tape : object
            What `linearise` has remembered. It is used once.
        K_bar : ndarray of shape (n, m)
            Gradient wrt the raw features. It may be overwritten.
        inputs : bool
            Whether the gradient wrt the basis' own parameters is wanted.

        Returns
        -------
        theta_bar : ndarray of shape (n_kernel_params,)
            Gradient wrt theta, summed over the rows: a new array, to which the caller adds.
        basis_bar : ndarray or float
            Gradient wrt the parameters of the basis, in their shape. It is ignored if `inputs` is
            False, and may be 0.0 then.
        """

    @abstractmethod
    def slopes(self, X: Array, K_bar: Array) -> Array:
        """Compute the gradient with respect to the rows themselves.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Rows of a query.
        K_bar : ndarray of shape (n, m)
            Gradient wrt their raw features.

        Returns
        -------
        ndarray of shape (n, d)
            Gradient wrt X.
        """

    def through_whitening(self, A: Array, out: Array | None = None) -> Array:
        """Compute gradients with respect to raw features from those with respect to V, ``A T``.

        Parameters
        ----------
        A : ndarray of shape (n, m)
            Gradients wrt V. They are not overwritten, unless `out` is A.
        out : ndarray of shape (n, m) or None
            Where the result is written, which may be A. None: into a new array, or it is A itself.

        Returns
        -------
        ndarray of shape (n, m)
            Gradients wrt K.
        """
        return A

    def pull_whitening(self, S: Array, u: Array, inputs: bool) -> Gradients:
        """Gradients wrt theta and the basis' own parameters through the whitening.

        Parameters
        ----------
        S : ndarray of shape (m, m)
            Minus half of ``Σ V_bar Vᵀ`` over the rows, but for the part ``½ v vᵀ`` ...
        u : ndarray of shape (m, p)
            ... which is ``½ u uᵀ`` after whitening.
        inputs : bool
            Whether the gradient wrt the basis' own parameters is wanted.

        Returns
        -------
        theta_bar : ndarray of shape (n_kernel_params,) or float
            Gradient wrt theta; 0.0 where nothing is whitened.
        basis_bar : ndarray or float
            Gradient wrt the parameters of the basis, in their shape, or 0.0.
        """
        return 0.0, 0.0

    @abstractmethod
    def residual_variance(self, X: Array, V: Array, signal: Scalars) -> Array:
        """Compute the variance of the process that V leaves unexplained.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Rows of training or of a query.
        V : ndarray of shape (n, m)
            Their features.
        signal : float or ndarray of shape (n,)
            Their prior variance, without white noise.

        Returns
        -------
        ndarray of shape (n,)
            Variances r. Rounding may make them negative; callers see to that.
        """

    @abstractmethod
    def residual_covariance(self, X: Array, V: Array) -> Array:
        """Compute the covariance of the process that V leaves unexplained.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Few rows of training or of a query.
        V : ndarray of shape (n, m)
            Their features.

        Returns
        -------
        ndarray of shape (n, n)
            Covariances, whose diagonal is that of `residual_variance`. The caller may overwrite
            this array.
        """
