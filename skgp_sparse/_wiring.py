"""Names and defaults become objects, and choices are judged together. Nothing is computed here."""

from dataclasses import replace
from numbers import Integral, Real

import numpy as np
from sklearn.base import clone
from sklearn.gaussian_process.kernels import (
    RBF,
    CompoundKernel,
    ConstantKernel,
    Kernel,
    WhiteKernel,
)
from sklearn.utils import check_array

from skgp_sparse import bounds, inducing, kernels

BOUNDS = {
    "titsias": bounds.Titsias,
    "vfe": bounds.Titsias,
    "titsias_new": bounds.TitsiasNew,
    "artemev": bounds.Artemev,
    "fitc": bounds.FITC,
    "gfitc-ep": bounds.FITC,  # EP is exact for a Gaussian likelihood
    "pep": bounds.PEP,
    "dtc": bounds.DTC,
}
_SAMPLE_ROWS = 10_000  # rows that an initialiser looks at, or ten per inducing point
_SMALLEST_NOISE = 1e-12  # in units of the standardised targets' variance
_NOISE = {"noise_level": 0.1, "noise_level_bounds": (1e-6, 1e3)}


def resolve_bound(bound, name):
    """The bound object of a string or an instance."""
    if isinstance(bound, bounds.Bound):
        alpha = getattr(bound, "alpha", 0.5)
        check_number(alpha, "bound__alpha", name, Real, low=0, high=1)
        return bound
    if isinstance(bound, str) and bound in BOUNDS:
        return BOUNDS[bound]()
    raise ValueError(
        f"The 'bound' parameter of {name} must be one of {sorted(BOUNDS)} or an instance of "
        f"skgp_sparse.bounds.Bound. Got {bound!r} instead."
    )


def check_kernel(kernel, name):
    """Raise unless `kernel` is None or a covariance function of vectors."""
    if kernel is None:
        return
    if not isinstance(kernel, Kernel):
        raise ValueError(
            f"The 'kernel' parameter of {name} must be None or a kernel from "
            f"sklearn.gaussian_process.kernels. Got {kernel!r} instead."
        )
    if isinstance(kernel, CompoundKernel):
        raise ValueError(
            f"The 'kernel' parameter of {name} cannot be a CompoundKernel, which is several "
            "kernels and not one. Add or multiply them instead."
        )
    if not kernel.requires_vector_input:
        raise ValueError(
            f"The 'kernel' parameter of {name} must be defined on vectors: inducing points are "
            f"vectors too. {kernel!r} takes structured inputs; use GaussianProcessRegressor."
        )


def resolve_kernel(kernel, alpha, rows):
    """A clone of the kernel, or the default one, with the noise that is to be learned."""
    y_variance = rows.target_variance()
    signal = default_signal(rows.scale(), y_variance) if kernel is None else clone(kernel)
    noise_is_known = alpha is not None and kernel is not None
    if noise_is_known or kernels.has_noise(signal):
        return signal
    level, limits = _NOISE["noise_level"], _NOISE["noise_level_bounds"]
    return signal + WhiteKernel(
        level * y_variance, (limits[0] * y_variance, limits[1] * y_variance)
    )


def default_signal(scale, y_variance):
    """``ConstantKernel() * RBF(ARD)`` in the units of the data."""
    typical = scale * np.sqrt(len(scale))  # makes two typical rows correlate by about exp(-1)
    length = RBF(typical, np.column_stack([1e-3 * typical, 1e4 * typical]))
    return ConstantKernel(y_variance, (1e-3 * y_variance, 1e4 * y_variance)) * length


