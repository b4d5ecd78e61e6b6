"""Fits of the binary problems of a classifier, here or in other processes."""

import warnings
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed

from skgp_sparse import _wiring
from skgp_sparse._engine.rows import Rows
from skgp_sparse._parallel import resolve_n_jobs, single_threaded_blas
from skgp_sparse._warnings import about, warn
from skgp_sparse.inference.training import Plan, train


class BinaryProblem(NamedTuple):
    """What is fitted, and how."""

    name: str  # "" if it is the only one
    rows: Rows
    kernel: object
    before: tuple | None  # (kernel, Z) of an earlier fit
    plan: Plan


def fit_all(problems, n_problems, model, seed, n_jobs):
    """Fits of all binary problems, in order; the same whatever `n_jobs`."""
    if n_jobs is None or n_problems == 1 or resolve_n_jobs(n_jobs) == 1:
        return [_fit_one(problem, model, seed) for problem in problems]
    tables = []

    def jobs():
        for problem in problems:
            tables.append(problem.rows)
            options = problem.plan.options._replace(n_jobs=1)
            alone = problem.plan._replace(options=options, progress=None)
            yield delayed(_fit_elsewhere)(problem._replace(plan=alone), model, seed)

    fits = []
    for table, (fit, caught) in zip(tables, Parallel(n_jobs=n_jobs)(jobs())):
        fit.objective.rows = table  # that of the worker was a copy
        fits.append(fit)
        for warning in caught:
            warn(str(warning.message), warning.category)
    return fits


def _fit_elsewhere(problem, model, seed):
    """A fit without its rows, and its warnings, for another process."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit = _fit_one(problem, model, seed)
    fit.objective.rows = None
    return fit, caught


def _fit_one(problem, model, seed):
    name, rows, kernel, before, plan = problem
    if before is not None and _wiring.same_structure(kernel, before[0]):
        theta = np.clip(before[0].theta, *np.reshape(kernel.bounds, (-1, 2)).T)
        kernel, Z = kernel.clone_with_theta(theta), before[1]
        if Z.shape == (plan.n_inducing, rows.X.shape[1]) and not plan.fixed_inducing:
            plan = plan._replace(warm=(kernel, Z))
    with about(name), single_threaded_blas():
        return train(rows, kernel, model, plan, np.random.RandomState(seed))
