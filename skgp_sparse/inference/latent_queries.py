"""Latent inputs: where new rows are in a latent space, and where the fit of a GP-LVM begins.

Each new row maximises its own bound, the model held (`locate`). A fit begins at the principal
components.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from skgp_sparse import kernels
from skgp_sparse.data.dataset import Batch
from skgp_sparse.engine.feature_posterior import InducingPosterior, Normals
from skgp_sparse.engine.normal_inputs import LatentRows, log_likelihoods, patterns_of
from skgp_sparse.ground.linalg import row_dots
from skgp_sparse.ground.parallel import ordered_map, slices
from skgp_sparse.ground.validation import Array, Bools, Ints, Pair, Rng, Scalars, Triple

_RANK = 1e-8  # singular values below this share of the largest one are 0
_BEYOND = 0.01  # standard deviation of the means beyond the rank


def principal_components(Y: Array, d: int, random_state: Rng) -> Pair:
    """Scores of the principal components, of unit variance (n, d), and their length scales (d,).

    Beyond the rank, scores are small random numbers. Length scales ``√min(d, 3) sv_1 / sv_j`` are
    as long as a component is weak: its variance counts in the kernel as much as in the data.
    """
    U, values, _ = np.linalg.svd(Y, full_matrices=False)
    rank = min(d, int(np.count_nonzero(values > _RANK * values.max(initial=0.0))))
    mean = _BEYOND * random_state.normal(size=(len(Y), d))
    mean[:, :rank] = U[:, :rank] * np.sqrt(len(Y))
    largest = mean[np.abs(mean).argmax(axis=0), np.arange(d)]
    relative = values[0] / values[np.minimum(np.arange(d), rank - 1)] if rank else np.ones(d)
    return mean * np.where(largest < 0, -1.0, 1.0), np.sqrt(min(d, 3)) * relative


_ROWS = 256  # of a block
_STARTS, _STARTS_WITH_MISSING = 1, 3
_MOST_CANDIDATES = 2000  # training rows that are looked at for starts
_TOL, _MOST = 1e-8, 400  # largest entry of the gradient where a row ends; evaluations
_LEAST_GAIN = 1e-18  # of the next step, below which a row ends as well
_BOUND_TOLERANCE = 1e-9  # of the bound, in units of its size
_ARMIJO, _CUT, _SHORTEST = 1e-4, 0.4, 1e-9  # of a step that failed, and of the last one tried
_FLAT = 1e-12  # cosine of step and change of the gradient, below which nothing is learned


class LatentModel(NamedTuple):
    """A fitted model of rows with latent inputs, in units of standardised targets."""

    bound: Any
    posterior: InducingPosterior
    training: Normals  # q of the training rows

    @property
    def noise(self) -> Scalars:
        """Variance of the noise of every target."""
        features = self.posterior.features
        return kernels.diagonal(features.kernel, features.Z)[1]


def locate(fitted: LatentModel, Y: Array, mask: Bools, n_jobs: int = 1) -> tuple:
    """Positions of new rows (n, p), with their bounds and slopes (n,) where the search ended.

    A row y with the bound R of its log likelihood given ``x ~ q = N(μ, diag s)`` maximises

        R(μ, s) - KL[q ‖ N(0, I)]    over (μ, log s),

    by BFGS, side by side with the others of a block. The bound may have several maxima, most of
    all where targets are missing (0, with a mask): a row begins where training rows would be best
    placed to explain it.
    """
    complete, d = mask.all(axis=1), fitted.training.mean.shape[1]
    found = np.empty((len(Y), 2 * d + 2))
    run = partial(_locate_block, fitted, Y, mask)
    for rows in (np.flatnonzero(complete), np.flatnonzero(~complete)):
        blocks = [rows[part] for part in slices(len(rows), _ROWS)]
        for block, of_block in zip(blocks, ordered_map(run, blocks, n_jobs)):
            found[block] = np.column_stack(of_block)
    mean, log_variance, value, slope = np.split(found, [d, 2 * d, 2 * d + 1], axis=1)
    return Normals(mean, np.exp(log_variance)), value[:, 0], slope[:, 0]


def _starts(fitted: LatentModel, y: Array, mask: Bools) -> Normals:
    """For each row, the q of the training rows (n k, d) that explain it best."""
    n, count = len(fitted.training.mean), _STARTS if mask.all() else _STARTS_WITH_MISSING
    inputs = fitted.training.of(np.linspace(0, n - 1, min(n, _MOST_CANDIDATES)).astype(int))
    mean, variance, rest = fitted.posterior.explained(inputs)
    phi = fitted.bound.reduce(fitted.bound.penalty(rest / fitted.noise)[0], 1.0)[0]
    score = (y @ mean.T - 0.5 * mask @ (variance + mean**2).T) / fitted.noise
    score -= np.outer(mask.sum(axis=1), phi) + _divergences(inputs)
    return inputs.of(np.argsort(-score, axis=1, kind="stable")[:, :count].ravel())


def _locate_block(fitted: LatentModel, Y: Array, mask: Bools, rows: Ints) -> Triple:
    """Position (μ, log s), bound and slope of some rows, all of which lack values, or none."""
    y, mask = Y[rows], mask[rows]
    mean, variance = _starts(fitted, y, mask)
    of_each = np.repeat(np.arange(len(rows)), len(mean) // len(rows))
    y, (patterns, of_column) = y[of_each], patterns_of(mask[of_each])

    def bound(x: Array, some: Ints) -> Pair:
        mean, log_variance = np.split(x, 2, axis=1)
        inputs = Normals(np.ascontiguousarray(mean), np.exp(log_variance))
        latent = LatentRows(inputs, patterns[some], of_column)
        part = Batch(inputs.mean, y[some], 0.0, 1.0)
        value, mean_bar, v_bar = log_likelihoods(fitted.bound, fitted.posterior, part, latent)
        of_log = inputs.variance * v_bar - 0.5 * np.expm1(log_variance)
        return value - _divergences(inputs), np.hstack([mean_bar - mean, of_log])

    curvature = np.hstack([variance, np.full_like(variance, 2.0)])
    x, value, slope = maximise_each(bound, np.hstack([mean, np.log(variance)]), curvature)
    of_row = value.reshape(len(rows), -1)
    top = of_row.max(axis=1, keepdims=True)
    first = np.argmax(of_row >= top - _BOUND_TOLERANCE * np.abs(top), axis=1)
    best = first + np.arange(0, len(value), of_row.shape[1])
    return x[best], value[best], slope[best]


def _divergences(inputs: Normals) -> Array:
    """KL (n,) of normal distributions to N(0, I)."""
    return 0.5 * np.sum(inputs.mean**2 + inputs.variance - np.log(inputs.variance) - 1.0, axis=1)


def maximise_each(function: Callable[[Array, Ints], Pair], x: Array, variances: Array) -> Triple:
    """Maximise a function of each row (n, d), side by side, by BFGS: x, values and slopes (n,).

    The function gives values (k,) and gradients (k, d) of k rows; `variances` (n, d) are
    diagonals of minus the inverse Hessians at the start. A step that does not improve a row is
    shortened in the next round, with the others' next steps.
    """
    x, length = np.array(x), np.ones(len(x))
    value, gradient = function(x, np.arange(len(x)))
    H = variances[:, :, None] * np.eye(x.shape[1])  # minus the inverse Hessians
    for _ in range(_MOST):
        direction = np.einsum("nij,nj->ni", H, gradient)
        is_live = (np.abs(gradient).max(axis=1) > _TOL) & (length > _SHORTEST)
        live = np.flatnonzero(is_live & (row_dots(direction, gradient) > _LEAST_GAIN))
        if not len(live):
            break
        reach = np.maximum(1.0, np.abs(direction[live]).max(axis=1))
        step = direction[live] * (length[live] / reach)[:, None]
        new_value, new_gradient = function(x[live] + step, live)
        enough = value[live] + _ARMIJO * row_dots(step, gradient[live])
        good = new_value >= enough - _BOUND_TOLERANCE * (1.0 + np.abs(value[live]))
        good &= np.isfinite(new_gradient).all(axis=1)
        length[live] = np.where(good, 1.0, _CUT * length[live])
        live, step = live[good], step[good]
        H[live] = _updated(H[live], step, gradient[live] - new_gradient[good])
        x[live] += step
        value[live], gradient[live] = new_value[good], new_gradient[good]
    return x, value, np.abs(gradient).max(axis=1)


def _updated(H: Array, step: Array, change: Array) -> Array:
    """BFGS: minus inverse Hessians after steps and changes of minus the gradients."""
    product = row_dots(step, change)
    is_curved = product > _FLAT * np.sqrt(row_dots(step, step) * row_dots(change, change))
    rho = np.where(is_curved, 1.0 / np.where(is_curved, product, 1.0), 0.0)
    Hy = np.einsum("nij,nj->ni", H, change)
    outer = step[:, :, None] * (rho[:, None] * Hy)[:, None]
    along = rho * (1.0 + rho * row_dots(change, Hy))
    H = H - outer - outer.transpose(0, 2, 1)
    return H + along[:, None, None] * (step[:, :, None] * step[:, None])
