"""Rows that belong together: copies of a row, and what weights say of rows.

Equal rows may be copies of one measurement, as in a file that was appended twice or in a bootstrap
sample, or measurements that coincide, as in tables of categories and of rounded targets. They are
taken as copies where most repeated inputs have one target. One row stands for its copies then, and
has the sum of their weights.

Weights are relative: they are divided by their mean over the rows that are left, so that no factor
matters, and a row is left out with all of its weight. Labels and likelihoods differ where repeated
inputs have several targets: there, weights that are whole numbers count rows, as copies do.

Weights that are constant within each class say how much classes matter. They change probabilities,
and not the fit. With a kernel of the user, every row counts, and a row of weight w is w rows.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple
from zlib import crc32

import numpy as np

from skgp_sparse.data.arrays import ArrayDataset
from skgp_sparse.data.checks import Rules
from skgp_sparse.data.moments import hashes
from skgp_sparse.exceptions import warn
from skgp_sparse.ground.validation import AnyArray, Array, Ints

# The share of repeated inputs with one target, beyond chance, from which equal rows are copies: of
# numbers, and of rows with a likelihood, where an input may have one label however often it is
# there. Of 35 tables, those with ten repeated inputs or more and without copies have at most .33.
# Bootstrap samples have .54 to 1 and .84 to 1, but for one table (docs/benchmarks/copies.py).
_COPIES, _COPIES_WITH_SITES = 0.5, 0.8
_FAR_FROM_ONE = 5.0  # a mean of weights, or its inverse, that is warned of
MOST_HASHED = 1 << 26  # rows of a source or a cluster, among which copies are looked for


class RowHashes(NamedTuple):
    """Hashes (n,) of rows, of their inputs and of their targets: equal where these are."""

    rows: AnyArray
    inputs: AnyArray
    targets: AnyArray

    @classmethod
    def of(cls, rows: ArrayDataset) -> "RowHashes":
        """Hashes of a table, whose targets may be labels of any kind."""
        n, targets = len(rows), _codes(rows.y)
        known = rows.noise, rows.offset, *(() if rows.X_std is None else rows.X_std.T)
        others = [one for one in known if np.ndim(one)]
        inputs = hashes(n, *rows.X.T)
        return cls(hashes(n, *targets, *others, code=inputs), inputs, hashes(n, *targets))

    @classmethod
    def joined(cls, parts: Sequence["RowHashes"]) -> "RowHashes | None":
        """Hashes of all rows; None without any."""
        return cls(*map(np.concatenate, zip(*parts))) if parts else None

    def indices(self, classes: AnyArray) -> Ints:
        """Indices (n,) of the classes of rows whose targets are labels."""
        of_classes = hashes(len(classes), *_codes(classes))
        order = np.argsort(of_classes)
        return order[np.searchsorted(of_classes, self.targets, sorter=order)]


class RowWeights(NamedTuple):
    """Weights of rows, as a fit takes them."""

    weight: Array | None  # (n,) 0 of rows that others stand for; None: all are one
    relative: bool = False  # a row is left out with all of its weight
    places: Ints | None = None  # (n,) the row that stands for each row; None: itself
    class_weight: Array | None = None  # (n_classes,) factors of probabilities; None: all are one
    mean_weight: float = 1.0  # of users, that is one here


def counted(rows: ArrayDataset, rules: Rules) -> ArrayDataset:
    """The table in memory with the weights that its rows have in a fit."""
    found = RowHashes.of(rows) if rules.kernel is None else None
    labels = rows.y if rules.labels else None
    return replace(rows, **row_weights(rules, found, rows.weight, labels)._asdict())


def row_weights(
    rules: Rules, found: RowHashes | None, weight: Array | None, labels: AnyArray | None
) -> RowWeights:
    """The `RowWeights` of rows with weights of users (n,).

    Hashes and `labels`, indices of classes (n,), are None where they are not known.
    """
    has_sites = rules.labels or rules.likelihood is not None
    _warn_of_weights(weight, has_sites, rules)
    if rules.kernel is not None:
        return RowWeights(weight)
    weight, of_users = _without_classes(weight, labels)
    known = _relative(weight) if found is None else _merged(found, weight, has_sites)
    if not known.relative:
        return known._replace(class_weight=of_users)
    weight, of_copies = _without_classes(known.weight, labels)
    if of_users is not None and of_copies is not None:
        of_copies = of_users * of_copies
    return known._replace(weight=weight, class_weight=of_users if of_copies is None else of_copies)


def has_copies(rows: ArrayDataset) -> bool:
    """Whether rows of a fit with a user's kernel are copies, which may be counted by weights."""
    found, weight = RowHashes.of(rows), rows.weight
    if weight is None:
        return _merged(found, None, False).relative
    return rows.merged and share_with_one_target(found.inputs, found.targets, weight) >= _COPIES


