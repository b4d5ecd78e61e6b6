"""Variograms: how much targets differ at a distance, in the rows and in the fitted kernel."""

from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.distance import pdist, squareform

from skgp_sparse import kernels
from skgp_sparse._engine.predictions.metric import in_metric
from skgp_sparse._engine.predictions.posterior_with_drift import covariance_of_residuals
from skgp_sparse._ground.typing import Array, Ints
from skgp_sparse._ground.validation import check_number

_MOST_ROWS = 2000  # whose pairs are counted
_SHARE = 1.0 / 3.0  # of the diagonal of all inputs, up to which pairs are counted


class Variogram(NamedTuple):
    """Half of the mean squared differences of targets, by distance; see `variogram`.

    Parameters
    ----------
    distance : ndarray of shape (k,)
        Mean distance of the pairs of a bin.
    empirical : ndarray of shape (k,)
        Half of the mean of their squared differences, in units of y².
    fitted : ndarray of shape (k,)
        Expected value of it under the fitted kernel, noise included.
    n_pairs : ndarray of shape (k,)
        Number of pairs of a bin.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse import SparseGPRegressor
    >>> X = np.random.RandomState(0).uniform(0, 20, size=(300, 1))
    >>> y = np.sin(X[:, 0])
    >>> found = SparseGPRegressor(random_state=0).fit(X, y).variogram(X, y, n_bins=5)
    >>> found.distance.round(1), int(found.n_pairs.sum()) < 300 * 299 / 2
    (array([0.7, 2. , 3.3, 4.6, 5.9]), True)
    """

    distance: Array
    empirical: Array
    fitted: Array
    n_pairs: Ints


def variogram_of(
    view: Any,
    X: Array,
    y: Array,
    n_drift: int,
    trend: Array | None,
    n_bins: Any,
    max_distance: Any,
    name: str,
) -> Variogram:
    """Compute the `Variogram` of rows beside that of a fit.

    Parameters
    ----------
    view : TargetView
    X : ndarray of shape (n, d)
    y : ndarray of shape (n, 1)
        Targets minus the mean of the fit.
    n_drift : int
        Number of columns of a drift, which the kernel sees after those of X.
    trend : ndarray of shape (n, q) or None
        Columns of which a linear function was fitted to these rows and subtracted. What is left
        varies less than the process.
    n_bins : int
    max_distance : float or None
    name : str
        Of the method, for errors.
    """
    check_number(n_bins, "n_bins", name, Integral, low=1)
    if not view.one_column:
        raise ValueError(f"{name} needs one target. Got {len(view.units.mean)}. Fit one at a time.")
    if np.isnan(X).any():
        raise ValueError(f"{name} needs distances, but X has missing values. Leave these rows out.")
    if max_distance is None:
        max_distance = _SHARE * np.linalg.norm(np.ptp(X, axis=0))
    check_number(max_distance, "max_distance", name, Real, low=0.0)
    if len(X) > _MOST_ROWS:
        some = np.random.RandomState(0).permutation(len(X))[:_MOST_ROWS]
        X, y, trend = X[some], y[some], None if trend is None else trend[some]
    distance = pdist(X)
    near = (distance > 0.0) & (distance <= max_distance)
    if not near.any():
        raise ValueError(
            f"{name}: no two rows of X differ by at most max_distance={max_distance:.3g}. Pass "
            "more rows, or a larger one."
        )
    bins = np.minimum((distance[near] * (n_bins / max_distance)).astype(int), n_bins - 1)
    n_pairs = np.bincount(bins, minlength=n_bins)
    columns = distance, 0.5 * pdist(y, "sqeuclidean"), _expected(view, X, n_drift, trend)
    with np.errstate(invalid="ignore"):
        means = [np.bincount(bins, one[near], n_bins) / n_pairs for one in columns]
    return Variogram(*(one[n_pairs > 0] for one in (*means, n_pairs)))


def _expected(view: Any, X: Array, n_drift: int, trend: Array | None) -> Array:
    """Half of the variance of differences, of all pairs before any data, in the order of pdist."""
    process = view.process
    X = np.hstack([X, np.zeros((len(X), n_drift))])  # a drift is the same for all rows here
    seen = in_metric(process.metric, X)
    signal, noise, _ = kernels.diagonal(process.kernel, seen)
    K = kernels.evaluate(process.kernel, seen, seen)
    K.flat[:: len(K) + 1] = signal + noise
    effect = getattr(process, "effect", None)
    if effect is not None:  # which the kernel beside inducing points leaves out
        levels = effect.kernel.levels(X)
        K += effect.variance * (levels[:, None] == levels)
    if trend is not None:
        K = covariance_of_residuals(K, trend)
    half = 0.5 * K.diagonal()
    values = half[:, None] + half - K
    np.fill_diagonal(values, 0.0)
    return process.factor * view.units.scale[0] ** 2 * squareform(values, checks=False)
