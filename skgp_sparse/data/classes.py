"""Problems that the labels of classes become, and probabilities of classes from theirs."""

from itertools import combinations
from typing import NamedTuple

import numpy as np

from skgp_sparse.ground.parallel import slices
from skgp_sparse.ground.validation import AnyArray, Array, Ints

_ENTRIES_PER_BLOCK = 1 << 20  # entries of the systems that are solved together
_SMALLEST_PROBABILITY = 1e-12  # pairwise probability


class Task(NamedTuple):
    """A problem of labels, whatever their order or number."""

    of_class: tuple[float, ...]  # label of each class, NaN where its rows take no part

    @property
    def has_all_rows(self) -> bool:
        """Whether rows of all classes take part."""
        return not np.isnan(self.of_class).any()

    def labels(self, index: AnyArray) -> tuple[Ints | None, Array]:
        """Rows that take part (None: all of them) and their labels, from class indices."""
        labels = np.array(self.of_class, float)[np.asarray(index, dtype=np.intp)]
        if self.has_all_rows:
            return None, labels
        rows = np.flatnonzero(~np.isnan(labels))
        return rows, labels[rows]

    def label_of(self, k: int) -> float | None:
        """The label of a class that no other class has; None if there is none."""
        return self.of_class[k] if np.sum(np.equal(self.of_class, self.of_class[k])) == 1 else None

    def name(self, classes: AnyArray) -> str:
        """A binary problem in words."""
        negative = "the rest" if self.has_all_rows else classes[self.of_class.index(-1.0)]
        return f"{classes[self.of_class.index(1.0)]} against {negative}"


def tasks(n_classes: int, multi_class: str) -> list[Task]:
    """The problems of a number of classes; one where there are two."""
    if multi_class == "softmax":
        return [Task(tuple(range(n_classes)))]
    if multi_class == "one_vs_one" and n_classes > 2:
        nothing = dict.fromkeys(range(n_classes), np.nan)
        pairs = combinations(range(n_classes), 2)
        return [Task(tuple((nothing | {j: 1.0, i: -1.0}).values())) for i, j in pairs]
    labels = 2.0 * np.eye(n_classes) - 1.0
    return [Task(tuple(row)) for row in (labels[1:] if n_classes == 2 else labels).tolist()]


def normalised(positive: Array) -> Array:
    """Probabilities (n, K) from those of each class against the rest."""
    total = positive.sum(axis=1, keepdims=True)
    uniform = np.full_like(positive, 1.0 / positive.shape[1])
    return np.where(total > 0, positive / np.where(total > 0, total, 1.0), uniform)


def votes(pairwise: Array, n_classes: int) -> Ints:
    """Winners (n,) of duels (n, K (K - 1) / 2) as of `tasks`; sums of probabilities break ties."""
    R = _square(pairwise, n_classes)
    won = (R > 0.5).sum(axis=2)
    return np.argmax(won + R.sum(axis=2) / n_classes, axis=1)  # the sum is below n_classes


def coupled(pairwise: Array, n_classes: int) -> Array:
    """Probabilities (n, K) closest to those of all pairs: Wu, Lin and Weng (2004), eq. 21."""
    size = max(1, _ENTRIES_PER_BLOCK // (n_classes + 1) ** 2)
    parts = [_couple(_square(pairwise[rows], n_classes)) for rows in slices(len(pairwise), size)]
    return np.concatenate([np.empty((0, n_classes)), *parts])


def _square(pairwise: Array, n_classes: int) -> Array:
    """``R[:, i, j]``: probability of i where it is i or j; 0 on the diagonal."""
    R = np.zeros((len(pairwise), n_classes, n_classes))
    clipped = np.clip(pairwise, _SMALLEST_PROBABILITY, 1.0 - _SMALLEST_PROBABILITY)
    for column, (i, j) in enumerate(combinations(range(n_classes), 2)):
        R[:, j, i] = clipped[:, column]
        R[:, i, j] = 1.0 - clipped[:, column]
    return R


def _couple(R: Array) -> Array:
    """Probabilities (n, K) from those of pairs (n, K, K), by a linear system for each row."""
    n, K, _ = R.shape
    system = np.ones((n, K + 1, K + 1))
    system[:, K, K] = 0.0
    system[:, :K, :K] = -R * R.transpose(0, 2, 1)
    diagonal = np.arange(K)
    system[:, diagonal, diagonal] = (R**2).sum(axis=1)
    p = np.maximum(np.linalg.solve(system, np.eye(K + 1)[None, :, K:])[:, :K, 0], 0.0)
    return p / p.sum(axis=1, keepdims=True)
