r"""Where the fit of a GP-LVM begins: principal components, and one of several variances of ``q``.

Where targets are centred and have mean square 1, the means are the scores of the principal
components, of unit variance, and small random numbers beyond the rank. Length scales are as long as
a component is weak, ``√min(d, 3) sv_1 / sv_j``, so that its variance counts in the kernel as much
as in the data.

Optima are many, and no start is the best one everywhere. Starts differ in the inducing points, in
the variance of ``q``, and in the pace: where the optimiser first takes all parameters in one unit,
it takes long to bring ``q`` and the inducing points where they belong, and more components stay on.
"""

from typing import NamedTuple

import numpy as np

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
    """Scores of unit variance (n, d), and the length scales that belong to them (d,)."""
    U, values, _ = np.linalg.svd(Y, full_matrices=False)
    rank = min(d, np.count_nonzero(values > _RANK * values.max(initial=0.0)))
    mean = _BEYOND * random_state.normal(size=(len(Y), d))
    mean[:, :rank] = U[:, :rank] * np.sqrt(len(Y))
    largest = mean[np.abs(mean).argmax(axis=0), np.arange(d)]
    relative = np.ones(d)
    relative[:rank] = values[0] / values[:rank] if rank else 1.0
    relative[rank:] = relative[:rank].max(initial=1.0)
    return mean * np.where(largest < 0, -1.0, 1.0), np.sqrt(min(d, 3)) * relative
