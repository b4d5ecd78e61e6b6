"""The contract of a posterior method, the job that it fits and what becomes of it, rows held out.

Models are compared by these rows (`ValidationSet`), and variances have a common factor by them
(`variance_factor`).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from sklearn.base import BaseEstimator
from sklearn.utils.metadata_routing import UNUSED

from skgp_sparse.bounds import Bound
from skgp_sparse.data.dataset import Dataset
from skgp_sparse.data.moments import TargetScaler
from skgp_sparse.engine.posterior import Posterior, RowTerms
from skgp_sparse.engine.posteriors_around import CombinedPosterior
from skgp_sparse.ground.linalg import LOG_2PI, weighted_quantile
from skgp_sparse.ground.validation import Array, Index, Ints, Kernel, Rng
from skgp_sparse.hyperpriors import NO_PRIOR, joined
from skgp_sparse.inference.contracts import ObjectiveFactory, Settings, ThoroughSearch
from skgp_sparse.inference.stochastic import held_out_rows
from skgp_sparse.likelihoods import Likelihood
from skgp_sparse.solvers import Fit, resolve_solver


class Points(NamedTuple):
    """Which inducing points are wanted."""

    size: int
    initialise: Callable  # (rows, kernel, random_state) -> Z
    is_auto: bool = False  # whether nobody asked for this size
    are_given: bool = False  # Z comes from the user

    def of_size(self, size: int) -> "Points":
        """`Points` of another number, where nobody asked for one."""
        return self._replace(size=size, initialise=partial(self.initialise, n_inducing=size))

    def at(self, Z: Array) -> "Points":
        """`Points` that are known."""
        return self._replace(initialise=partial(_known_points, Z))


def _known_points(Z: Array, *args: object) -> Array:
    return Z


class Job(NamedTuple):
    """Job of a fit: plain data, which may travel to another thread or process.

    A posterior method of a user reads `rows`, `kernel`, `points` and `settings`, and may have
    another method fit a job with other ones: ``Exact().fit(job._replace(rows=few), random_state)``.
    All other fields are between the methods of the package, which may change them.
    """

    name: str  # for messages; "" if there is no other job
    rows: Dataset  # with the units of its targets
    kernel: Kernel  # to start with
    objectives: ObjectiveFactory
    posterior_method: Any  # a `PosteriorMethod`
    points: Points
    settings: Settings
    before: tuple | Any = None  # (kernel, Z) of an earlier fit, to go on from
    thorough: ThoroughSearch | None = None  # of its fit, should an evaluation be cheap
    is_free: bool = False  # whether the kernel is the default one, of any smoothness
    plan: str = ""  # which method this is, and why, in words
    steps: tuple[str, ...] = ()  # of the plan, beside the search
    metric: str = "auto"  # how columns may be mixed
    priors: tuple = ()  # of hyperparameters, whose form for a kernel is in the settings
    is_started: bool = False  # whether hyperparameters are those of a small fit
    spreads: Any = None  # (d,) of the columns, in which length scales and their priors are measured

    def are_few(self, most: int) -> bool:
        """Whether there are so few distinct rows."""
        return bool(most) and self.rows.distinct(most=most) is not None

    def within(self, share: float) -> "Job":
        """A copy of the job with one of so many shares of the time that is left."""
        return self.with_settings(deadline=self.settings.deadline.share(share))

    def started_at(self, kernel: Kernel, Z: Array) -> "Job":
        """A copy of the job that begins at learned hyperparameters and inducing points."""
        return self._replace(kernel=kernel, points=self.points.at(Z), is_started=True)

    def with_priors(self, priors: Sequence) -> "Job":
        """A copy of the job with priors of its kernel's hyperparameters, in units of its rows."""
        of_theta = joined(priors, self.kernel, self.spreads) if priors else NO_PRIOR
        return self._replace(priors=tuple(priors)).with_settings(prior=of_theta)

    def with_settings(self, **changes: Any) -> "Job":
        """A copy of the job with other settings."""
        return self._replace(settings=self.settings._replace(**changes))


