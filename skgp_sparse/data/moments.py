"""Means and spreads of columns, whose squares neither overflow nor underflow.

`Moments` of some rows can be merged with those of others. `TargetScaler` has the units of the
targets, by which they are standardised, and `unique_rows` are the distinct rows of arrays.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from skgp_sparse.ground.linalg import log_normal_density
from skgp_sparse.ground.validation import AnyArray, Array, Ints, Pair, Scalars, Triple

_QUARTER = 2 * 0.31863936396437514  # width of the central quarter of a standard normal distribution
_CONSTANT = 1e-7  # of the range: less spread than this is rounding, or one outlier in 1e14 rows


class Moments(NamedTuple):
    """Weight of some rows, and the mean and standard deviation of every column."""

    weight: float = 0.0
    mean: Scalars = 0.0  # (p,)
    spread: Scalars = 0.0  # (p,)

    def merged(self, other: "Moments") -> "Moments":
        """Moments of the rows of both."""
        if self.weight == 0.0:
            return other
        weight = self.weight + other.weight
        share, rest = other.weight / weight, self.weight / weight
        delta = other.mean - self.mean
        within = np.hypot(np.sqrt(rest) * self.spread, np.sqrt(share) * other.spread)
        spread = np.hypot(within, np.sqrt(rest * share) * delta)
        return Moments(weight, self.mean + delta * share, spread)

    def root_mean_square(self) -> Array:
        """Root of the mean square of every column."""
        return np.hypot(self.mean, self.spread)


def moments_of(values: Array, weight: Array | None) -> Moments | None:
    """`Moments` of rows (n, p) or (n,) with weights or None; None if no row has any."""
    total = len(values) if weight is None else weight.sum()
    return Moments(total, *mean_and_spread(values, weight)) if total > 0 else None


def merge(moments: Iterable[Moments | None]) -> Any:
    """`Moments` of all rows, from those of parts of them, of which some may be None, or all:

        m = m₁ + δ w₂/w,    s² = (w₁ s₁² + w₂ s₂²)/w + δ² w₁ w₂/w²,    δ = m₂ - m₁,    w = w₁ + w₂

    (Chan, Golub and LeVeque 1983, "Algorithms for computing the sample variance", eq. 2.1).
    """
    known = [*filter(None, moments)]
    return reduce(Moments.merged, known) if known else None


def mean_and_spread(values: Array, weight: Array | None) -> Pair:
    """Mean and standard deviation of each column; no sum or square overflows or underflows."""
    if weight is not None:
        values, weight = values[weight > 0], weight[weight > 0]
    unit = or_one(np.abs(values).max(axis=0))
    mean = unit * np.average(values / unit, axis=0, weights=weight)
    return mean, root_mean_square(values - mean, weight)


def present_mean_and_spread(values: Array, weight: Array | None) -> Any:
    """Mean and standard deviation of the values that are not missing; 0 where all are."""
    there = ~np.isnan(values)
    if there.all():
        return mean_and_spread(values, weight)
    if weight is not None:
        there &= weight[:, None] > 0
    found = np.zeros((2, values.shape[1]))
    for j in np.flatnonzero(there.any(axis=0)):
        rows = there[:, j]
        found[:, j] = mean_and_spread(values[rows, j], None if weight is None else weight[rows])
    return found


def present_moments(blocks: Callable[[], Iterator], total_weight: float) -> Triple:
    """Mean, spread (0 if constant) and weight of missing values of each column of blocks (k, d)."""
    some = next(blocks())[0]
    origin = some[:1]  # the first row or, where it misses a value, the median
    if not np.isfinite(origin).all():
        origin = np.ma.median(np.ma.masked_invalid(some), axis=0, keepdims=True).filled(0.0)
    with np.errstate(all="ignore"):  # an overflow ends as NaN, for the caller
        offsets = [np.fmax.reduce(np.abs(X - origin), axis=0, initial=0.0) for X, _ in blocks()]
        unit = or_one(np.max(offsets, axis=0))  # in which no square over- or underflows
        first, second, missing = 0.0, 0.0, np.zeros(origin.shape[1])
        for X, weight in blocks():
            X, is_missing = (X - origin) / unit, np.isnan(X)
            X, missing = np.where(is_missing, 0.0, X), missing + weight @ is_missing
            first, second = first + weight @ X, second + weight @ X**2
        total = np.maximum(total_weight - missing, np.finfo(float).tiny)
        mean = first / total
        spread = np.sqrt(np.maximum(second / total - mean**2, 0.0))
        return origin[0] + unit * mean, spread_or_zero(spread, unit), missing


def root_mean_square(values: Array, weight: Array | None) -> Array:
    """Root of the mean square of each column; no square overflows or underflows."""
    if weight is not None:
        values, weight = values[weight > 0], weight[weight > 0]
    unit = or_one(np.abs(values).max(axis=0))
    return unit * np.sqrt(np.average((values / unit) ** 2, axis=0, weights=weight))


def or_one(largest: Scalars) -> Array:
    """Positive numbers as they are, 1 in the place of 0."""
    return np.where(largest > 0, largest, 1.0)


def spread_or_zero(spread: Array, unit: Array) -> Array:
    """``unit * spread``; 0 where it is rounding, as the spread is in units of the range."""
    return np.where(spread <= _CONSTANT, 0.0, unit * spread)


def spread_of_the_shortest_quarter(x: Array) -> float:
    """A spread of numbers (n,) that far ones do not move; infinite of a single value."""
    # that of the shortest interval with a quarter of the distinct values, in units of a standard
    # normal one: of halves (Rousseeuw and Leroy 1988), two far clusters would have their distance
    values = np.unique(x[np.isfinite(x)])
    if len(values) < 2:
        return np.inf
    quarter = -(-(len(values) - 1) // 4)
    return np.min(values[quarter:] - values[:-quarter]) / _QUARTER


def rounding_of(mean: Scalars) -> Array:
    """Deviations from means (p,) of targets that are constant but for rounding."""
    return 4 * np.finfo(float).eps * np.abs(mean)


def log_densities_of_targets(y: Array, mean: Array, std: Array) -> Array:
    """Log densities (n, p) of normal targets, and of constants, whose standard deviation is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        density = log_normal_density(y, mean, std)
    of_constants = np.where(np.abs(y - mean) <= rounding_of(mean), np.inf, -np.inf)
    return np.where(std > 0, density, of_constants)


