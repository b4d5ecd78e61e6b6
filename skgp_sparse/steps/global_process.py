"""A global process beside neighbours and their mean, with weights from rows held out.

The search has the process and the rows (`methods.combination`). What neighbours say of these rows
includes noise that varies and a mean, which is fitted again to the few rows of a part.
"""

from skgp_sparse.explain.leave_one_out import left_out
from skgp_sparse.methods.combination import ALONE, Combination
from skgp_sparse.methods.contract import Problems, with_fewer_neighbors
from skgp_sparse.steps.mean import fitted_to


def beside_a_global_process(found: Problems) -> Problems:
    """The fit beside a global process, unless neighbours are as good alone."""
    fit, blend, n_jobs = found.fits[0], found.blend, found.observations.parameters.n_jobs
    combination: Combination | None = fit.fit.combination
    if combination is None:
        return found
    near = with_fewer_neighbors(fit.posterior)
    chosen = combination.parts[0].rows.chosen
    left = left_out(fit.with_fit(posterior=near), chosen, n_jobs, own_noise=False)
    local = combination.local(near, (left.mean, left.variance, left.noise))
    if blend is None or blend.weights.is_added:
        learned = combination.learned(local)[0]
    else:
        predicted = [fit.mean[chosen]]
        for part in combination.parts[1:]:
            values = fitted_to(found, part.table).latent(part.rows.block.X)
            predicted.append(found.scaler.forward(values))
        learned, weights = combination.learned(local, blend.weights, predicted)
        blend = blend._replace(weights=weights)
    kept: Combination | None = learned._replace(parts=())
    if learned.share > 1.0 - ALONE:
        kept, blend = None, found.blend if found.blend and found.blend.pays else None
    return found._replace(fits=[fit.with_fit(combination=kept)], blend=blend)