class FittedJob(NamedTuple):
    """A job after its fit: what its posterior method returned, and what the estimator adds."""

    fit: Fit
    plan: str = ""  # which posterior was fitted or tried, and why; "" after `partial_fit`
    steps: tuple[str, ...] = ()  # that came before and after the search
    method_name: str = ""  # of the posterior method
    all_rows: Dataset | None = None  # of the problem, where the objective has others
    mean: Array | Any = None  # (n, q) of rows, from a model beside the process, fitted without them
    left_out: Any = None  # `LeftOutRows` of training rows that were left out already

    @property
    def name(self) -> str:
        """Value of `posterior_`: the name of the method or, if it has none, of the posterior."""
        of_fit = self.posterior if self.fit.combination is None else CombinedPosterior
        return self.method_name or of_fit.name

    @property
    def kernel(self) -> Kernel:
        """Kernel of the fit."""
        return self.fit.kernel

    @property
    def objective(self) -> Any:
        """Objective of the fit, None where there is none."""
        return self.fit.objective

    @property
    def posterior(self) -> Posterior:
        """Posterior of the fit."""
        return self.fit.posterior

    @property
    def likelihood(self) -> Any:
        """Likelihood of the rows with its parameters, None where the noise is Gaussian."""
        return None if self.objective is None else self.objective.likelihood

    @property
    def terms(self) -> RowTerms:
        """How training rows entered the posterior."""
        return RowTerms() if self.objective is None else self.objective.terms(self.kernel)

    @property
    def rows(self) -> Any:
        """`Dataset` of rows that `fit` was given, None where they are not known any more."""
        return self.used_rows if self.all_rows is None else self.all_rows

    @property
    def used_rows(self) -> Any:
        """`Dataset` of rows that the objective is of."""
        return self.all_rows if self.objective is None else self.objective.rows

    def with_fit(self, **changes: Any) -> "FittedJob":
        """A copy of the job whose fit has other values."""
        return self._replace(fit=self.fit._replace(**changes))


Fits = Sequence[FittedJob]  # of an estimator, one for each problem


class Problems(NamedTuple):
    """All problems of a fit: their jobs, and after the search their fits; a step changes them."""

    observations: Any  # an `ObservationModel`
    rows: Any  # `Dataset` of the user
    jobs: list[Job]
    random_states: list[Rng]
    fits: Fits = ()
    blend: Any = None  # `WeightedMean` or `Calibration` beside the processes
    mean: Array | None = None  # (n, q) of left-out rows, of residuals that the one problem has
    scores: tuple[Array, Array | None] | None = None  # of rows for conformal intervals, if known

    @property
    def scaler(self) -> TargetScaler:
        """Units of the targets."""
        return self.jobs[0].rows.scaler


class Candidate(NamedTuple):
    """Candidate posterior that was tried, with its scores on held-out rows.

    Parameters
    ----------
    name : str
        Of the posterior.
    density : float
        Mean log density of the targets, in units of y; of labels, mean log probability.
    rmse : float
        Root mean squared error of the predicted means, in units of y; nan where rows have a
        likelihood.
    seconds : float
        That it took.
    n_rows : int
        The number of held-out rows that the scores are of. Compare those of the same number.

    Examples
    --------
    >>> from skgp_sparse.posteriors import Candidate
    >>> Candidate("inducing", density=-0.4, rmse=0.36, seconds=12.0, n_rows=500)
    Candidate(name='inducing', density=-0.4, rmse=0.36, seconds=12.0, n_rows=500)
    """

    name: str
    density: float
    rmse: float
    seconds: float
    n_rows: int


class Selection(list):
    """The candidates that a fit has tried, and the plan that led to them.

    Parameters
    ----------
    candidates : iterable of Candidate
        What was tried, in order; nothing where there was nothing to choose by trial.
    plan : str, default=""
        Which posterior was fitted or tried, and why; empty after `partial_fit`.
    steps : tuple of str, default=()
        What came before and after the search for hyperparameters, as far as the plan names it.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse import SparseGPRegressor
    >>> X = np.linspace(0, 5, 50)[:, None]
    >>> SparseGPRegressor().fit(X, np.sin(X[:, 0])).selection_
    Selection([], plan='exact: 50 distinct rows are at most 2000')
    >>> SparseGPRegressor().fit(X, np.sin(X[:, 0])).selection_.steps
    ('likely scale', 'logarithms', 'warnings')
    """

    def __init__(self, candidates: Iterable[Candidate] = (), plan: str = "", steps: tuple = ()):
        super().__init__(candidates)
        self.plan, self.steps = plan, steps

    def __repr__(self) -> str:
        return f"Selection({super().__repr__()}, plan={self.plan!r})"


