"""How every fit begins: a small exact fit, and the better one of a cold and a warm start."""

from skgp_sparse.inference.parameters import value_or_minus_inf
from skgp_sparse.inference.start import fit_few


def begin(job, random_state):
    """The job with the model and the hyperparameters of a small exact fit, where restarts happen."""
    settings = job.settings
    model, kernel = fit_few(
        job.rows,
        job.kernel,
        job.model,
        settings.start_rows,
        options=settings.options,
        n_restarts=settings.n_restarts,
        random_state=random_state,
        tol=settings.tol,
    )
    return job._replace(model=model, kernel=kernel).with_settings(n_restarts=0)


def best_start(objective, kernel, warm, job):
    """The objective and the kernel of the cold or of the warm start, where it is higher.

    `warm` is the objective at the inducing points of an earlier fit. It may be flat where that fit
    ended, if the rows have other units now.
    """
    cold = objective, kernel
    if job.before is None or not job.settings.solver.moves:
        return cold
    return max((warm, job.before[0]), cold, key=lambda start: value_or_minus_inf(*start, False))
