"""Requests of fits: the `Request` of an estimator, and the `Job` of its plan."""

from collections.abc import Callable
from functools import partial
from numbers import Integral
from typing import Any, Protocol

from sklearn import get_config
from sklearn.gaussian_process.kernels import Kernel

from skgp_sparse._engine.basis import Options
from skgp_sparse._engine.dataset import Dataset
from skgp_sparse._engine.moments import NO_EFFECT
from skgp_sparse._ground.parallel import Deadline, resolve_n_jobs
from skgp_sparse._ground.validation import as_text, is_auto
from skgp_sparse.bounds import Bound
from skgp_sparse.inference.contracts import ObjectiveFactory, Settings
from skgp_sparse.plan import UNMIXED, facts_of, plan
from skgp_sparse.posteriors._contract import Job, Points, PosteriorMethod, Request
from skgp_sparse.posteriors._inducing_points import InducingPoints
from skgp_sparse.posteriors._names import Auto, UncertainInputs
from skgp_sparse.solvers import resolve_solver

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

    def initialiser(self, n_inducing: int, n_features: int) -> tuple[Any, bool]:
        """``(rows, kernel, random_state) -> Z``, and whether Z is the user's own."""


def request_of(family: ModelOfRequest, posterior: PosteriorMethod) -> Request:
    """`Request` from the parameters of the estimator of an `ObservationModel`."""
    given = family.parameters
    return Request(
        posterior=posterior,
        kernel=given.kernel,
        likelihood=given.likelihood,
        has_sites=family.has_sites,
        n_latent=family.likelihood.n_latent if family.has_sites else 1,
        bound=given.bound,
        resolved_bound=None if family.has_sites else family.bound,
        n_inducing=None if is_auto(given.n_inducing) else given.n_inducing,
        inducing_init=given.inducing_init,
        solver=given.solver,
        optimizer=given.optimizer,
        metric=given.metric,
    )


def compares_approximations(parameters: Any) -> bool:
    """Whether a user names an approximation: it is fitted alone, without what "auto" adds to it.

    A mean, noise that varies and a calibration of labels are added if they are asked for.
    """
    names = "bound", "n_inducing", "inducing_init", "posterior"
    return not all(is_auto(getattr(parameters, name)) for name in names)


def check_posterior_method(family: ModelOfRequest) -> None:
    """Raise if the posterior cannot be given what is asked for."""
    given, chosen = family.parameters, family.posterior_method
    reason = chosen.refuses(request_of(family, chosen))
    if reason is None and not (chosen.uses_bound or is_auto(given.bound)):
        reason = f"has no bound, so that none can be chosen. Got bound={as_text(given.bound)}"
    if reason is not None:
        raise ValueError(
            f"{family.name}: posterior={as_text(given.posterior)} {reason}. Change this, or set "
            "posterior='inducing'."
        )


def job_of(
    family: ModelOfRequest,
    rows: Dataset,
    kernel: Kernel,
    model: ObjectiveFactory,
    name: str,
    posterior: PosteriorMethod,
) -> Job:
    """The `Job` of a table, by its plan."""
    request, given = request_of(family, posterior), family.parameters
    is_free, memory = given.kernel is None, get_config()["working_memory"] * 2**20
    planned = plan(request, facts_of(rows, kernel, request))
    _check_rows(family, rows)
    size, n = planned.n_inducing, len(rows)
    initialise, are_given = family.initialiser(size, rows.n_features)
    width = len(given.inducing_init) if are_given else size
    return Job(
        name=name,
        rows=rows,
        kernel=kernel,
        model=model,
        posterior_method=planned.posterior_method,
        points=Points(size, initialise, is_auto(given.n_inducing), are_given),
        settings=Settings(
            solver=resolve_solver(given.solver, given.optimizer, n, width),
            n_restarts=given.n_restarts_optimizer,
            max_iter=given.max_iter,
            tol=tolerance(given.tol),
            start_rows=planned.start_rows,
            options=Options(n_jobs=resolve_n_jobs(given.n_jobs), memory=memory),
            move_basis=given.optimize_inducing,
            deadline=family.deadline,
            progress=family.progress and partial(family.progress, about=name),
        ),
        is_free=is_free,
        is_alone=given.mean is None or compares_approximations(given),
        tries_logarithms=planned.tries_logarithms,
        plan=planned.summary,
        metric=given.metric,
        spreads=rows.scale(NO_EFFECT if is_free else 1.0),
    )


def tolerance(tol: float | str) -> float:
    """The number that `tol` stands for, in nats per row."""
    return _TOL if is_auto(tol) else tol


def _check_rows(family: ModelOfRequest, rows: Dataset) -> None:
    """Raise where a metric or errors of inputs cannot be used."""
    _check_metric(family, rows.n_features)
    if rows.X_std is not None:
        _check_uncertain_inputs(family)


def _check_metric(family: ModelOfRequest, d: int) -> None:
    """Raise where a metric has more rows than there are columns, or a row has several values."""
    metric, name = family.parameters.metric, family.name
    if metric not in UNMIXED and family.has_sites and family.likelihood.n_latent > 1:
        raise ValueError(
            f"{name}: metric={as_text(metric)} needs one latent value per row, and a softmax has "
            "one per class. Set metric to 'ard', or multi_class to 'one_vs_rest'."
        )
    if isinstance(metric, Integral) and metric > d:
        raise ValueError(
            f"{name}: metric={metric} is the rank of a matrix with a column for each of the {d} "
            f"features of X. Set metric to at most {d}, or to 'ard'."
        )


def _check_uncertain_inputs(family: ModelOfRequest) -> None:
    """Raise where `X_std` is given, and something else needs inputs that are known."""
    needs = UncertainInputs().refuses(request_of(family, UncertainInputs()))
    if type(family.posterior_method) not in (Auto, InducingPoints):
        needs = (
            f"posterior='inducing', without parameters. Got {as_text(family.parameters.posterior)}"
        )
    if needs is not None:
        raise ValueError(f"{family.name}: X_std needs {needs}. Change this, or leave X_std out.")
