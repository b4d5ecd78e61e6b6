"""Kernels that estimators use by default, in the units of the data, and initialisers by name."""

from dataclasses import replace

import numpy as np
from sklearn.base import clone
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel
from sklearn.utils import check_array

from skgp_sparse import inducing, kernels
from skgp_sparse._engine.moments import merge, moments_of

_NOISE = {"noise_level": 0.1, "noise_level_bounds": (1e-6, 1e3)}
_SMALLEST_NOISE = 1e-12  # in units of the standardised targets' variance
_SAMPLE_ROWS = 10_000  # rows that an initialiser looks at, or ten per inducing point


def resolve_kernel(kernel, alpha, rows):
    """A clone of the kernel, or the default one, with the noise that is to be learned."""
    y_variance = rows.target_variance()
    signal = default_signal(rows.scale(), y_variance) if kernel is None else clone(kernel)
    probe = rows.block(slice(0, 1)).X
    kernels.evaluate(signal, probe, probe)  # length scales for other columns are refused here
    noise_is_known = alpha is not None and kernel is not None
    if noise_is_known or kernels.has_noise(signal):
        return signal
    level, limits = _NOISE["noise_level"], _NOISE["noise_level_bounds"]
    return signal + WhiteKernel(
        level * y_variance, (limits[0] * y_variance, limits[1] * y_variance)
    )


def resolve_latent_kernel(kernel, likelihood, rows):
    """A clone of the kernel of a process that a likelihood follows, or the default one."""
    if kernel is None:
        variance = _spread(rows) ** 2 if likelihood.standardises else 1.0
        return default_signal(rows.scale(), variance, likelihood.latent_variance)
    probe = rows.block(slice(0, 1)).X
    kernels.evaluate(kernel, probe, probe)  # length scales for other columns are refused here
    return clone(kernel)


def with_noise_floor(rows, kernel):
    """The rows with known noise above what the arithmetic needs, where no noise is learned."""
    return rows if kernels.has_noise(kernel) else replace(rows, least_noise=_SMALLEST_NOISE)


def _spread(rows):
    """Standard deviation of the targets without their offsets, 1 where it is 0."""
    found = merge(_moments_of_piece(rows, piece) for piece in rows.pieces()).spread[0]
    return found if found > 0 else 1.0


def _moments_of_piece(rows, piece):
    y = rows.targets(piece)
    centred = y if rows.offset is None else y - rows.offset[piece, None]
    return moments_of(centred, rows.weights(piece))


def users_part(fitted, kernel):
    """What of a fitted kernel the user wrote: all but appended noise; None for the default."""
    if kernel is None:
        return None
    return fitted.k1 if len(fitted.theta) > len(kernel.theta) else fitted


def default_signal(scale, y_variance, limits=(1e-3, 1e4)):
    """``ConstantKernel() * Matern(ARD, nu=2.5)`` in the units of the data."""
    typical = scale * np.sqrt(len(scale))  # makes two typical rows correlate by about exp(-1)
    lengths = np.column_stack([1e-3 * typical, 1e4 * typical])
    if not (np.isfinite(lengths).all() and lengths.min() >= np.finfo(float).tiny):
        raise ValueError(
            "The standard deviation of a column of X is too small or too large for float64. "
            "Rescale X, or pass a kernel."
        )
    variance = ConstantKernel(y_variance, (limits[0] * y_variance, limits[1] * y_variance))
    return variance * Matern(typical, lengths, nu=2.5)


def same_structure(kernel, other):
    """Whether two kernels have the same hyperparameters, whatever their values."""

    def outline(of):
        free = [(hyper.name, hyper.n_elements, hyper.fixed) for hyper in of.hyperparameters]
        return type(of), free

    return outline(kernel) == outline(other)


def resolve_inducing(init, n_inducing, n_features, name):
    """Initialiser ``(rows, kernel, random_state) -> Z``, and whether Z is the user's own."""
    if isinstance(init, str) and init in inducing.BY_NAME:
        return _from_sample(inducing.BY_NAME[init], n_inducing), False
    if callable(init):
        return _from_callable(init, n_inducing, name), False
    if isinstance(init, str) or np.ndim(init) == 0:
        raise ValueError(
            f"The 'inducing_init' parameter of {name} must be one of {sorted(inducing.BY_NAME)}, "
            f"an array of shape (m, n_features) or a callable. Got {init!r} instead."
        )
    Z = _check_inducing(init, n_features, name)
    return lambda rows, kernel, random_state: Z, True


def _from_sample(function, n_inducing):
    def initialise(rows, kernel, random_state):
        few = rows.sampled(rows.sample(max(_SAMPLE_ROWS, 10 * n_inducing), random_state))
        X = few.everything().X
        return function(X, n_inducing, kernel, random_state, sample_weight=few.weight)

    return initialise


def _from_callable(function, n_inducing, name):
    def initialise(rows, kernel, random_state):
        Z = function(rows.inputs(), n_inducing, kernel, random_state)
        return _check_inducing(Z, rows.n_features, name)

    return initialise


def _check_inducing(Z, n_features, name):
    if np.ndim(Z) != 2:
        raise ValueError(
            f"The 'inducing_init' parameter of {name} must be or return an array of shape (m, "
            f"{n_features}). Got {Z!r} instead."
        )
    Z = check_array(Z, dtype=float, copy=True, input_name="inducing_init")
    if Z.shape[1] != n_features:
        raise ValueError(
            f"The 'inducing_init' parameter of {name} has {Z.shape[1]} columns, but X has "
            f"{n_features} features."
        )
    return Z
