"""One evaluation's question: which model, on which rows, computed how."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from skgp_sparse import kernels
from skgp_sparse._engine.rows import Rows, row_blocks
from skgp_sparse._linalg import Jitter

_SCRATCH = 5  # (rows, m) arrays that a thread works on at a time, besides those it keeps


class Options(NamedTuple):
    """How to compute, as opposed to what."""

    jitter: Jitter = Jitter()
    n_jobs: int = 1
    memory: float = np.inf  # bytes


class Problem(NamedTuple):
    """A model and its training rows."""

    kernel: object  # white noise included
    Z: np.ndarray
    rows: Rows
    bound: object
    options: Options = Options()

    def blocks(self):
        """Slices of rows, small enough for every thread's scratch arrays to fit the memory."""
        arrays = (_SCRATCH + kernels.footprint(self.kernel)) * self.options.n_jobs
        return row_blocks(len(self.rows), len(self.Z), 0.5 * self.options.memory / arrays)

    def keepers(self, blocks):
        """Which blocks of the first pass can wait in memory for the second."""
        arrays = 1 + kernels.footprint(self.kernel)
        scratch = (_SCRATCH + arrays) * self.options.n_jobs * _rows_in(blocks[0])
        held = np.cumsum([arrays * _rows_in(block) for block in blocks]) + scratch
        return 8 * len(self.Z) * held <= self.options.memory


class Evaluation(NamedTuple):
    """Objective and gradient at one (theta, Z)."""

    value: float
    theta_bar: np.ndarray
    Z_bar: np.ndarray | None
    jitter: float


class Forward(NamedTuple):
    """What the first pass over a block knows that the second one needs."""

    V: np.ndarray  # (n, m), the Vᵀ of the notation
    pull_cross: Callable
    pull_diagonal: Callable
    s2: float | np.ndarray  # σ²
    x: np.ndarray  # r/σ²
    lam: float | np.ndarray
    a: float | np.ndarray  # w/λ
    phi: np.ndarray
    slope: float | np.ndarray  # φ'


def _rows_in(block):
    return block.stop - block.start