class Request(NamedTuple):
    """Choices of the user of an estimator, as far as the choice of a posterior depends on them.

    They are the parameters of the estimator of the same names, and what follows from the likelihood
    and the rows. `PosteriorMethod.refuses` may look at all of them.
    """

    posterior: "PosteriorMethod"  # `PosteriorSelection` leaves it to the plan
    kernel: Kernel | None = None  # None: the default one
    likelihood: Any = "gaussian"
    has_sites: bool = False  # whether the likelihood of rows is not Gaussian
    n_latent: int = 1  # latent values of a row
    bound: Any = "auto"
    resolved_bound: Bound | Any = None  # what it stands for, None where rows have sites
    n_inducing: int | None = None  # None: nobody asked for a number
    inducing_init: Any = "auto"
    solver: Any = "auto"
    optimizer: Any = "fmin_l_bfgs_b"
    metric: str = "auto"
    mean: Any = None  # "auto" may add one
    noise: str = "constant"  # "auto" may learn it
    calibration: str | None = None  # "auto" may add one
    n_classes: int = 0  # 0: targets are numbers
    have_all_rows: bool = True  # whether every problem has all rows
    starts_together: bool = False  # whether objectives of several problems have a sum
    are_passed: bool = True  # whether rows are an array or a data frame

    @property
    def points_are_given(self) -> bool:
        """Whether the inducing points are an array of the user."""
        return not (isinstance(self.inducing_init, str) or callable(self.inducing_init))

    @property
    def starts_on_subset(self) -> bool:
        """Whether the solver begins with a small exact fit."""
        return resolve_solver(self.solver, self.optimizer, 0, 1).starts_on_subset


class PosteriorMethod(BaseEstimator, ABC):
    """Method that computes a posterior: the contract of all values of `posterior`.

    A posterior method fits a `Job` and returns a `Fit`, whose `posterior` is a `Posterior`. It
    holds what concerns itself alone as parameters, and never changes. It does not change the job
    either; the posterior may keep rows of the job, if it says so in `n_rows_kept`.

    Attributes
    ----------
    name : str
        Name that users see as `posterior_`; "" if it is that of the posterior.
    uses_bound : bool
        Whether a fit depends on `bound`; where it does not, a bound that was chosen is refused.
    takes_learned_noise : bool
        Whether the variance of the noise may vary with the inputs.
    takes_missing : bool
        Whether values of X may be missing, where the kernel has a part for them.
    learns_metric : bool
        Whether columns may be mixed, where the kernel allows it.
    is_exact_for_few : bool
        Whether the exact process takes its place where few rows are distinct.
    exact_rows : int or None
        Number of distinct rows up to which it does; None: as the plan has it.
    width : int or None
        Number of features of a row; None: that of the inducing points that are wanted.
    remedy : str
        What a user may do to have what the method does not take.

    Examples
    --------
    >>> from skgp_sparse import SparseGPRegressor
    >>> from skgp_sparse.posteriors import Exact, PosteriorMethod
    >>> class SubsetOfData(PosteriorMethod):
    ...     name = "subset"
    ...
    ...     def __init__(self, n_rows=200):
    ...         self.n_rows = n_rows
    ...
    ...     def fit(self, job, random_state):
    ...         few = job.rows.sampled(job.rows.sample(self.n_rows, random_state))
    ...         return Exact().fit(job._replace(rows=few), random_state)
    >>> X = [[0.0], [1.0], [2.0], [3.0]]
    >>> SparseGPRegressor(posterior=SubsetOfData(3)).fit(X, [0.0, 1.0, 0.0, 1.0]).posterior_
    'subset'
    """

    name: str = ""
    uses_bound: bool = False
    takes_learned_noise: bool = False
    takes_missing: bool = True
    learns_metric: bool = False
    is_exact_for_few: bool = False
    exact_rows: int | None = None
    width: int | None = None
    remedy: str = "Set posterior to 'exact', 'inducing' or 'neighbors'."
    __metadata_request__fit = {"job": UNUSED, "random_state": UNUSED}  # nothing to route

    @abstractmethod
    def fit(self, job: Job, random_state: Rng) -> Fit:
        """Fit a job.

        Parameters
        ----------
        job : Job
            Rows, kernel, model, and how hyperparameters and inducing points are looked for.
        random_state : RandomState
            Of all that is drawn.

        Returns
        -------
        Fit
            Kernel, objective and `Posterior`.
        """

    def check_parameters(self, name: str) -> None:
        """Raise unless the parameters can be used.

        Parameters
        ----------
        name : str
            Of the estimator, for errors.

        Raises
        ------
        TypeError, ValueError
            If a parameter has another type or value than it should.
        """

    def with_points(self, n_inducing: int) -> "PosteriorMethod":
        """Return the method that is fitted where there are so many inducing points.

        Parameters
        ----------
        n_inducing : int
            Number of inducing points.

        Returns
        -------
        PosteriorMethod
            By default, the method itself.
        """
        return self

    def refuses(self, request: Request) -> str | None:
        """Say why it cannot be fitted to what rows are; by default, it can.

        Parameters
        ----------
        request : Request
            What the user of the estimator chose.

        Returns
        -------
        str or None
            What follows "posterior=..." in an error; None if it can.
        """
        return None

    def refuses_later_rows(self) -> str | None:
        """Say why it cannot learn from rows that arrive later.

        Returns
        -------
        str or None
            Part of an error; None if it can.
        """
        return f"posterior={self.name!r} takes all rows at once"


