"""A metric that neighbours learn, for another posterior."""

from skgp_sparse._engine.metric import ProcessInMetric
from skgp_sparse.posteriors._aside import Aside
from skgp_sparse.posteriors._contract import Strategy
from skgp_sparse.posteriors._job import begin
from skgp_sparse.posteriors._local_search import LocalSearch


class InLearnedMetric(Strategy):
    """Another strategy, whose inputs are seen in a metric.

    The metric is that of predictions from neighbours, if rows held aside gain by it.

    Parameters
    ----------
    strategy : Strategy
    """

    name = property(lambda self: self.strategy.name)
    has_bound = property(lambda self: self.strategy.has_bound)

    def __init__(self, strategy):
        self.strategy = strategy

    def fit(self, job, random_state):
        """The `Fit` of the other strategy to the rows in the metric."""
        if not (job.rows.in_memory and job.settings.solver.begins_small):
            raise ValueError(
                "metric='full' is learned from rows in memory by optimizer='fmin_l_bfgs_b'. Set "
                "metric to 'ard', or pass arrays and leave the optimizer as it is."
            )
        search = LocalSearch(job._replace(is_free=False), Aside(job.rows, random_state))
        starts = [job.kernel, begin(job, random_state).kernel]
        local = search.learn(starts).local
        if local.metric is None:
            return self.strategy.fit(job, random_state)
        seen = job._replace(rows=job.rows.seen_in(local.metric), kernel=local.kernel, before=None)
        fit = self.strategy.fit(seen, random_state)
        posterior = ProcessInMetric(fit.posterior, local.metric)
        return fit._replace(posterior=posterior)

    def refuses(self, family):
        """What the other strategy refuses."""
        return self.strategy.refuses(family)
