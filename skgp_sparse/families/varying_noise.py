"""Gaussian noise whose variance varies with the inputs.

1. Every row is left out of the fit. Its squared error, in units of the predicted variance, tells
   what the noise is there.
2. A second process follows the logarithms of these squares, at a few inducing points. Its mean f is
   the `LogFactor` of a `VaryingNoise`, which takes the place of the white noise.
3. The fit goes on from where it ended, with the level of the noise among the hyperparameters.

Whether that pays is judged by rows that are left out of both processes: the noise of a row follows
from the errors of the others.
"""

from dataclasses import replace

import numpy as np
from scipy.stats import chi2
from sklearn.gaussian_process.kernels import Sum, WhiteKernel

from skgp_sparse import bounds
from skgp_sparse._engine.nearest import DistinctRows
from skgp_sparse._engine.neighbors_posterior import NeighborsPosterior
from skgp_sparse._engine.posterior import Posterior, noise_variance
from skgp_sparse._ground.normal import log_normal_density
from skgp_sparse._ground.parallel import single_threaded_blas
from skgp_sparse.families.choices import resolve_inducing, resolve_kernel
from skgp_sparse.families.leave_one_out import predicted, why_unknown
from skgp_sparse.hyperpriors import LogNormalLengthScales, NeutralValues, PooledCorrelations
from skgp_sparse.inference.objectives import GaussianModel
from skgp_sparse.kernels import LogFactor, VaryingNoise
from skgp_sparse.posteriors._inducing_points import InducingPoints
from skgp_sparse.posteriors._job import Limits, Points
from skgp_sparse.posteriors._local_search import with_other_noise
from skgp_sparse.solvers import LBFGS, Minibatches

_FEWEST = 100  # rows of which "auto" learns how the noise varies
_NATS = 3.0  # that rows which are left out have to gain
_MOST_ROWS = 5000  # whose errors are followed
_POINTS, _FEW = 100, 200  # inducing points of the second process; distinct rows that all are
_ITERATIONS = 100
_PRIORS = LogNormalLengthScales(variance=0.3), PooledCorrelations(), NeutralValues()
_LEAST = 0.01  # added to squared errors: a small one says little


def with_varying_noise(job, fit, family, random_state):
    """The fit whose noise varies, or the one it is given where that does not pay.

    Parameters
    ----------
    job : Job
    fit : Fit
        With white noise.
    family : Family
        Whose parameter `noise` is "auto" or "learned".
    random_state : RandomState
    """
    is_wanted = family.parameters.noise == "learned"
    reason = _why_not(job, fit)
    if reason is not None and is_wanted:
        raise ValueError(f"{family.name}: noise='learned' {reason}")
    is_asked = is_wanted or job.is_free and len(fit.objective.rows) >= _FEWEST
    if reason is not None or not is_asked or job.settings.deadline.left() <= 0:
        return fit
    with single_threaded_blas():
        other, gain = _varied(job, fit, family, random_state)
    return other if is_wanted or gain > _NATS else fit


def _why_not(job, fit):
    """Why the noise of a fit cannot vary, as part of an error; None: it can."""
    reason = why_unknown(fit)
    if reason is not None:
        return reason
    kernel, process = fit.kernel, fit.posterior
    is_appended = isinstance(kernel, Sum) and type(kernel.k2) is WhiteKernel
    if not is_appended or kernel.k2.hyperparameter_noise_level.fixed:
        return (
            "takes the place of a WhiteKernel whose level is learned, and which is added to the "
            f"other kernels. Got kernel_={kernel}. Leave the noise out of the kernel, and set "
            "alpha to None."
        )
    is_local = isinstance(process, NeighborsPosterior) and isinstance(process.rows, DistinctRows)
    is_of_points = type(process) is Posterior and process.kind in ("exact", "inducing")
    if not (is_local or is_of_points):
        return (
            f"is not available for posterior_={process.kind!r} in this metric. Set posterior to "
            "'exact', 'inducing' or 'neighbors', and metric to 'ard'."
        )
    solver = job.settings.solver
    if isinstance(solver, Minibatches) or not solver.begins_small:
        return "needs a solver that sees all rows. Set solver to 'lbfgs', and optimizer to L-BFGS."
    return None