_LIMIT = 1.959964**2  # of normal deviates, 95 % have squares below this
_ENOUGH = 100  # rows that tell a share
_DOUBT = 20  # rows that speak for a factor of 1
_LARGEST = 1e6  # factor


# -- rows that are held out, the models that predicted them, and a factor of variances -------------


def variance_factor(
    errors: Array, variance: Array, known_noise: Array, weight: Array, central: float, least: float
) -> float:
    """The factor of predicted variances (n,) that makes squared errors (n, p) most likely.

    A few rows more, which would have it 1, have a say where there are not many. Where errors are
    not normal, it may be larger, so that intervals of 95 % contain a share of these rows. Known
    noise (n,) has no factor.
    """
    squares, limits = errors.mean(axis=1), (least, _LARGEST)

    def loss(log_factor: float) -> float:
        total = np.exp(log_factor) * variance + known_noise
        of_rows = weight @ (np.log(total) + squares / total) / weight.mean()
        return of_rows + _DOUBT * (log_factor + np.exp(-log_factor))

    likely = np.exp(minimize_scalar(loss, bounds=np.log(limits), method="bounded").x)
    if len(errors) < _ENOUGH:
        return float(likely)
    needed = ((errors / _LIMIT - known_noise[:, None]) / variance[:, None]).ravel()
    needed = weighted_quantile(needed, np.repeat(weight, errors.shape[1]), central)
    return float(np.clip(max(likely, needed), *limits))


