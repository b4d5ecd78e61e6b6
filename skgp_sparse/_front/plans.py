"""The plan of a fit: its size, its stages and its limits, from the parameters of the estimator."""

from sklearn import get_config

from skgp_sparse import kernels
from skgp_sparse._engine.problem import Options
from skgp_sparse._front.choices import resolve_solver
from skgp_sparse._front.initialisers import resolve_inducing
from skgp_sparse._ground.parallel import resolve_n_jobs
from skgp_sparse.inference.training import Plan

_EXACT_ROWS, _EXACT_LABELS = 2000, 300  # distinct rows up to which "auto" is the exact process ...
_EXACT_QUIET = 5500  # ... the same where there is little noise: 1 GB of memory ...
_AUTO_ROWS, _AUTO_LABELS = 500, 200  # ... and the number of inducing points above
_LEADING_ROWS = 2000  # of the preconditioner, where the posterior is given all rows ...
_MOST_ROWS = 100_000  # ... which "auto" is, where there is little noise, up to so many rows
_EXACT_OPAQUE = 500  # the same, where the kernel's gradient is an array of n x n x p
_START_ROWS = 500  # of the exact fit that finds the first hyperparameters
_START_LABELS = 250  # the same where rows have labels, as an evaluation is an inner loop then ...
_START_SHARE, _FEWEST_LABELS = 8, 125  # ... or an eighth of them, if not less than that


def plan_of(estimator, rows, kernel, progress, name, n_labels=None, posterior="inducing", n_mean=0):
    """How to fit, from the parameters of the estimator.

    `n_labels` is the number of rows of the table, where they have labels. `posterior` is what is
    asked for: "inducing", "rows" or "auto"; `n_mean` are the inducing points of the mean.
    """
    n_inducing, exact, quiet = _resolve_size(estimator.n_inducing, kernel, n_labels is not None)
    initialise, fixed = resolve_inducing(estimator.inducing_init, n_inducing, rows.n_features, name)
    width = len(estimator.inducing_init) if fixed else n_inducing
    memory = get_config()["working_memory"] * 2**20
    return Plan(
        n_inducing=n_inducing,
        most_exact=0 if fixed else exact,
        most_quiet=0 if fixed else quiet,
        initialise=initialise,
        fixed_inducing=fixed,
        optimize_inducing=estimator.optimize_inducing,
        solver=resolve_solver(estimator, len(rows), width),
        n_restarts=estimator.n_restarts_optimizer,
        max_iter=estimator.max_iter,
        tol=estimator.tol,
        start_rows=_START_ROWS if n_labels is None else _rows_of_start(n_labels),
        options=Options(n_jobs=resolve_n_jobs(estimator.n_jobs), memory=memory),
        progress=progress,
        posterior=_resolve_posterior(posterior, estimator, rows, kernel, fixed or n_mean),
        most_rows=_MOST_ROWS,
        n_leading=_LEADING_ROWS if estimator.n_inducing == "auto" else n_inducing,
        n_mean=n_mean,
    )


def _resolve_posterior(posterior, estimator, rows, kernel, are_given):
    """What the posterior is given, "auto" only where nothing else speaks for inducing points."""
    free = estimator.n_inducing == "auto" and estimator.solver == "auto" and not are_given
    if posterior == "auto" and not (free and rows.in_memory and kernels.differentiable(kernel)):
        return "inducing"
    return posterior


def _rows_of_start(n):
    """How many rows with labels the first fit sees: it should be cheap beside an evaluation."""
    return min(_START_LABELS, max(_FEWEST_LABELS, n // _START_SHARE))


def _resolve_size(n_inducing, kernel, labelled):
    """Number of inducing points, `most_exact` and `most_quiet` of the `Plan`."""
    if n_inducing != "auto":
        return n_inducing, n_inducing, n_inducing
    if labelled:
        return _AUTO_LABELS, _EXACT_LABELS, _EXACT_LABELS
    if not kernels.differentiable(kernel):
        return _AUTO_ROWS, _EXACT_OPAQUE, _EXACT_OPAQUE
    return _AUTO_ROWS, _EXACT_ROWS, _EXACT_QUIET
