"""Parts of an additive process: what each set of columns does, given the data.

The process is a sum of independent ones with kernels k_S. Given the data, part S has at x the mean
``k_S(x, Z) u`` and the variance

    k_S(x, x) - ‖L⁻¹ k_S(Z, x)‖² + ‖TB L⁻¹ k_S(Z, x)‖²,

without the last term where all rows are the basis.
"""

from itertools import combinations
from math import prod

import numpy as np

from skgp_sparse._engine.data.dataset import row_blocks


def sets_of_columns(d, order):
    """All sets of 1 to `order` of d columns, as tuples."""
    return [S for r in range(1, order + 1) for S in combinations(range(d), r)]


def parts(posterior, kernel, X):
    """Means (n, p, c) and variances (n, c) of all sets of columns, and the constant (p,).

    Parameters
    ----------
    posterior : FeaturePosterior
        Posterior whose features are those of points.
    kernel : OrthogonalAdditive
        Its kernel, without noise.
    X : ndarray of shape (n, d)
    """
    sets, v, Z = sets_of_columns(X.shape[1], kernel.order), kernel.of_orders(), posterior.features.Z
    means, variances = [], []
    for block in row_blocks(len(X), posterior.width):
        x = np.asarray(X[block], dtype=np.float64)
        factors = kernel.factors(x)
        across, own = [one.cross(x, Z) for one in factors], [one.diag(x) for one in factors]
        found = [
            _part(posterior, v[len(S)], [across[j] for j in S], [own[j] for j in S]) for S in sets
        ]
        mean, variance = zip(*found)
        means.append(np.stack(mean, axis=-1))
        variances.append(np.stack(variance, axis=-1))
    constant = v[0] * posterior.u.sum(axis=0)
    return np.concatenate(means), np.concatenate(variances), constant


def _part(posterior, variance, across, own):
    """Mean (n, p) and variance (n,) of one set."""
    K, signal = variance * prod(across), variance * prod(own)
    V = posterior.features.whiten(K)
    left = signal - np.einsum("ij,ij->i", V, V) + posterior.weight_variance(V)
    return K @ posterior.u, np.maximum(left, 0.0)
