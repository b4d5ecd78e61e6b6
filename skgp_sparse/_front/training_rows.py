"""The user's arrays become the `Rows` that the engine reads.

A table is a multiset of rows: their order says nothing, and a row of weight w is w rows. Small
tables are brought into the one form that all equal multisets share (sorted, with repeated rows
merged into weights), so that equal tables give equal fits, to the last bit. Large ones are kept by
reference.
"""

from dataclasses import replace
from numbers import Real
from typing import NamedTuple

import numpy as np
from sklearn.utils import check_array

from skgp_sparse import kernels
from skgp_sparse._engine.rows import Rows
from skgp_sparse._front.parameter_checks import check_number
from skgp_sparse._front.targets import standardisation

_SMALL_TABLE = 1_000_000  # numbers in X: 8 MB, sorted in less than 0.1 s
_MANY = 1_000_000  # rows, of which as many are enough to estimate a level and a scale
_SMALLEST_NOISE = 1e-12  # in units of the standardised targets' variance


def training_rows(X, y, weight, *, alpha, normalize, name, offset=None, one_form=True):
    """Rows of a training table.

    Parameters
    ----------
    X : ndarray of shape (n, d), float32 or float64
    y : ndarray of shape (n,) or (n, p)
    weight : ndarray of shape (n,) or None
    alpha : float, array-like of shape (n,) or None
        As the user gave it.
    normalize : bool
        Whether targets are centred and scaled.
    name : str
        Of the estimator, for errors.
    offset : ndarray of shape (n,) or None
        Known offsets of the latent values, in units of y where these are scaled.
    one_form : bool
        Whether a small table is brought into the one form of all equal ones.
    """
    y = np.asarray(y, dtype=np.float64).reshape(len(X), -1)
    noise = check_alpha(alpha, len(X), name)
    original, merged = X, weight is None
    if one_form and is_small(X.size):
        X, y, noise, weight, offset = _canonical(X, y, noise, weight, offset)
    centred = y if offset is None else y - offset[:, None]
    mean, scale = standardisation(centred, weight, normalize, shared=np.any(noise))
    check_noise(noise, scale, name)
    offset = None if offset is None else offset / scale[0]
    original = None if X is original else original
    return Rows(X, y, noise, weight, mean, scale, offset=offset, original=original, merged=merged)


def is_small(size):
    """Whether a table with so many numbers in X is brought into its canonical form."""
    return size <= _SMALL_TABLE


class Labelled(NamedTuple):
    """Rows of several classes, from which the table of any problem can be made."""

    X: np.ndarray
    index: np.ndarray  # of the class of every row
    weight: np.ndarray | None
    classes: np.ndarray

    def table(self, task, name, one_form=True):
        """The `Rows` of a `multiclass.Task`."""
        rows, label = task.labels(self.index)
        X = self.X if rows is None else self.X[rows]
        weight = self.weight if self.weight is None or rows is None else self.weight[rows]
        return training_rows(
            X, label, weight, alpha=None, normalize=False, name=name, one_form=one_form
        )


def observations(rows):
    """Targets, weights and offsets (n,) of the rows, or of a million of them, drawn by weight."""
    if len(rows) > _MANY:
        rows = rows.sampled(rows.sample(_MANY, np.random.RandomState(0)))
    weight = np.ones(len(rows)) if rows.weight is None else rows.weight
    offset = np.zeros(len(rows)) if rows.offset is None else rows.offset
    return rows.targets()[:, 0], weight, offset


def with_noise_floor(rows, kernel):
    """The rows with known noise above what the arithmetic needs, where no noise is learned."""
    if kernels.has_noise(kernel):
        return rows
    return replace(rows, least_noise=_SMALLEST_NOISE)


def check_noise(noise, scale, name):
    """Raise if known noise overflows in units of the standardised targets."""
    if not np.isfinite(np.max(noise) / scale[0] / scale[0]):
        raise ValueError(
            f"The 'alpha' parameter of {name} is too large for y: its largest value is "
            f"{np.max(noise):.1e}, and y has a standard deviation of {scale[0]:.1e}. Rescale y, or "
            "lower alpha."
        )


def check_alpha(alpha, n, name):
    """Known noise variance as a float or an array (n,); 0 where there is none."""
    if alpha is None:
        return 0.0
    if np.ndim(alpha) == 0:
        check_number(alpha, "alpha", name, Real, low=0)
        return float(alpha)
    alpha = check_array(
        alpha, ensure_2d=False, ensure_min_samples=0, dtype=float, input_name="alpha"
    )
    if alpha.shape == (1,):
        return check_alpha(float(alpha[0]), n, name)
    if alpha.shape != (n,):
        raise ValueError(
            "alpha must be a scalar or an array with same number of entries as y. "
            f"({alpha.shape[0] if alpha.ndim == 1 else alpha.shape} != {n}). Cross-validation "
            "passes a subset of the rows to each fit, but the whole array alpha. Set alpha to the "
            "values of the training rows before each fit, as in the loop in docs/recipes.md."
        )
    if alpha.min() < 0:
        raise ValueError(
            f"The 'alpha' parameter of {name} must hold noise variances, which are not negative. "
            f"The smallest value is {alpha.min()}."
        )
    return alpha


def _canonical(X, y, noise, weight, offset):
    """Sorted distinct rows of (X, y, noise, offset), and how often each of them is there."""
    if weight is not None:
        keep = weight > 0
        X, y, weight, noise, offset = X[keep], y[keep], weight[keep], *_rows_of(keep, noise, offset)
    others = [0.0 if column is None else column for column in (noise, offset)]
    others = [np.broadcast_to(column, len(X)) for column in others]
    table = np.column_stack([X, y, *others])
    _, first, index = np.unique(table, axis=0, return_index=True, return_inverse=True)
    total = np.bincount(index.ravel(), weight, minlength=len(first))
    weight = None if np.all(total == 1) else total.astype(float)
    noise, offset = _rows_of(first, noise, offset)
    return X[first], y[first], noise, weight, offset


def _rows_of(rows, *columns):
    """Some rows of columns, which may also be a number or None."""
    return [column if np.ndim(column) == 0 else column[rows] for column in columns]
