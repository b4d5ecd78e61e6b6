"""The plan of a fit: its posterior, where it starts, and its steps, by one pure function.

`plan` decides it once, from what the user chose (`Request`) and what the rows are like (`Facts`),
and `job_of` makes the `Job` of it. The method that it names fits, between the steps that it names.
A method that tries others and keeps the best, `PosteriorSelection`, and a step after which the
method is another one, "exact if quiet", are named as such.

Names of posteriors become objects here, too: `LargerMean`, `TightVariance` and `UncertainInputs`
are what options of inducing points ask for.
"""

from collections.abc import Callable, Iterator
from functools import partial
from numbers import Integral
from typing import Any, NamedTuple, Protocol

import numpy as np
from sklearn import get_config
from sklearn.base import clone
from sklearn.gaussian_process.kernels import Kernel

from skgp_sparse import kernels
from skgp_sparse.bounds import Bound
from skgp_sparse.data.dataset import Dataset
from skgp_sparse.data.moments import NO_EFFECT
from skgp_sparse.engine.basis import InducingBasis, Options
from skgp_sparse.engine.exact import tightened
from skgp_sparse.engine.feature_posterior import Normals, SparsePosterior
from skgp_sparse.ground.linalg import Jitter
from skgp_sparse.ground.parallel import Deadline, resolve_n_jobs
from skgp_sparse.ground.validation import BOOLS, as_text, check_number, is_auto, is_name, require
from skgp_sparse.inference.contracts import ObjectiveFactory, Settings, arithmetic
from skgp_sparse.inference.objectives import DecoupledObjective, LatentObjective
from skgp_sparse.likelihoods import Censored
from skgp_sparse.methods.contract import (
    Job,
    Points,
    PosteriorMethod,
    Request,
    start_on_subset,
)
from skgp_sparse.methods.exact import Exact, IterativeExact
from skgp_sparse.methods.inducing_points import FourierFeatures, InducingPoints
from skgp_sparse.methods.neighbors import Neighbors
from skgp_sparse.methods.selection import PosteriorSelection
from skgp_sparse.solvers import LBFGS, Fit, resolve_solver

# The numbers of the plan; numbers of rows are of distinct ones. What others would cost and buy is
# measured by docs/benchmarks/plan_numbers.py (results/plan_numbers.md).
EXACT_ROWS = 2000  # exact without a selection. One from 1,000 on gains up to .43 nats on some
# tables, loses up to 1 nat on others, and takes 1.2 times as long
EXACT_LABELS = 300  # the same where rows have sites, and an evaluation is an inner loop
EXACT_OPAQUE = 500  # the same where the kernel's gradient is an array of n x n x p: 1 GB of memory
EXACT_QUIET = 5500  # the same where a small fit finds next to no noise, and inducing points were
# asked for: 1 GB of memory
EXACT_RIVAL = 5000  # up to which the exact process is the rival. Inducing points in its place take
# 1.4 times as long, for .01 nats
POINTS, POINTS_OF_LABELS = 500, 200  # inducing points where nobody asked for a number
POINTS_OF_UNCERTAIN_INPUTS = 100  # the same with X_std: m² exponentials per row
START_ROWS = 500  # of the exact fit that comes first
START_LABELS, LEAST_START_LABELS, START_SHARE = 250, 125, 8  # the same where rows have sites: an
# eighth of the rows within these limits, as a start should be cheap beside an evaluation
LEVELS_PER_POINT = 0.5  # of a category: with more levels than that, inducing points know few of
# them, and neighbours are tried also where rows are few
ROWS_OF_A_METRIC = 5  # below, none can be held out, and no metric is learned
ROWS_OF_NOISE = 100  # from which "auto" learns how the noise varies
ROWS_OF_A_MEAN = 200  # from which "auto" tries a mean or a calibration: a fifth tells enough of it
NUMBERS_OF_A_MEAN = (
    20_000_000  # of X, for each target or class, beyond which boosting takes minutes
)
STEPS = {  # beside the search, in the order in which they are taken, and their classes
    "residuals": "mean:Residuals",
    "common start": "several_classes:CommonStart",
    "likely scale": "scales:LikelyScale",
    "logarithms": "scales:Logarithms",
    "exact if quiet": "scales:ExactIfQuiet",
    "noise": "heteroscedastic_noise:LearnedNoise",
    "mean": "mean:BesideMean",
    "calibration": "mean:CalibratedLabels",
    "warnings": "fit_warnings:FitWarnings",
}

