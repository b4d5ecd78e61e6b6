"""Training rows, kept by reference and read in blocks.

A block is what the rest of the engine sees: float64 inputs, standardised targets, known noise in
the units of the standardised targets, and weights. Nothing of the size of the table is ever made.
"""

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

_BLOCK_BYTES = 5 * 2**20  # of one (rows, m) array: large enough for BLAS, small enough for caches
_FEWEST_ROWS = 64
_SHARES = 8  # blocks that a table is cut into at least, for threads to share ...
_WORTH_SHARING = 1 << 16  # ... unless their (rows, m) arrays had fewer entries, or m / 2 rows
_AT_ONCE = 2000  # rows among which distinct inputs are looked for
_SQUARES = (1e-140, 1e140)  # mean squares of y whose own squares are numbers, too
_CONSTANT = 1e-7  # of the range: less spread than this is rounding, or one outlier in 1e14 rows


class Block(NamedTuple):
    """Some training rows, ready for arithmetic."""

    X: np.ndarray  # (n, d) float64
    y: np.ndarray  # (n, p) standardised
    noise: float | np.ndarray  # known noise variance, scalar or (n,)
    weight: float | np.ndarray  # 1.0 or (n,)


@dataclass(frozen=True, eq=False)
class Rows:
    """A training table by reference.

    Parameters
    ----------
    X : ndarray of shape (n, d), float32 or float64
    y : ndarray of shape (n, p)
    noise : float or ndarray of shape (n,)
        Known noise variance in units of y².
    weight : ndarray of shape (n,) or None
        A row of weight w counts as w rows.
    y_mean, y_scale : ndarray of shape (p,)
        Targets are standardised as ``(y - y_mean) / y_scale``.
    least_noise : float
        Known noise variance of the standardised targets is at least this.
    """

    X: np.ndarray
    y: np.ndarray
    noise: float | np.ndarray
    weight: np.ndarray | None
    y_mean: np.ndarray
    y_scale: np.ndarray
    least_noise: float = 0.0

    def __len__(self):
        return len(self.X)

    @property
    def n_targets(self):
        """Number of columns of y."""
        return self.y.shape[1]

    def block(self, rows):
        """Rows selected by a slice or an index array, as a `Block`."""
        noise = self.noise if np.ndim(self.noise) == 0 else self.noise[rows]
        return Block(
            np.ascontiguousarray(self.X[rows], dtype=np.float64),
            (self.y[rows] - self.y_mean) / self.y_scale,
            np.maximum(noise / self.y_scale[0] / self.y_scale[0], self.least_noise),
            1.0 if self.weight is None else self.weight[rows],
        )

    def subset(self, rows):
        """The table of some rows, selected by an index array: a copy."""
        return replace(
            self,
            X=self.X[rows],
            y=self.y[rows],
            noise=self.noise if np.ndim(self.noise) == 0 else self.noise[rows],
            weight=None if self.weight is None else self.weight[rows],
        )

    def sampled(self, rows):
        """The table of rows that `sample` drew: by weight, which only all of them still need."""
        few = self.subset(rows)
        spent = self.weight is not None and len(rows) < np.count_nonzero(self.weight)
        return replace(few, weight=None) if spent else few

    def total_weight(self):
        """Number of rows, each counted as often as its weight says."""
        return float(len(self) if self.weight is None else self.weight.sum())

    def target_variance(self):
        """Mean square of the standardised targets, 1 where they are all zero.

        Raises
        ------
        ValueError
            If it, or what is derived from it, would overflow or underflow.
        """
        standard = (self.y - self.y_mean) / self.y_scale
        size = root_mean_square(standard, self.weight).max()
        if size > 0 and not _SQUARES[0] ** 0.5 <= size <= _SQUARES[1] ** 0.5:
            raise ValueError(
                f"The squares of y {'over' if size > 1 else 'under'}flow float64 (the root of "
                f"their mean is {size:.1e}). Rescale y, or let normalize_y=True do it."
            )
        return np.average(standard**2, axis=0, weights=self.weight).mean() if size > 0 else 1.0

    def scale(self):
        """Spread of every input column, 1 where it is constant."""
        origin = next(self._weighted_inputs())[0][:1]  # near the data: an offset costs no digits
        with np.errstate(all="ignore"):  # an overflow ends as NaN, for the caller
            offsets = [np.abs(X - origin).max(axis=0) for X, _ in self._weighted_inputs()]
            unit = _or_one(np.max(offsets, axis=0))  # in which no square over- or underflows
            first, second = 0.0, 0.0
            for X, weight in self._weighted_inputs():
                X = (X - origin) / unit
                first, second = first + weight @ X, second + weight @ X**2
            mean = first / self.total_weight()
            spread = np.sqrt(np.maximum(second / self.total_weight() - mean**2, 0.0))
            return np.where(spread <= _CONSTANT, 1.0, unit * spread)

    def _weighted_inputs(self):
        """Blocks of rows of positive weight (k, d), float64, and their weights (k,)."""
        for rows in row_blocks(len(self), self.X.shape[1]):
            block = self.block(rows)
            if self.weight is None:
                yield block.X, np.ones(len(block.X))
            elif np.any(block.weight > 0):
                yield block.X[block.weight > 0], block.weight[block.weight > 0]

    def chunks(self, size):
        """Inputs of positive weight, `size` rows at a time."""
        for start in range(0, len(self), size):
            X = self.X[start : start + size]
            yield X if self.weight is None else X[self.weight[start : start + size] > 0]

    def distinct(self, most=np.inf):
        """Distinct inputs of positive weight, sorted; None where there are more than `most`."""
        found = np.empty((0, self.X.shape[1]))
        for chunk in self.chunks(_AT_ONCE):
            found = np.unique(np.vstack([found, chunk]), axis=0)
            if len(found) > most:
                return None
        return found

    def sample(self, size, random_state):
        """Sorted indices of at most `size` rows, drawn without replacement by weight."""
        if self.weight is None:
            n, p = len(self), None
        else:
            n, p = np.count_nonzero(self.weight), self.weight / self.weight.sum()
        if size >= n:
            return np.arange(len(self)) if p is None else np.flatnonzero(p)
        return np.sort(random_state.choice(len(self), size, replace=False, p=p))


def row_blocks(n, m, budget=np.inf):
    """Slices of rows whose (rows, m) arrays take at most 5 MB, or `budget` bytes."""
    size = int(min(_BLOCK_BYTES, budget) // (8 * max(m, 1)))
    size = max(size, _FEWEST_ROWS)
    shares = min(_SHARES, n * m // _WORTH_SHARING, 2 * n // max(m, 1))
    count = max(-(-n // size), shares, 1)
    edges = [-(-n * share // count) for share in range(count + 1)]
    return [slice(start, stop) for start, stop in pairwise(edges)]


def mean_and_spread(values, weight):
    """Mean and standard deviation of each column; no sum or square overflows or underflows."""
    if weight is not None:
        values, weight = values[weight > 0], weight[weight > 0]
    unit = _or_one(np.abs(values).max(axis=0))
    mean = unit * np.average(values / unit, axis=0, weights=weight)
    return mean, root_mean_square(values - mean, weight)


def root_mean_square(values, weight):
    """Root of the mean square of each column; no square overflows or underflows."""
    if weight is not None:
        values, weight = values[weight > 0], weight[weight > 0]
    unit = _or_one(np.abs(values).max(axis=0))
    return unit * np.sqrt(np.average((values / unit) ** 2, axis=0, weights=weight))


def _or_one(largest):
    return np.where(largest > 0, largest, 1.0)
