"""Contracts of a basis, in which a process is written, with inducing points and Fourier features.

Given features ``V`` of the rows (n, m), a process is ``f = V w + rest`` with ``w ~ N(0, I)``; the
rest is independent between rows, of variance ``r``, the residual. Whatever the features are, the
statistics, the objectives, their gradients and the predictions of the engine follow from these two.

The basis of inducing points has ``V = Kfu L⁻ᵀ``, that of random Fourier features has cosines and
sines.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from scipy.special import ndtri
from scipy.stats.qmc import Sobol

from skgp_sparse import kernels
from skgp_sparse.data.dataset import Dataset, Layout
from skgp_sparse.ground import linalg
from skgp_sparse.ground.validation import Array, Kernel, Pair, Rng, Scalars

Tape = TypeVar("Tape")  # what a gradient wants, of features of its own kind
Gradients = tuple[Scalars, Scalars]  # wrt theta (p,), and the parameters of the basis; 0.0: none


class Projection(NamedTuple):
    """A block of rows as the basis sees it: no targets, no objective."""

    V: Array  # (n, m) features
    residual: Array  # (n,) r
    noise: Scalars  # learned
    tape: object  # see `Problem.tape`; None: it is made again from the rows


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
    def at(self, kernel: Kernel, options: "Options") -> "Features":
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


class Features(ABC, Generic[Tape]):
    """A basis at one kernel.

    Features of inducing points come from a kernel matrix in two steps, ``V = K Tᵀ``, of which the
    second one, whitening, is the same for all rows: this is why a gradient reaches the rows through
    `through_whitening` and `pull`, and the whitening itself, once for all rows, through
    `pull_whitening`. A basis without the second step, as that of random Fourier features, leaves
    these as they are here.

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
    def linearise(self, X: Array) -> tuple[Array, Tape]:
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
    def pull(self, tape: Tape, K_bar: Array, inputs: bool) -> Gradients:
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
            Minus half of ``Σ V_bar Vᵀ``, but for ``½ v vᵀ``.
        u : ndarray of shape (m, p)
            The same v after whitening: the gradient wrt Kuu is ``Tᵀ S T - ½ u uᵀ``.
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


class Options(NamedTuple):
    """How to compute, as opposed to what."""

    jitter: linalg.Jitter = linalg.Jitter()
    n_jobs: int = 1
    memory: float = np.inf  # bytes


class Observations(NamedTuple):
    """Data of rows that a likelihood needs: arrays, or a `PerRow` of each."""

    y: Any  # (n,)
    offset: Any  # (n,)
    weight: Any  # (n,)
    residual: Any  # (n,) r, what the basis leaves of the row


class Problem(NamedTuple):
    """A model, its training rows, and how an evaluation of it is computed."""

    kernel: Kernel  # white noise included
    basis: Basis
    rows: Dataset
    bound: Any  # a `Bound`, whose `reduce` may have arrays, too
    options: Options = Options()
    targets: float = 1.0  # factor of all of them
    latent_noise: bool = False  # white noise belongs to the process: a likelihood follows

    def features(self) -> Any:
        """The basis at the kernel, its `Features`."""
        return self.basis.at(self.kernel, self.options)

    def layout(self) -> Layout:
        """How the rows are cut, and what may wait between two visits."""
        return self.rows.layout(self.basis.size, kernels.footprint(self.kernel), self.options)

    def project(self, features: Features, X: Array, out: Array | None = None) -> Projection:
        """The `Projection` of some rows, its V in `out` if given."""
        K, cross = features.linearise(X)
        V = features.whiten(K, out)
        signal, noise, diagonal = kernels.diagonal(self.kernel, X)
        latent = noise * self.latent_noise
        residual = np.zeros(len(X)) + latent
        if not features.complete:
            residual = np.maximum(features.residual_variance(X, V, signal + latent), 0.0)
        return Projection(V, residual, 0.0 if self.latent_noise else noise, (cross, diagonal))

    def tape(self, features: Features, X: Array) -> tuple[Any, Callable]:
        """The plain data that `Features.pull` wants, and the pullback of k(x, x)."""
        return features.linearise(X)[1], kernels.diagonal(self.kernel, X)[2]