_START_TOGETHER = PosteriorSelection, InducingPoints, Neighbors  # methods whose classes may


class Facts(NamedTuple):
    """Facts about the rows of a fit, as far as the plan depends on them.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    n_distinct : float
        Number of distinct rows, infinity where they are more than any number that matters.
    n_levels : int
        Largest number of levels of a category, 0 where rows are many or have no sites.
    in_memory : bool
        Whether the rows are in memory.
    inputs_are_known : bool
        Whether inputs have no standard deviations `X_std`.
    is_differentiable : bool
        Whether the kernel has derivatives in closed form.
    weight : float
        Sum of the weights of rows in memory.
    n_numbers : int
        Number of entries of X, for each target.
    has_offset : bool
        Whether latent values have known offsets.
    """

    n_rows: int
    n_distinct: float
    n_levels: int = 0
    in_memory: bool = True
    inputs_are_known: bool = True
    is_differentiable: bool = True
    weight: float = 0.0
    n_numbers: int = 0
    has_offset: bool = False


class Plan(NamedTuple):
    """How a fit goes.

    Parameters
    ----------
    posterior_method : PosteriorMethod
        Method that fits.
    summary : str
        Name of the method, and why it is this one, in words.
    n_inducing : int
        Number of inducing points, where there are any.
    start_rows : int
        Number of rows of the small exact fit that comes first.
    steps : tuple of str
        What comes before and after the search, of `STEPS`.
    """

    posterior_method: PosteriorMethod
    summary: str
    n_inducing: int
    start_rows: int
    steps: tuple[str, ...]


def facts_of(rows: Dataset, kernel: Kernel, request: Request) -> Facts:
    """The `Facts` of a `Dataset` and a kernel."""
    distinct = rows.distinct(most=max(EXACT_QUIET, request.n_inducing or 0))
    has_levels = request.has_sites and distinct is not None
    places = kernels.categories(kernel, rows.n_features) if has_levels else []
    return Facts(
        n_rows=len(rows),
        n_distinct=np.inf if distinct is None else len(distinct),
        n_levels=max((len(np.unique(distinct[:, j])) for _, j in places), default=0),
        in_memory=rows.in_memory,
        inputs_are_known=rows.X_std is None,
        is_differentiable=kernels.differentiable(kernel),
        weight=rows.total_weight() if rows.in_memory else 0.0,
        n_numbers=len(rows) * rows.n_features * rows.n_targets,
        has_offset=getattr(rows, "offset", None) is not None,
    )


def plan(request: Request, facts: Facts) -> Plan:
    """The `Plan` of a fit."""
    posterior_method, summary = _method(request, facts)
    return Plan(
        posterior_method=posterior_method,
        summary=summary,
        n_inducing=_points(request, facts),
        start_rows=_start_rows(request, facts),
        steps=tuple(_steps(request, facts, posterior_method)),
    )


