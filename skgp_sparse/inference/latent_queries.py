"""Latent inputs: where new rows are in a latent space, and where the fit of a GP-LVM begins.

Each new row maximises its own bound, the model held (`locate`). A fit begins at the principal
components, with one of several variances of ``q`` (`latent_starts`).
"""

from functools import partial
from typing import NamedTuple

import numpy as np

from skgp_sparse import kernels
from skgp_sparse.data.dataset import Batch
from skgp_sparse.engine.feature_posterior import (
    InducingPosterior,
    Normals,
    explained,
    predict_blocks,
)
from skgp_sparse.engine.normal_inputs import MissingTargets, log_likelihoods, outer_products
from skgp_sparse.ground.linalg import row_dots
from skgp_sparse.ground.parallel import ordered_map, slices

_RANK = 1e-8  # singular values below this share of the largest one are 0
_BEYOND = 0.01  # standard deviation of the means beyond the rank
_SLOW = 100
_RECIPES = (0.01, 0), (0.1, _SLOW), (1.0, _SLOW)  # variance of q and slow iterations, in turns


class LatentStart(NamedTuple):
    """A start: ``q`` of all rows, length scales, and iterations in which units are not measured."""

    mean: np.ndarray  # (n, d)
    variance: float
    length_scale: np.ndarray  # (d,)
    slow: int


def latent_starts(Y, d, count, random_state):
    """Yield a `LatentStart` after the other.

    Optima are many, and no start is the best one everywhere. Starts differ in the inducing points,
    in the variance of ``q``, and in the pace: where the optimiser first takes all parameters in one
    unit, it takes long to bring ``q`` and the inducing points where they belong, and more
    components stay on.

    Parameters
    ----------
    Y : ndarray of shape (n, p)
        Centred targets, 0 where they are missing.
    d : int
        Number of components.
    count : int
    random_state : RandomState
    """
    mean, length_scale = principal_components(Y, d, random_state)
    for k in range(count):
        variance, slow = _RECIPES[k % len(_RECIPES)]
        yield LatentStart(mean, variance, length_scale, slow)


def principal_components(Y, d, random_state):
    """Scores of unit variance (n, d), and the length scales that belong to them (d,).

    Where targets are centred and have mean square 1, the means are the scores of the principal
    components, of unit variance, and small random numbers beyond the rank. Length scales are as
    long as a component is weak, ``√min(d, 3) sv_1 / sv_j``, so that its variance counts in the
    kernel as much as in the data.
    """
    U, values, _ = np.linalg.svd(Y, full_matrices=False)
    rank = min(d, np.count_nonzero(values > _RANK * values.max(initial=0.0)))
    mean = _BEYOND * random_state.normal(size=(len(Y), d))
    mean[:, :rank] = U[:, :rank] * np.sqrt(len(Y))
    largest = mean[np.abs(mean).argmax(axis=0), np.arange(d)]
    relative = np.ones(d)
    relative[:rank] = values[0] / values[:rank] if rank else 1.0
    relative[rank:] = relative[:rank].max(initial=1.0)
    return mean * np.where(largest < 0, -1.0, 1.0), np.sqrt(min(d, 3)) * relative


_ROWS = 256  # of a block
_STARTS, _STARTS_WITH_MISSING = 1, 3
_MOST_CANDIDATES = 2000  # training rows that are looked at for starts
_TOL, _MOST = 1e-8, 300  # largest entry of the gradient where a row ends; iterations
_LEAST_GAIN = 1e-18  # of the next step, below which a row ends as well
_LOOSE = 1e-3  # gradient of a row that has converged well enough not to be worth a warning
_BOUND_TOLERANCE = 1e-9  # of the bound, in units of its size
_ARMIJO, _CUT, _TRIALS = 1e-4, 0.4, 25
_FLAT = 1e-12  # cosine of step and change of the gradient, below which nothing is learned


class LatentModel(NamedTuple):
    """A fitted model of rows with latent inputs, in units of standardised targets."""

    kernel: object  # white noise included
    bound: object
    posterior: InducingPosterior
    training: Normals  # q of the training rows

    @property
    def noise(self):
        """Variance of the noise of every target."""
        return kernels.diagonal(self.kernel, self.posterior.features.Z)[1]

    def responses(self, inputs, n_jobs=1):
        """Mean and variance (n, p) of the process at inputs that have a distribution."""
        return predict_blocks(self.kernel, self.posterior, inputs, n_jobs)


