"""Columns that share latent inputs: targets and their unit, the kernel to begin with, and starts.

Unlike in an `ObservationModel`, whose rows have inputs, all that is given here are targets, some of
which may be missing. Columns are centred and have one common unit, so that their relative sizes
count.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from skgp_sparse import inducing, kernels
from skgp_sparse._engine.array_dataset import ArrayDataset
from skgp_sparse._engine.basis import InducingBasis, Options
from skgp_sparse._engine.feature_posterior import Normals
from skgp_sparse._engine.normal_inputs import MissingTargets
from skgp_sparse._ground.parallel import Deadline, single_threaded_blas
from skgp_sparse.inference.contracts import VectorFunction
from skgp_sparse.inference.latent_queries import latent_starts
from skgp_sparse.inference.objectives import LatentObjective
from skgp_sparse.inference.optimizers import STOPPED, Maximum, climb

_NOISE, _NOISE_BOUNDS = 0.05, (1e-6, 1e3)  # in units of the mean square of the targets
_SCALE_BOUNDS = (1e-3, 1e5)  # of the length scales, where positions have variance 1


class LatentUnits(NamedTuple):
    """Targets are standardised as ``(y - mean) / scale``."""

    mean: np.ndarray  # (p,)
    scale: float

    @classmethod
    def of(cls, Y):
        """Units in which observed targets have mean 0 per column, and mean square 1 in all."""
        mean = np.nanmean(Y, axis=0)
        scale = np.sqrt(np.nanmean((Y - mean) ** 2))
        rounding = 4.0 * np.finfo(float).eps * np.abs(mean).max()
        return cls(mean, float(scale) if scale > rounding else max(rounding, 1.0))

    def standardised(self, Y):
        """Targets, 0 where they are missing, and whether they were observed (n, p)."""
        mask = ~np.isnan(Y)
        return np.where(mask, (Y - self.mean) / self.scale, 0.0), mask


class LatentSettings(NamedTuple):
    """How a fit is looked for."""

    n_restarts: int
    max_iter: int
    tol: float
    noise: float | None  # variance of the standardised targets; None: learned
    options: Options
    progress: Callable | None = None  # (iteration, value, about) -> stop?
    deadline: Deadline = Deadline()  # after which no start begins, and no iteration


class LatentFit(NamedTuple):
    """Fit from the best start: the objective, the kernel and the maximum."""

    objective: LatentObjective
    kernel: object  # white noise included
    maximum: Maximum


def fit_latent(y, mask, bound, given, settings, random_state):
    """The `LatentFit` with the highest bound.

    Parameters
    ----------
    y, mask : ndarray of shape (n, p)
        Standardised targets, and whether they were observed.
    bound : Bound
    given : estimator
        Whose public parameters it reads.
    settings : LatentSettings
    random_state : RandomState
    """
    best, count = None, settings.n_restarts + 1
    starts = latent_starts(y, given.n_components, count, random_state)
    with single_threaded_blas():
        for k, start in enumerate(starts):
            about = f"start {k + 1}" if count > 1 else ""
            tell = settings.progress and partial(settings.progress, about=about)
            own = settings._replace(progress=tell)
            fit = _climb_from(start, y, mask, bound, given, own, random_state)
            if best is None or fit.maximum.value > best.maximum.value:
                best = fit
            if fit.maximum.message == STOPPED:
                break
    return best


def initial_kernel(given, length_scale, noise):
    """The kernel to begin with, its noise included; `noise` is that of the user, or None."""
    kernel = given.kernel
    if kernel is None:
        kernel = ConstantKernel(1.0) * RBF(length_scale, _SCALE_BOUNDS)
    if kernels.has_noise(kernel):
        return clone(kernel)
    if noise is None:
        return clone(kernel) + WhiteKernel(_NOISE, _NOISE_BOUNDS)
    return clone(kernel) + WhiteKernel(noise, "fixed")


def _climb_from(start, y, mask, bound, given, settings, random_state):
    """The `LatentFit` from a `LatentStart`."""
    n, d = start.mean.shape
    kernel = initial_kernel(given, start.length_scale, settings.noise)
    Z = start.mean
    if given.n_inducing < n:
        Z = inducing.k_means(Z, given.n_inducing, kernel, random_state)
    objective = LatentObjective(
        rows=ArrayDataset(np.empty((n, 0)), y),
        bound=bound,
        basis=InducingBasis(Z),
        prior=Normals(np.zeros((n, d)), np.ones((n, d))),
        shift=start.mean,
        log_ratio=np.full((n, d), np.log(start.variance)),
        missing=MissingTargets.of_mask(mask),
        options=settings.options,
    )
    function = VectorFunction(objective, kernel, move_basis=True)
    maximum = _climb(function, settings, min(start.slow, settings.max_iter))
    return LatentFit(*function.at(maximum.x), maximum)


def _climb(function, settings, slow):
    """The `Maximum`, after so many iterations in which all parameters have the same unit."""
    begun = x0 = None
    if slow:
        begun = climb(function, settings, max_iter=slow, alike=True)
        if begun.message == STOPPED or slow == settings.max_iter:
            return begun
        x0 = begun.x
    maximum = climb(function, settings, x0, max_iter=settings.max_iter - slow)
    return maximum._replace(n_iter=maximum.n_iter + (begun.n_iter if begun else 0))


def in_order(fit):
    """A copy of the fit, components sorted by their KL divergence, each with a positive peak.

    The bound depends neither on the order of components nor on their signs, where the kernel has
    one length scale for each, or treats all of them alike.
    """
    latent, kernel = fit.objective, clone(fit.kernel)
    order = np.argsort(-latent.divergences().sum(axis=0), kind="stable")
    mean = latent.inputs.mean
    signs = np.where(mean[np.abs(mean).argmax(axis=0), np.arange(mean.shape[1])] < 0, -1.0, 1.0)
    for name, value in kernel.get_params().items():
        of_columns = name.split("__")[-1] in ("length_scale", "length_scale_bounds")
        has_one_each = np.ndim(value) == (2 if name.endswith("bounds") else 1)
        if of_columns and has_one_each and len(value) == len(order):
            kernel.set_params(**{name: np.asarray(value)[order]})
    moved = latent.at(
        basis=(latent.inducing_points * signs)[:, order],
        shift=(latent.shift * signs)[:, order],
        log_ratio=latent.log_ratio[:, order],
    )
    return fit._replace(objective=moved, kernel=kernel)