class Evaluation(NamedTuple):
    """Objective and gradient at one point."""

    value: float
    gradient: dict  # by the name of the block of parameters
    jitter: float
    inner_state: object = None  # of an inner loop, for the next evaluation

    @property
    def theta_bar(self) -> Array:
        """The gradient wrt theta."""
        return self.gradient["kernel"]

    @property
    def Z_bar(self) -> Array | None:
        """That wrt the basis, None where it does not move."""
        return self.gradient.get("basis")


_LITTLE_JITTER = linalg.Jitter(1e-12)  # less than most noise
_UNIT_OF_POINTS = 3.0  # unit of Z in an optimiser, in length scales or, if shorter, spreads


@dataclass(frozen=True, eq=False)
class InducingBasis(Basis):
    """Kernel functions at points: features ``V = Kfu L⁻ᵀ`` with ``Kuu + jitter I = L Lᵀ``."""

    points: np.ndarray  # (m, d) Z; where a value is missing, it stays so

    @property
    def parameters(self) -> Array:  # type: ignore[override]
        """Z, with numbers that do not matter where values are missing."""
        return np.where(np.isnan(self.points), 0.0, self.points)

    def moved(self, parameters: Array) -> "InducingBasis":
        """The basis of other inducing points (m, d), which lack the same values."""
        missing = np.isnan(self.points)
        return InducingBasis(np.where(missing, np.nan, parameters) if missing.any() else parameters)

    size = property(lambda self: len(self.points))

    def units(self, kernel: Kernel, spread: Array) -> Pair:
        """Median of the inducing points, and length scales or, if shorter, spreads."""
        shorter = np.minimum(kernels.length_scales(kernel, spread), spread)
        return np.median(self.parameters, axis=0), _UNIT_OF_POINTS * shorter

    def at(self, kernel: Kernel, options: Options) -> "InducingFeatures":
        """Factorise the kernel at the inducing points."""
        K, pull = kernels.linearize(kernel, self.points, self.points)
        L, used = linalg.jittered_cholesky(K, options.jitter, options.n_jobs)
        T, moves = linalg.inverse_lower(L, options.n_jobs), used * options.jitter.relative
        return InducingFeatures(kernel, self.points, L, T, used, moves, pull, options.n_jobs)


@dataclass(frozen=True, eq=False)
class InducingFeatures(Features[Callable]):
    """Inducing points at one kernel."""

    kernel: Kernel
    Z: Array  # (m, d)
    L: Array | Any  # (m, m); None: only means are wanted
    T: Array | Any = None  # ``L⁻¹``; None: V is computed by substitution
    jitter: float = 0.0  # as used, in the units of the `Jitter` that was asked for
    relative_jitter: float = 0.0  # where it is a share of the mean of the diagonal, the same
    pull_Kuu: Callable | Any = None  # None where only predictions are wanted
    n_jobs: int = 1

    def __getstate__(self) -> dict[str, object]:
        """Without the pullback of the whitening, which stays where it was made."""
        return {**vars(self), "pull_Kuu": None}

    size = property(lambda self: len(self.Z))

    def for_prediction(self, mean_only: bool = False) -> "InducingFeatures":
        """A copy without the parts that only gradients need, and without L for means only."""
        return replace(self, L=None if mean_only else self.L, T=None, pull_Kuu=None)

    def without_data(self) -> "InducingFeatures":
        """Features of the process itself, where L belongs to a kernel matrix with noise."""
        return InducingBasis(self.Z).at(self.kernel, Options(_LITTLE_JITTER)).for_prediction()

    def raw(self, X: Array) -> Array:
        """Kernel matrix ``Kfu`` (n, m)."""
        return kernels.evaluate(self.kernel, X, self.Z)

    def whiten(self, K: Array, out: Array | None = None) -> Array:
        """Whitened features ``Kfu L⁻ᵀ`` (n, m)."""
        if self.T is None:
            return linalg.over_lower_transposed(K, self.L, out)
        return linalg.times_lower_transposed(K, self.T, out)

    def weights(self, v: Array) -> Array:
        """Weights ``L⁻ᵀ v`` (m, p) of raw features."""
        return linalg.over_lower(v.T, self.L).T if self.T is None else self.T.T @ v

    def linearise(self, X: Array) -> tuple[Array, Callable]:
        """``Kfu`` and its pullback."""
        return kernels.linearize(self.kernel, X, self.Z)

    def pull(self, tape: Callable, K_bar: Array, inputs: bool) -> Gradients:
        """Gradients wrt theta and Z through ``Kfu``."""
        return tape(K_bar, inputs=inputs)

    def slopes(self, X: Array, K_bar: Array) -> Array:
        """Gradient wrt the rows, which are the second argument of ``Kuf``."""
        return kernels.linearize(self.kernel, self.Z, X)[1](K_bar.T, True)[1]

    def through_whitening(self, A: Array, out: Array | None = None) -> Array:
        """``A L⁻¹``, tiles of a new array shared by threads."""
        if self.T is None:
            return linalg.over_lower(A, self.L, out)
        if out is None:
            return linalg.square_times_lower(A, self.T, self.n_jobs)
        return linalg.times_lower(A, self.T, out)

    def between_whitenings(self, M: Array) -> Array:
        """``L⁻ᵀ M L⁻¹`` (m, m) of a matrix M."""
        return self.through_whitening(self.weights(M))

    def inverse(self) -> Array:
        """``(Kuu + jitter I)⁻¹``."""
        return self.between_whitenings(np.eye(self.size))

    def pull_whitening(self, S: Array, u: Array, inputs: bool) -> Gradients:
        """Gradients wrt theta and Z through ``Kuu``, of which it is ``Tᵀ S T - ½ u uᵀ``."""
        K_bar = linalg.congruence(S, self.T, self.n_jobs)
        K_bar -= (0.5 * u) @ u.T
        if self.relative_jitter:  # jitter = used · mean(diag Kuu) moves with the diagonal
            K_bar.flat[:: len(K_bar) + 1] += self.relative_jitter * np.trace(K_bar) / len(K_bar)
        theta_bar, Z_bar = self.pull_Kuu(K_bar, inputs=inputs)
        return theta_bar, 2.0 * Z_bar if inputs else 0.0  # both arguments of k(Z, Z) move

    def residual_variance(self, X: Array, V: Array, signal: Scalars) -> Array:
        """Residual variances (n,), ``kff - diag VVᵀ``."""
        return signal - linalg.row_dots(V, V)

    def residual_covariance(self, X: Array, V: Array) -> Array:
        """Residual covariance (n, n), ``Kff - VVᵀ``."""
        return kernels.evaluate(self.kernel, X, X) - V @ V.T