class Places(NamedTuple):
    """Latent positions of new rows, and bound and slope where their search ended."""

    inputs: Normals
    value: np.ndarray  # (n,) the bound R - KL
    slope: np.ndarray  # (n,) largest entry of its gradient where the search ended

    @property
    def converged(self):
        """Whether the search of a row ended at a maximum (n,)."""
        return self.slope <= _LOOSE


def locate(fitted, Y, mask, n_jobs=1):
    """The `Places` of new rows.

    For a row y with the bound R of its log likelihood given ``x ~ q = N(μ, diag s)``, and the prior
    N(0, I),

        max over (μ, log s):   R(μ, s) - KL[q ‖ N(0, I)],

    which is a maximisation of 2d numbers for every row, and says nothing about other rows. BFGS
    climbs for all rows of a block side by side, and each row stops on its own. The bound may have
    several maxima, most of all where entries are missing: a row begins where training rows would be
    best placed to explain it.

    Parameters
    ----------
    fitted : LatentModel
    Y : ndarray of shape (n, p)
        Standardised targets, 0 where they are missing.
    mask : ndarray of shape (n, p)
        Whether a target was observed.
    n_jobs : int
    """
    candidates = _candidates(fitted)
    complete = mask.all(axis=1)
    places = Places(
        Normals(*np.empty((2, len(Y), fitted.training.mean.shape[1]))), *np.empty((2, len(Y)))
    )
    for has_missing in (False, True):
        rows = np.flatnonzero(complete != has_missing)
        run = partial(_locate_block, fitted, candidates, Y, mask, has_missing)
        blocks = [rows[part] for part in slices(len(rows), _ROWS)]
        for block, found in zip(blocks, ordered_map(run, blocks, n_jobs)):
            places.inputs.mean[block], places.inputs.variance[block] = found.inputs
            places.value[block], places.slope[block] = found.value, found.slope
    return places


class _Candidates(NamedTuple):
    """Training rows as starts, and what their bound of a new row is made of."""

    inputs: Normals
    mean: np.ndarray  # (c, p) of the targets
    second: np.ndarray  # (c, p) their second moments, without what inducing points leave
    base: np.ndarray  # (c,) what does not depend on the new row: minus KL
    penalty: np.ndarray  # (c,) per observed entry
    precision: float


def _candidates(fitted):
    """The `_Candidates` of a model: evenly spaced training rows if there are many."""
    n = len(fitted.training.mean)
    inputs = fitted.training.of(np.linspace(0, n - 1, min(n, _MOST_CANDIDATES)).astype(int))
    mean, variance, rest = explained(fitted.kernel, fitted.posterior, inputs)
    phi = fitted.bound.reduce(fitted.bound.penalty(rest / fitted.noise)[0], 1.0)[0]
    base = -_divergences(*inputs)
    return _Candidates(inputs, mean, variance + mean**2, base, phi, 1.0 / fitted.noise)


def _best_candidates(candidates, y, mask, count):
    """Indices (n, count) of the candidates with the highest bounds."""
    half = 0.5 * candidates.precision
    score = candidates.base - np.outer(mask.sum(axis=1), candidates.penalty)
    score += 2.0 * half * (y @ candidates.mean.T) - half * (mask @ candidates.second.T)
    return np.argsort(-score, axis=1, kind="stable")[:, :count]


def _locate_block(fitted, candidates, Y, mask, has_missing, rows):
    """The `Places` of some rows, all of which lack values, or none."""
    y, mask = Y[rows], mask[rows].astype(np.float64)
    p = y.shape[1]
    missing = MissingTargets(mask, np.arange(p)) if has_missing else MissingTargets.everything(p)
    function = partial(_bound, fitted, outer_products(fitted.posterior, missing), y, missing)
    count = _STARTS_WITH_MISSING if has_missing else _STARTS
    best = None
    for start in _best_candidates(candidates, y, mask, count).T:
        inputs = candidates.inputs.of(start)
        x, value, slope = maximise_each(function, np.hstack([inputs.mean, np.log(inputs.variance)]))
        if best is None:
            best = x, value, slope
            continue
        better = value > best[1] + _BOUND_TOLERANCE * np.abs(value)
        for old, new in zip(best, (x, value, slope)):
            old[better] = new[better]
    x, value, slope = best
    mean, log_variance = np.split(x, 2, axis=1)
    return Places(Normals(mean, np.exp(log_variance)), value, slope)


