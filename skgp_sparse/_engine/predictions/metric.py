"""Inputs that are transformed by a metric, ``x -> W x``."""

import numpy as np

from skgp_sparse import kernels
from skgp_sparse._engine.predictions.posterior import float64


def in_metric(metric, X):
    """Inputs in a metric, float64; None: as they are."""
    return float64(X) if metric is None else float64(X) @ metric.T


def scale_of(kernel, metric, d):
    """Units (r,) in which near is near, in a metric of d columns: the length scales of a kernel."""
    return kernels.length_scales(kernel, np.ones(d if metric is None else len(metric)))


def scaled_inputs(kernel, metric, scale, X):
    """Inputs in a metric, in units in which near is near."""
    return kernels.in_units(kernel, in_metric(metric, X), scale)