def _method(request: Request, facts: Facts) -> tuple[PosteriorMethod, str]:
    """Posterior method of a fit, and why it is this one."""
    chosen = request.posterior.with_points(_points(request, facts))
    n, few = facts.n_distinct, _few_rows(request, facts)
    if not facts.inputs_are_known:
        return UncertainInputs(), "inducing: fit was given X_std"
    mixes = type(chosen) is Auto and request.metric == "full" and n >= ROWS_OF_A_METRIC
    if chosen.is_exact_for_few and n <= few and not mixes:
        return Exact(), f"exact: {n:.0f} distinct rows are at most {few}"
    if type(chosen) not in (Auto, InducingPoints):
        return chosen, f"{chosen.name}: it was chosen"
    why = "it was chosen" if type(chosen) is InducingPoints else _why_points(request, facts)
    if why is not None:
        return _inducing_points(request, facts, why)
    if mixes and n <= EXACT_ROWS:
        return Neighbors(), "neighbors: metric='full' was chosen"
    if not request.has_sites and facts.n_rows <= EXACT_RIVAL:
        return PosteriorSelection(Exact()), f"neighbors against exact: at most {EXACT_RIVAL} rows"
    return PosteriorSelection(InducingPoints()), "neighbors against inducing: there are many rows"


def _inducing_points(request: Request, facts: Facts, why: str) -> tuple[PosteriorMethod, str]:
    """Inducing points, unless nobody asked for a number of them and there is little noise."""
    or_exact = ", or exact if there is next to no noise" * _may_be_exact(request, facts)
    return InducingPoints(), f"inducing{or_exact}: {why}"


def _may_be_exact(request: Request, facts: Facts) -> bool:
    """Whether the exact process may take the place of inducing points, should noise be small."""
    is_open = request.n_inducing is None and not request.points_are_given
    is_open = is_open and request.starts_on_subset and facts.inputs_are_known
    is_open = is_open and not request.has_sites and facts.is_differentiable
    return is_open and facts.n_distinct <= EXACT_QUIET


def _why_points(request: Request, facts: Facts) -> str | None:
    """Why "auto" leads to inducing points without a selection, None where it does not."""
    if request.asks_for_points:
        return "parameters of inducing points were chosen"
    if request.n_latent > 1:
        return "rows have several latent values"
    if not facts.in_memory:
        return "rows are not in memory"
    if not facts.is_differentiable:
        return "the kernel has no derivative rule"
    if not request.starts_on_subset:
        return "the optimizer begins with all rows"
    are_too_few = request.has_sites and facts.n_distinct <= EXACT_ROWS and request.metric != "full"
    if are_too_few and facts.n_levels <= LEVELS_PER_POINT * _points(request, facts):
        return f"at most {EXACT_ROWS} rows with a likelihood"
    return None


def _few_rows(request: Request, facts: Facts) -> int:
    """The number of distinct rows up to which the exact process of all rows is fitted."""
    if request.posterior.exact_rows is not None:
        return request.posterior.exact_rows
    if request.points_are_given:
        return 0
    if request.n_inducing is not None:
        return request.n_inducing
    if request.has_sites:
        return EXACT_LABELS
    return EXACT_ROWS if facts.is_differentiable else EXACT_OPAQUE


def _points(request: Request, facts: Facts) -> int:
    """The number of inducing points, or of features."""
    if request.posterior.width is not None:
        return request.posterior.width
    if request.n_inducing is not None:
        return request.n_inducing
    if not facts.inputs_are_known:
        return POINTS_OF_UNCERTAIN_INPUTS
    return POINTS_OF_LABELS if request.has_sites else POINTS


