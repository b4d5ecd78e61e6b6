"""Which posterior a fit has, and from where it starts: one pure function, read from top to bottom.

`plan` decides it once, from what the user chose (`Request`) and what the rows are like (`Facts`).
The method that it names fits. Some of these methods try others and keep the best, or leave the rows
to another one, as `ExactIfQuiet` does where it finds next to no noise.
"""

from numbers import Integral
from typing import NamedTuple

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from skgp_sparse import kernels
from skgp_sparse._engine.dataset import Dataset
from skgp_sparse.posteriors._contract import PosteriorMethod, Request
from skgp_sparse.posteriors._exact import Exact
from skgp_sparse.posteriors._inducing_points import ExactIfQuiet, InducingPoints
from skgp_sparse.posteriors._model_selection import PosteriorSelection
from skgp_sparse.posteriors._names import Auto, UncertainInputs
from skgp_sparse.posteriors._neighbors import InLearnedMetric, Neighbors

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
UNMIXED = "auto", "ard"  # metrics that mix no columns, unless neighbours see to it


class Facts(NamedTuple):
    """Facts about the rows of a fit, as far as the plan depends on them.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    n_distinct : float
        Number of distinct rows, infinity where they are more than any number that matters.
    n_levels : int
        Largest number of levels of a category, 0 where rows are many.
    in_memory : bool
        Whether the rows are in memory.
    inputs_are_known : bool
        Whether inputs have no standard deviations `X_std`.
    is_differentiable : bool
        Whether the kernel has derivatives in closed form.
    """

    n_rows: int
    n_distinct: float
    n_levels: int = 0
    in_memory: bool = True
    inputs_are_known: bool = True
    is_differentiable: bool = True


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
    tries_logarithms : bool
        Whether skewed columns of the default kernel may be seen by their logarithms.
    """

    posterior_method: PosteriorMethod
    summary: str
    n_inducing: int
    start_rows: int
    tries_logarithms: bool


def facts_of(rows: Dataset, kernel: Kernel, request: Request) -> Facts:
    """The `Facts` of a `Dataset` and a kernel."""
    distinct = rows.distinct(most=max(EXACT_QUIET, request.n_inducing or 0))
    places = [] if distinct is None else kernels.categories(kernel, rows.n_features)
    return Facts(
        n_rows=len(rows),
        n_distinct=np.inf if distinct is None else len(distinct),
        n_levels=max((len(np.unique(distinct[:, j])) for _, j in places), default=0),
        in_memory=rows.in_memory,
        inputs_are_known=rows.X_std is None,
        is_differentiable=kernels.differentiable(kernel),
    )


def plan(request: Request, facts: Facts) -> Plan:
    """The `Plan` of a fit."""
    posterior_method, summary = _method(request, facts)
    mixes = request.metric not in UNMIXED and not request.posterior.learns_metric
    if mixes and facts.n_distinct >= ROWS_OF_A_METRIC and not posterior_method.learns_metric:
        posterior_method = InLearnedMetric(posterior_method)
    return Plan(
        posterior_method=posterior_method,
        summary=summary,
        n_inducing=_points(request, facts),
        start_rows=_start_rows(request, facts),
        tries_logarithms=_tries_logarithms(request, facts, posterior_method),
    )


def _method(request: Request, facts: Facts) -> tuple[PosteriorMethod, str]:
    """Posterior method of a fit, a learned metric apart, and why it is this one."""
    chosen = request.posterior.with_points(_points(request, facts))
    n, few = facts.n_distinct, _few_rows(request, facts)
    if not facts.inputs_are_known:
        return UncertainInputs(), "inducing: fit was given X_std"
    if chosen.is_exact_for_few and n <= few:
        return Exact(), f"exact: {n:.0f} distinct rows are at most {few}"
    if type(chosen) not in (Auto, InducingPoints):
        return chosen, f"{chosen.name}: it was chosen"
    why = "it was chosen" if type(chosen) is InducingPoints else _why_points(request, facts)
    if why is not None:
        return _inducing_points(request, facts, why)
    if isinstance(request.metric, Integral):
        return Neighbors(), f"neighbors: metric={request.metric} was chosen"
    if not request.has_sites and facts.n_rows <= EXACT_RIVAL:
        return PosteriorSelection(Exact()), f"neighbors against exact: at most {EXACT_RIVAL} rows"
    return PosteriorSelection(InducingPoints()), "neighbors against inducing: there are many rows"


def _inducing_points(request: Request, facts: Facts, why: str) -> tuple[PosteriorMethod, str]:
    """Inducing points, unless nobody asked for a number of them and there is little noise."""
    is_open = (
        request.n_inducing is None and not request.points_are_given and request.starts_on_subset
    )
    is_open = is_open and not request.has_sites and facts.is_differentiable
    if is_open and facts.n_distinct <= EXACT_QUIET:
        return ExactIfQuiet(), f"inducing, or exact if there is next to no noise: {why}"
    return InducingPoints(), f"inducing: {why}"


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
    are_too_few = request.has_sites and facts.n_distinct <= EXACT_ROWS
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


def _tries_logarithms(request: Request, facts: Facts, posterior_method: PosteriorMethod) -> bool:
    """Whether skewed columns may be seen by their logarithms.

    Where a metric mixes columns and noise is Gaussian, this was not tried for many rows.
    """
    is_open = request.kernel is None and request.starts_on_subset and not request.points_are_given
    is_open = is_open and facts.in_memory and facts.inputs_are_known
    is_open = is_open and request.metric in UNMIXED and posterior_method.takes_missing
    mixes = posterior_method.learns_metric and request.metric == "auto" and not request.has_sites
    return is_open and (facts.n_rows <= EXACT_ROWS or not mixes)
