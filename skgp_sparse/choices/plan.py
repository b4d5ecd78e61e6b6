"""The plan of a fit: its posterior, where it starts, and its steps, by one pure function.

`plan` decides it once, from what the user chose (`Request`) and what the rows are like (`Facts`),
and an observation model makes the `Job` of it. The method that it names fits, between the steps
that it names. A method that tries others and keeps the best, `PosteriorSelection`, and a step after
which the method is another one, "exact if quiet", are named as such. Names of posteriors become
objects here, too.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from skgp_sparse import kernels
from skgp_sparse.choices.choices import StandardisedColumns, resolved
from skgp_sparse.data.dataset import Dataset
from skgp_sparse.engine.feature_posterior import Normals, SparsePosterior
from skgp_sparse.ground.linalg import Jitter
from skgp_sparse.ground.validation import Kernel, Rng, as_text, is_auto, is_name
from skgp_sparse.inference.contracts import Start
from skgp_sparse.inference.objectives import LatentObjective
from skgp_sparse.likelihoods import Censored
from skgp_sparse.methods.contract import Job, PosteriorMethod, Request
from skgp_sparse.methods.exact import Exact, IterativeExact
from skgp_sparse.methods.inducing_points import FourierFeatures, InducingPoints
from skgp_sparse.methods.neighbors import Neighbors
from skgp_sparse.methods.selection import ExactRival, PosteriorSelection, RivalOfPoints
from skgp_sparse.methods.small_fits import on_subset
from skgp_sparse.solvers import LBFGS, Fit

# The numbers of the plan; numbers of rows are of distinct ones. What others would cost and buy is
# measured by docs/benchmarks/plan_numbers.py (results/plan_numbers.md).
EXACT_ROWS = 2000  # exact without a selection. One from 1,000 on gains up to .43 nats on some
# tables, loses up to 1 nat on others, and takes 1.2 times as long
EXACT_LABELS = 300  # the same where rows have sites, and an evaluation is an inner loop
EXACT_OPAQUE = 500  # the same where the kernel's gradient is an array of n x n x p: 1 GB of memory
EXACT_QUIET = 5500  # the same where a small fit finds next to no noise, and inducing points were
# asked for: 1 GB of memory
EXACT_FAR = EXACT_QUIET  # the same where rows far away matter, which neighbours do not use
EXACT_RIVAL = 5000  # up to which the exact process is the rival. Inducing points in its place take
# 1.4 times as long, for .01 nats
POINTS, POINTS_OF_LABELS = 500, 200  # inducing points where nobody asked for a number
POINTS_OF_UNCERTAIN_INPUTS = 100  # the same with X_std: m² exponentials per row
START_ROWS = 500  # of the exact fit that comes first
START_LABELS = 250  # the same where rows have sites, as a start should be cheap
LEVELS_PER_POINT = 0.5  # of a category: with more levels than that, inducing points know few of
# them, and neighbours are tried also where rows are few
WIDE, ROWS_OF_FOLDS = 1 / 3, 30  # free hyperparameters per number of y, and distinct rows, from
# which all deviations have a factor from fits without some rows
ROWS_OF_A_METRIC = 5  # below, none can be held out, and no metric is learned
ROWS_OF_A_MEAN, ROWS_OF_NOISE = 200, 100  # from which "auto" tries a mean or a calibration, as a
# fifth tells enough of it, and noise that varies
_FAR = "rows far away matter in the kernel"
BEFORE = {  # steps before the search, in the order in which they are taken, and their functions
    "residuals": "mean:residuals",
    "common start": "initial_values:common_start",
    "likely scale": "initial_values:likely_scale",
    "logarithms": "initial_values:logarithms",
    "exact if quiet": "initial_values:exact_if_quiet",
}
AFTER = {  # those after it
    "noise": "heteroscedastic_noise:learned_noise",
    "mean": "mean:mean_of_numbers",
    "global process": "global_process:beside_a_global_process",
    "calibration": "mean:calibrated_labels",
    "deviations": "deviations:from_folds",
    "warnings": "fit_warnings:warn_of_fits",
}
STEPS = BEFORE | AFTER


class Facts(NamedTuple):
    """Facts about the rows of a fit, as far as the plan depends on them."""

    n_rows: int
    n_distinct: float  # infinity where they are more than any number that matters
    n_levels: int = 0  # of a category, 0 where rows are many or have no sites
    in_memory: bool = True
    inputs_are_known: bool = True  # no X_std
    is_differentiable: bool = True
    weight: float = 0.0  # of rows in memory
    n_numbers: int = 0  # of X, for each target
    has_offset: bool = False
    reaches_far: bool = False  # whether rows far away matter in the user's kernel
    n_free: float = 0.0  # hyperparameters that are learned, per number of y


class Plan(NamedTuple):
    """How a fit goes."""

    posterior_method: PosteriorMethod
    summary: str  # its name, and why it is this one
    n_inducing: int
    start_rows: int  # of the small exact fit that comes first
    steps: tuple[str, ...]  # names of `STEPS`


def facts_of(rows: Dataset, kernel: Kernel, request: Request) -> Facts:
    """The `Facts` of a `Dataset` and a kernel."""
    distinct = rows.distinct(most=max(EXACT_QUIET, request.n_inducing or 0))
    places = kernels.categories(kernel, rows.n_features) if request.has_sites else []
    levels = [] if distinct is None else [len(np.unique(distinct[:, j])) for _, j in places]
    return Facts(
        n_rows=len(rows),
        n_distinct=np.inf if distinct is None else len(distinct),
        n_levels=max(levels, default=0),
        in_memory=rows.in_memory,
        inputs_are_known=rows.X_std is None,
        is_differentiable=kernels.differentiable(kernel),
        weight=rows.total_weight() if rows.in_memory else 0.0,
        n_numbers=len(rows) * rows.n_features * rows.n_targets,
        has_offset=getattr(rows, "offset", None) is not None,
        reaches_far=_reaches_far(rows, kernel, request),
        n_free=len(kernel.theta) / (len(rows) * rows.n_targets or np.inf),
    )


def _reaches_far(rows: Dataset, kernel: Kernel, request: Request) -> bool:
    """Whether rows far away matter in a user's kernel, of which a linear mean is no part.

    They do where it does not fall with distance, or has a period to learn.
    """
    if request.kernel is None or not (rows.in_memory and kernels.differentiable(kernel)):
        return False
    own = [one for one in kernels.summands(kernel) if not isinstance(one, StandardisedColumns)]
    has_period = bool(kernels.periods(kernel, rows.n_features))
    row, scale = rows.block(slice(0, 1)).X, rows.scale()
    return has_period or any(kernels.reaches_far(one, row, scale) for one in own)


def plan(request: Request, facts: Facts) -> Plan:
    """The `Plan` of a fit."""
    posterior_method, summary = _method(request, facts)
    start_rows = min(START_LABELS, max(125, facts.n_rows // 8)) if request.has_sites else START_ROWS
    steps = tuple(_steps(request, facts, posterior_method))
    return Plan(posterior_method, summary, _points(request, facts), start_rows, steps)


def _method(request: Request, facts: Facts) -> tuple[PosteriorMethod, str]:
    """Posterior method of a fit, and why it is this one."""
    chosen = request.posterior.with_points(_points(request, facts))
    n, few = facts.n_distinct, _few_rows(request, facts)
    if not facts.inputs_are_known:
        return UncertainInputs(), "inducing: fit was given X_std"
    is_left, was_chosen = type(chosen) is PosteriorSelection, is_plain(chosen)
    mixes = is_left and request.metric == "full" and n >= ROWS_OF_A_METRIC
    if chosen.is_exact_for_few and n <= few and not mixes:
        far = f", as {_FAR}" if _is_exact_further(request, facts) else ""
        return Exact(), f"exact: {n:.0f} distinct rows are at most {few}{far}"
    if not (is_left or was_chosen):
        return chosen, f"{chosen.name}: it was chosen"
    why = "it was chosen" if was_chosen else _why_points(request, facts)
    if why is not None:
        names = "inducing, or exact if there is next to no noise"
        return InducingPoints(), f"{names if _may_be_exact(request, facts) else 'inducing'}: {why}"
    if mixes and n <= EXACT_ROWS:
        return Neighbors(), "neighbors: metric='full' was chosen"
    lead = "which have to lead by a standard error"
    if request.has_sites or (facts.n_rows > EXACT_RIVAL and request.optimizer is None):
        return PosteriorSelection(RivalOfPoints), f"neighbors, {lead}, against inducing"
    if facts.n_rows > EXACT_RIVAL:
        return PosteriorSelection(RivalOfPoints), f"neighbors against inducing points, {lead}"
    rival = f"exact predictions of at most {EXACT_RIVAL} rows"
    return PosteriorSelection(ExactRival), f"neighbors against {rival}, {lead}"


def is_plain(posterior_method: PosteriorMethod) -> bool:
    """Whether a method is that of inducing points without options."""
    return type(posterior_method) is InducingPoints and not posterior_method.has_options


def _may_be_exact(request: Request, facts: Facts) -> bool:
    """Whether the exact process may take the place of inducing points, should noise be small."""
    if request.n_inducing is not None or request.points_are_given:
        return False  # points were asked for
    if request.has_sites or not (request.starts_on_subset and facts.is_differentiable):
        return False  # no small exact fit tells the noise
    return facts.inputs_are_known and facts.n_distinct <= EXACT_QUIET


def _why_points(request: Request, facts: Facts) -> str | None:
    """Why "auto" leads to inducing points without a selection, None where it does not."""
    of_points = request.bound, request.inducing_init, request.solver
    if request.n_inducing is not None or not all(map(is_auto, of_points)):
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
    return _FAR if facts.reaches_far and request.metric != "full" else None


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
    if _is_exact_further(request, facts):
        return EXACT_FAR
    return EXACT_ROWS if facts.is_differentiable else EXACT_OPAQUE


def _is_exact_further(request: Request, facts: Facts) -> bool:
    """Whether the exact process takes the place of a selection, as rows far away matter."""
    is_left = type(request.posterior) is PosteriorSelection and not request.has_sites
    return is_left and _why_points(request, facts) == _FAR


def _points(request: Request, facts: Facts) -> int:
    """The number of inducing points, or of features."""
    if request.posterior.width is not None:
        return request.posterior.width
    if request.n_inducing is not None:
        return request.n_inducing
    if not facts.inputs_are_known:
        return POINTS_OF_UNCERTAIN_INPUTS
    return POINTS_OF_LABELS if request.has_sites else POINTS


def _steps(request: Request, facts: Facts, posterior_method: PosteriorMethod) -> Iterator[str]:
    """Names of the steps of a fit, in the order of `STEPS`."""
    is_free, moves = request.kernel is None, request.optimizer is not None
    was_chosen = is_chosen(request.mean) and not is_name(request.mean, "linear")
    has_mean = was_chosen or _may_have_mean(request, facts)
    if was_chosen and not is_free:
        yield "residuals"
    if is_free and moves:
        may = PosteriorSelection, InducingPoints, Neighbors
        if request.starts_together and type(posterior_method) in may:
            yield "common start"
        yield "likely scale"
        if _tries_logarithms(request, facts, posterior_method):
            yield "logarithms"
    if is_plain(posterior_method) and _may_be_exact(request, facts):
        yield "exact if quiet"
    if moves and _may_learn_noise(request, facts):
        yield "noise"
    if is_free and has_mean:
        yield "mean"
    if moves and type(posterior_method) is PosteriorSelection and not request.has_sites:
        yield "global process"
    is_calibrated = request.calibration is not None and _leaves_out(request, facts)
    if is_free and request.n_classes and (has_mean or is_calibrated):
        yield "calibration"
    is_wide = facts.n_free >= WIDE and min(facts.weight, facts.n_distinct) >= ROWS_OF_FOLDS
    has_factor = type(posterior_method) is Exact and not request.has_sites
    is_calibrated = is_free and request.calibration is not None and request.have_all_rows
    if moves and is_wide and (has_factor or is_calibrated):
        yield "deviations"
    if moves:
        yield "warnings"


def _may_learn_noise(request: Request, facts: Facts) -> bool:
    """Whether Gaussian noise may vary."""
    if request.has_sites or not is_auto(request.noise):
        return request.noise == "learned" and not request.has_sites
    return request.kernel is None and facts.inputs_are_known and facts.weight >= ROWS_OF_NOISE


def _leaves_out(request: Request, facts: Facts) -> bool:
    """Whether there are rows enough, which can be left out of all problems."""
    are_known = request.are_passed and request.have_all_rows and facts.inputs_are_known
    return are_known and facts.in_memory and facts.weight >= ROWS_OF_A_MEAN


def _may_have_mean(request: Request, facts: Facts) -> bool:
    """Whether "auto" looks for a mean: where there is enough to learn from, and time."""
    if not is_auto(request.mean) or request.optimizer is None:
        return False  # "auto" looks for nothing
    takes_minutes = facts.n_numbers * max(request.n_classes, 1) > 20_000_000
    if takes_minutes or facts.has_offset or isinstance(request.likelihood, Censored):
        return False  # trees know neither offsets nor limits
    return facts.n_distinct >= ROWS_OF_A_MEAN and _leaves_out(request, facts)


def _tries_logarithms(request: Request, facts: Facts, posterior_method: PosteriorMethod) -> bool:
    """Whether logarithms of skewed columns are tried: not of many rows that may learn a metric."""
    if request.kernel is not None or request.points_are_given or request.metric == "full":
        return False  # the user says in which units columns are seen
    if not (request.starts_on_subset and facts.in_memory and facts.inputs_are_known):
        return False  # no small exact fit compares
    mixes = posterior_method.learns_metric and request.metric == "auto" and not request.has_sites
    return posterior_method.takes_missing and (facts.n_rows <= EXACT_ROWS or not mixes)


# The true input of a row with X_std is ``x_i ~ N(X_i, X_std_i²)``, and a normal ``q(x_i)`` is
# learned for each row under this prior, together with hyperparameters and inducing points. To hold
# ``q`` at the prior would be worse than to ignore X_std: what the targets say about inputs would
# count as noise.
class UncertainInputs(PosteriorMethod):
    """Method of "inducing" and "auto" where `X_std` is given."""

    name = "inducing"
    uses_bound = True

    def fit(self, job: Job, random_state: Rng) -> Fit:
        """The `Fit` from hyperparameters of few rows, whose inputs are taken as known."""
        job = on_subset(job, random_state)
        rows, options = job.rows, job.settings.options._replace(jitter=Jitter(1e-6))
        Z = job.points.initialise(rows, job.kernel, random_state)
        known = job.objectives.sparse(rows, Z, options)  # a `CollapsedObjective`
        X = rows.everything().X
        latent = LatentObjective(
            rows=rows,
            bound=known.bound,
            basis=known.basis,
            prior=Normals(X, known.rows.X_std**2),
            shift=np.zeros_like(X),
            log_ratio=np.zeros_like(X),
            patterns=np.ones((len(X), 1)),
            of_column=np.zeros(rows.n_targets, dtype=int),
            options=options,
        )
        fit = LBFGS().solve(Start(latent, job.kernel, job.settings, random_state, job.objectives))
        given: Any = fit.posterior  # an `InducingPosterior`
        posterior = SparsePosterior(fit.kernel, given.features, given.u, given.TB[0])
        return fit._replace(posterior=posterior)

    def refuses(self, request: Request) -> str | None:
        """Everything that needs inputs which are known, or moves no parameters of rows."""
        if request.has_sites:
            return f"likelihood='gaussian'. Got likelihood={as_text(request.likelihood)}"
        if request.resolved_bound is not None and np.any(request.resolved_bound.noise_share):
            bound = as_text(request.bound)
            return f"bound='titsias_new', 'titsias', 'artemev' or 'dtc'. Got bound={bound}"
        if request.metric == "full":
            return "metric='ard'. Got metric='full'"
        if request.optimizer != "fmin_l_bfgs_b":
            return f"optimizer='fmin_l_bfgs_b'. Got optimizer={as_text(request.optimizer)}"
        if request.kernel is not None and not kernels.differentiable(request.kernel):
            return f"a kernel with a derivative rule. Got kernel={request.kernel}"
        return None


BY_NAME = {
    "auto": PosteriorSelection,
    "exact": Exact,
    "fourier": FourierFeatures,
    "inducing": InducingPoints,
    "neighbors": Neighbors,
    "rows": IterativeExact,
}


def resolve_posterior(posterior: PosteriorMethod | str, name: str) -> PosteriorMethod:
    """The method of a name or an instance; raises where its parameters cannot be used."""
    must = f"one of {sorted(BY_NAME)} or an object (no class) such as posteriors.InducingPoints()"
    found: PosteriorMethod = resolved(posterior, BY_NAME, PosteriorMethod, "posterior", name, must)
    found.check_parameters(name)
    return found


def is_chosen(mean: object) -> bool:
    """Whether a user has chosen a mean."""
    return not (mean is None or is_auto(mean))


def tolerance(tol: float | str) -> float:
    """The number that `tol` stands for, in nats per row."""
    return 1e-3 if isinstance(tol, str) else tol


def compares_approximations(parameters: BaseEstimator) -> bool:
    """Whether a user names an approximation: "auto" adds no mean, noise or calibration to it."""
    names = "bound", "n_inducing", "inducing_init", "posterior"
    return not all(is_auto(getattr(parameters, name)) for name in names)