def _varied(job, fit, family, random_state):
    """The `Fit` whose noise varies, and the nats that rows gain by it which are left out."""
    rows, n_jobs = fit.objective.rows, job.settings.options.n_jobs
    chosen = np.arange(len(rows)) if rows.weight is None else np.flatnonzero(rows.weight > 0)
    if len(chosen) > _MOST_ROWS:
        chosen = np.sort(random_state.permutation(chosen)[:_MOST_ROWS])
    before = predicted(fit, n_jobs, chosen)
    second = _second_process(job, _logarithms(rows, before, chosen), family, random_state)
    table, posterior = second.objective.rows, second.posterior
    mean = float(table.y_mean[0])
    factor = LogFactor(second.kernel.k1, posterior.features.Z, posterior.u[:, 0], mean)
    white = fit.kernel.k2
    noise = VaryingNoise(factor, white.noise_level, white.noise_level_bounds)
    other = _fit_again(job, fit, fit.kernel.k1 + noise, random_state)
    after, X = predicted(other, n_jobs, chosen), rows.block(chosen).X
    of_others = mean + predicted(second, n_jobs, np.arange(len(chosen))).mean[:, 0]
    ratio = np.expm1(of_others - factor(X)) * noise_variance(other.posterior.kernel, X)
    std = np.sqrt(after.variance + after.known + ratio[:, None])
    gain = np.sum(log_normal_density(after.y, after.mean, std) - before.log_density)
    return other, gain if np.isfinite(gain) else -np.inf


def _logarithms(rows, found, chosen):
    """The table whose targets are logarithms of squared errors, 0 where the noise is as said."""
    squares = (found.y - found.mean) ** 2 / (found.variance + found.known)
    n_targets = squares.shape[1]
    shares = (np.arange(1000) + 0.5) / 1000
    expected = np.mean(np.log(chi2.ppf(shares, n_targets) / n_targets + _LEAST))
    y = np.log(squares.mean(axis=1, keepdims=True) + _LEAST) - expected
    table = replace(rows.subset(chosen), y=y, noise=0.0, least_noise=0.0, offset=None)
    return replace(table, y_mean=np.average(y, axis=0, weights=table.weight), y_scale=np.ones(1))


def _second_process(job, table, family, random_state):
    """The `Fit` of the process that follows the logarithms."""
    kernel = resolve_kernel(None, None, table, family.columns())
    initialise = resolve_inducing("auto", _POINTS, table.n_features, family.name)[0]
    other = job._replace(
        rows=table,
        kernel=kernel,
        model=GaussianModel(bounds.TitsiasNew()),
        points=Points(_POINTS, initialise),
        limits=Limits(_FEW, _FEW),
        before=None,
        cheap=None,
    ).with_priors(_PRIORS)
    other = other.with_settings(
        solver=LBFGS(),
        n_restarts=0,
        max_iter=_ITERATIONS,
        start_rows=_FEW,
        progress=None,
        cheap=None,
        move_basis=False,
    )
    return InducingPoints().fit(other, random_state)


def _fit_again(job, fit, kernel, random_state):
    """The `Fit` that goes on from another one with another kernel."""
    if isinstance(fit.posterior, NeighborsPosterior):
        return with_other_noise(job, fit, kernel)
    settings = job.settings._replace(n_restarts=0, cheap=None)
    model = None if fit.posterior.kind == "exact" else job.model
    other = settings.solver.solve(fit.objective, kernel, settings, random_state, model)
    return other._replace(n_iter=fit.n_iter + other.n_iter, selection=fit.selection)
