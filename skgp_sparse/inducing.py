"""Methods to initialise the inducing points: ``(X, n_inducing, kernel, random_state) -> Z``.

`k_means` and `k_means_plus_plus` measure distances in the metric of the kernel: the inputs are
divided by the length scales, so that irrelevant inputs do not influence the clusters. `greedy` and
`rp_cholesky` use the values of the kernel, and stop when no residual variance is left. The residual
variance of a row is the prior variance that the chosen points leave unexplained. All methods return
distinct points. If X has fewer than `n_inducing` distinct rows, they return fewer points.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from skgp_sparse import kernels
from skgp_sparse.data.moments import Distinct, present_mean_and_spread, unique_rows
from skgp_sparse.ground.parallel import openmp_threads
from skgp_sparse.ground.validation import Array, Kernel, Rng, Triple

Weights = Array | None  # of rows

_LLOYD_ITERATIONS = 10  # a start, not a clustering
_OUTLYING = 2.0**30  # square of the largest distance from the mean, in length scales
_EXPLAINED = 1e-10  # residual variance, relative to the prior's, that needs no further point


def k_means(
    X: Array, n_inducing: int, kernel: Kernel, random_state: Rng, sample_weight: Weights = None
) -> Array:
    """Compute centres of k-means clusters in the metric of the kernel.

    A few iterations of Lloyd's algorithm start at the rows that `rp_cholesky` draws. If some rows
    are so far from the others that squared distances would lose their precision, or the kernel has
    categories, or values are missing, the drawn rows are returned.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Rows of the training inputs.
    n_inducing : int
        Maximum number of points to return.
    kernel : sklearn kernel
        Kernel whose length scales define the metric. `rp_cholesky` uses its values.
    random_state : RandomState
        Generator that draws the seeds.
    sample_weight : ndarray of shape (n,), default=None
        Sample weights. A row with weight w counts as w rows.

    Returns
    -------
    ndarray of shape (m, d)
        Distinct centres of the clusters.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skgp_sparse.inducing import k_means
    >>> X = np.repeat([[0.0], [1.0]], 10, axis=0)
    >>> np.sort(k_means(X, 2, RBF(), np.random.RandomState(0)).ravel())
    array([0., 1.])
    """
    from sklearn.cluster import KMeans

    centre, scale, scaled = _in_metric(X, kernel, sample_weight)
    fork = np.random.RandomState(random_state.randint(2**31 - 1))
    seeds = rp_cholesky(X, n_inducing, kernel, fork, sample_weight)
    if kernels.categories(kernel, X.shape[1]) or np.isnan(X).any():
        return seeds
    if len(seeds) < n_inducing:  # the rank of the kernel ended it early
        seeds = k_means_plus_plus(X, n_inducing, kernel, random_state, sample_weight)
    start = np.where(kernels.touched(kernel, X.shape[1]), (seeds - centre) / scale, 0.0)
    if np.max(np.einsum("ij,ij->i", scaled, scaled)) > _OUTLYING:
        return unique_rows(seeds)
    clusters = KMeans(len(start), init=start, n_init=1, max_iter=_LLOYD_ITERATIONS)
    with openmp_threads():  # its sums depend on the number of threads
        clusters.fit(scaled, sample_weight=sample_weight)
    return unique_rows(clusters.cluster_centers_) * scale + centre


def k_means_plus_plus(
    X: Array, n_inducing: int, kernel: Kernel, random_state: Rng, sample_weight: Weights = None
) -> Array:
    """Choose rows that are spread out, by k-means++ seeding in the metric of the kernel.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Rows of the training inputs.
    n_inducing : int
        Maximum number of points to return.
    kernel : sklearn kernel
        Kernel whose length scales define the metric.
    random_state : RandomState
        Generator that draws the rows.
    sample_weight : ndarray of shape (n,), default=None
        Sample weights. A row with weight w counts as w rows.

    Returns
    -------
    ndarray of shape (m, d)
        Distinct rows of X.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skgp_sparse.inducing import k_means_plus_plus
    >>> X = np.array([[0.0], [0.1], [5.0], [5.1]])
    >>> np.sort(k_means_plus_plus(X, 2, RBF(), np.random.RandomState(0)).ravel().round())
    array([0., 5.])
    """
    from sklearn.cluster import kmeans_plusplus

    _, _, scaled = _in_metric(X, kernel, sample_weight)
    _, chosen = kmeans_plusplus(
        scaled, min(n_inducing, len(X)), sample_weight=sample_weight, random_state=random_state
    )
    return unique_rows(X[chosen])


def random(
    X: Array, n_inducing: int, kernel: Kernel, random_state: Rng, sample_weight: Weights = None
) -> Array:
    """Draw distinct rows at random, with probability proportional to their weight.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Rows of the training inputs.
    n_inducing : int
        Maximum number of points to return.
    kernel : sklearn kernel
        Not used.
    random_state : RandomState
        Generator that draws the rows.
    sample_weight : ndarray of shape (n,), default=None
        Sample weights. A row with weight w counts as w rows.

    Returns
    -------
    ndarray of shape (m, d)
        Distinct rows of X.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skgp_sparse.inducing import random
    >>> X = np.repeat([[0.0], [1.0]], 10, axis=0)
    >>> random(X, 5, RBF(), np.random.RandomState(0)).ravel()
    array([0., 1.])
    """
    distinct = Distinct(X)
    mass, size = distinct.copies(sample_weight), min(n_inducing, len(distinct.first))
    return X[np.sort(random_state.choice(distinct.first, size, replace=False, p=mass / mass.sum()))]


def greedy(
    X: Array, n_inducing: int, kernel: Kernel, random_state: Rng, sample_weight: Weights = None
) -> Array:
    """Choose the row with the largest residual variance, one row after the other.

    This is the pivoted Cholesky factorisation of Burt, Rasmussen and van der Wilk (2020),
    "Convergence of sparse variational inference in Gaussian processes regression", section 4. It
    takes O(n m²) time and O(n m) memory.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Rows of the training inputs.
    n_inducing : int
        Maximum number of points to return.
    kernel : sklearn kernel
        Kernel that defines the residual variances.
    random_state : RandomState
        Not used.
    sample_weight : ndarray of shape (n,), default=None
        Not used.

    Returns
    -------
    ndarray of shape (m, d)
        Distinct rows of X, in the order in which they were chosen.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skgp_sparse.inducing import greedy
    >>> X = np.arange(4.0)[:, None]
    >>> greedy(X, 2, RBF(), np.random.RandomState(0)).ravel()
    array([0., 3.])
    """
    return X[_pivots(X, n_inducing, kernel, np.argmax)]


def rp_cholesky(
    X: Array, n_inducing: int, kernel: Kernel, random_state: Rng, sample_weight: Weights = None
) -> Array:
    """Draw rows one by one, with probability proportional to their residual variance.

    This is the randomly pivoted Cholesky factorisation of Chen, Epperly, Tropp and Webber (2025),
    "Randomly pivoted Cholesky: Practical approximation of a kernel matrix with few entry
    evaluations". It is less sensitive to outliers than `greedy`, because it draws more points where
    there are many rows. It needs the same time and memory.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Rows of the training inputs.
    n_inducing : int
        Maximum number of points to return.
    kernel : sklearn kernel
        Kernel that defines the residual variances.
    random_state : RandomState
        Generator that draws the rows.
    sample_weight : ndarray of shape (n,), default=None
        Sample weights. The probability of a row is multiplied by its weight.

    Returns
    -------
    ndarray of shape (m, d)
        Distinct rows of X, in the order in which they were drawn.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skgp_sparse.inducing import rp_cholesky
    >>> X = np.array([[0.0], [0.1], [5.0], [5.1]])
    >>> np.sort(rp_cholesky(X, 2, RBF(), np.random.RandomState(0)).ravel().round())
    array([0., 5.])
    """
    return X[_pivots(X, n_inducing, kernel, _drawing(random_state, sample_weight))]


def n_points_within(
    X: Array, residual_variance: float, most: int, kernel: Kernel, random_state: Rng
) -> int:
    """Count the points of `rp_cholesky` that leave at most a mean residual variance.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Rows of the training inputs.
    residual_variance : float
        Mean over the rows that may be left.
    most : int
        Number that is returned where fewer points leave more.
    kernel : sklearn kernel
        Kernel that defines the residual variances.
    random_state : RandomState
        Generator that draws the rows.

    Returns
    -------
    int
        Number of points.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skgp_sparse.inducing import n_points_within
    >>> X = np.linspace(0, 10, 200)[:, None]
    >>> [n_points_within(X, v, 100, RBF(), np.random.RandomState(0)) for v in (0.5, 0.01)]
    [4, 12]
    """
    left = (np.mean(residual) for _, residual in _steps(X, most, kernel, _drawing(random_state)))
    return next((k for k, mean in enumerate(left, 1) if mean <= residual_variance), most)


def _drawing(random_state: Rng, sample_weight: Weights = None) -> Callable[[Array], Any]:
    """Draws a row with probability proportional to its weight and residual variance."""
    weight = 1.0 if sample_weight is None else sample_weight

    def draw(residual: Array) -> Any:
        mass = np.cumsum(weight * residual)
        return np.searchsorted(mass, random_state.uniform() * mass[-1], side="right")

    return draw


def _pivots(X: Array, n_inducing: int, kernel: Kernel, choose: Callable) -> list[int]:
    """Indices of the pivots of a partial Cholesky factorisation of the kernel matrix of X."""
    # row 0 if the kernel is zero everywhere
    return [pivot for pivot, _ in _steps(X, n_inducing, kernel, choose)] or [0]


def _steps(X: Array, most: int, kernel: Kernel, choose: Callable) -> Iterator[tuple[int, Array]]:
    """The pivots one by one, each with the residual variances (n,) that it leaves."""
    residual = np.array(np.broadcast_to(kernels.diagonal(kernel, X)[0], len(X)))
    enough = _EXPLAINED * residual.max()
    factor = np.empty((min(most, len(X)), len(X)))
    for k, row in enumerate(factor):
        if not residual.max() > enough:
            return
        pivot = min(int(choose(residual)), len(X) - 1)
        column = kernels.evaluate(kernel, X, X[pivot : pivot + 1])[:, 0]
        done = factor[:k]
        np.divide(column - done[:, pivot] @ done, np.sqrt(residual[pivot]), out=row)
        residual = np.maximum(residual - row**2, 0.0)
        residual[pivot] = 0.0
        yield pivot, residual


BY_NAME = {
    "k-means": k_means,
    "k-means++": k_means_plus_plus,
    "random": random,
    "greedy": greedy,
    "rp-cholesky": rp_cholesky,
}


def _in_metric(X: Array, kernel: Kernel, sample_weight: Weights) -> Triple:
    centre, spread = present_mean_and_spread(X, sample_weight)
    scale = kernels.length_scales(kernel, np.where(spread > 0, spread, 1.0))
    matters = kernels.touched(kernel, X.shape[1])
    return centre, scale, np.where(matters & ~np.isnan(X), (X - centre) / scale, 0.0)
