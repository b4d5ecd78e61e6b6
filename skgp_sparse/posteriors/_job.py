"""Job of a fit, and the small exact fit with which every fit begins."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from skgp_sparse import kernels
from skgp_sparse._engine.data.dataset import Dataset
from skgp_sparse.hyperpriors import NO_PRIOR, joined
from skgp_sparse.inference.contracts import ObjectiveFactory
from skgp_sparse.inference.parameter_vectors import value_or_minus_inf
from skgp_sparse.inference.settings import Settings, ThoroughSearch
from skgp_sparse.inference.starts import fit_exact

_ITERATIONS = 200  # of the small exact fit
_LONGEST_LENGTH_SCALE = 5.0  # typical distances between rows
_COARSER = 10.0  # the tolerance of a start, in units of that of the fit


class Points(NamedTuple):
    """Which inducing points are wanted."""

    size: int
    initialise: Callable  # (rows, kernel, random_state) -> Z
    is_auto: bool = False  # whether nobody asked for this size
    are_given: bool = False  # Z comes from the user

    def of_size(self, size):
        """`Points` of another number, where nobody asked for one."""
        return self._replace(size=size, initialise=partial(self.initialise, n_inducing=size))


class Job(NamedTuple):
    """Job of a fit: plain data, which may travel to another thread or process."""

    name: str  # for messages; "" if there is no other job
    rows: Dataset  # with the units of its targets
    kernel: Kernel  # to start with
    model: ObjectiveFactory
    posterior_method: Any  # a `PosteriorMethod`
    points: Points
    settings: Settings
    before: tuple | None = None  # (kernel, Z) of an earlier fit, to go on from
    is_complete: bool = True  # whether there is something to learn
    thorough: ThoroughSearch | None = None  # for settings, should an evaluation be cheap
    is_free: bool = False  # whether the kernel is the default one, of any smoothness
    is_alone: bool = True  # whether no mean may be beside the process
    tries_logarithms: bool = False  # of skewed columns
    plan: str = ""  # which method this is, and why, in words
    metric: str | int = "auto"  # how columns may be mixed
    priors: tuple = ()  # of hyperparameters, whose form for a kernel is in the settings
    is_started: bool = False  # whether hyperparameters are those of a small fit
    spreads: Any = None  # (d,) of the columns, in which length scales and their priors are measured

    def are_few(self, most):
        """Whether there are so few distinct rows."""
        return bool(most) and self.rows.distinct(most=most) is not None

    def within(self, share):
        """A copy of the job with one of so many shares of the time that is left."""
        return self.with_settings(deadline=self.settings.deadline.share(share))

    def with_priors(self, priors):
        """A copy of the job with priors of its kernel's hyperparameters, in units of its rows."""
        of_theta = joined(priors, self.kernel, self.spreads) if priors else NO_PRIOR
        return self._replace(priors=tuple(priors)).with_settings(prior=of_theta)

    def with_settings(self, **changes):
        """A copy of the job with other settings."""
        return self._replace(settings=self.settings._replace(**changes))


def start_on_subset(job, random_state):
    """The job with model and hyperparameters of a small exact fit, where restarts happen."""
    if job.is_started:
        return job
    model, kernel = fit_subset(job.rows, job.kernel, job.model, job.settings, random_state)
    job = job._replace(model=model, kernel=kernel, is_started=True)
    return job.with_settings(n_restarts=0, find_periods=False)


def best_start(objective, kernel, warm, job):
    """The objective and the kernel of the cold or of the warm start, where it is higher.

    `warm` is the objective at the inducing points of an earlier fit. It may be flat where that fit
    ended, if the rows have other units now.
    """
    cold = objective, kernel
    if job.before is None or not job.settings.solver.moves:
        return cold
    prior = job.settings.prior
    return max(
        (warm, job.before[0]),
        cold,
        key=lambda start: value_or_minus_inf(*start, False, prior=prior),
    )


def fit_subset(rows, kernel, model, settings, random_state):
    """The model and the kernel with the hyperparameters of an exact fit to some random rows."""
    few = rows.sampled(model.sample(rows, settings.start_rows, random_state))
    objective = model.exact(few, settings.options, rough=True)
    settings = settings._replace(max_iter=_ITERATIONS, tol=_COARSER * settings.tol, progress=None)
    function, maximum = fit_exact(objective, kernel, settings, random_state)
    objective, learned = function.at(maximum.x)
    return model.informed_by(objective), within_reach(learned, kernel, rows)


def within_reach(learned, kernel, rows):
    """A kernel that was learned from another one, ready for a fit to go on from it.

    Length scales that ran away, as those of irrelevant inputs do, are brought back to where the
    objective has a slope: at most a few typical distances, or the other kernel's value.
    """
    theta, scale = learned.theta, rows.scale()
    for positions, columns in kernels.length_scale_places(kernel, rows.n_features):
        spread = scale[columns] if len(positions) > 1 else scale[columns].max()
        longest = np.log(_LONGEST_LENGTH_SCALE * spread * np.sqrt(len(columns)))
        longest = np.maximum(longest, kernel.theta[positions])
        theta[positions] = np.minimum(theta[positions], longest)
    return learned.clone_with_theta(theta)
