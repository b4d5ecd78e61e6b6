"""The contract of a posterior, and what all posteriors share.

A posterior says what the latent value is at any rows, its mean and its spread, whatever it was
inferred with: nothing yet, all training rows, or inducing points. What differs is what it keeps and
what a prediction costs.

Means, variances and covariances are required. Other questions are optional: `Posterior.answers`
names those that a posterior answers, and each of the others raises `NotAvailable`.

Beside it stand the process before any data, inputs in a metric ``x -> W x``, and several
independent processes, as of the classes of a softmax.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import lapack

from skgp_sparse import kernels
from skgp_sparse.data.dataset import Dataset, row_blocks
from skgp_sparse.exceptions import warn
from skgp_sparse.ground.linalg import cholesky
from skgp_sparse.ground.parallel import ordered_map
from skgp_sparse.ground.validation import AnyArray, Array, Ints, Kernel, Pair, Rng, Scalars

JOINT_ROWS = 4096  # largest covariance that is factorised for samples
LEAVE_ONE_OUT, GRADIENTS, FUNCTIONS = "leave_one_out", "gradients", "sample_functions"
NORMALS, BOUNDS = "predict_normals", "evidence_bounds"
_REMEDY = "Set posterior to 'exact' or 'inducing'."
_OF_NORMALS = "Set posterior to 'inducing', and n_inducing to less than the number of rows."
_INDEFINITE = "The covariance contains NaN or infinite values. Check X and the kernel."
_NEGATIVE_VARIANCE_TOLERANCE = 1e-6  # of the prior's variance: below, it is rounding
ROUNDED = 1e3 * np.finfo(float).eps  # of the prior's variance: below, a difference has no digits


class NotAvailable(ValueError):
    """Error of a question that a posterior does not answer; it says what to do instead.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse import SparseGPRegressor
    >>> from skgp_sparse.posteriors import Neighbors, NotAvailable
    >>> X = np.linspace(0, 5, 50)[:, None]
    >>> model = SparseGPRegressor(posterior=Neighbors(10), random_state=0).fit(X, np.sin(X[:, 0]))
    >>> try:
    ...     model.sample_functions(2)
    ... except NotAvailable as error:
    ...     print(error)  # doctest: +NORMALIZE_WHITESPACE
    SparseGPRegressor.sample_functions is not available for posterior_='neighbors'. Set posterior to
    'exact' or 'inducing'.
    """


class Slopes(NamedTuple):
    """Predictions and their gradients with respect to the query."""

    mean: Array  # (n, p)
    variance: Array  # (n,)
    mean_slope: Array  # (n, p, d)
    variance_slope: Array  # (n, d)


class RowTerms(NamedTuple):
    """How training rows entered a posterior: the Gaussian factor of each of them."""

    bound: Any = None  # whose share of the residual variance is noise; None: no residual
    site_method: Any = None  # of inference, of sites; None: the noise is Gaussian
    sites: Array | Any = None  # (2, c, n) natural parameters, where the method keeps them
    cavities: Callable[[Ints], Pair] | None = None  # mean and variance of chosen


class Posterior(ABC):
    """The posterior of a latent Gaussian process: the contract of everything that predicts.

    Targets are standardised, and variances are those of the latent value, without white noise. X
    (n, d) may have any type of numbers: blocks of its rows become float64. Of several targets the
    posterior is the same but for its mean, (n, p) with variances (n,) and covariances (n, n);
    several independent processes have an axis of their own, the last one, in everything: (n, k),
    (n, n, k).

    A posterior can be pickled, and predicts the same numbers to the last bit then, whatever
    `n_jobs` is. It keeps what its predictions need: no training rows but those that it says.

    Attributes
    ----------
    kernel : sklearn kernel, its white noise included
        Kernel of the process before any data. No variance is larger than this kernel's, unless
        sites have negative precisions.
    name : str
        Name that users see as `posterior_`.
    answers : frozenset of str
        Names of the optional methods that it has.
    remedy : str
        What a user may do to have a question answered that it does not answer; "": the usual.
    width : int
        Number of floats that a prediction computes per query (and process).
    n_rows_kept : int
        Number of training rows that a pickle of it holds; 0 where inducing points stand for them.
    holds_rows : bool
        Whether predictions are made from training rows, in memory or not.
    is_exact : bool
        Whether it is that of all rows without approximation, so that its value is the evidence.
    metric : ndarray of shape (r, d) or None
        Matrix W, where inputs are transformed to ``W x``.
    factor : float
        Factor by which variances were calibrated.
    points : tuple of ndarray or None
        Points Z (m, d) and weights u (m, p), where the mean is ``k(x, Z) u``; None elsewhere.

    Examples
    --------
    >>> from skgp_sparse.posteriors import Posterior
    >>> sorted(Posterior.__abstractmethods__)
    ['covariance', 'mean', 'mean_and_variance']
    """

    kernel: Kernel
    name: str = ""
    answers: frozenset[str] = frozenset()
    remedy: str = ""
    width: int
    n_rows_kept: int = 0
    holds_rows: bool = False
    is_exact: bool = False
    metric: Array | None = None
    factor: float = 1.0
    points: Pair | Any = None

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
    def mean_and_variance(self, X: AnyArray, n_jobs: int = 1) -> Pair:
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

    def moments(self, X: AnyArray, n_jobs: int = 1) -> tuple[Array, Array, Array]:
        """Predict means, latent variances, and variances of the noise.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Rows of a query.
        n_jobs : int
            Number of threads.

        Returns
        -------
        mean, variance : ndarray
            As of `mean_and_variance`.
        noise : ndarray of shape (n,)
            Learned noise, as of `noise_variance`.
        """
        return (*self.mean_and_variance(X, n_jobs), noise_in_blocks(self, X))

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

    def deviations(self, X: AnyArray, n_samples: int, random_state: Rng) -> Array:
        """Draw samples minus their mean.

        They are joint over all rows where there are few. Beyond 4096 rows, a posterior may leave
        out correlations that it hardly has; by default, it leaves out all.

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
        if len(X) <= JOINT_ROWS:
            return joint_deviations(self, X, n_samples, random_state)
        std = np.sqrt(self.mean_and_variance(X)[1])
        return std[:, None] * random_state.normal(size=(n_samples, len(X))).T

    def noise_variance(self, X: AnyArray) -> Scalars:
        """Compute the learned noise, which is part of the kernel.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Rows of a query.

        Returns
        -------
        float or ndarray of shape (n,)
            Variances of the noise.
        """
        return kernels.diagonal(self.kernel, float64(X))[1]

    def prior_variance(self, X: AnyArray) -> Scalars:
        """Compute the variance of the process before any data, without noise.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Rows of a query.

        Returns
        -------
        float or ndarray of shape (n,)
            Variances of the latent value.
        """
        return kernels.diagonal(self.kernel, in_metric(self.metric, X))[0]

    def why_not(self, question: str) -> str | None:
        """Say why a question has no answer.

        Parameters
        ----------
        question : str
            Name of an optional method.

        Returns
        -------
        str or None
            Rest of a sentence that begins with what was asked; None if there is an answer.
        """
        if question in self.answers:
            return None
        remedy = self.remedy or (_OF_NORMALS if question == NORMALS else _REMEDY)
        return f"is not available for posterior_={self.name!r}. {remedy}"

    def leave_one_out(self, rows: Dataset, chosen: Ints, terms: RowTerms, n_jobs: int = 1) -> Pair:
        """Predict training rows, each given all others.

        Parameters
        ----------
        rows : Dataset
            All rows that the posterior was given.
        chosen : ndarray of shape (k,)
            Sorted numbers of the rows that are left out, whose weights are positive.
        terms : RowTerms
            How the rows entered the posterior.
        n_jobs : int
            Number of threads.

        Returns
        -------
        mean : ndarray of shape (k, p)
            Means of the standardised targets.
        variance : ndarray of shape (k,) or (k, p)
            Latent variances.

        Raises
        ------
        NotAvailable
            If the posterior does not know its rows one by one.
        """
        raise self._not_available(LEAVE_ONE_OUT)

    def gradients(self, X: AnyArray, latent: bool, n_jobs: int = 1) -> Slopes:
        """Predict, and differentiate the predictions with respect to the query.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Rows of a query.
        latent : bool
            Whether variances leave out the noise of the kernel.
        n_jobs : int
            Number of threads.

        Returns
        -------
        Slopes
            Means, variances and their gradients.

        Raises
        ------
        NotAvailable
            If its derivatives are not known.
        """
        raise self._not_available(GRADIENTS)

    def sample_functions(self, n_functions: int, n_frequencies: int, random_state: Rng) -> Any:
        """Draw functions, each the same in all calls.

        Parameters
        ----------
        n_functions : int
            Number of functions, of each target.
        n_frequencies : int
            Number of random frequencies of the prior.
        random_state : RandomState
            Generator of all that is drawn.

        Returns
        -------
        SampledFunctions
            Functions in units of the standardised targets.

        Raises
        ------
        NotAvailable
            If its mean is no sum of kernels at points.
        """
        raise self._not_available(FUNCTIONS)

    def predict_normals(self, X: AnyArray, X_std: AnyArray, n_jobs: int = 1) -> Pair:
        """Predict at inputs that have a normal distribution each.

        Parameters
        ----------
        X, X_std : ndarray of shape (n, d)
            Means and standard deviations of the inputs.
        n_jobs : int
            Number of threads.

        Returns
        -------
        mean, variance : ndarray of shape (n, p)
            Moments of the latent value.

        Raises
        ------
        NotAvailable
            If there are no inducing points.
        """
        raise self._not_available(NORMALS)

    def with_fewer_neighbors(self, most: int) -> "Posterior":
        """Return a posterior that predicts more quickly, where it predicts from neighbours.

        Parameters
        ----------
        most : int
            Largest number of neighbours of a prediction.

        Returns
        -------
        Posterior
            The same posterior where there are no neighbours.
        """
        return self

    def _not_available(self, question: str) -> NotAvailable:
        reason = Posterior.why_not(self, question) or "is not available"
        return NotAvailable(f"{type(self).__name__}.{question} {reason}")


