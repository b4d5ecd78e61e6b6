"""theta and Z as one flat vector, with Z in units in which a step of one is a sensible step."""

from typing import NamedTuple

import numpy as np


class Parameters(NamedTuple):
    """Translates between (kernel, Z) and the optimiser's vector.

    Parameters
    ----------
    kernel : sklearn kernel
    centre, scale : ndarray of shape (d,)
        Z is optimised as ``(Z - centre) / scale``, with `scale` from the metric of the start.
    shape : tuple (m, d), or None where Z is held
    """

    kernel: object
    centre: np.ndarray
    scale: np.ndarray
    shape: tuple | None

    def pack(self, kernel, Z):
        """Vector of a kernel and inducing points."""
        if self.shape is None:
            return kernel.theta
        return np.concatenate([kernel.theta, ((Z - self.centre) / self.scale).ravel()])

    def unpack(self, vector):
        """Kernel, and inducing points or None where they are held."""
        split = len(self.kernel.theta)
        kernel = self.kernel.clone_with_theta(vector[:split])
        if self.shape is None:
            return kernel, None
        return kernel, vector[split:].reshape(self.shape) * self.scale + self.centre

    def pack_gradient(self, theta_bar, Z_bar):
        """Gradient with respect to the vector."""
        if self.shape is None:
            return theta_bar
        return np.concatenate([theta_bar, (Z_bar * self.scale).ravel()])

    def bounds(self):
        """Bounds (size, 2); Z is free."""
        theta = np.reshape(self.kernel.bounds, (-1, 2))
        if self.shape is None:
            return theta
        return np.vstack([theta, np.tile([-np.inf, np.inf], (int(np.prod(self.shape)), 1))])


def raise_noise(kernel, noise, residual):
    """Kernel whose noise also covers the variance that the inducing points leave unexplained.

    The noise of an exact fit is too low for a sparse one: the bound would start where its penalty
    ``r/σ²`` outweighs everything else.
    """
    theta = kernel.theta
    for positions in positions_of(kernel, "noise_level"):
        theta[positions] += np.log1p(residual / noise)
    return kernel.clone_with_theta(np.clip(theta, *np.reshape(kernel.bounds, (-1, 2)).T))


def positions_of(kernel, name):
    """Indices into theta of every free hyperparameter of that name, one array for each."""
    start, found = 0, []
    for hyperparameter in kernel.hyperparameters:
        if hyperparameter.fixed:
            continue
        stop = start + hyperparameter.n_elements
        if hyperparameter.name.split("__")[-1] == name:
            found.append(np.arange(start, stop))
        start = stop
    return found
