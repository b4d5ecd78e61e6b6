"""Standard draws of frequencies: normal vectors, and uniform numbers that scale them.

A mean over draws of ``cos(w . (x - z))`` comes as close to the kernel as the draws fill their
space evenly:

- random: independent draws.
- orthogonal: d at a time are orthogonal, with the lengths of independent ones (Yu et al. 2016).
- sobol: quantiles of a scrambled Sobol sequence (Yang et al. 2014).
"""

import numpy as np
from scipy.special import ndtri
from scipy.stats.qmc import Sobol

_MOST_COLUMNS = 21_201  # of SciPy's Sobol sequences
_BITS = 30  # of their numbers


def random(n, k, d, random_state):
    """Normal numbers (n, k, d) and uniform numbers (n, k)."""
    return random_state.normal(size=(n, k, d)), _uniform((n, k), random_state)


def orthogonal(n, k, d, random_state):
    """The same, whose vectors are orthogonal, d of them at a time."""
    blocks = -(-n // d)
    directions = np.linalg.qr(random_state.normal(size=(k, blocks, d, d)))[0]
    signs = random_state.choice([-1.0, 1.0], size=(k, blocks, d, 1))  # as LAPACK's are not random
    rows = (signs * directions.swapaxes(-1, -2)).reshape(k, blocks * d, d)[:, :n].swapaxes(0, 1)
    lengths = np.sqrt(random_state.chisquare(d, size=(n, k, 1)))
    return lengths * rows, _uniform((n, k), random_state)


def sobol(n, k, d, random_state):
    """The same, quantiles of the first points of a scrambled Sobol sequence."""
    columns, seed = k * (d + 1), random_state.randint(2**31 - 1)
    if columns > _MOST_COLUMNS:
        raise ValueError(
            f"Sobol sequences have at most {_MOST_COLUMNS} columns, and {k} factors of {d} "
            f"features need {columns}. Set draws='orthogonal'."
        )
    points = Sobol(columns, seed=seed, bits=_BITS).random_base2(int(np.ceil(np.log2(n))))[:n]
    points = (points + 0.5**_BITS / 2).reshape(n, k, d + 1)  # never 0 or 1
    return ndtri(points[..., :d]), points[..., d]


def _uniform(shape, random_state):
    """Uniform numbers, none of which is 0."""
    return 1.0 - random_state.uniform(size=shape)


BY_NAME = {"orthogonal": orthogonal, "random": random, "sobol": sobol}
