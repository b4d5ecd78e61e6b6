"""A global process beside neighbours and their mean, with weights from rows held out.

The search has the process and the rows (`methods.combination`). What neighbours say of these rows
includes noise that varies and a mean, which is fitted again to the few rows of a part.
"""

from typing import Any

from skgp_sparse.explain.leave_one_out import left_out
from skgp_sparse.methods.combination import NEIGHBORS, Combination
from skgp_sparse.methods.contract import Problems
from skgp_sparse.steps.mean import fitted_to


def beside_a_global_process(found: Problems) -> Problems:
    """The fit beside a global process, unless neighbours are as good alone."""
    fit, beside, n_jobs = found.fits[0], found.beside, found.observations.parameters.n_jobs
    combination: Combination | None = fit.combination
    if combination is None:
        return found
    near: Any = fit.posterior.with_fewer_neighbors(NEIGHBORS)
    has_mean = beside is not None and not beside.weights.is_added
    chosen = combination.parts[0].rows.chosen
    left = left_out(fit._replace(posterior=near, combination=None), chosen, n_jobs, own_noise=False)
    local, predicted = [(left.mean, left.variance, left.noise)], []
    if has_mean:
        predicted = [fit.mean[chosen]]
    for part in combination.parts[1:]:
        X = part.rows.block.X
        local.append(near.given(part.table).moments(X))
        if has_mean:
            function = fitted_to(found, part.table)
            predicted.append(found.scaler.forward(function.latent(X)))
    learned, weights = combination.learned(local, beside.weights if has_mean else None, predicted)
    if has_mean:
        beside = beside._replace(weights=weights)
    kept = None if learned.is_local else learned._replace(parts=())
    return found._replace(fits=[fit._replace(combination=kept)], beside=beside)