def with_fewer_neighbors(posterior: Posterior, least: int = 50, part: int = 2) -> Any:
    """The posterior from a part of its neighbours, but not from so few that all seems noisier."""
    return posterior.with_fewer_neighbors(max(least, getattr(posterior, "k", 0) // part))


def sampled(rows: Dataset, size: int, random_state: Rng) -> tuple[Ints, Array]:
    """Numbers of so many random rows, and how often they count."""
    chosen = rows.sample(size, random_state)
    if rows.weight is None or len(chosen) < np.count_nonzero(rows.weight):
        return chosen, np.ones(len(chosen))
    return chosen, rows.weight[chosen]


_MOST_ROWS = 2000  # rows held out
_SHARE, _SHARE_WITH_SITES = 2, 5  # one in so many is, at most: sites are learned without them
_WEIGHT_TOLERANCE = 1e-9  # of a row's weight


class ValidationScore(NamedTuple):
    """How likely a model makes the rows held out, and the model."""

    of_rows: Array  # (n,) log density, the mean over targets
    weight: Array  # (n,) how often each row counts
    candidate: Any = None  # what a search looks for, or a `Fit`

    @property
    def density(self) -> float:
        """The mean of log densities."""
        return float(np.average(self.of_rows, weights=self.weight))

    def take(self, rows: Index) -> "ValidationScore":
        """Score of some of the rows."""
        return self._replace(of_rows=self.of_rows[rows], weight=self.weight[rows])

    @classmethod
    def joined(cls, scores: Iterable["ValidationScore"]) -> "ValidationScore":
        """Score of all rows, from scores of parts of them."""
        of_rows, weight, _ = zip(*scores)
        return cls(np.concatenate(of_rows), np.concatenate(weight))

    def is_better_than(self, other: "ValidationScore", errors: float = 1.0) -> bool:
        """Whether it is ahead of another one by so many standard errors of their difference."""
        if not (np.isfinite(self.density) and np.isfinite(other.density)):
            return bool(np.isfinite(self.density))
        gain = self.of_rows - other.of_rows
        mean = np.average(gain, weights=self.weight)
        spread = np.average((gain - mean) ** 2, weights=self.weight)
        return mean > errors * np.sqrt(spread / self.weight.sum())


class ValidationSet:
    """Random rows of a table that compare models; of the w copies of a row, one is held out."""

    def __init__(self, rows: Dataset, random_state: Rng, has_sites: bool = False) -> None:
        self.rows, self.random_state = rows, random_state
        self.candidates: list[Candidate] = []
        share = _SHARE_WITH_SITES if has_sites else _SHARE
        self.chosen = held_out_rows(rows, _MOST_ROWS, share, random_state)
        weight = rows.row_weights()[self.chosen]  # the sum is the effective number (Kish 1965)
        self.count = weight if rows.merged else weight * (weight.sum() / (weight @ weight))
        self.block, self.clock = rows.block(self.chosen), perf_counter()
        self.scale = rows.scaler.scale[rows.scaler.scale > 0]  # of the targets that vary
        self.noise = np.broadcast_to(self.block.noise, len(self.chosen)).astype(float)

    def some(self, size: int) -> tuple["ValidationSet", Index]:
        """The first so many of a random order of the rows, whose order stays; and their places."""
        if size >= len(self.chosen):
            return self, slice(None)
        places = np.sort(self.random_state.permutation(len(self.chosen))[:size])
        other = copy(self)
        other.chosen, other.count = self.chosen[places], self.count[places]
        other.block, other.noise = self.rows.block(other.chosen), self.noise[places]
        return other, places

    def others(self, size: int) -> tuple[Ints, Array, Array]:
        """Numbers of at most so many random rows beside these, their counts, and all counts."""
        chosen, count = sampled(self.rows, size + len(self.chosen), self.random_state)
        of_all = np.array(self.rows.row_weights(), dtype=float)
        of_all[self.chosen] -= self.rows.weight_left_out(of_all[self.chosen])
        left = of_all[chosen]
        left = count * (left > 0.0) if self.rows.relative else np.minimum(count, left)
        places = np.flatnonzero(left > _WEIGHT_TOLERANCE)
        if len(places) > size:
            places = np.sort(self.random_state.permutation(places)[:size])
        return chosen[places], left[places], of_all

    def training_rows(self, most: int) -> Any:
        """The table of all rows that are not held out, or of so many random ones: a copy."""
        chosen, count, _ = self.others(most)
        return replace(self.rows.subset(chosen), weight=None if self.rows.weight is None else count)

    def score(self, name: str, mean: Array, variance: Array) -> ValidationScore:
        """The `ValidationScore` of means (n, p) and variances (n,) with noise, standardised."""
        errors = (self.block.y - mean) ** 2
        squared = np.average(errors * self.scale**2, axis=0, weights=self.count)
        densities = -0.5 * (np.log(variance) + LOG_2PI + errors.mean(axis=1) / variance)
        return self._logged(name, densities, float(np.sqrt(squared.mean())))

    def score_posterior(
        self, name: str, process: Posterior, n_jobs: int, likelihood: Likelihood | None = None
    ) -> ValidationScore:
        """The `ValidationScore` of a `Posterior` that has not seen these rows."""
        mean, variance = process.mean_and_variance(self.block.X, n_jobs)
        variance = variance + process.noise_variance(self.block.X)
        variance = np.maximum(variance, np.finfo(float).tiny)
        if likelihood is None:
            return self.score(name, mean, variance + self.noise)
        y, latent = self.block.observed, mean[:, 0] + self.block.offset
        return self._logged(name, likelihood.log_density(y, latent, variance), np.nan)

    def _logged(self, name: str, densities: Array, rmse: float) -> ValidationScore:
        """The `ValidationScore` of log densities (n,); their model becomes a candidate."""
        score = ValidationScore(densities, self.count)
        density = score.density - np.mean(np.log(self.scale))
        seconds, self.clock = perf_counter() - self.clock, perf_counter()
        self.candidates.append(Candidate(name, float(density), rmse, seconds, len(self.chosen)))
        return score
