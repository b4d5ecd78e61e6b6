"""Averages of the latent function over areas, with their variances: block kriging.

An area is some points with weights w that sum to one. The average of the function over it has the
mean ``Σ w_i m(x_i)`` and the variance ``Σ_ij w_i w_j C(x_i, x_j)`` with the posterior covariance C,
which is added up in blocks of points.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from skgp_sparse._ground.typing import Array, Ints, MaybeArray
from skgp_sparse.rows.checks import check_groups

_ROWS = 1024  # points of a block


class Areas(NamedTuple):
    """Areas (g) by the points (n) that they consist of."""

    count: int
    code: Ints  # (n,) number of the area of a point
    weight: Array  # (n,) sums to one in every area

    @classmethod
    def of(cls, weights: MaybeArray, groups: MaybeArray, n: int, name: str) -> "Areas":
        """Areas of n points by their labels; raises unless weights are those of averages."""
        labels = check_groups(groups, n, name)
        code = np.zeros(n, int) if labels is None else np.unique(labels, return_inverse=True)[1]
        weight = np.ones(n) if weights is None else np.asarray(weights, dtype=float)
        if weight.shape != (n,) or not np.all((weight >= 0.0) & (weight < np.inf)):
            raise ValueError(
                f"weights of {name} must be an array with a finite number that is not negative for "
                f"each of the {n} rows. Got {_first_wrong(weight, n)}."
            )
        total = np.bincount(code, weight)
        if not np.all(total > 0.0):
            raise ValueError(
                f"weights of {name} are all 0 in {np.sum(total == 0.0)} areas, which have no "
                "average then. Leave these areas out."
            )
        return cls(len(total), code, weight / total[code])

    def sums(self, values: Array, rows: Any = slice(None)) -> Array:
        """Weighted sums (g, ...) of values (b, ...) of some of the points."""
        found = np.zeros((self.count, *values.shape[1:]))
        np.add.at(found, self.code[rows], (self.weight[rows] * values.T).T)
        return found


def mean_and_std(view: Any, X: Array, areas: Areas) -> tuple[Array, Array]:
    """Means and standard deviations of averages, (g,) or (g, p).

    Parameters
    ----------
    view : TargetView
    X : ndarray of shape (n, d)
    areas : Areas
    """
    mean = areas.sums(view.mean(X, latent=True))
    variance = np.zeros(mean.shape)
    for rows, others in _pairs(areas):
        covariance, times = _between(view, X, rows, others)
        share = areas.weight[others] * np.equal.outer(areas.code[rows], areas.code[others])
        variance += times * areas.sums(np.einsum("ij,ij...->i...", share, covariance), rows)
    return mean, np.sqrt(np.maximum(variance, 0.0))


def _first_wrong(weight: Array, n: int) -> str:
    if weight.shape != (n,):
        return f"shape {weight.shape}"
    row = np.flatnonzero(~((weight >= 0.0) & (weight < np.inf)))[0]
    return f"{weight[row]} in row {row}"


def _pairs(areas: Areas) -> Iterator[tuple[Ints, Ints]]:
    """Pairs of blocks that share an area, each once; points of an area are in a row."""
    order = np.argsort(areas.code, kind="stable")
    blocks = [order[start : start + _ROWS] for start in range(0, len(order), _ROWS)]
    for k, rows in enumerate(blocks):
        for others in blocks[k:]:
            if areas.code[others[0]] > areas.code[rows[-1]]:
                break
            yield rows, others


def _between(view: Any, X: Array, rows: Ints, others: Ints) -> tuple[Array, float]:
    """Covariances of two blocks, and how often they count."""
    if rows is others:
        return view.covariance(X[rows], latent=True), 1.0
    both = view.covariance(X[np.concatenate([rows, others])], latent=True)
    return both[: len(rows), len(rows) :], 2.0
