"""Several classes as problems to fit, and their answers as one: arrays of labels and numbers."""

from itertools import combinations
from typing import NamedTuple

import numpy as np

_ENTRIES_PER_BLOCK = 1 << 20  # entries of the systems that are solved together
_SMALLEST_PROBABILITY = 1e-12  # pairwise probability


class Task(NamedTuple):
    """A problem: one class against another, or against all others; or all of them at once."""

    positive: int | None = None
    negative: int | None = None

    def labels(self, index):
        """Rows that take part (None: all of them) and their labels, from class indices.

        Labels are ±1 in a binary problem, and the indices themselves otherwise.
        """
        if self.positive is None:
            return None, index.astype(float)
        if self.negative is None:
            return None, np.where(index == self.positive, 1.0, -1.0)
        rows = np.flatnonzero((index == self.positive) | (index == self.negative))
        return rows, np.where(index[rows] == self.positive, 1.0, -1.0)

    def label_of(self, k, n_tasks):
        """The label of a class that no other class has; None if there is none.

        The negative rows of a problem are those of one class if it is named, or if there is no
        other problem.
        """
        if self.positive is None:
            return k
        if self.positive == k:
            return 1.0
        return -1.0 if self.negative == k or n_tasks == 1 else None

    def name(self, classes):
        """The problem in words."""
        if self.negative is None:
            return f"{classes[self.positive]} against the rest"
        return f"{classes[self.positive]} against {classes[self.negative]}"


class InOrder(NamedTuple):
    """All classes at once, with one process for their order; a label is the rank of the class."""

    ranks: tuple[int, ...]  # place of each class in the order

    negative = None

    def labels(self, index):
        """None, as all rows take part, and their labels."""
        return None, np.asarray(self.ranks, float)[index]

    def label_of(self, k, n_tasks):
        """The label of a class."""
        return float(self.ranks[k])


class SomeClasses(NamedTuple):
    """Some classes at once, each against all others; a label is the place of the class, if any."""

    chosen: tuple[int, ...]  # sorted

    negative = None

    def labels(self, index):
        """None, as all rows take part, and their labels; one more for all other classes."""
        place = np.searchsorted(self.chosen, index)
        is_chosen = np.append(self.chosen, -1)[place] == index
        return None, np.where(is_chosen, place, len(self.chosen)).astype(float)


def tasks(n_classes, multi_class):
    """The problems of a number of classes; one where there are two."""
    if multi_class == "softmax":
        return [Task()]
    if n_classes == 2:
        return [Task(1)]
    if multi_class == "one_vs_one":
        return [Task(j, i) for i, j in combinations(range(n_classes), 2)]
    return [Task(k) for k in range(n_classes)]


def problems_of_a_row(n_classes, multi_class):
    """In how many problems a row takes part."""
    if multi_class == "softmax" or n_classes == 2:
        return 1
    return n_classes - 1 if multi_class == "one_vs_one" else n_classes


def normalised(positive):
    """Probabilities (n, K) from those of each class against the rest."""
    total = positive.sum(axis=1, keepdims=True)
    uniform = np.full_like(positive, 1.0 / positive.shape[1])
    return np.where(total > 0, positive / np.where(total > 0, total, 1.0), uniform)


def votes(pairwise, n_classes):
    """Winner (n,) of all duels; equal numbers of votes are told apart by summed probabilities.

    Parameters
    ----------
    pairwise : ndarray of shape (n, K (K - 1) / 2)
        Probability of the later class of each pair, in the order of `tasks`.
    n_classes : int
    """
    R = _square(pairwise, n_classes)
    won = (R > 0.5).sum(axis=2)
    return np.argmax(won + R.sum(axis=2) / n_classes, axis=1)  # the sum is below n_classes


def coupled(pairwise, n_classes):
    """Probabilities (n, K) closest to those of all pairs.

    Wu, Lin and Weng (2004), "Probability estimates for multi-class classification by pairwise
    coupling", eq. 21: the p that minimises ``Σ_ij (r_ji p_i - r_ij p_j)²`` and sums to 1.
    """
    size = max(1, _ENTRIES_PER_BLOCK // (n_classes + 1) ** 2)
    parts = [
        _couple(_square(pairwise[start : start + size], n_classes))
        for start in range(0, len(pairwise), size)
    ]
    return np.concatenate(parts) if parts else np.empty((0, n_classes))


def _square(pairwise, n_classes):
    """``R[:, i, j]``: probability of i where it is i or j; 0 on the diagonal."""
    R = np.zeros((len(pairwise), n_classes, n_classes))
    clipped = np.clip(pairwise, _SMALLEST_PROBABILITY, 1.0 - _SMALLEST_PROBABILITY)
    for column, (i, j) in enumerate(combinations(range(n_classes), 2)):
        R[:, j, i] = clipped[:, column]
        R[:, i, j] = 1.0 - clipped[:, column]
    return R


def _couple(R):
    n, K, _ = R.shape
    system = np.ones((n, K + 1, K + 1))
    system[:, K, K] = 0.0
    system[:, :K, :K] = -R * R.transpose(0, 2, 1)
    diagonal = np.arange(K)
    system[:, diagonal, diagonal] = (R**2).sum(axis=1)
    right = np.zeros((n, K + 1, 1))
    right[:, K] = 1.0
    p = np.maximum(np.linalg.solve(system, right)[:, :K, 0], 0.0)
    return p / p.sum(axis=1, keepdims=True)
