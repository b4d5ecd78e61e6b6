"""Fits of the binary problems of a classifier, here or in other processes."""

import warnings

import numpy as np
from joblib import Parallel, delayed

from skgp_sparse import _wiring
from skgp_sparse._parallel import resolve_n_jobs, single_threaded_blas
from skgp_sparse.inference.training import train


def fit_all(problems, n_problems, model, seed, n_jobs):
    """Fits of all binary problems, in order; the same whatever `n_jobs`."""
    if n_jobs is None or n_problems == 1 or resolve_n_jobs(n_jobs) == 1:
        return [_fit_one(*problem, model, seed) for problem in problems]
    tables = []

    def jobs():
        for table, kernel, before, plan in problems:
            tables.append(table)
            alone = plan._replace(options=plan.options._replace(n_jobs=1), progress=None)
            yield delayed(_fit_elsewhere)(table, kernel, before, alone, model, seed)

    fits = []
    for table, (fit, caught) in zip(tables, Parallel(n_jobs=n_jobs)(jobs())):
        fit.objective.rows = table  # that of the worker was a copy
        fits.append(fit)
        for warning in caught:
            warnings.warn(str(warning.message), warning.category, stacklevel=6)
    return fits


def _fit_elsewhere(*arguments):
    """A fit without its rows, and its warnings, for another process."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit = _fit_one(*arguments)
    fit.objective.rows = None
    return fit, caught


def _fit_one(rows, kernel, before, plan, model, seed):
    if before is not None and _wiring.same_structure(kernel, before[0]):
        theta = np.clip(before[0].theta, *np.reshape(kernel.bounds, (-1, 2)).T)
        kernel, Z = kernel.clone_with_theta(theta), before[1]
        if Z.shape == (plan.n_inducing, rows.X.shape[1]) and not plan.fixed_inducing:
            plan = plan._replace(warm=(kernel, Z))
    with single_threaded_blas():
        return train(rows, kernel, model, plan, np.random.RandomState(seed))
