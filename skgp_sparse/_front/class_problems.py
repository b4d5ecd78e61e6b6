"""Fits of the problems of a classifier, here or in other processes."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed

from skgp_sparse._engine.table import Table
from skgp_sparse._front.default_kernels import same_structure
from skgp_sparse._ground.parallel import ordered_map, resolve_n_jobs, single_threaded_blas
from skgp_sparse._ground.warnings import about, collected, warn
from skgp_sparse.inference.training import Plan, train

_SMALL = 1 << 20  # entries of an array (rows, m)


class ClassProblem(NamedTuple):
    """What is fitted, and how."""

    name: str  # "" if it is the only one
    rows: Table
    kernel: object
    before: tuple | None  # (kernel, Z) of an earlier fit
    plan: Plan

    def is_small(self):
        """Whether its arrays (rows, m) are, of which an evaluation holds some ten."""
        return len(self.rows) * self.plan.n_inducing <= _SMALL

    def alone(self):
        """The same on one thread and without progress, as other processes take it."""
        options = self.plan.options._replace(n_jobs=1)
        return self._replace(plan=self.plan._replace(options=options, progress=None))


def fit_all(problems, model, seed, n_jobs, watched):
    """Fits of all problems, in order; the same whatever `n_jobs`.

    `watched` fits tell their progress, one after the other.
    """
    if n_jobs is None and not watched and all(problem.is_small() for problem in problems):
        return _fit_side_by_side(problems, model, seed)
    rows_travel = all(problem.rows.travels for problem in problems)
    if n_jobs is None or len(problems) == 1 or resolve_n_jobs(n_jobs) == 1 or not rows_travel:
        return [_fit_one(problem, model, seed) for problem in problems]
    jobs = (delayed(_fit_elsewhere)(problem.alone(), model, seed) for problem in problems)
    fits = []
    for problem, (fit, told) in zip(problems, Parallel(n_jobs=n_jobs)(jobs)):
        fits.append(_with_rows(fit, problem.rows))  # those of the worker were a copy
        _tell(told)
    return fits


def _fit_side_by_side(problems, model, seed):
    """One thread per problem: for small ones, threads within an evaluation gain little."""

    def fit(problem):
        with collected() as told:
            return _fit_one(problem, model, seed), told

    fits = []
    for found, told in ordered_map(fit, problems, resolve_n_jobs(None)):
        fits.append(found)
        _tell(told)
    return fits


def _tell(told):
    for message, category in told:
        warn(message, category)


def _fit_elsewhere(problem, model, seed):
    """A fit without its rows, and its warnings, for another process."""
    with collected() as told:
        fit = _fit_one(problem, model, seed)
    return _with_rows(fit, None), told


def _fit_one(problem, model, seed):
    name, rows, kernel, before, plan = problem
    if before is not None and same_structure(kernel, before[0]):
        theta = np.clip(before[0].theta, *np.reshape(kernel.bounds, (-1, 2)).T)
        plan = plan._replace(warm=(kernel.clone_with_theta(theta), before[1]))
    with about(name), single_threaded_blas():
        return train(rows, kernel, model, plan, np.random.RandomState(seed))


def _with_rows(fit, rows):
    return fit._replace(objective=replace(fit.objective, rows=rows))