def _without_classes(weight: Array | None, labels: AnyArray | None) -> tuple:
    """Weights without what is constant within classes and differs between them, and this."""
    if weight is None or labels is None:
        return weight, None
    used = weight > 0.0
    high, low = np.zeros(labels.max() + 1), np.full(labels.max() + 1, np.inf)
    np.maximum.at(high, labels[used], weight[used])
    np.minimum.at(low, labels[used], weight[used])
    if np.ptp(high) == 0.0 or np.any(high != low):
        return weight, None
    return None if used.all() else used.astype(float), high / high.max()


def _merged(found: RowHashes, weight: Array | None, has_sites: bool) -> RowWeights:
    """`RowWeights` where copies of rows are seen."""
    n = len(found.rows)
    used = np.arange(n) if weight is None else np.flatnonzero(weight > 0.0)
    _, first, index = np.unique(found.rows[used], return_index=True, return_inverse=True)
    if weight is None and len(first) == n:
        return RowWeights(None)
    own = np.ones(n) if weight is None else weight[used]
    total, first = np.bincount(index, own), used[first]
    count_rows = has_sites and np.array_equal(own, np.rint(own))
    counts = total if count_rows else np.bincount(index)
    least = _COPIES_WITH_SITES if has_sites else _COPIES
    if share_with_one_target(found.inputs[first], found.targets[first], counts) < least:
        return RowWeights(weight) if weight is None or count_rows else _relative(weight)
    of_rows, places = np.zeros(n), np.arange(n)
    of_rows[first], places[used] = total, first[index]
    return _relative(of_rows)._replace(relative=True, places=places, mean_weight=float(own.mean()))


def _relative(weight: Array | None) -> RowWeights:
    """`RowWeights` in units of their mean over rows that have any; equal ones say nothing."""
    if weight is None:
        return RowWeights(None)
    used, mean = weight > 0.0, float(weight[weight > 0.0].mean())
    if np.ptp(weight[used]) > 1e-12 * mean:
        return RowWeights(in_units(weight, mean), relative=True, mean_weight=mean)
    return RowWeights(None if used.all() else used.astype(float), mean_weight=mean)


def in_units(weight: Array, unit: float) -> Array:
    """Weights in a unit, in single precision: the rounding of a factor does not show."""
    return weight if unit == 1.0 else (weight / unit).astype(np.float32).astype(np.float64)


def share_with_one_target(inputs: AnyArray, targets: AnyArray, counts: AnyArray) -> float:
    """The share of repeated inputs that have one target, beyond chance.

    Rows are distinct, and are there `counts` times. If c is the share of the rows that have a
    target, k rows with random targets have one target with the probability ``Σ c^k``.
    """
    place = np.unique(inputs, return_inverse=True)[1]
    size, kinds = np.bincount(place, counts), np.bincount(place)
    repeated = size > 1.0
    if not repeated.any():
        return 1.0
    share = np.bincount(np.unique(targets, return_inverse=True)[1], counts) / counts.sum()
    share, often = np.unique(share, return_counts=True)
    sizes, of_size = np.unique(size[repeated], return_counts=True)
    chance = of_size @ [often @ share**k for k in sizes] / of_size.sum()
    return float((np.mean(kinds[repeated] == 1) - chance) / max(1.0 - chance, 1e-12))


def _codes(y: AnyArray) -> list[AnyArray]:
    """Columns (n,) of numbers for targets, or for labels of any kind."""
    if y.dtype.kind in "biuf":
        return [*np.reshape(y, (len(y), -1)).T]
    labels, index = np.unique(y, return_inverse=True)
    return [np.array([crc32(str(label).encode()) for label in labels])[index.ravel()]]


def _warn_of_weights(weight: Array | None, has_sites: bool, rules: Rules) -> None:
    """Warn of weights whose mean is far from one, unless they count rows of a likelihood."""
    if weight is None or (has_sites and np.array_equal(weight, np.rint(weight))):
        return
    mean = weight[weight > 0.0].mean()
    if max(mean, 1.0 / mean) > _FAR_FROM_ONE:
        taken = "relative" if rules.kernel is None else "numbers of rows, as the kernel is yours"
        warn(
            f"{rules.name}: the mean of sample_weight is {mean:.3g}, and weights are taken as "
            f"{taken}. Rescale them to a mean of one if that is what they say."
        )