def _start_rows(request: Request, facts: Facts) -> int:
    """The number of rows of the small exact fit that comes first."""
    share = max(LEAST_START_LABELS, facts.n_rows // START_SHARE)
    return min(START_LABELS, share) if request.has_sites else START_ROWS


def _steps(request: Request, facts: Facts, posterior_method: PosteriorMethod) -> Iterator[str]:
    """Names of the steps of a fit, in the order of `STEPS`."""
    is_free, moves = request.kernel is None, request.optimizer is not None
    has_mean = request.has_chosen_mean or _may_have_mean(request, facts)
    if request.has_chosen_mean and not is_free and not is_name(request.mean, "linear"):
        yield "residuals"
    if is_free and moves:
        if request.starts_together and type(posterior_method) in _START_TOGETHER:
            yield "common start"
        yield "likely scale"
        if _tries_logarithms(request, facts, posterior_method):
            yield "logarithms"
    if type(posterior_method) is InducingPoints and _may_be_exact(request, facts):
        yield "exact if quiet"
    if moves and _may_learn_noise(request, facts):
        yield "noise"
    if is_free and has_mean:
        yield "mean"
    is_calibrated = request.calibration is not None and _leaves_out(request, facts)
    if is_free and request.n_classes and (has_mean or is_calibrated):
        yield "calibration"
    if moves:
        yield "warnings"


def _may_learn_noise(request: Request, facts: Facts) -> bool:
    """Whether Gaussian noise may vary."""
    is_open = request.kernel is None and facts.inputs_are_known and facts.weight >= ROWS_OF_NOISE
    is_asked = request.noise == "learned" or (is_auto(request.noise) and is_open)
    return is_asked and not request.has_sites


def _leaves_out(request: Request, facts: Facts) -> bool:
    """Whether there are rows enough, which can be left out of all problems."""
    is_open = request.are_passed and request.have_all_rows and facts.inputs_are_known
    return is_open and facts.in_memory and facts.weight >= ROWS_OF_A_MEAN


def _may_have_mean(request: Request, facts: Facts) -> bool:
    """Whether "auto" looks for a mean: where there is enough to learn from, and time."""
    is_open = is_auto(request.mean) and request.optimizer is not None and not facts.has_offset
    is_open = is_open and not isinstance(request.likelihood, Censored)
    is_open = is_open and facts.n_numbers * max(request.n_classes, 1) <= NUMBERS_OF_A_MEAN
    return is_open and facts.n_distinct >= ROWS_OF_A_MEAN and _leaves_out(request, facts)


def _tries_logarithms(request: Request, facts: Facts, posterior_method: PosteriorMethod) -> bool:
    """Whether skewed columns may be seen by their logarithms.

    Where a metric mixes columns and noise is Gaussian, this was not tried for many rows.
    """
    is_open = request.kernel is None and request.starts_on_subset and not request.points_are_given
    is_open = is_open and facts.in_memory and facts.inputs_are_known
    is_open = is_open and request.metric != "full" and posterior_method.takes_missing
    mixes = posterior_method.learns_metric and request.metric == "auto" and not request.has_sites
    return is_open and (facts.n_rows <= EXACT_ROWS or not mixes)


class TightVariance(PosteriorMethod):
    """Method of `InducingPoints` with `tight_variance`: the posterior of a tighter bound."""

    name = "inducing"
    uses_bound = True
    remedy = "It needs one basis: set tight_variance to False."
    is_exact_for_few = True

    def fit(self, job, random_state):
        """The `Fit` at inducing points with smaller variances."""
        if not job.rows.in_memory:
            raise ValueError(
                "tight_variance=True needs all rows in memory. Pass arrays, not a source or rows "
                "on a cluster, or set posterior to 'inducing'."
            )
        fit = InducingPoints().fit(job, random_state)
        with arithmetic():
            rows, bound = fit.objective.rows.everything(), fit.objective.bound
            return fit._replace(posterior=tightened(fit.posterior, rows, bound))

    def refuses(self, request):
        """Likelihoods, and objectives that are no variational bound."""
        if request.has_sites:
            return (
                "needs likelihood='gaussian' for tight_variance. Got "
                f"likelihood={as_text(request.likelihood)}"
            )
        bound = request.resolved_bound
        if not bound.is_lower_bound or np.any(bound.noise_share):
            names = "'titsias', 'titsias_new' or 'artemev'"
            return f"needs the bound {names} for tight_variance. Got bound={as_text(request.bound)}"
        return None

    def refuses_later_rows(self):
        """Variances that need all rows."""
        return "tight_variance=True takes all rows at once"


_JITTER = Jitter(1e-6)


# The true input of a row with X_std is ``x_i ~ N(X_i, X_std_i²)``, and a normal ``q(x_i)`` is
# learned for each row under this prior, together with hyperparameters and inducing points. To hold
# ``q`` at the prior would be worse than to ignore X_std: what the targets say about inputs would
# count as noise.
class UncertainInputs(PosteriorMethod):
    """Method of "inducing" and "auto" where `X_std` is given."""

    name = "inducing"
    uses_bound = True

    def fit(self, job, random_state):
        """The `Fit` from hyperparameters of few rows, whose inputs are taken as known."""
        job = start_on_subset(job, random_state)
        rows, options = job.rows, job.settings.options._replace(jitter=_JITTER)
        Z = job.points.initialise(rows, job.kernel, random_state)
        known = job.model.sparse(rows, Z, options)
        X = rows.everything().X
        objective = LatentObjective(
            rows=rows,
            bound=known.bound,
            basis=known.basis,
            prior=Normals(X, rows.X_std**2),
            shift=np.zeros_like(X),
            log_ratio=np.zeros_like(X),
            patterns=np.ones((len(X), 1)),
            of_column=np.zeros(rows.n_targets, dtype=int),
            options=options,
        )
        fit = LBFGS().solve(objective, job.kernel, job.settings, random_state, job.model)
        given = fit.posterior
        posterior = SparsePosterior(fit.kernel, given.features, given.u, given.TB[0])
        return fit._replace(posterior=posterior)

    def refuses(self, request):
        """Everything that needs inputs which are known, or moves no parameters of rows."""
        if request.has_sites:
            return f"likelihood='gaussian'. Got likelihood={as_text(request.likelihood)}"
        if np.any(request.resolved_bound.noise_share):
            bound = as_text(request.bound)
            return f"bound='titsias_new', 'titsias', 'artemev' or 'dtc'. Got bound={bound}"
        if request.metric == "full":
            return "metric='ard'. Got metric='full'"
        if request.optimizer != "fmin_l_bfgs_b":
            return f"optimizer='fmin_l_bfgs_b'. Got optimizer={as_text(request.optimizer)}"
        if request.kernel is not None and not kernels.differentiable(request.kernel):
            return f"a kernel with a derivative rule. Got kernel={request.kernel}"
        return None


class LargerMean(PosteriorMethod):
    """Method of `InducingPoints` with `n_mean`: the mean has random rows as inducing points, too.

    Parameters
    ----------
    n_mean : int
    """

    name = "inducing"
    uses_bound = True
    remedy = "It needs one basis: set n_mean to None."
    is_exact_for_few = True

    def __init__(self, n_mean):
        self.n_mean = n_mean

    def fit(self, job, random_state):
        """The `Fit` at inducing points with another mean, if that has more of them."""
        fit = InducingPoints().fit(job, random_state)
        Z, rows = fit.objective.inducing_points, job.rows
        if self.n_mean <= len(Z):
            return fit
        more = rows.subset(rows.sample(self.n_mean - len(Z), random_state)).everything().X
        objective = DecoupledObjective(fit.objective, InducingBasis(np.vstack([Z, more])))
        with arithmetic():
            return fit._replace(**objective.conclude(fit.kernel)._asdict())

    def with_points(self, n_inducing):
        """`InducingPoints` where the mean would have no more points than the covariance."""
        return InducingPoints() if self.n_mean <= n_inducing else self

    def refuses(self, request):
        """Likelihoods, and bounds that count a residual as noise."""
        if request.has_sites:
            likelihood = as_text(request.likelihood)
            return f"needs likelihood='gaussian' for n_mean. Got likelihood={likelihood}"
        if np.any(request.resolved_bound.noise_share):
            names = "'titsias', 'titsias_new', 'artemev' or 'dtc'"
            return f"needs the bound {names} for n_mean. Got bound={as_text(request.bound)}"
        return None

    def refuses_later_rows(self):
        """A second basis, whose sums are not kept."""
        return f"n_mean={self.n_mean} has a second one, which takes all rows at once"


class Auto(PosteriorMethod):
    """The choice of a posterior, which is left to the plan."""

    name = "auto"
    uses_bound = takes_learned_noise = True
    is_exact_for_few = True

    def fit(self, job: Job, random_state: np.random.RandomState) -> Fit:
        """Raise NotImplementedError: the plan names another method."""
        raise NotImplementedError

    def refuses_later_rows(self) -> str | None:
        """None: rows that arrive later are learned with inducing points."""
        return None


BY_NAME = {
    "auto": Auto,
    "exact": Exact,
    "fourier": FourierFeatures,
    "inducing": InducingPoints,
    "neighbors": Neighbors,
    "rows": IterativeExact,
}


def resolve_posterior(posterior: PosteriorMethod | str, name: str) -> PosteriorMethod:
    """The method of a name or an instance; raises where its parameters cannot be used."""
    if isinstance(posterior, str) and posterior in BY_NAME:
        return BY_NAME[posterior]()
    must = f"one of {sorted(BY_NAME)} or an object (no class) such as posteriors.InducingPoints()"
    require(isinstance(posterior, PosteriorMethod), "posterior", posterior, name, must)
    found: PosteriorMethod = clone(posterior)
    found.check_parameters(name)
    return _of_options(found, name) if isinstance(found, InducingPoints) else found


def _of_options(points: InducingPoints, name: str) -> PosteriorMethod:
    """Inducing points, or what their options make of them."""
    n_mean, tight = points.n_mean, points.tight_variance
    require(isinstance(tight, BOOLS), "posterior__tight_variance", tight, name, "True or False")
    if n_mean is None:
        return TightVariance() if tight else points
    check_number(n_mean, "posterior__n_mean", name, Integral, low=1)
    if tight:
        raise ValueError(
            f"{name}: tight_variance=True needs one basis of inducing points, but n_mean={n_mean} "
            "is a second one for the mean. Set n_mean to None, or tight_variance to False."
        )
    return LargerMean(n_mean)


_TOL = 1e-3  # the tolerance of "auto", in nats per row


class ModelOfRequest(Protocol):
    """The parts of an `ObservationModel` that a request is made of, which are documented there."""

    parameters: Any
    name: str
    posterior_method: PosteriorMethod
    likelihood: Any
    bound: Bound
    has_sites: bool
    progress: Callable[..., Any] | None
    deadline: Deadline
    n_classes: int
    have_all_rows: bool
    starts_together: bool
    are_passed: bool

    def initialiser(self, n_inducing: int, n_features: int) -> tuple[Any, bool]:
        """``(rows, kernel, random_state) -> Z``, and whether Z is the user's own."""


def request_of(observations: ModelOfRequest, posterior: PosteriorMethod) -> Request:
    """`Request` from the parameters of the estimator of an `ObservationModel`."""
    given = observations.parameters
    is_alone = compares_approximations(given)
    return Request(
        posterior=posterior,
        kernel=given.kernel,
        likelihood=given.likelihood,
        has_sites=observations.has_sites,
        n_latent=observations.likelihood.n_latent if observations.has_sites else 1,
        bound=given.bound,
        resolved_bound=None if observations.has_sites else observations.bound,
        n_inducing=None if is_auto(given.n_inducing) else given.n_inducing,
        inducing_init=given.inducing_init,
        solver=given.solver,
        optimizer=given.optimizer,
        metric=given.metric,
        mean=_added(given, "mean", None, is_alone),
        noise=_added(given, "noise", "constant", is_alone),
        calibration=_added(given, "calibration", None, is_alone),
        n_classes=observations.n_classes,
        have_all_rows=observations.have_all_rows,
        starts_together=observations.starts_together,
        are_passed=observations.are_passed,
    )


def _added(parameters: Any, name: str, nothing: Any, is_alone: bool) -> Any:
    """Value of a parameter for what a fit may add, nothing where "auto" adds nothing to it."""
    value = getattr(parameters, name, nothing)
    return nothing if is_alone and is_auto(value) else value


def compares_approximations(parameters: Any) -> bool:
    """Whether a user names an approximation: it is fitted alone, without what "auto" adds to it.

    A mean, noise that varies and a calibration of labels are added if they are asked for.
    """
    names = "bound", "n_inducing", "inducing_init", "posterior"
    return not all(is_auto(getattr(parameters, name)) for name in names)


def check_posterior_method(observations: ModelOfRequest) -> None:
    """Raise if the posterior cannot be given what is asked for."""
    given, chosen = observations.parameters, observations.posterior_method
    reason = chosen.refuses(request_of(observations, chosen))
    if reason is None and not (chosen.uses_bound or is_auto(given.bound)):
        reason = f"has no bound, so that none can be chosen. Got bound={as_text(given.bound)}"
    if reason is not None:
        raise ValueError(
            f"{observations.name}: posterior={as_text(given.posterior)} {reason}. Change this, or "
            "set posterior='inducing'."
        )


def job_of(
    observations: ModelOfRequest,
    rows: Dataset,
    kernel: Kernel,
    model: ObjectiveFactory,
    name: str,
    posterior: PosteriorMethod,
) -> Job:
    """The `Job` of a table, by its plan."""
    request, given = request_of(observations, posterior), observations.parameters
    is_free, memory = given.kernel is None, get_config()["working_memory"] * 2**20
    planned = plan(request, facts := facts_of(rows, kernel, request))
    _check_rows(observations, facts, posterior, planned.posterior_method)
    size = planned.n_inducing
    initialise, are_given = observations.initialiser(size, rows.n_features)
    width = len(given.inducing_init) if are_given else size
    return Job(
        name=name,
        rows=rows,
        kernel=kernel,
        model=model,
        posterior_method=planned.posterior_method,
        points=Points(size, initialise, is_auto(given.n_inducing), are_given),
        settings=Settings(
            solver=resolve_solver(given.solver, given.optimizer, len(rows), width),
            n_restarts=given.n_restarts_optimizer,
            max_iter=given.max_iter,
            tol=tolerance(given.tol),
            start_rows=planned.start_rows,
            options=Options(n_jobs=resolve_n_jobs(given.n_jobs), memory=memory),
            move_basis=given.optimize_inducing,
            deadline=observations.deadline,
            progress=observations.progress and partial(observations.progress, about=name),
        ),
        is_free=is_free,
        plan=planned.summary,
        steps=planned.steps,
        metric=given.metric,
        spreads=rows.scale(NO_EFFECT if is_free else 1.0),
    )


def tolerance(tol: float | str) -> float:
    """The number that `tol` stands for, in nats per row."""
    return _TOL if is_auto(tol) else tol


def _check_rows(observations: ModelOfRequest, facts: Facts, *methods: PosteriorMethod) -> None:
    """Raise where inputs have errors that cannot be used, or a metric is asked for in vain."""
    if not facts.inputs_are_known:
        _check_uncertain_inputs(observations)
    is_asked = observations.parameters.metric == "full" and facts.n_distinct >= ROWS_OF_A_METRIC
    if is_asked and not any(method.learns_metric for method in methods):
        raise ValueError(
            f"{observations.name}: metric='full' is that of predictions from neighbours, which are "
            "given rows in memory with one latent value each. Set posterior to 'neighbors' (with "
            "multi_class='one_vs_rest'), or metric to 'ard'."
        )


def _check_uncertain_inputs(observations: ModelOfRequest) -> None:
    """Raise where `X_std` is given, and something else needs inputs that are known."""
    needs = UncertainInputs().refuses(request_of(observations, UncertainInputs()))
    if type(observations.posterior_method) not in (Auto, InducingPoints):
        given = as_text(observations.parameters.posterior)
        needs = f"posterior='inducing', without parameters. Got {given}"
    if needs is not None:
        raise ValueError(
            f"{observations.name}: X_std needs {needs}. Change this, or leave X_std out."
        )
