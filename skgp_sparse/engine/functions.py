"""Functions drawn from a posterior, each the same function in all calls, and Sobol indices.

By Matheron's rule (Wilson et al. 2020), a sample of the posterior is a sample of the prior that is
corrected at the inducing points. With random Fourier features φ of the kernel, normal weights w,
and a sample v of the weights of the process given the data, in which the inducing points have the
values ``L v`` beside their mean ``Kuu u``,

    f(x) = φ(x) w + k(x, Z) c,        c = u + L⁻ᵀ (v - L⁻¹ φ(Z) w).

Only the prior between the inducing points is approximate. Of the exact process, these are all rows.

Sobol indices of the posterior mean (`sobol_indices`) say how much each column matters.
"""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import qmc

from skgp_sparse import kernels
from skgp_sparse.data.arrays import ArrayDataset
from skgp_sparse.data.dataset import Dataset, row_blocks
from skgp_sparse.data.moments import TargetScaler
from skgp_sparse.engine.basis import Features
from skgp_sparse.engine.posterior import Posterior, float64
from skgp_sparse.ground.linalg import weighted_quantile
from skgp_sparse.ground.parallel import for_each, resolve_n_jobs, single_threaded_blas
from skgp_sparse.ground.validation import Array, ArrayLike, Ints, Kernel, Pair

_ROWS, _VALUES = 20_000, 512  # rows that tell how columns are distributed, by so many quantiles
_NEIGHBORS = 30  # of a prediction, where there are more: quick, and as good for shares
_SEQUENCES, _POINTS = 8, 1024  # of an estimate, and of each sequence


class SobolIndices(NamedTuple):
    """Indices of every column, and standard errors."""

    first: Array  # (d,)
    total: Array  # (d,)
    error: Array  # (2, d) of both