FEW_ROWS = 2  # that differ, up to which equal targets have no known scale


class TargetScaler(NamedTuple):
    """Means and scales of the targets, which are standardised as ``(y - mean) / scale``."""

    mean: Array  # (p,)
    scale: Array  # (p,), 0 of a constant beside others: of the p targets, q are standardised

    @property
    def n_varying(self) -> int:
        """The number q of targets that are not constant."""
        return int(np.count_nonzero(self.scale))

    @classmethod
    def none(cls, n_targets: int) -> "TargetScaler":
        """The units of the user."""
        return cls(np.zeros(n_targets), np.ones(n_targets))

    @classmethod
    def of(cls, rows: Any, normalize: bool, name: str, shared: bool = False) -> "TargetScaler":
        """Units in which targets have mean 0 and variance 1, if they are to be normalised."""
        scaler = rows.scaler
        if normalize:  # one scale if there is known noise, which is in units of y², or may be later
            moments, shared = rows.target_moments(), shared or bool(np.any(rows.noise))
            few = rows.in_memory and (len(rows) <= FEW_ROWS or is_small(rows.X.size))
            few = few and len(unique_rows(rows.X)) <= FEW_ROWS
            scaler = cls(moments.mean, scale_of(moments.mean, moments.spread, shared, few))
        noise, scale = np.max(rows.noise), scaler.scale.max()  # one, where noise is known
        if not np.isfinite(noise / scale / scale):
            raise ValueError(
                f"The 'alpha' parameter of {name} is too large for y: its largest value is "
                f"{noise:.1e}, and y has a standard deviation of {scale:.1e}. Rescale y."
            )
        return scaler

    def with_constants(self) -> "TargetScaler":
        """Units in which targets that are constant are standardised, too."""
        return self._replace(scale=or_one(self.scale))

    def forward(self, y: Array) -> Array:
        """Standardised targets (n, q), from those of the user (n, p)."""
        varies = slice(None) if self.scale.all() else self.scale > 0
        return (y[..., varies] - self.mean[varies]) / self.scale[varies]

    def inverse(self, values: Array) -> Array:
        """Values (n, p) in the units of the user, from those (n, q) of standardised targets."""
        return self.among_constants(values) * self.scale + self.mean

    def inverse_std(self, std: Array) -> Array:
        """Standard deviations (n, p) in the units of the user, from one of all targets (n, 1)."""
        return std * self.scale

    def among_constants(self, values: Array) -> Array:
        """Numbers (n, p, ...), 0 of constant targets, from those (n, q, ...) of the others."""
        varies = self.scale > 0
        if varies.all():
            return values
        placed = np.zeros((len(values), len(self.scale), *values.shape[2:]))
        placed[:, varies] = values
        return placed


