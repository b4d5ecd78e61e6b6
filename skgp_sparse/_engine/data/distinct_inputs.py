r"""Training rows by distinct input.

Rows that coincide are one observation of their precision-weighted mean:

    1/D_j = Σ w_i/σ_i²,      ȳ_j = D_j Σ w_i y_i/σ_i²        (sums over the rows i of group j)
"""

from typing import NamedTuple

import numpy as np

from skgp_sparse import kernels
from skgp_sparse._ground.distinct import Distinct
from skgp_sparse._ground.normal import LOG_2PI


class DistinctInputs(NamedTuple):
    """Training rows by distinct input."""

    X: np.ndarray  # (u, d) distinct rows, sorted
    index: np.ndarray  # (n,) the distinct input of each row
    y: np.ndarray  # (n, p) standardised
    noise: np.ndarray  # (n,) known noise variance
    weight: np.ndarray  # (n,)

    @classmethod
    def of(cls, rows):
        """Distinct inputs of a `Dataset`, of many rows a million at a time."""
        parts = [cls.of_block(rows.block(piece)) for piece in rows.pieces()]
        if len(parts) == 1:
            return parts[0]
        X = np.vstack([part.X for part in parts])
        same = Distinct.of(X)
        place = np.append(same.index, 0)  # a last part without rows points there
        starts = np.cumsum([0, *(len(part.X) for part in parts[:-1])])
        index = np.concatenate([place[start + part.index] for start, part in zip(starts, parts)])
        return cls(X[same.first], index, *map(np.concatenate, zip(*(part[2:] for part in parts))))

    @classmethod
    def of_block(cls, block):
        """Distinct inputs of a `Batch`.

        Rows of weight zero count nowhere, their inputs neither; they are put to the first one.
        """
        n = len(block.X)
        noise, weight = (np.full(n, column) for column in (block.noise, block.weight))
        X = block.X[weight > 0]
        same, index = Distinct.of(X), np.zeros(n, dtype=np.intp)
        index[weight > 0] = same.index
        return cls(X[same.first], index, block.y, noise, weight)

    def sum(self, values):
        """Sum of row values (n,) or (n, p) over each distinct input."""
        if values.ndim == 1:
            return np.bincount(self.index, values, minlength=len(self.X))
        return np.stack([self.sum(column) for column in values.T], axis=1)


class GroupMeans(NamedTuple):
    """Weighted means of rows that coincide, and the constant of the log marginal likelihood."""

    s2: np.ndarray  # (n,) noise variance
    D: np.ndarray  # (u,)
    mean: np.ndarray  # (u, p) ȳ
    rest: np.ndarray  # (n, p) y_i - ȳ_j
    constant: float
    pull_diagonal: object

    def value(self, log_det, half):
        """Log marginal likelihood from ``log |K + D|`` and ``L⁻¹ ȳ``."""
        quadratic = np.vdot(half, half)
        return self.constant - 0.5 * (self.mean.shape[1] * log_det + quadratic)


def means_of(kernel, groups):
    """`GroupMeans` of rows that coincide: their precision-weighted means and noise variances."""
    _, learned, pull_diagonal = kernels.diagonal(kernel, groups.X)
    s2 = np.broadcast_to(learned, len(groups.X))[groups.index] + groups.noise
    precision = groups.weight / s2
    D = 1.0 / groups.sum(precision)
    mean = D[:, None] * groups.sum(precision[:, None] * groups.y)
    rest = groups.y - mean[groups.index]
    logs = groups.weight @ (np.log(s2) + LOG_2PI) - np.log(D).sum()
    quadratic = (precision[:, None] * rest**2).sum()
    constant = -0.5 * (mean.shape[1] * logs + quadratic)
    return GroupMeans(s2, D, mean, rest, constant, pull_diagonal)
