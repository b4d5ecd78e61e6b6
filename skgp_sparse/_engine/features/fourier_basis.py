"""The basis of random Fourier features: cosines and sines at frequencies drawn from the kernel.

A kernel is a sum of terms with variances ``c`` (`skgp_sparse.kernels.spectrum`). With F frequencies
``w`` of a term, the features of a row are

    V = sqrt(c / F) [cos(w . (x - o)), sin(w . (x - o))],        VᵀV ≈ k,

and nothing is left of the process: it is linear in them. The origin o is a row, so that phases have
the size of distances between rows; no covariance depends on it. A term of a constant only has one
frequency, which is 0.

Frequencies are functions of the kernel and of standard draws, which stay: quantiles of a scrambled
Sobol sequence (Yang et al. 2014). A mean over draws of ``cos(w . (x - z))`` comes as close to the
kernel as these fill their space evenly.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri
from scipy.stats.qmc import Sobol

from skgp_sparse import kernels
from skgp_sparse._engine.features.basis import Basis, Features

_MOST_COLUMNS = 21_201  # of SciPy's Sobol sequences
_BITS = 30  # of their numbers


@dataclass(frozen=True, eq=False)
class FourierBasis(Basis):
    """Cosines and sines at frequencies that move with the hyperparameters of a kernel.

    Parameters
    ----------
    normal : ndarray of shape (n_frequencies, n_factors, d)
        Normal draws; those of a term with fewer factors are not used.
    levels : ndarray of shape (n_frequencies, n_factors)
        Uniform draws.
    counts : tuple of int
        Frequencies of each term of the kernel.
    origin : ndarray of shape (d,)
    """

    normal: np.ndarray
    levels: np.ndarray
    counts: tuple
    origin: np.ndarray

    size = property(lambda self: 2 * len(self.normal))

    @staticmethod
    def drawn(kernel, n_frequencies, origin, random_state):
        """The basis with random frequencies of a kernel, evenly shared by its terms."""
        terms, d = kernels.spectrum(kernel), len(origin)
        counts, k = shares(terms, n_frequencies), max(1, *(len(term.factors) for term in terms))
        parts = [sobol_draws(count, k, d, random_state) for count in counts]
        normal, levels = map(np.concatenate, zip(*parts))
        return FourierBasis(normal, levels, counts, origin)

    def at(self, kernel, options):
        """`Harmonics` at a kernel."""
        frequencies, amplitudes = np.empty_like(self.normal[:, 0]), []
        for term, rows in self.terms(kernel):
            frequencies[rows] = term.frequencies(self.normal[rows], self.levels[rows])
            count = rows.stop - rows.start
            amplitudes += count * [np.sqrt(term.variance() / count)]
        return Harmonics(kernel, self, frequencies, np.array(amplitudes))

    def terms(self, kernel):
        """Pairs of a term of the kernel and the rows that its draws have."""
        edges = np.cumsum((0, *self.counts))
        return zip(kernels.spectrum(kernel), map(slice, edges[:-1], edges[1:]))


def sobol_draws(n, k, d, random_state):
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


def shares(terms, n_frequencies):
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
class Harmonics(Features):
    """Cosines and sines at one kernel.

    Parameters
    ----------
    kernel : sklearn kernel, its white noise included
    basis : FourierBasis
    frequencies : ndarray of shape (n_frequencies, d)
        In radians per unit of X.
    amplitudes : ndarray of shape (n_frequencies,)
        Of the cosine and the sine.
    """

    kernel: object
    basis: FourierBasis
    frequencies: np.ndarray
    amplitudes: np.ndarray

    complete = True
    kind = "fourier"

    size = property(lambda self: 2 * len(self.frequencies))

    def raw(self, X):
        """Cosines, and then sines (n, m)."""
        phase, V = (X - self.basis.origin) @ self.frequencies.T, np.empty((len(X), self.size))
        for function, half in zip((np.cos, np.sin), np.split(V, 2, axis=1)):
            function(phase, out=half)
            half *= self.amplitudes
        return V

    def linearise(self, X):
        """The features, and what `pull` wants: inputs and features."""
        V = self.raw(X)
        return V, (X, V)

    def pull(self, tape, K_bar, inputs):
        """Gradient wrt theta, through phases and amplitudes."""
        (X, V), basis = tape, self.basis
        (cosine, sine), (cosine_bar, sine_bar) = (np.split(M, 2, axis=1) for M in (V, K_bar))
        frequency_bar = (sine_bar * cosine - cosine_bar * sine).T @ (X - basis.origin)
        amplitude_bar = 0.5 * np.einsum("ij,ij->j", K_bar, V).reshape(2, -1).sum(axis=0)
        theta_bar = np.zeros(len(self.kernel.theta))
        for term, rows in basis.terms(self.kernel):
            draws = basis.normal[rows], basis.levels[rows]
            term.pull(*draws, frequency_bar[rows], amplitude_bar[rows].sum(), theta_bar)
        return theta_bar, 0.0

    def slopes(self, X, K_bar):
        """Gradient wrt the rows, through their phases."""
        cosine, sine = np.split(self.raw(X), 2, axis=1)
        cosine_bar, sine_bar = np.split(K_bar, 2, axis=-1)
        return (sine_bar * cosine - cosine_bar * sine) @ self.frequencies

    def residual_variance(self, X, V, signal):
        """Zero variance (n,): the features are complete."""
        return np.zeros(len(X))

    def residual_covariance(self, X, V):
        """Zero covariance (n, n): the features are complete."""
        return np.zeros((len(X), len(X)))