def _bound(fitted, outer, y, missing, x, rows):
    """The bounds of some rows at (μ, log s), and their gradient."""
    mean, log_variance = np.split(x, 2, axis=1)
    inputs = Normals(np.ascontiguousarray(mean), np.exp(log_variance))
    block = Batch(None, y[rows], 0.0, 1.0)
    value, gradient = log_likelihoods(
        fitted.kernel, fitted.bound, fitted.posterior, outer, block, inputs, missing.of(rows)
    )
    of_mean = gradient["mean"] - mean
    of_log = inputs.variance * gradient["variance"] - 0.5 * np.expm1(log_variance)
    return value - _divergences(*inputs), np.hstack([of_mean, of_log])


def _divergences(mean, variance):
    """KL (n,) of normal distributions to N(0, I)."""
    return 0.5 * np.sum(mean**2 + variance - np.log(variance) - 1.0, axis=1)


def maximise_each(function, x):
    """Maximise a function of each row, independently and side by side, by BFGS.

    Parameters
    ----------
    function : callable
        ``(x, rows) -> (values (k,), gradients (k, d))`` for k of the rows.
    x : ndarray of shape (n, d)
        Where they begin.

    Returns
    -------
    x : ndarray of shape (n, d)
    value : ndarray of shape (n,)
    slope : ndarray of shape (n,)
        The largest entries of the gradients.
    """
    x, live = np.array(x), np.arange(len(x))
    value, gradient = function(x, live)
    H = np.tile(np.eye(x.shape[1]), (len(x), 1, 1))  # minus the inverse Hessians
    H *= (1.0 / np.maximum(1.0, np.abs(gradient).max(axis=1)))[:, None, None]
    for iteration in range(_MOST):
        direction = np.einsum("nij,nj->ni", H[live], gradient[live])
        gain = row_dots(direction, gradient[live])
        going = (np.abs(gradient[live]).max(axis=1) > _TOL) & (gain > _LEAST_GAIN)
        live, direction, gain = live[going], direction[going], gain[going]
        if not len(live):
            break
        step, new_value, new_gradient, moved = _line_search(
            function, x[live], value[live], direction, gain, live
        )
        live, step = live[moved], step[moved]
        change = gradient[live] - new_gradient[moved]
        x[live] += step
        value[live], gradient[live] = new_value[moved], new_gradient[moved]
        H[live] = _updated(H[live], step, change, first=iteration == 0)
    return x, value, np.abs(gradient).max(axis=1)


def _line_search(function, x, value, direction, slope, rows):
    """Steps, values and gradients after them, and which rows have moved."""
    length = 1.0 / np.maximum(1.0, np.abs(direction).max(axis=1))
    step, new_value, new_gradient = np.zeros_like(x), value.copy(), np.zeros_like(x)
    moved, left = np.zeros(len(x), dtype=bool), np.arange(len(x))
    for _ in range(_TRIALS):
        trial = length[left, None] * direction[left]
        at_value, at_gradient = function(x[left] + trial, rows[left])
        enough = value[left] + _ARMIJO * length[left] * slope[left]
        is_good = at_value >= enough - _BOUND_TOLERANCE * (1.0 + np.abs(value[left]))
        is_good &= np.isfinite(at_gradient).all(axis=1)
        good = left[is_good]
        step[good], new_value[good] = trial[is_good], at_value[is_good]
        new_gradient[good], moved[good] = at_gradient[is_good], True
        left = left[~is_good]
        if not len(left):
            break
        length[left] *= _CUT
    return step, new_value, new_gradient, moved


def _updated(H, step, change, first):
    """BFGS: inverse Hessians after steps and changes of minus the gradients."""
    product, norm = row_dots(step, change), row_dots(change, change)
    is_curved = product > _FLAT * np.sqrt(row_dots(step, step) * norm)
    rho = np.where(is_curved, 1.0 / np.where(is_curved, product, 1.0), 0.0)
    if first:  # the length of the first step was a guess
        scale = np.where(is_curved, product / np.where(norm > 0, norm, 1.0), 0.0)[:, None, None]
        H = np.where(scale > 0, scale * np.eye(H.shape[1]), H)
    Hy = np.einsum("nij,nj->ni", H, change)
    outer = step[:, :, None] * Hy[:, None]
    H = H - rho[:, None, None] * (outer + outer.transpose(0, 2, 1))
    along = rho * (1.0 + rho * row_dots(change, Hy))
    return H + along[:, None, None] * (step[:, :, None] * step[:, None])
