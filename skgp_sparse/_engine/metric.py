"""Inputs that are seen in a metric, ``x -> W x``, and a process whose inputs are."""

from dataclasses import dataclass
from operator import attrgetter

import numpy as np

from skgp_sparse import kernels
from skgp_sparse._engine.process import Process, float64


@dataclass(frozen=True, eq=False)
class ProcessInMetric(Process):
    """A process of ``W x``.

    Parameters
    ----------
    process : Process
    metric : ndarray of shape (r, d)
        W.
    """

    process: Process
    metric: np.ndarray

    kernel = property(attrgetter("process.kernel"))
    kind = property(attrgetter("process.kind"))
    width = property(attrgetter("process.width"))
    n_rows_kept = property(attrgetter("process.n_rows_kept"))
    factor = property(attrgetter("process.factor"))

    def sees(self, rows):
        """A table in the metric."""
        return rows.seen_in(self.metric)

    def mean(self, X, n_jobs=1):
        """Mean, in the shape of that of the process."""
        return self.process.mean(in_metric(self.metric, X), n_jobs)

    def mean_and_variance(self, X, n_jobs=1):
        """Mean and latent variance."""
        return self.process.mean_and_variance(in_metric(self.metric, X), n_jobs)

    def covariance(self, X):
        """Latent covariance."""
        return self.process.covariance(in_metric(self.metric, X))

    def deviations(self, X, n_samples, random_state):
        """Latent samples minus the mean."""
        return self.process.deviations(in_metric(self.metric, X), n_samples, random_state)


def in_its_inputs(process):
    """The process of inputs as its kernel sees them."""
    return process.process if isinstance(process, ProcessInMetric) else process


def in_metric(metric, X):
    """Inputs in a metric, float64; None: as they are."""
    return float64(X) if metric is None else float64(X) @ metric.T


def scale_of(kernel, metric, d):
    """Units (r,) in which near is near, in a metric of d columns: the length scales of a kernel."""
    return kernels.length_scales(kernel, np.ones(d if metric is None else len(metric)))


def seen(kernel, metric, scale, X):
    """Inputs in a metric, in units in which near is near."""
    return kernels.in_units(kernel, in_metric(metric, X), scale)
