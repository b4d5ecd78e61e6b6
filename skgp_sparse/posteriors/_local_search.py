"""The search for a model of neighbours: its hyperparameters, smoothness and metric.

1. Rows are held aside. Hyperparameters of a small exact fit say which columns matter, unless the
   initial ones predict other rows that are left out better.
2. Hyperparameters maximise the density of rows that are left out, each given its neighbours; these
   are looked for again between two runs, as near has changed.
3. Where the kernel is the default one, it may be rougher or smoother, and columns may be mixed: a
   full metric has a penalty on what it mixes. Rows held aside have to gain.
4. One factor of all variances makes the rows held aside most likely.

Rows held aside are predicted by all others: they are neighbours of one another.
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
from skgp_sparse.inference.parameters import VectorFunction, arithmetic, value_or_minus_inf
from skgp_sparse.posteriors._calibration import mean_log_density, variance_factor

FEW, MANY = 100, 200  # neighbours of a prediction, by default
_LEFT_OUT = 4000  # rows that are left out in a run
_ASIDE, _SHARE_ASIDE = 2000, 10  # rows held aside: so many, and one in so many, at most
_ITERATIONS = 15  # of a run
_SMOOTHNESS = (0.5, 1.5, 2.5)  # of a Matérn kernel
_PENALTY = 0.02  # nats per row of a squared entry of the metric beside the diagonal
_ROWS_OF_METRIC = 2.0  # rows that are left out, per entry of a metric that is learned
_WORTH = 0.003  # nats per row that another kernel, metric or more neighbours have to gain


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
        """The best `Candidate`; starts are kernels, of which the best one begins."""
        best = self.judged("start", self._best_start(starts))
        model = self.climbed(self.climbed(best.model))
        best = self.better(best, self.judged(_name(model), model))
        if self.job.is_free:
            best = self._other_smoothness(best)
        if self._may_mix(best.model):
            mixed = self.climbed(self.climbed(self._with_metric(best.model)))
            tried = self.better(best, self.judged(_name(mixed), mixed))
            if tried is not best and self.job.is_free:
                tried = self._other_smoothness(tried)
            best = tried
        if self.k is None:
            more = best.model._replace(k=MANY)
            best = self.better(best, self.judged(f"{_name(more)}, {MANY} neighbours", more))
        return best

    def better(self, best, candidate):
        """The candidate if it is better by what it has to gain."""
        return candidate if candidate.density > best.density + _WORTH else best

    def climbed(self, model):
        """The model after some iterations with neighbours held."""
        objective = self.objective(model, learn_metric=True)
        function = VectorFunction(objective, model.kernel)
        maximum = climb(function, self.job.settings, max_iter=_ITERATIONS, callback=self._progress)
        self.n_iter += maximum.n_iter
        objective, kernel = function.at(maximum.x)
        return model._replace(kernel=kernel, metric=objective.metric)

    def judged(self, name, model):
        """The `Candidate` of a model, calibrated by the rows held aside."""
        left = self._left(self.aside, self.aside_count, model, model.k)
        with arithmetic():
            mean, variance = left_out.moments(model.kernel, left, model.metric, self.n_jobs)
        errors, known = (left.y - mean) ** 2, left.noise
        variance = np.maximum(variance - known, np.finfo(float).tiny)
        factor = variance_factor(errors, variance, known, left.count)
        density = mean_log_density(errors, factor * variance + known, left.count)
        rmse = float(np.sqrt(np.average(errors.mean(axis=1), weights=left.count)))
        model, seconds = model._replace(factor=factor), perf_counter() - self.begun
        self.candidates.append(Candidate(name, model, density, rmse, seconds))
        return self.candidates[-1]

    def objective(self, model, learn_metric=False):
        """`NeighborsObjective` of other random rows, whose neighbours are those of a model."""
        chosen, count = self._sample(_LEFT_OUT + len(self.aside))
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

    def _best_start(self, starts):
        """The model whose kernel predicts rows that are left out best."""
        models = [LocalModel(kernel, k=self.k or FEW) for kernel in starts]
        if len(models) == 1:
            return models[0]
        values = [
            value_or_minus_inf(self.objective(model), model.kernel, False) for model in models
        ]
        return models[int(np.argmax(values))]

    def _other_smoothness(self, best):
        """The best of a `Candidate` and those whose kernel is rougher or smoother."""
        model = best.model
        for nu in _SMOOTHNESS:
            if nu != _nu(model.kernel):
                other = self.climbed(model._replace(kernel=with_nu(model.kernel, nu)))
                best = self.better(best, self.judged(_name(other), other))
        return best

    def _may_mix(self, model):
        """Whether a full metric is wanted, and there are rows enough to learn it."""
        wanted, d = self.job.metric, self.job.rows.n_features
        if wanted != "auto":
            return wanted == "full" and d > 1
        enough = min(len(self.job.rows), _LEFT_OUT) >= _ROWS_OF_METRIC * d * d
        return self.job.is_free and d > 1 and enough

    def _with_metric(self, model):
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


def _nu(kernel):
    return next(value for name, value in kernel.get_params().items() if name.endswith("nu"))


def _name(model):
    """What a user calls a model."""
    metric = "length scales" if model.metric is None else "full metric"
    nus = [value for name, value in model.kernel.get_params().items() if name.endswith("nu")]
    return f"neighbors, {metric}" + (f", nu={nus[0]}" if nus else "")