# Quantiles are values of rows, so that codes and missing values are among them as often as in rows.
def quantiles_of_columns(tables: Sequence[Dataset | None]) -> Array | None:
    """Quantiles (k, d) of every column of the inputs of tables; None where they are not known."""
    size = max(_ROWS // len(tables), 1)
    parts = [_some_of(rows, size) for rows in tables if isinstance(rows, ArrayDataset)]
    if len(parts) < len(tables):
        return None
    X, weight = map(np.concatenate, zip(*parts))
    levels = (np.arange(_VALUES) + 0.5) / _VALUES
    return np.stack([weighted_quantile(x, weight, levels) for x in X.T], axis=1)


def _some_of(rows: ArrayDataset, size: int) -> Pair:
    """Inputs (k, d) as users know them, and weights (k,)."""
    X, weight = rows.inputs(), rows.row_weights()
    if rows.places is not None:  # equal rows have a weight together
        copies = np.bincount(rows.places + 1, minlength=len(rows) + 1)[1:]
        weight = np.where(rows.places < 0, 0.0, (weight / copies)[rows.places])
    some = np.random.RandomState(0).permutation(len(X))[:size]
    return np.asarray(X[some], float), weight[some]


# With columns that are independent, and distributed as those of the training rows, the
# first-order index of column j is the share of the variance that it explains alone, and the total
# index the share that is lost without it:
#
#     S_j = Var E[f | x_j] / Var f,        T_j = E Var[f | all others] / Var f.
#
# They are estimated by evaluations of f at points of a Sobol sequence (Saltelli et al. 2010;
# Jansen 1999).
def sobol_indices(processes: list[Posterior], quantiles: Array, n_jobs: int | None) -> SobolIndices:
    """`SobolIndices` of the means of processes, weighted by their variances."""
    quick = [process.with_fewer_neighbors(_NEIGHBORS) for process in processes]
    threads = resolve_n_jobs(n_jobs)
    with single_threaded_blas(), np.errstate(all="ignore"):
        found = np.array([_parts(quick, quantiles, seed, threads) for seed in range(_SEQUENCES)])
    parts, variance = found[:, :2], found[:, 2]
    whole = variance.mean(axis=0)
    if not np.isfinite(whole).all():
        raise ValueError(
            "The variance of the mean over the rows is not finite, so that there are no Sobol "
            "indices. The values of X are too large for the kernel. Rescale X."
        )
    whole = np.where(whole > 0.0, whole, 1.0)  # of a constant all parts are 0
    mean = np.maximum(parts.mean(axis=0) / whole, 0.0)
    apart = (parts - mean * variance[:, None]) / whole  # what a sequence says beyond its variance
    return SobolIndices(mean[0], mean[1], np.std(apart, axis=0, ddof=1) / np.sqrt(_SEQUENCES))


def _parts(processes: Sequence[Posterior], columns: Array, seed: int, threads: int) -> Array:
    """Variances (3, d) explained by each column, lost without it, and of all, by one sequence."""
    k, d = columns.shape
    places = np.minimum((qmc.Sobol(2 * d, seed=seed).random(_POINTS) * k).astype(int), k - 1)
    A, B = (columns[half, np.arange(d)] for half in (places[:, :d], places[:, d:]))

    def mean(X: Array) -> Array:
        return np.concatenate([process.mean(X, threads) for process in processes], axis=1)

    f_A, f_B = mean(A), mean(B)
    centre = 0.5 * (f_A.mean(axis=0) + f_B.mean(axis=0))
    variance = 0.5 * np.sum((f_A - centre) ** 2 + (f_B - centre) ** 2)
    change = [mean(np.where(np.arange(d) == j, B, A)) - f_A for j in range(d)]
    first = [np.sum((f_B - centre) * one) for one in change]
    return np.array([first, [0.5 * np.sum(one**2) for one in change], [variance] * d]) / _POINTS


@dataclass(eq=False, repr=False)
class SampledFunctions:
    """Functions of the inputs, drawn from the posterior of the latent process, in units of y.

    Call it with inputs, as in ``functions(X)``, to evaluate all functions at once. ``functions[i]``
    is one of them, and ``len(functions)`` is their number.

    Parameters
    ----------
    harmonics : Harmonics
        Features φ.
    weights : ndarray of shape (n_components, c)
        The weights w of all functions, in units of y.
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel of the process.
    Z : ndarray of shape (m, d)
        Inducing points, or training rows.
    coefficients : ndarray of shape (m, c)
        Of ``k(x, Z)``, in units of y.
    shape : tuple
        That of values of one row: ``(k,)``, or ``(n_targets, k)``.

    Attributes
    ----------
    mean : ndarray of shape (c,)
        What is added to the functions, in units of y.
    check : callable
        Makes numbers of inputs as users have them, or raises.
    shared : PosteriorWithMean or None
        Posterior whose mean all functions of a target share; the functions are deviations from it.
    factors : ndarray of shape (p, c)
        What each function has of the mean of every target.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse import SparseGPRegressor
    >>> X = np.linspace(0, 10, 50)[:, None]
    >>> model = SparseGPRegressor(random_state=0).fit(X, np.sin(X[:, 0]))
    >>> functions = model.sample_functions(3, random_state=0)
    >>> len(functions), functions(X).shape, functions[0](X).shape
    (3, (50, 3), (50,))
    """

    harmonics: Features
    weights: Array
    kernel: Kernel
    Z: Array
    coefficients: Array
    shape: tuple[int, ...]

    is_one = False  # of several
    shared: Any = field(default=None, init=False)
    check: Callable[[ArrayLike], Array] = field(init=False)

    def __post_init__(self) -> None:
        self.check = np.asarray
        self.mean, self.factors = np.zeros(self.weights.shape[1]), self.weights[:0]

    def __repr__(self) -> str:
        return f"<SampledFunctions, whose values of one row have the shape {self.shape}>"

    def __call__(self, X: ArrayLike) -> Array:
        """Return the values (n, k) or (n, n_targets, k) of all functions."""
        X = float64(self.check(X))
        values = np.empty((len(X), len(self.mean)))

        def fill(block: slice) -> None:
            np.matmul(self.harmonics.raw(X[block]), self.weights, out=values[block])
            values[block] += kernels.evaluate(self.kernel, X[block], self.Z) @ self.coefficients

        blocks = row_blocks(len(X), len(self.weights) + len(self.Z))
        with single_threaded_blas():
            for_each(fill, blocks, resolve_n_jobs(None))
        if self.shared is not None:
            mean, factor = self.shared.mean_and_factor(X)
            values = factor[:, None] * values + mean @ self.factors
        values += self.mean
        return values.reshape(len(X), *self.shape)

    def gradient(self, X: ArrayLike) -> Array:
        """Return the gradients of all functions with respect to the inputs.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Where the gradients are wanted.

        Returns
        -------
        ndarray of shape (n_samples, k, n_features) or (n_samples, n_targets, k, n_features)
            In units of y and of the columns.

        Raises
        ------
        ValueError
            If the functions share the prediction of another model that has an unknown gradient.
        """
        if self.shared is not None and not self.shared.is_flat:
            raise ValueError(
                "Sampled functions beside this mean have no gradient, as that of the mean is not "
                "known. Set mean to None, or to trees."
            )
        X = float64(self.check(X))
        slopes = np.empty((len(X), len(self.mean), X.shape[1]))
        for one, coefficients in enumerate(self.coefficients.T):
            pull = kernels.linearize(self.kernel, self.Z, X)[1]
            G = np.repeat(coefficients[:, None], len(X), axis=1)
            slopes[:, one] = self.harmonics.slopes(X, self.weights[:, one]) + pull(G, True)[1]
        if self.shared is not None:
            slopes = self._beside_mean(X, slopes)
        return slopes.reshape(len(X), *self.shape, slopes.shape[2])

    def __len__(self) -> int:
        if self.is_one:
            raise TypeError("This is one sampled function, which has no length. Draw several.")
        return self.shape[-1]

    def __getitem__(self, index: int | slice | Ints) -> "SampledFunctions":
        if self.is_one:
            raise TypeError("This is one sampled function. Call it with inputs.")
        chosen = np.arange(len(self.mean)).reshape(self.shape)[..., index]
        places = chosen.ravel()
        found = copy(self)
        found.weights, found.coefficients = self.weights[:, places], self.coefficients[:, places]
        found.mean, found.shape = self.mean[places], chosen.shape
        found.factors = self.factors[:, places]
        found.is_one = not isinstance(index, slice) and np.ndim(index) == 0
        return found

    def _beside_mean(self, X: Array, slopes: Array) -> Array:
        """Gradients (n, c, d), from those of deviations from the mean."""
        mean, factor = self.shared.mean_and_factor(X)
        mean_slope, factor_slope = self.shared.slopes_of_mean_and_factor(X)
        apart = self(X).reshape(len(X), -1) - self.mean - mean @ self.factors
        slopes = factor[:, None, None] * slopes
        slopes += (apart / factor[:, None])[:, :, None] * factor_slope[:, None]
        return slopes + np.einsum("npd,pc->ncd", mean_slope, self.factors)


def in_units(drawn: SampledFunctions, scaler: TargetScaler, check: Callable) -> SampledFunctions:
    """The `SampledFunctions` in units of y (p,), those of constant targets among them."""
    k, p, found = drawn.shape[-1], len(scaler.mean), copy(drawn)

    def scaled(weights: Array) -> Array:
        of_all = scaler.among_constants(weights.reshape(len(weights), scaler.n_varying, k))
        return (of_all * scaler.scale[:, None]).reshape(len(weights), p * k)

    of_all = drawn.weights, drawn.coefficients, drawn.factors
    found.weights, found.coefficients, found.factors = map(scaled, of_all)
    found.mean, found.shape = np.repeat(scaler.mean, k), (k,) if p == 1 else (p, k)
    found.check = check
    return found


def by_target(draws: Array, p: int) -> Array:
    """Draws (m, p k), all functions of a target together, from those that go on with k."""
    m = len(draws)
    return draws.reshape(m, -1, p).transpose(0, 2, 1).reshape(m, -1)
