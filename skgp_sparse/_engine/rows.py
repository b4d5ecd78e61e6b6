"""The table whose rows are arrays, kept by reference and read in blocks.

A block is what the rest of the engine sees: float64 inputs, standardised targets, known noise in
the units of the standardised targets, and weights. Nothing of the size of the table is ever made.
"""

from dataclasses import dataclass, replace

import numpy as np

from skgp_sparse._engine.table import Block, Table, at


@dataclass(frozen=True, eq=False)
class Rows(Table):
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
    offset : ndarray of shape (n,) or None
        Known offsets of the latent values, for likelihoods.
    original : ndarray of shape (k, d) or None
        The user's own inputs, where X is another form of them.
    merged : bool
        Whether weights are numbers of equal rows, and nothing else.
    """

    X: np.ndarray
    y: np.ndarray
    noise: float | np.ndarray
    weight: np.ndarray | None
    y_mean: np.ndarray
    y_scale: np.ndarray
    least_noise: float = 0.0
    offset: np.ndarray | None = None
    original: np.ndarray | None = None
    merged: bool = False

    in_memory = True

    def __len__(self):
        return len(self.X)

    @property
    def n_features(self):
        """Number of columns of X."""
        return self.X.shape[1]

    @property
    def n_targets(self):
        """Number of columns of y."""
        return self.y.shape[1]

    def block(self, rows):
        """Rows selected by a slice or an index array, as a `Block`."""
        noise = at(self.noise, rows)
        return Block(
            np.ascontiguousarray(self.X[rows], dtype=np.float64),
            (self.y[rows] - self.y_mean) / self.y_scale,
            np.maximum(noise / self.y_scale[0] / self.y_scale[0], self.least_noise),
            1.0 if self.weight is None else self.weight[rows],
            0.0 if self.offset is None else self.offset[rows],
        )

    def inputs(self):
        """The user's own inputs."""
        return self.X if self.original is None else self.original

    def subset(self, rows):
        """The table of some rows, selected by an index array: a copy."""
        return replace(
            self,
            X=self.X[rows],
            y=self.y[rows],
            noise=at(self.noise, rows),
            weight=at(self.weight, rows),
            offset=at(self.offset, rows),
            original=None,
        )