_MOST_COLUMNS = 21_201  # of SciPy's Sobol sequences
_BITS = 30  # of their numbers


# A kernel is a sum of terms with variances ``c`` (`skgp_sparse.kernels.spectrum`). With F
# frequencies ``w`` of a term, the features of a row are
#
#     V = sqrt(c / F) [cos(w . (x - o)), sin(w . (x - o))],        VᵀV ≈ k,
#
# and nothing is left of the process: it is linear in them. The origin o is a row, so that phases
# have the size of distances between rows; no covariance depends on it. A term of a constant only
# has one frequency, which is 0.
#
# Frequencies are functions of the kernel and of standard draws, which stay: quantiles of a
# scrambled Sobol sequence (Yang et al. 2014). A mean over draws of ``cos(w . (x - z))`` comes as
# close to the kernel as these fill their space evenly.
@dataclass(frozen=True, eq=False)
class FourierBasis(Basis):
    """Cosines and sines at frequencies that move with the hyperparameters of a kernel."""

    normal: np.ndarray  # (n_frequencies, n_factors, d) draws, more than terms with few factors use
    levels: np.ndarray  # (n_frequencies, n_factors) uniform draws
    counts: tuple  # of frequencies of each term of the kernel
    origin: np.ndarray  # (d,)

    size = property(lambda self: 2 * len(self.normal))

    @staticmethod
    def drawn(kernel: Kernel, n_frequencies: int, origin: Array, rng: Rng) -> "FourierBasis":
        """The basis with random frequencies of a kernel, evenly shared by its terms."""
        terms, d = kernels.spectrum(kernel), len(origin)
        counts, k = shares(terms, n_frequencies), max(1, *(len(term.factors) for term in terms))
        parts = [sobol_draws(count, k, d, rng) for count in counts]
        normal, levels = map(np.concatenate, zip(*parts))
        return FourierBasis(normal, levels, counts, origin)

    def at(self, kernel: Kernel, options: Options) -> "Harmonics":
        """`Harmonics` at a kernel."""
        frequencies, amplitudes = np.empty_like(self.normal[:, 0]), []
        for term, rows in self.terms(kernel):
            frequencies[rows] = term.frequencies(self.normal[rows], self.levels[rows])
            count = rows.stop - rows.start
            amplitudes += count * [np.sqrt(term.variance() / count)]
        return Harmonics(kernel, self, frequencies, np.array(amplitudes))

    def terms(self, kernel: Kernel) -> Iterable[tuple]:
        """Pairs of a term of the kernel and the rows that its draws have."""
        edges = np.cumsum((0, *self.counts))
        return zip(kernels.spectrum(kernel), map(slice, edges[:-1], edges[1:]))