def check_alpha(alpha, n, name):
    """Known noise variance as a float or an array (n,); 0 where there is none."""
    if alpha is None:
        return 0.0
    if np.ndim(alpha) == 0:
        check_number(alpha, "alpha", name, Real, low=0)
        return float(alpha)
    alpha = check_array(alpha, ensure_2d=False, dtype=float, input_name="alpha")
    if alpha.shape == (1,):
        alpha = np.broadcast_to(alpha, n)
    if alpha.shape != (n,):
        raise ValueError(
            "alpha must be a scalar or an array with same number of entries as y. "
            f"({alpha.shape[0]} != {n})"
        )
    if alpha.min() < 0:
        raise ValueError(
            f"The 'alpha' parameter of {name} must hold noise variances, which are not negative. "
            f"Got {alpha.min()}."
        )
    return alpha


def with_noise_floor(rows, kernel):
    """The rows with known noise above what the arithmetic needs, where no noise is learned."""
    if kernels.has_noise(kernel):
        return rows
    return replace(rows, noise=np.maximum(rows.noise, _SMALLEST_NOISE * rows.y_scale[0] ** 2))


def resolve_inducing(init, n_inducing, n_features, name):
    """Initialiser ``(rows, kernel, random_state) -> Z``, and whether Z is the user's own."""
    if isinstance(init, str) and init in inducing.BY_NAME:
        return _from_sample(inducing.BY_NAME[init], n_inducing), False
    if callable(init):
        return _from_callable(init, n_inducing, n_features, name), False
    if isinstance(init, str) or np.ndim(init) == 0:
        raise ValueError(
            f"The 'inducing_init' parameter of {name} must be one of {sorted(inducing.BY_NAME)}, "
            f"an array of shape (m, n_features) or a callable. Got {init!r} instead."
        )
    Z = _check_inducing(init, n_features, name)
    return lambda rows, kernel, random_state: Z, True


def _from_sample(function, n_inducing):
    def initialise(rows, kernel, random_state):
        chosen = rows.sample(max(_SAMPLE_ROWS, 10 * n_inducing), random_state)
        block = rows.block(chosen)
        all_rows_seen = rows.weight is not None and len(chosen) == np.count_nonzero(rows.weight)
        weight = block.weight if all_rows_seen else None  # a sample is drawn by weight already
        return function(block.X, n_inducing, kernel, random_state, sample_weight=weight)

    return initialise


def _from_callable(function, n_inducing, n_features, name):
    def initialise(rows, kernel, random_state):
        Z = function(rows.X, n_inducing, kernel, random_state)
        return _check_inducing(Z, n_features, name)

    return initialise


def _check_inducing(Z, n_features, name):
    Z = check_array(Z, dtype=float, copy=True, input_name="inducing_init")
    if Z.shape[1] != n_features:
        raise ValueError(
            f"The 'inducing_init' parameter of {name} has {Z.shape[1]} columns, but X has "
            f"{n_features} features."
        )
    return Z


def check_n_targets(n_targets, seen):
    """Raise unless the targets are as many as announced."""
    if n_targets is not None and n_targets != seen:
        raise ValueError(
            "The number of targets seen in `y` is different from the parameter "
            f"`n_targets`. Got {seen} != {n_targets}."
        )


def check_optimizer(optimizer, n_restarts, kernel, name):
    """Raise unless the optimiser is known and restarts have finite bounds to draw from."""
    if not (optimizer is None or callable(optimizer) or optimizer == "fmin_l_bfgs_b"):
        raise ValueError(
            f"The 'optimizer' parameter of {name} must be 'fmin_l_bfgs_b', a callable or None. "
            f"Got {optimizer!r} instead."
        )
    if n_restarts > 0 and not np.isfinite(kernel.bounds).all():
        raise ValueError(
            "Multiple optimizer restarts (n_restarts_optimizer>0) requires that all bounds are "
            "finite."
        )


def check_number(value, parameter, name, kind, low, high=np.inf):
    """Raise unless the parameter is a number of that kind between low and high."""
    is_number = isinstance(value, kind) and not isinstance(value, bool | np.bool_)
    if not is_number or not low <= value <= high:
        noun = "an int" if kind is Integral else "a float"
        raise ValueError(
            f"The {parameter!r} parameter of {name} must be {noun} in the range [{low}, {high}]. "
            f"Got {value!r} instead."
        )
