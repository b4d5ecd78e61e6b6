"""The units of the targets: means and scales by which they are standardised, and back."""

from typing import Any, NamedTuple

import numpy as np

from skgp_sparse._engine.data.moments import or_one, root_mean_square, rounding_of
from skgp_sparse._ground.distinct import is_small, unique_rows
from skgp_sparse._ground.typing import Array

FEW_ROWS = 2  # that differ, up to which equal targets have no known scale


class TargetScaler(NamedTuple):
    """Means and scales of the targets, which are standardised as ``(y - mean) / scale``.

    One that is constant beside others has the scale 0, and is predicted as that constant. It is
    none of the standardised targets, of which there are q ≤ p.
    """

    mean: Array  # (p,)
    scale: Array  # (p,)

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
        """Units in which targets have mean 0 and variance 1, if they are to be normalised.

        Targets of known noise share one scale: the noise is in units of y², the same for all of
        them. They also do if it is `shared`, as noise may come with later rows. If rows are so few
        that equal targets are no constant, these are in units of their size.

        Parameters
        ----------
        rows : Dataset
            In the units of the user.
        normalize : bool
        name : str
            Of the estimator, for errors.
        shared : bool
        """
        units = rows.units
        if normalize:
            moments, shared = rows.target_moments(), shared or bool(np.any(rows.noise))
            few = rows.in_memory and _are_few(rows.X)
            units = cls(moments.mean, scale_of(moments.mean, moments.spread, shared, few))
        _check_noise(np.max(rows.noise), units.scale, name)
        return units

    def with_constants(self) -> "TargetScaler":
        """Units in which targets that are constant are standardised, too."""
        return self._replace(scale=or_one(self.scale))

    def forward(self, y: Array) -> Array:
        """Standardised targets (n, q), from those of the user (n, p)."""
        varies = self.scale > 0
        if varies.all():
            return (y - self.mean) / self.scale
        return (y[:, varies] - self.mean[varies]) / self.scale[varies]

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


def scale_of(mean: Array, std: Array, shared: bool = False, few: bool = False) -> Array:
    """Scale (p,) of targets with these means and standard deviations; 0 where some are constant.

    Where all of them are, it is 1 or, of `few` rows, the size of the target unless that is 0.
    """
    rounding = rounding_of(mean)
    std = np.where(std <= rounding, 0.0, std)
    if not std.any():
        size = np.abs(mean) if few else std
        std = np.where(size > 0, size, np.maximum(rounding, 1.0))
    varies = std > 0
    if shared:
        std = np.where(varies, root_mean_square(std[varies, None], None), 0.0)
    return std


def _are_few(X: Array) -> bool:
    """Whether rows are so few that equal targets do not say that all targets are equal."""
    return len(X) <= FEW_ROWS or (is_small(X.size) and len(unique_rows(X)) <= FEW_ROWS)


def _check_noise(noise: float, scales: Array, name: str) -> None:
    """Raise if known noise overflows in units of the standardised targets."""
    scale = scales.max()  # one for all, where noise is known
    if not np.isfinite(noise / scale / scale):
        raise ValueError(
            f"The 'alpha' parameter of {name} is too large for y: its largest value is "
            f"{noise:.1e}, and y has a standard deviation of {scale:.1e}. Rescale y, or lower "
            "alpha."
        )
