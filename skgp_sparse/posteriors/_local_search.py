"""The search for a model of neighbours: its hyperparameters, metric and smoothness.

1. Rows are held aside. Hyperparameters maximise the density of other rows that are left out, each
   given its neighbours; from the initial hyperparameters, and from those of a small exact fit.
2. Columns may be mixed: a full metric has a penalty on what it mixes. Neighbours are looked for
   again between two runs, as near has changed.
3. Where the kernel is the default one, it may be rougher or smoother.
4. One factor of all variances makes the rows held aside most likely.

Each step begins at the model that predicts the rows held aside best so far. They are predicted by
all other rows, and are neighbours of one another.
"""

from time import perf_counter
from typing import NamedTuple

import numpy as np
from sklearn.base import clone

from skgp_sparse import kernels
from skgp_sparse._engine import left_out
from skgp_sparse._engine.nearest import distinct_rows
from skgp_sparse._engine.neighbors_posterior import NeighborsPosterior
from skgp_sparse.inference.neighbors_objective import NeighborsObjective
from skgp_sparse.inference.optimizers import climb
from skgp_sparse.inference.parameters import VectorFunction, arithmetic
from skgp_sparse.posteriors._calibration import likely_factor, mean_log_density

FEW, MANY = 100, 200  # neighbours of a prediction, by default
_ROUGHLY = 50  # neighbours of predictions by which models are compared
_LEFT_OUT, _LEFT_OUT_AT_FIRST = 4000, 2000  # rows that are left out in a run
_ITERATIONS = 15  # of a run
_ASIDE, _SHARE_ASIDE = 2000, 10  # rows held aside: so many, and one in so many, at most
_SMOOTHNESS = (1.5, 0.5, 2.5)  # of a Matérn kernel; the first one to begin with
_PENALTY = 0.01  # nats per row of a squared entry of the metric beside the diagonal
_MOST_COLUMNS = 200  # of which a full metric is tried
_WORTH = 0.01  # nats per row that twice as many neighbours have to gain


class LocalModel(NamedTuple):
    """What predictions from neighbours need beside the rows."""

    kernel: object
    metric: np.ndarray | None = None
    k: int = FEW
    factor: float = 1.0


class Candidate(NamedTuple):
    """A model that was tried, and how well it predicted the rows held aside."""

    name: str
    model: LocalModel
    density: float
    rmse: float
    seconds: float