def require(posterior: Posterior, question: str, name: str) -> None:
    """Raise `NotAvailable` unless a posterior answers a question; `name` begins the message."""
    if (reason := posterior.why_not(question)) is not None:
        raise NotAvailable(f"{name} {reason}")


def noise_in_blocks(posterior: Posterior, X: AnyArray) -> Array:
    """Learned noise variance (n,), X read in blocks."""
    blocks = row_blocks(len(X), X.shape[1])
    parts = [np.broadcast_to(posterior.noise_variance(X[b]), b.stop - b.start) for b in blocks]
    return np.concatenate(parts)


def float64(X: AnyArray) -> Array:
    """The rows in double precision, C-ordered."""
    return np.ascontiguousarray(X, dtype=np.float64)


def by_blocks(function: Callable, X: AnyArray, blocks: Collection[slice], n_jobs: int) -> Array:
    """Results of a function of blocks of rows (b, d), joined, in the memory of a few blocks."""
    parts = list(ordered_map(lambda rows: function(float64(X[rows])), blocks, n_jobs))
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def joined(of_block: Callable, blocks: Collection, n_jobs: int) -> tuple[Any, ...]:
    """Arrays of all rows, from the tuples of arrays of blocks."""
    return tuple(np.concatenate(one) for one in zip(*ordered_map(of_block, blocks, n_jobs)))


