"""A metric that neighbours learn, for another posterior."""

from functools import partial

from skgp_sparse._engine.posteriors_around import PosteriorInMetric
from skgp_sparse._ground.validation import as_text
from skgp_sparse.inference.parameter_vectors import if_possible
from skgp_sparse.posteriors._contract import PosteriorMethod
from skgp_sparse.posteriors._job import start_on_subset
from skgp_sparse.posteriors._metric_starts import rank
from skgp_sparse.posteriors._neighbor_search import FEW, FIT, NearestNeighborSearch
from skgp_sparse.posteriors._neighbors_with_sites import SiteSearch
from skgp_sparse.posteriors._validation_set import ValidationSet


class InLearnedMetric(PosteriorMethod):
    """Another method, whose inputs are seen in a metric.

    The metric is that of predictions from neighbours: a full one if rows held out gain by it, one
    of a rank in any case.

    Parameters
    ----------
    posterior_method : PosteriorMethod
    """

    name = property(lambda self: self.posterior_method.name)
    uses_bound = property(lambda self: self.posterior_method.uses_bound)
    remedy = "It needs a metric that mixes no columns: set metric to 'ard'."

    def __init__(self, posterior_method):
        self.posterior_method = posterior_method

    def fit(self, job, random_state):
        """The `Fit` of the other method to the rows in the metric."""
        if not (job.rows.in_memory and job.settings.solver.starts_on_subset):
            raise ValueError(
                f"metric={as_text(job.metric)} is learned from rows in memory by "
                "optimizer='fmin_l_bfgs_b'. Set metric to 'ard', or pass arrays and leave the "
                "optimizer as it is."
            )
        given = job._replace(is_free=False), random_state
        local = _learned(*given) if rank(job) else if_possible(_learned, *given)
        if local is None or local.metric is None:
            return self.posterior_method.fit(job, random_state)
        fit = self.posterior_method.fit(_in_metric(job, local.metric, local.kernel), random_state)
        posterior = PosteriorInMetric(fit.posterior, local.metric)
        return fit._replace(posterior=posterior)

    def refuses(self, request):
        """Reason why the other method refuses a request, None if it does not."""
        return self.posterior_method.refuses(request)


def _learned(job, random_state):
    """The model of neighbours that predicts rows held out best, its kernel and metric."""
    validation = ValidationSet(job.rows, random_state, job.model.has_sites)
    begun = start_on_subset(job, random_state)
    if job.model.has_sites:
        return SiteSearch(begun, FEW, FIT, random_state, validation).trial().local
    return NearestNeighborSearch(job, validation).learn([job.kernel, begun.kernel]).local


def _in_metric(job, metric, kernel):
    """The job whose rows, and inducing points if they are given, are in a metric."""
    points, rows = job.points, job.rows.in_metric(metric)
    if points.are_given:
        points = points._replace(initialise=partial(_initial, points.initialise, metric))
    other = job._replace(rows=rows, points=points, kernel=kernel, before=None, thorough=None)
    return other._replace(spreads=rows.scale()).with_priors(job.priors)


def _initial(initialise, metric, *given):
    return initialise(*given) @ metric.T
