"""What every process that predicts has to pass."""

import pickle

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from skgp_sparse import kernels
from skgp_sparse._engine.process import Process

_DRAWS = 20_000


def check_process(process, X, *, tolerance=1e-7):
    """Check what the docstring of `Process` promises.

    Parameters
    ----------
    process : Process
    X : ndarray of shape (n, d)
        A few distinct rows.
    tolerance : float
        Of variances beside covariances, in units of the largest variance.
    """
    assert isinstance(process, Process) and process.width >= 0 and process.n_rows_kept >= 0
    assert process.kind in ("prior", "exact", "inducing", "fourier", "neighbors", "rows")
    mean, variance = process.mean_and_variance(X)
    signal = np.broadcast_to(kernels.diagonal(process.kernel, X)[0], len(X))
    signal = signal if variance.ndim == 1 else signal[:, None]
    unit = tolerance * max(variance.max(), signal.max())
    check_shapes(process, X)
    assert np.all(variance >= 0.0)
    assert np.all(variance <= signal + unit)
    assert_allclose(process.mean(X), mean, rtol=0, atol=1e-12 * max(1.0, np.abs(mean).max()))
    covariance = process.covariance(X)
    assert_allclose(np.einsum("ii...->i...", covariance), variance, rtol=0, atol=unit)
    assert_allclose(covariance, covariance.swapaxes(0, 1), rtol=0, atol=unit)
    check_samples(process, X, covariance)
    check_copies(process, X)


def check_shapes(process, X):
    mean, variance = process.mean_and_variance(X)
    covariance = process.covariance(X)
    of_processes = variance.shape[1:]
    assert mean.shape[:1] == variance.shape[:1] == (len(X),) and mean.ndim == 2
    assert of_processes in ((), mean.shape[1:])
    assert covariance.shape == (len(X), len(X), *of_processes)
    draws = process.deviations(X, 3, np.random.RandomState(0))
    assert draws.shape == (len(X), 3, *of_processes)


def check_samples(process, X, covariance):
    """Their mean is 0, and their covariance that of the process."""
    draws = process.deviations(X, _DRAWS, np.random.RandomState(0))
    unit = np.sqrt(covariance.max() / _DRAWS)
    assert np.all(np.abs(draws.mean(axis=1)) < 6.0 * unit)
    drawn = np.einsum("is...,js...->ij...", draws, draws) / _DRAWS
    assert_allclose(drawn, covariance, rtol=0, atol=0.06 * covariance.max())


def check_copies(process, X):
    """Threads, blocks, types and pickles change nothing."""
    copy = pickle.loads(pickle.dumps(process))
    few = [process.mean_and_variance(X[rows]) for rows in (slice(0, 5), slice(5, None))]
    together = map(np.concatenate, zip(*few))
    whole = process.mean_and_variance(X)
    for one, by_copy, by_threads in zip(
        whole, copy.mean_and_variance(X), process.mean_and_variance(X, 3)
    ):
        assert_array_equal(one, by_copy)
        assert_array_equal(one, by_threads)
    for one, by_parts in zip(whole, together):
        assert_allclose(one, by_parts, rtol=0, atol=1e-9 * max(1.0, np.abs(one).max()))
    assert_array_equal(process.covariance(X), copy.covariance(X))
    draws = [one.deviations(X, 2, np.random.RandomState(0)) for one in (process, copy)]
    assert_array_equal(*draws)
    single = X.astype(np.float32)
    assert_array_equal(process.mean(single), process.mean(single.astype(float)))