def joint_deviations(posterior: Posterior, X: AnyArray, n_samples: int, random_state: Rng) -> Array:
    """Latent samples of mean zero."""
    R = root_of_covariance(posterior, X)
    return R @ random_state.normal(size=(n_samples, len(X))).T  # one sample after the other


def root_of_covariance(posterior: "Posterior", X: AnyArray) -> Array:
    """R (n, n), where ``R Rᵀ`` is the covariance, in which there is rounding of the prior."""
    covariance = posterior.covariance(X)
    try:
        return cholesky(covariance, failure=_INDEFINITE)
    except np.linalg.LinAlgError:
        unit = np.mean(kernels.diagonal(posterior.kernel, float64(X))[0])
        return pivoted_root(covariance, np.finfo(float).eps * unit)


# It ends where no more variance is left than `rounding`. A jitter, which would make C definite,
# would add to variances that are tiny.
def pivoted_root(C: Array, rounding: float) -> Array:
    """R with ``R Rᵀ = C`` for semi-definite C, by a Cholesky factorisation with pivots."""
    if not np.isfinite(C).all():
        raise np.linalg.LinAlgError(_INDEFINITE)
    L, order, rank, _ = lapack.dpstrf(C, tol=rounding, lower=1)
    R = np.zeros(C.shape)
    R[order - 1, :rank] = np.tril(L)[:, :rank]
    return R


def without_negative(variance: Array, signal: Scalars) -> Array:
    """The variances, at least rounding of the prior's; more below 0 is worth a warning."""
    if np.any(variance < -_NEGATIVE_VARIANCE_TOLERANCE * signal):
        warn("Predicted variances smaller than 0. Setting those variances to 0.")
    return np.maximum(variance, np.finfo(float).eps * signal)


@dataclass(frozen=True, eq=False)
class PosteriorAround(Posterior):
    """A posterior that asks another one at `inputs`, and makes `outputs` of its answer."""

    posterior: Posterior

    kernel = property(attrgetter("posterior.kernel"))
    name = property(attrgetter("posterior.name"))
    width = property(attrgetter("posterior.width"))
    n_rows_kept = property(attrgetter("posterior.n_rows_kept"))
    holds_rows = property(attrgetter("posterior.holds_rows"))
    factor = property(attrgetter("posterior.factor"))
    metric = property(attrgetter("posterior.metric"))

    def with_fewer_neighbors(self, most: int) -> Posterior:
        """The posterior, which predicts more quickly where it predicts from neighbours."""
        return replace(self, posterior=self.posterior.with_fewer_neighbors(most))

    def inputs(self, X: AnyArray) -> AnyArray:
        """Rows (n, d) that the other posterior is asked about."""
        return X

    def outputs(self, X: AnyArray, mean: Array, variance: Array, n_jobs: int = 1) -> Pair:
        """Own mean, and the latent variance of the other posterior, whose moments are given."""
        return self.mean(X, n_jobs), variance

    def mean(self, X: AnyArray, n_jobs: int = 1) -> Array:
        """Mean, in the shape of that of the posterior."""
        return self.posterior.mean(self.inputs(X), n_jobs)

    def mean_and_variance(self, X: AnyArray, n_jobs: int = 1) -> Pair:
        """Mean and latent variance, as of `outputs`."""
        return self.outputs(X, *self.posterior.mean_and_variance(self.inputs(X), n_jobs), n_jobs)

    def covariance(self, X: AnyArray) -> Array:
        """Latent covariance."""
        return self.posterior.covariance(self.inputs(X))

    def deviations(self, X: AnyArray, n_samples: int, random_state: Rng) -> Array:
        """Latent samples minus the mean."""
        return self.posterior.deviations(self.inputs(X), n_samples, random_state)


