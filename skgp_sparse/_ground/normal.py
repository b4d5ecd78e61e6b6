"""The normal distribution: ``log N(y; mean, std²) = -½ [log 2π + ((y - mean)/std)²] - log std``."""

import numpy as np

LOG_2PI = np.log(2.0 * np.pi)


def log_normal_density(y, mean, std):
    """Log density of numbers y, in nats; arrays of shapes that broadcast."""
    return -0.5 * (LOG_2PI + ((y - mean) / std) ** 2) - np.log(std)