class LocalSearch:
    """Looks for the best `LocalModel` of a job.

    Parameters
    ----------
    job : Job
    k : int or None
        Neighbours of predictions; None: as many as pay.
    k_fit : int
        Neighbours of rows that are left out in training.
    random_state : RandomState
    """

    def __init__(self, job, k, k_fit, random_state):
        self.job, self.k, self.k_fit, self.random_state = job, k, k_fit, random_state
        self.known, self.n_iter, self.candidates = known_rows(job.rows), 0, []
        self.n_jobs, self.begun = job.settings.options.n_jobs, perf_counter()
        sample, count = self._sample(_LEFT_OUT + _ASIDE)
        few = np.sort(random_state.permutation(len(sample))[: _aside(len(job.rows))])
        self.aside, self.aside_count = sample[few], count[few]

    def learn(self, starts):
        """The best `Candidate`, with the neighbours of a prediction."""
        best = max(map(self._begun, starts), key=_density)
        if self._may_mix(best.model):
            mixed = self.climbed(self.climbed(self._with_metric(best.model)))
            best = max(best, self.judged(mixed), key=_density)
        if self.job.is_free:
            first = best.model
            for nu in _SMOOTHNESS:
                other = self.climbed(first._replace(kernel=with_nu(first.kernel, nu)))
                best = max(best, self.judged(other), key=_density)
        final = self.judged(best.model, self.k or FEW)
        if self.k is not None:
            return final
        more = self.judged(best.model, MANY)
        return more if more.density > final.density + _WORTH else final

    def climbed(self, model, left_out=_LEFT_OUT):
        """The model after some iterations with neighbours held."""
        objective = self.objective(model, left_out, learn_metric=True)
        function = VectorFunction(objective, model.kernel)
        options = {"max_iter": _ITERATIONS, "callback": self._progress, "alike": True}
        maximum = climb(function, self.job.settings, **options)
        self.n_iter += maximum.n_iter
        objective, kernel = function.at(maximum.x)
        return model._replace(kernel=kernel, metric=objective.metric)

    def judged(self, model, k=_ROUGHLY):
        """The `Candidate` of a model, calibrated by the rows held aside, given k neighbours."""
        model = model._replace(k=k)
        left = self._left(self.aside, self.aside_count, model, k)
        with arithmetic():
            mean, variance = left_out.moments(model.kernel, left, model.metric, self.n_jobs)
        errors, known = (left.y - mean) ** 2, left.noise
        variance = np.maximum(variance - known, np.finfo(float).tiny)
        factor = likely_factor(errors, variance, known, left.count)
        density = mean_log_density(errors, factor * variance + known, left.count)
        rmse = float(np.sqrt(np.average(errors.mean(axis=1), weights=left.count)))
        model, seconds = model._replace(factor=factor), perf_counter() - self.begun
        self.candidates.append(Candidate(_name(model), model, density, rmse, seconds))
        return self.candidates[-1]

    def objective(self, model, left_out=_LEFT_OUT, learn_metric=False):
        """`NeighborsObjective` of other random rows, whose neighbours are those of a model."""
        chosen, count = self._sample(left_out + len(self.aside))
        kept = ~np.isin(chosen, self.aside)
        left = self._left(chosen[kept], count[kept], model, self.k_fit)
        given = {"metric": model.metric, "n_jobs": self.n_jobs}
        if learn_metric and model.metric is not None:
            given |= {"units": units_of(model), "penalty": _PENALTY}
        rows = self.job.rows
        return NeighborsObjective(left, rows, rows.total_weight(), **given)

    def _sample(self, size):
        """Random rows, and how often each of them counts."""
        rows = self.job.rows
        chosen = rows.sample(size, self.random_state)
        if rows.weight is None or len(chosen) < np.count_nonzero(rows.weight):
            return chosen, np.ones(len(chosen))
        return chosen, rows.weight[chosen]

    def _left(self, chosen, count, model, k):
        """Rows that are left out, and their neighbours in a model."""
        block = self.job.rows.block(chosen)
        near = posterior_of(self.known, model._replace(k=k + 1)).nearest(block.X, self.n_jobs)
        return left_out.left_out(self.known, block, chosen, near, count)

    def _begun(self, kernel):
        """The `Candidate` of a first run."""
        if self.job.is_free:
            kernel = with_nu(kernel, _SMOOTHNESS[0])
        return self.judged(self.climbed(LocalModel(kernel), _LEFT_OUT_AT_FIRST))

    def _may_mix(self, model):
        """Whether a full metric is wanted."""
        wanted, d = self.job.metric, self.job.rows.n_features
        return d > 1 and (
            wanted == "full" or (wanted == "auto" and self.job.is_free and d <= _MOST_COLUMNS)
        )

    def _with_metric(self, model):
        """The model whose metric may be learned."""
        return model._replace(metric=np.eye(self.job.rows.n_features))

    def _progress(self, iteration, value):
        """Tell the user's callbacks; returns whether to stop."""
        progress, n = self.job.settings.progress, self.job.rows.total_weight()
        if progress is None:
            return False
        note = f"leave-one-out density {value / n:.4f}"
        return progress(self.n_iter + iteration, value, note=note)


def _aside(n):
    """Number of rows held aside."""
    return min(_ASIDE, n // _SHARE_ASIDE)


def known_rows(rows):
    """`DistinctRows` of a table."""
    return distinct_rows(rows.stored_inputs(), rows.everything())


def posterior_of(known, model):
    """`NeighborsPosterior` of a model given the known rows."""
    kernel, X = model.kernel, known.X
    _, noise, _ = kernels.diagonal(kernel, X)
    d = X.shape[1] if model.metric is None else len(model.metric)
    scale = kernels.length_scales(kernel, np.ones(d))
    noise, k = (noise + known.noise) / known.weight, min(model.k, len(X))
    return NeighborsPosterior(kernel, known, noise, k, scale, model.metric, model.factor)


def units_of(model):
    """Units (r, d) of the entries of a metric: they mix columns in units of the length scales."""
    scale = kernels.length_scales(model.kernel, np.ones(len(model.metric)))
    return scale[:, None] / scale


def with_nu(kernel, nu):
    """The kernel with another smoothness of its Matérn kernels."""
    names = [name for name in kernel.get_params() if name.split("__")[-1] == "nu"]
    return clone(kernel).set_params(**dict.fromkeys(names, nu))


def _density(candidate):
    return candidate.density


def _name(model):
    """What a user calls a model."""
    nus = [value for name, value in model.kernel.get_params().items() if name.endswith("nu")]
    smoothness = f"nu={nus[0]}, " if nus else ""
    metric = "" if model.metric is None else "full metric, "
    return f"neighbors ({smoothness}{metric}{model.k} neighbors)"
