"""Where inducing points start: ``(X, n_inducing, kernel, random_state) -> Z``.

Distances are taken in the kernel's own metric, inputs divided by their length scales: where many
inputs are irrelevant, clusters of the raw inputs waste their points. All of them return distinct
points, and fewer than asked for where the rows hold no more.
"""

import numpy as np

from skgp_sparse import kernels

_LLOYD_ITERATIONS = 10  # a start, not a clustering
_EXPLAINED = 1e-10  # residual variance, relative to the prior's, that needs no further point


def k_means(X, n_inducing, kernel, random_state, sample_weight=None):
    """Centres of k-means clusters in the kernel's metric.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    n_inducing : int
    kernel : sklearn kernel
        Its length scales are the metric.
    random_state : RandomState
    sample_weight : ndarray of shape (n,) or None

    Returns
    -------
    ndarray of shape (n_inducing, d)

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
    start = scaled[_distinct_random(scaled, n_inducing, random_state, sample_weight)]
    clusters = KMeans(len(start), init=start, n_init=1, max_iter=_LLOYD_ITERATIONS)
    clusters.fit(scaled, sample_weight=sample_weight)
    return np.unique(clusters.cluster_centers_, axis=0) * scale + centre


def k_means_plus_plus(X, n_inducing, kernel, random_state, sample_weight=None):
    """Rows spread out by k-means++ seeding in the kernel's metric; see `k_means`."""
    from sklearn.cluster import kmeans_plusplus

    _, _, scaled = _in_metric(X, kernel, sample_weight)
    _, chosen = kmeans_plusplus(
        scaled, min(n_inducing, len(X)), sample_weight=sample_weight, random_state=random_state
    )
    return np.unique(X[chosen], axis=0)


def random(X, n_inducing, kernel, random_state, sample_weight=None):
    """Distinct rows drawn at random, by weight; see `k_means`."""
    return X[_distinct_random(X, n_inducing, random_state, sample_weight)]


def greedy(X, n_inducing, kernel, random_state, sample_weight=None):
    """Rows of largest residual variance, one after the other; see `k_means`.

    Pivoted Cholesky factorisation: Burt, Rasmussen and van der Wilk (2020), "Convergence of sparse
    variational inference in Gaussian processes regression", section 4. Takes O(n m²) time and
    O(n m) memory.
    """
    residual = np.array(np.broadcast_to(kernels.diagonal(kernel, X)[0], len(X)))
    enough = _EXPLAINED * residual.max()
    factor = np.empty((n_inducing, len(X)))
    chosen = []
    while len(chosen) < n_inducing and residual.max() > enough:
        pivot = int(residual.argmax())
        column = kernels.evaluate(kernel, X, X[pivot : pivot + 1])[:, 0]
        done = factor[: len(chosen)]
        row = factor[len(chosen)]
        np.divide(column - done[:, pivot] @ done, np.sqrt(residual[pivot]), out=row)
        residual = np.maximum(residual - row**2, 0.0)
        residual[pivot] = 0.0
        chosen.append(pivot)
    return X[chosen]


BY_NAME = {
    "k-means": k_means,
    "k-means++": k_means_plus_plus,
    "random": random,
    "greedy": greedy,
}


def _in_metric(X, kernel, sample_weight):
    centre = np.average(X, axis=0, weights=sample_weight)
    spread = np.sqrt(np.average((X - centre) ** 2, axis=0, weights=sample_weight))
    scale = kernels.metric(kernel, np.where(spread > 0, spread, 1.0))
    return centre, scale, (X - centre) / scale


def _distinct_random(X, n_inducing, random_state, sample_weight):
    _, first, index = np.unique(X, axis=0, return_index=True, return_inverse=True)
    mass = np.bincount(index.ravel(), sample_weight)
    size = min(n_inducing, len(first))
    return np.sort(first[random_state.choice(len(first), size, replace=False, p=mass / mass.sum())])
