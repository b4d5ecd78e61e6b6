"""Kernels that estimators use by default, in the units of the data."""

import numpy as np
from sklearn.base import clone
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

from skgp_sparse import kernels
from skgp_sparse._engine.moments import merge, moments_of

_NOISE = {"noise_level": 0.1, "noise_level_bounds": (1e-6, 1e3)}


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