def sobol_draws(n: int, k: int, d: int, random_state: Rng) -> Pair:
    """Normal numbers (n, k, d) and uniform numbers (n, k): the first points of a sequence."""
    columns, seed = k * (d + 1), random_state.randint(2**31 - 1)
    if columns > _MOST_COLUMNS:
        raise ValueError(
            f"Sobol sequences have at most {_MOST_COLUMNS} columns, and {k} factors of {d} "
            f"features need {columns}. Choose another posterior, or pass fewer features."
        )
    points = Sobol(columns, seed=seed, bits=_BITS).random_base2(int(np.ceil(np.log2(n))))[:n]
    points = (points + 0.5**_BITS / 2).reshape(n, k, d + 1)  # never 0 or 1
    return ndtri(points[..., :d]), points[..., d]


def shares(terms: Sequence, n_frequencies: int) -> tuple[int, ...]:
    """How many frequencies each of the terms has; a constant has one."""
    constants = [not term.factors for term in terms]
    rest, others = n_frequencies - sum(constants), len(terms) - sum(constants)
    if others == 0:
        return tuple(1 for _ in terms)
    if rest < others:
        raise ValueError(
            f"n_components={2 * n_frequencies} are too few features for the {len(terms)} terms of "
            f"the kernel, written as a sum of products. Each has two at least. Set n_components to "
            f"{2 * len(terms)} or more."
        )
    each = iter([rest // others + (k < rest % others) for k in range(others)])
    return tuple(1 if constant else next(each) for constant in constants)


@dataclass(frozen=True, eq=False)
class Harmonics(Features[Pair]):
    """Cosines and sines at one kernel."""

    kernel: Kernel
    basis: FourierBasis
    frequencies: np.ndarray  # (n_frequencies, d) in radians per unit of X
    amplitudes: np.ndarray  # (n_frequencies,) of the cosine and the sine

    complete = True
    kind = "fourier"

    size = property(lambda self: 2 * len(self.frequencies))

    def raw(self, X: Array) -> Array:
        """Cosines, and then sines (n, m)."""
        phase, V = (X - self.basis.origin) @ self.frequencies.T, np.empty((len(X), self.size))
        for function, half in zip((np.cos, np.sin), np.split(V, 2, axis=1)):
            function(phase, out=half)
            half *= self.amplitudes
        return V

    def linearise(self, X: Array) -> tuple[Array, Pair]:
        """The features, and what `pull` wants: inputs and features."""
        V = self.raw(X)
        return V, (X, V)

    def pull(self, tape: Pair, K_bar: Array, inputs: bool) -> Gradients:
        """Gradient wrt theta, through phases and amplitudes."""
        (X, V), basis = tape, self.basis
        (cosine, sine), (cosine_bar, sine_bar) = (np.split(M, 2, axis=1) for M in (V, K_bar))
        frequency_bar = (sine_bar * cosine - cosine_bar * sine).T @ (X - basis.origin)
        amplitude_bar = 0.5 * np.einsum("ij,ij->j", K_bar, V).reshape(2, -1).sum(axis=0)
        theta_bar = np.zeros(len(self.kernel.theta))
        for term, rows in basis.terms(self.kernel):
            normal, level, power = basis.normal[rows], basis.levels[rows], amplitude_bar[rows].sum()
            term.pull(normal, level, frequency_bar[rows], power, theta_bar)
        return theta_bar, 0.0

    def slopes(self, X: Array, K_bar: Array) -> Array:
        """Gradient wrt the rows, through their phases."""
        cosine, sine = np.split(self.raw(X), 2, axis=1)
        cosine_bar, sine_bar = np.split(K_bar, 2, axis=-1)
        return (sine_bar * cosine - cosine_bar * sine) @ self.frequencies

    def residual_variance(self, X: Array, V: Array, signal: Scalars) -> Array:
        """Zero variance (n,): the features are complete."""
        return np.zeros(len(X))

    def residual_covariance(self, X: Array, V: Array) -> Array:
        """Zero covariance (n, n): the features are complete."""
        return np.zeros((len(X), len(X)))