def scale_of(mean: Scalars, std: Scalars, shared: bool = False, few: bool = False) -> Array:
    """Scale (p,) of targets with these means and standard deviations; 0 where some are constant."""
    rounding = rounding_of(mean)
    std = np.where(std <= rounding, 0.0, std)
    if not std.any():  # all are: 1 or, of few rows, the size of the target unless that is 0
        size = np.abs(mean) if few else std
        std = np.where(size > 0, size, np.maximum(rounding, 1.0))
    varies = std > 0
    return np.where(varies, root_mean_square(std[varies, None], None), 0.0) if shared else std


_SMALL_TABLE = 1_000_000  # numbers: 8 MB, sorted in less than 0.1 s


class Distinct:
    """Distinct rows of an array, and where each row is among them.

    Rows of X (n, d), with other columns (n,), are equal if all their numbers are; a missing value
    equals another one. `first`, (u,), is the place of the first of equal rows, and `index`, (n,),
    the distinct row of each row. Distinct rows are sorted, missing values last; without
    `is_sorted`, they stay in the order in which they came.
    """

    def __init__(self, X: AnyArray, *columns: Array, is_sorted: bool = True) -> None:
        keys = *X.T, *columns
        _, first, index = np.unique(hashes(len(X), *keys), return_index=True, return_inverse=True)
        order = np.lexsort([key[first] for key in keys[::-1]]) if is_sorted else np.argsort(first)
        self.first, self.index = first[order], np.argsort(order)[index]

    def copies(self, weight: Array | None = None) -> Any:
        """How often each distinct row is there, by weights (n,) of the rows if they have any."""
        return np.bincount(self.index, weight, minlength=len(self.first))


def places_among(X: AnyArray, others: AnyArray) -> Ints:
    """Numbers (k,) of the rows of X (n, d) that others (k, d) equal, -1 where none does."""
    same = Distinct(np.concatenate([X, others]))
    place = same.first[same.index[len(X) :]]
    return np.where(place < len(X), place, -1)


def hashes(n: int, *columns: AnyArray, code: AnyArray | None = None) -> AnyArray:
    """Hashes (n,) of rows: those of equal rows are equal, others coincide once in 1e19 pairs.

    The `code` is that of columns before these.
    """
    code = np.zeros(n, dtype=np.uint64) if code is None else code
    for x in columns:  # -0 is 0, and all NaN are one
        bits = np.add(np.where(np.isnan(x), np.nan, x), 0.0, dtype=np.float64).view(np.uint64)
        code = code + np.uint64(0x9E3779B97F4A7C15) ^ bits
        # all bits depend on all before (Steele, Lea and Flood 2014, SplitMix)
        code = (code ^ (code >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        code = (code ^ (code >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        code ^= code >> np.uint64(31)
    return code


def unique_rows(X: Array) -> Array:
    """Sorted distinct rows of an array (n, d) without infinities; missing values are equal."""
    return X[Distinct(X).first]


def is_small(size: int) -> bool:
    """Whether rows of so many numbers are sorted, so that equal tables have one form."""
    return size <= _SMALL_TABLE
