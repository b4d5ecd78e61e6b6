"""Skewed columns of the default kernel: on a scale of logarithms, where the evidence is higher.

A column with a few large values is seen on a scale of logarithms (`LogScale`) if that raises the
evidence of a small exact fit by some nats. All skewed columns go together.
"""

from typing import NamedTuple

import numpy as np
from sklearn.gaussian_process.kernels import Sum, WhiteKernel

from skgp_sparse import kernels
from skgp_sparse._ground.warnings import collected
from skgp_sparse.inference.settings import ThoroughSearch
from skgp_sparse.inference.starts import fit_exact

_SKEWNESS, _FEW_VALUES = 1.0, 10  # above which a column is skewed, and no scale of a few grades
_SOME_ROWS = 10_000  # that tell
_SHARES_OF_TIME = 12  # of the time that is left, one of which is for each fit that is compared
_NATS = 3.0  # of evidence that logarithms have to gain
_ITERATIONS, _COARSER = 100, 10.0  # of the fits that are compared, as those of every start


class Skew(NamedTuple):
    """Skewed columns of a table."""

    columns: np.ndarray  # numbers
    names: list  # or numbers, as users know them
    lows: np.ndarray
    units: np.ndarray
    shift: np.ndarray  # (d,) of the logarithms of spreads, from the columns' to that of their logs
    moments: np.ndarray  # (2, d) means and standard deviations of their logs, 0 of others


def skew_of(rows, columns):
    """The `Skew` of a table, None where no column is skewed.

    Parameters
    ----------
    rows : Dataset
    columns : ColumnTable
    """
    codes = columns.codes()
    some = rows.subset(rows.sample(_SOME_ROWS, np.random.RandomState(0)))
    X = np.asarray(some.stored_inputs(), dtype=np.float64)
    numbers = np.setdiff1d(np.arange(X.shape[1]), codes)
    chosen = [j for j in numbers if _is_skewed(_present(X, j))]
    if not chosen:
        return None
    scales = [_logs_of(_present(X, j)) for j in chosen]
    lows, units, shifts, *logs = map(np.array, zip(*scales))
    shift, moments = np.zeros(X.shape[1]), np.zeros((2, X.shape[1]))
    shift[chosen], moments[:, chosen] = shifts, logs
    return Skew(np.array(chosen), [columns.label(j) for j in chosen], lows, units, shift, moments)


def _present(X, j):
    return X[~np.isnan(X[:, j]), j]


def _is_skewed(x):
    if len(np.unique(x)) <= _FEW_VALUES:
        return False
    deviation = (x - x.mean()) / np.ptp(x)
    return np.mean(deviation**3) > _SKEWNESS * np.mean(deviation**2) ** 1.5


def _logs_of(x):
    """Smallest value, unit, logarithm of the ratio of spreads, and moments of the logarithms."""
    low = x.min()
    unit = np.median(x - low) or np.mean(x - low)
    logs = low + unit * np.log1p((x - low) / unit)
    return low, unit, np.log(np.std(logs) / np.std(x)), np.mean(logs), np.std(logs)


def with_logarithms(job, columns):
    """The job, whose skewed columns are on a scale of logarithms if the evidence says so."""
    is_open = job.tries_logarithms and job.before is None
    skew = skew_of(job.rows, columns) if is_open else None
    if skew is None:
        return job
    usual = np.log(job.rows.scale() / job.spreads)  # 0 but where far rows have moved spreads
    skew = skew._replace(shift=np.where(skew.shift == 0.0, 0.0, skew.shift + usual))
    other = job._replace(kernel=on_logs(job.kernel, skew))
    if job.thorough is not None:
        other = other._replace(thorough=_search_on_logs(job, skew))
    other = other.with_priors(job.priors)
    return other if _evidence(other) > _evidence(job) + _NATS else job


def on_logs(kernel, skew):
    """The kernel, noise apart, with skewed columns on a scale of logarithms."""
    theta = kernel.theta
    for places, columns in kernels.length_scale_places(kernel, len(skew.shift)):
        theta[places] += skew.shift[columns] if len(places) > 1 else skew.shift[columns].mean()
    kernel = kernel.clone_with_theta(np.clip(theta, *kernel.bounds.T))
    for part, columns in kernels.parts_by_columns(kernel, len(skew.shift), kernels.Missing):
        are_logs = np.isin(columns, skew.columns)
        pairs = zip(part.units, skew.moments[:, columns])
        part.units = tuple(np.where(are_logs, logs, own) for own, logs in pairs)
    names = skew.names if isinstance(skew.names[0], str) else None
    has_noise = isinstance(kernel, Sum) and isinstance(kernel.k2, WhiteKernel)
    signal = kernel.k1 if has_noise else kernel
    numbers = None if names is None else dict(zip(names, skew.columns.tolist()))
    lows, units = skew.lows.tolist(), skew.units.tolist()
    signal = kernels.LogScale(signal, skew.names, lows, units, numbers)
    return signal + kernel.k2 if has_noise else signal


def _search_on_logs(job, skew):
    """The `ThoroughSearch` of the other kernel, whose starts differ from the first in the noise."""
    quiet = on_logs(job.thorough.kernel, skew)
    moved = on_logs(job.kernel, skew).theta - job.kernel.theta
    return ThoroughSearch(quiet, tuple(start + moved for start in job.thorough.starts))


def _evidence(job):
    """The objective of a small exact fit, prior included; -inf where there is none."""
    settings = job.within(_SHARES_OF_TIME).settings._replace(
        max_iter=_ITERATIONS, tol=_COARSER * job.settings.tol, progress=None, n_restarts=0
    )
    rows = job.model.sample(job.rows, settings.start_rows, np.random.RandomState(0))
    objective = job.model.exact(job.rows.sampled(rows), settings.options, rough=True)
    try:
        with collected():  # the fits that follow warn
            return fit_exact(objective, job.kernel, settings, np.random.RandomState(0))[1].value
    except np.linalg.LinAlgError:
        return -np.inf
