"""What predicts: the contract of a process, and what all of them share.

A process says what the latent value is at any rows, its mean and its spread, whatever it was
inferred with: nothing yet, all training rows, or what inducing points say of them. What differs is
what it keeps and what a prediction costs.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from scipy.linalg import lapack
from sklearn.gaussian_process.kernels import Kernel

from skgp_sparse import kernels
from skgp_sparse._engine.table import Table
from skgp_sparse._ground.linalg import cholesky
from skgp_sparse._ground.parallel import ordered_map
from skgp_sparse._ground.typing import AnyArray, Array, Scalars
from skgp_sparse._ground.warnings import warn

JOINT_ROWS = 4096  # largest covariance that is factorised for samples
_INDEFINITE = "The covariance contains NaN or infinite values. Check X and the kernel."
_LEAST = 1e-12  # variance of the prior's, from which correlations are computed
_ROUNDING = 1e-6  # negative variances below this fraction of the prior's are rounding


class Process(ABC):
    """A Gaussian process to predict with.

    Targets are standardised, and variances are those of the latent value, without white noise. X
    (n, d) may have any type of numbers: blocks of its rows become float64. Of several targets the
    process is the same but for its mean, (n, p) with variances (n,) and covariances (n, n); several
    processes have an axis of their own, the last one, in everything: (n, k), (n, n, k).

    A process can be pickled, and predicts the same numbers to the last bit then, whatever `n_jobs`
    is. It keeps what its predictions want: no training rows but those that it says.

    Attributes
    ----------
    kernel : sklearn kernel, its white noise included
        Of the process before any data. No variance is larger than this kernel's, unless sites have
        negative precisions.
    kind : str
        What the data are given by: "prior" (no data), "exact", "inducing", "fourier",
        "neighbors" or "rows".
    width : int
        Numbers that a prediction computes per query (and process).
    n_rows_kept : int
        Training rows that a pickle of it holds; 0 where inducing points stand for them.
    metric : ndarray of shape (r, d) or None
        W, where inputs are seen as ``W x``.
    factor : float
        By which variances were calibrated.
    takes_normals : bool
        Whether `skgp_sparse._engine.normal_inputs` predicts where inputs have a distribution.
    """

    kernel: Kernel
    kind: str
    width: int
    n_rows_kept: int = 0
    metric: Array | None = None
    factor: float = 1.0
    takes_normals: bool = False

    def sees(self, rows: Table) -> Table:
        """Return a table as the process and its objective see it.

        Parameters
        ----------
        rows : Table
            Rows as the family has them.

        Returns
        -------
        Table
            The same table, or that of ``W x`` where the process has a metric.
        """
        return rows

    @abstractmethod
    def mean(self, X: AnyArray, n_jobs: int = 1) -> Array:
        """Predict means.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Rows of a query, of any type of numbers. They are neither kept nor changed.
        n_jobs : int
            Number of threads. The numbers do not depend on it.

        Returns
        -------
        ndarray of shape (n, p) or (n, k)
            Means, one column for each target or process.
        """

    @abstractmethod
    def mean_and_variance(self, X: AnyArray, n_jobs: int = 1) -> tuple[Array, Array]:
        """Predict means and variances.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Rows of a query, of any type of numbers. They are neither kept nor changed.
        n_jobs : int
            Number of threads. The numbers do not depend on it.

        Returns
        -------
        mean : ndarray of shape (n, p) or (n, k)
            Means, as of `mean`.
        variance : ndarray of shape (n,) or (n, k)
            Latent variances, which are never negative.
        """

    @abstractmethod
    def covariance(self, X: AnyArray) -> Array:
        """Compute the joint covariance of few rows.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Rows of a query, of any type of numbers. They are neither kept nor changed.

        Returns
        -------
        ndarray of shape (n, n) or (n, n, k)
            Latent covariances; the diagonal are the variances. It is a new array, which the caller
            may overwrite.
        """

    @abstractmethod
    def deviations(self, X: AnyArray, n_samples: int, random_state: np.random.RandomState) -> Array:
        """Draw samples minus their mean.

        They are joint over all rows where there are few. Beyond 4096 rows, a process may leave out
        correlations that its posterior hardly has.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Rows of a query, of any type of numbers. They are neither kept nor changed.
        n_samples : int
            Number of samples.
        random_state : RandomState
            Generator of all that is drawn, one sample after the other: with more samples, the first
            ones stay the same where samples are joint.

        Returns
        -------
        ndarray of shape (n, n_samples) or (n, n_samples, k)
            Latent samples of mean zero.
        """


def float64(X: AnyArray) -> Array:
    """The rows in double precision, C-ordered."""
    return np.ascontiguousarray(X, dtype=np.float64)


def by_blocks(
    function: Callable[[Array], Any], X: AnyArray, blocks: Iterable[slice], n_jobs: int
) -> Any:
    """What a function makes of blocks of rows (b, d), together: memory is that of a few blocks."""
    parts = list(ordered_map(lambda rows: function(float64(X[rows])), blocks, n_jobs))
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def joint_deviations(
    process: "Process", X: AnyArray, n_samples: int, random_state: np.random.RandomState
) -> Array:
    """Latent samples of mean zero."""
    R = root_of_covariance(process, X)
    return R @ random_state.normal(size=(n_samples, len(X))).T  # one sample after the other


def root_of_covariance(process: "Process", X: AnyArray) -> Array:
    """R (n, n), where ``R Rᵀ`` is the covariance, in which there is rounding of the prior."""
    covariance = process.covariance(X)
    try:
        return cholesky(covariance, failure=_INDEFINITE)
    except np.linalg.LinAlgError:
        unit = np.mean(kernels.diagonal(process.kernel, float64(X))[0])
        return pivoted_root(covariance, np.finfo(float).eps * unit)


def pivoted_root(C: Array, rounding: float) -> Array:
    """R with ``R Rᵀ = C`` for semi-definite C, by a Cholesky factorisation with pivots.

    It ends where no more variance is left than `rounding`. A jitter, which would make C definite,
    would add to variances that are tiny.
    """
    if not np.isfinite(C).all():
        raise np.linalg.LinAlgError(_INDEFINITE)
    L, order, rank, _ = lapack.dpstrf(C, tol=rounding, lower=1)
    R = np.zeros(C.shape)
    R[order - 1, :rank] = np.tril(L)[:, :rank]
    return R


def without_negative(variance: Array, signal: Scalars) -> Array:
    """The variances, rounding below 0 removed; more than rounding is worth a warning."""
    if np.any(variance < -_ROUNDING * signal):
        warn("Predicted variances smaller than 0. Setting those variances to 0.")
    return np.maximum(variance, 0.0)


def with_variances(cov: Array, variance: Array, unit: Scalars) -> Array:
    """The covariance with the correlations of `cov` and other variances.

    `unit` is the prior variance, in which variances of `cov` are rounded.
    """
    ratio = np.sqrt(variance / np.maximum(cov.diagonal(), _LEAST * unit))
    cov *= ratio * ratio[:, None]
    cov.flat[:: len(cov) + 1] = variance
    return cov
