"""One evaluation's question: which model, on which rows, computed how."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from skgp_sparse import kernels
from skgp_sparse._engine.prior import factorise
from skgp_sparse._engine.rows import Rows, row_blocks
from skgp_sparse._linalg import Jitter

_SCRATCH = 5  # (rows, m) arrays that a thread works on at a time, besides those it keeps
_SQUARES = 12  # (m, m) arrays of an evaluation
_THREADS = 4  # whose scratch arrays fit half the memory, however little that is


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
    latent_noise: bool = False  # white noise belongs to the process: a likelihood follows

    def prior(self):
        """``Kuu`` factorised."""
        return factorise(self.kernel, self.Z, self.options.jitter, self.options.n_jobs)

    def blocks(self):
        """Slices of rows; the number of threads has no say, so results do not depend on it."""
        arrays = (_SCRATCH + kernels.footprint(self.kernel)) * _THREADS
        return row_blocks(len(self.rows), len(self.Z), 0.5 * self.options.memory / arrays)

    def threads(self, blocks):
        """How many of the asked-for threads have scratch arrays that fit half the memory."""
        one = 8 * len(self.Z) * (_SCRATCH + kernels.footprint(self.kernel)) * _rows_in(blocks[0])
        return int(max(1, min(self.options.n_jobs, 0.5 * self.options.memory // one)))

    def keepers(self, blocks, arrays=None):
        """Which blocks can wait in memory; by default with all that the second pass wants."""
        whole = 1 + kernels.footprint(self.kernel)
        arrays = arrays or whole
        scratch = (_SCRATCH + whole) * self.threads(blocks) * _rows_in(blocks[0])
        scratch += _SQUARES * len(self.Z)
        held = np.cumsum([arrays * _rows_in(block) for block in blocks]) + scratch
        return 8 * len(self.Z) * held <= self.options.memory


class Evaluation(NamedTuple):
    """Objective and gradient at one (theta, Z)."""

    value: float
    theta_bar: np.ndarray
    Z_bar: np.ndarray | None
    jitter: float


class Projection(NamedTuple):
    """A block of rows as the inducing points see it: no targets, no objective."""

    V: np.ndarray  # (n, m), the Vᵀ of the notation
    pull_cross: Callable
    pull_diagonal: Callable
    residual: np.ndarray  # r
    noise: float | np.ndarray  # learned


class Forward(NamedTuple):
    """What the first pass over a block knows that the second one needs."""

    V: np.ndarray
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