@dataclass(frozen=True, eq=False)
class Prior(Posterior):
    """The process before any data, of mean zero."""

    kernel: Kernel
    n_targets: int

    name = "prior"
    remedy = "Call fit first."
    width = 0

    def mean(self, X: AnyArray, n_jobs: int = 1) -> Array:
        """Zeros (n, p)."""
        return np.zeros((len(X), self.n_targets))

    def mean_and_variance(self, X: AnyArray, n_jobs: int = 1) -> Pair:
        """Zeros (n, p) and prior variance (n,)."""
        signal = kernels.diagonal(self.kernel, float64(X))[0]
        return self.mean(X), np.array(np.broadcast_to(signal, len(X)))

    def covariance(self, X: AnyArray) -> Array:
        """Prior covariance (n, n)."""
        X = float64(X)
        return kernels.evaluate(self.kernel, X, X).copy()

    def deviations(self, X: AnyArray, n_samples: int, random_state: Rng) -> Array:
        """Latent samples (n, n_samples) of mean zero, joint over all rows."""
        return joint_deviations(self, X, n_samples, random_state)


def in_metric(metric: Array | None, X: AnyArray) -> Array:
    """Inputs in a metric, float64; None: as they are."""
    return float64(X) if metric is None else float64(X) @ metric.T


def scale_of(kernel: Kernel, metric: Array | None, d: int) -> Array:
    """Units (r,) in which near is near, in a metric of d columns: the length scales of a kernel."""
    return kernels.length_scales(kernel, np.ones(d if metric is None else len(metric)))


def scaled_inputs(kernel: Kernel, metric: Array | None, scale: Array, X: AnyArray) -> Array:
    """Inputs in a metric, in units in which near is near."""
    return kernels.in_units(kernel, in_metric(metric, X), scale)


def _shared(name: str) -> property:
    """An attribute of `IndependentPosteriors` that all of them share."""
    return property(lambda self: getattr(self.each[0], name))


@dataclass(frozen=True, eq=False)
class IndependentPosteriors(Posterior):
    """Posteriors of independent processes with the same kernel and features."""

    each: tuple  # of `ExactPosterior` or `SparsePosterior`

    answers = frozenset([LEAVE_ONE_OUT])
    kernel, features, name = map(_shared, ("kernel", "features", "name"))
    width, n_rows_kept, holds_rows = map(_shared, ("width", "n_rows_kept", "holds_rows"))

    def mean(self, X: AnyArray, n_jobs: int = 1) -> Array:
        """Means (n, k)."""
        return np.hstack([one.mean(X, n_jobs) for one in self.each])

    def mean_and_variance(self, X: AnyArray, n_jobs: int = 1) -> Pair:
        """Means and latent variances, both (n, k)."""
        means, variances = zip(*(one.mean_and_variance(X, n_jobs) for one in self.each))
        return np.hstack(means), np.column_stack(variances)

    def covariance(self, X: AnyArray) -> Array:
        """Latent covariances (n, n, k)."""
        return np.stack([one.covariance(X) for one in self.each], axis=-1)

    def deviations(self, X: AnyArray, n_samples: int, random_state: Rng) -> Array:
        """Latent samples minus the means (n, n_samples, k)."""
        return np.stack([one.deviations(X, n_samples, random_state) for one in self.each], axis=-1)

    def leave_one_out(self, rows: Dataset, chosen: Ints, terms: RowTerms, n_jobs: int = 1) -> Pair:
        """Means and variances (k, c) of chosen rows, each given all others."""
        sites = np.split(terms.sites, len(self.each), axis=1)
        pairs = zip(self.each, (terms._replace(sites=own) for own in sites))
        found = [one.leave_one_out(rows, chosen, own, n_jobs) for one, own in pairs]
        means, variances = zip(*found)
        return np.hstack(means), np.column_stack(variances)
