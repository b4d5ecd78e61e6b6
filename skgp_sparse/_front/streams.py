"""Rows that arrive later: what an estimator keeps of a stream, and what a call of partial_fit does.

A `StreamState` is plain data of bounded size, which pickles keep. It never changes: a call makes
another one, so that a call that fails leaves the estimator as it was. What differs between
regression and classification is a `Subject` (`regression_streams`, `class_streams`).
"""

import copy
from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
from sklearn import get_config
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from skgp_sparse._engine.moments import Moments
from skgp_sparse._engine.running_sums import RunningSums
from skgp_sparse._front import checks
from skgp_sparse._front.estimator import kept_parameters, progress_of
from skgp_sparse._front.source_rows import check_no_source
from skgp_sparse._ground.parallel import single_threaded_blas
from skgp_sparse.inference.incremental import Watch, best_retention, is_due
from skgp_sparse.inference.reservoir import Reservoir

_SHARE_OF_MEMORY = 1 / 16  # of scikit-learn's working_memory


class NewRows(NamedTuple):
    """Rows that arrive together."""

    columns: tuple  # X (n, d), y (n, p), offset (n,): as the user gave them
    weight: np.ndarray  # (n,)

    def subset(self, rows):
        """Some of the rows."""
        return NewRows(tuple(column[rows] for column in self.columns), self.weight[rows])


class Units(NamedTuple):
    """Those of the targets."""

    mean: np.ndarray
    scale: np.ndarray


class StreamState(NamedTuple):
    """What is kept between two calls."""

    reservoir: Reservoir
    seed: int
    learned: tuple  # `Knowledge` of every problem, or None
    units: Units | None = None  # in which theta was learned
    moments: Moments | None = None  # of the targets, where noise is Gaussian
    sums: RunningSums | None = None  # the same
    active: NewRows | None = None  # rows whose sites are inferred in the next call, too ...
    settled: tuple | None = None  # ... and what the others say, for every problem
    watch: Watch = Watch()
    at_last_move: float = 0.0  # weight of the rows
    calls: int = 0
    seen: float = 0.0  # weight of all rows, whatever they count now
    n_iter: int = 0
    others: object = None  # what a subject wants to remember

    def random_state(self):
        """That of the next call."""
        return np.random.RandomState([self.seed, self.calls])

    def forgetting(self, factor):
        """The stream whose rows count less."""
        settled, active = self.settled, self.active
        return self._replace(
            settled=None if settled is None else tuple(one.times(factor) for one in settled),
            active=None if active is None else active._replace(weight=factor * active.weight),
            reservoir=self.reservoir.times(factor),
            moments=None if self.moments is None else self.moments.times(factor),
            sums=None if self.sums is None else self.sums.times(factor),
        )


class Subject(ABC):
    """What the rows of a stream are, and how problems are made of them.

    Attributes
    ----------
    estimator : SparseGP
    most_rows : int
        That the reservoir holds.
    """

    most_rows = 100_000

    @abstractmethod
    def log_density(self, estimator, chunk):
        """Log predictive densities (n,) of the rows of a chunk, by a fitted estimator."""

    @abstractmethod
    def fits(self, stream, chunk, due):
        """The state that has learned from a chunk, which its reservoir has seen, and the fits.

        `due`: theta and Z should move.
        """

    @abstractmethod
    def store(self, estimator, stream, fits):
        """Set the fitted attributes."""

    def moves(self):
        """Whether theta and Z move at all."""
        return self.estimator.optimizer is not None


def advance(subject, stream, chunk):
    """Learn from a chunk; the estimator has the new attributes, among them the new state."""
    random_state = stream.random_state()
    fall = 0.0
    if subject.moves() and stream.calls:
        densities = subject.log_density(subject.estimator, chunk)
        watch, fall = stream.watch.told(densities, chunk.weight)
        stream = stream._replace(watch=watch)
    if fall:
        stream = stream.forgetting(_memory(subject, stream, chunk, random_state))
    stream = _with_rows(subject, stream, chunk, random_state)
    total = stream.reservoir.total
    grown = stream.calls == 0 or is_due(total, stream.at_last_move)
    due = bool(fall or (grown and subject.moves()))
    stream, fits = subject.fits(stream, chunk, due)
    if due:
        stream = stream._replace(watch=Watch(), at_last_move=total)
    n_iter = stream.n_iter + due * int(max(fit.n_iter for fit in fits))
    stream = stream._replace(calls=stream.calls + 1, n_iter=n_iter)
    subject.store(subject.estimator, stream, fits)
    subject.estimator.n_iter_ = max(n_iter, 1)
    subject.estimator.n_samples_seen_ = _number(stream.seen)
    subject.estimator._stream = stream


def seeded(subject, stream, chunk):
    """A stream of the rows of a fit, before anything is learned from more of them."""
    stream = _with_rows(subject, stream, chunk, stream.random_state())
    return stream._replace(at_last_move=stream.reservoir.total, calls=1)


def new_stream(estimator, chunk, n_problems, others=None):
    """A stream to which no row has come, for chunks like this one."""
    return StreamState(
        reservoir=Reservoir.empty(chunk.columns),
        seed=check_random_state(estimator.random_state).randint(2**31 - 1),
        learned=(None,) * n_problems,
        others=others,
    )


def check_chunk(name, X, **others):
    """Raise unless the rows of a call can be in memory."""
    check_no_source(
        X,
        f"{name}.partial_fit",
        "Pass its chunks one by one, such as partial_fit(*source.chunk(k)[:2]) for the arrays X "
        "and y of chunk number k, or the source itself to fit.",
    )
    for argument, value in {"X": X, **others}.items():
        if checks.is_lazy(value):
            raise TypeError(
                f"{argument} is a dask collection ({type(value).__name__}), but {name}.partial_fit "
                "takes one chunk of rows in memory in every call. Pass the partitions one by one, "
                "each after compute(), or all rows to fit of DaskSparseGPRegressor or "
                "DaskSparseGPClassifier of skgp_sparse.dask."
            )


def check_kept(estimator, name):
    """Raise if a parameter has changed on which what was kept of earlier rows depends."""
    before = getattr(estimator, "_fitted_with", {})
    for parameter, now in kept_parameters(estimator).items():
        if now != before.get(parameter, now):
            raise ValueError(
                f"{name}.partial_fit goes on from rows that were seen with "
                f"{parameter}={before[parameter]}, but {parameter} is {now} now. Set it back, or "
                "call fit with all rows to begin anew."
            )


def check_same_features(estimator, X):
    """Raise unless X has the columns of the calls before, by number and by name."""
    validate_data(estimator, X, reset=False, skip_check_array=True)


def keep_names(estimator, names):
    """Names of the columns, which a call with an array would forget."""
    if names is not None and not hasattr(estimator, "feature_names_in_"):
        estimator.feature_names_in_ = names


def check_rows_of_fit(estimator, name):
    """Raise unless the rows of `fit`, from which `partial_fit` would go on, are in memory."""
    objective = estimator._fits[0].objective
    if objective is None:
        raise ValueError(
            f"{name}.partial_fit goes on from the rows of fit, but this estimator was fitted on a "
            "cluster, or loaded from a pickle (or copied). It does not contain them. Call fit or, "
            "on a clone, partial_fit with these rows first. Estimators that were trained by "
            "partial_fit alone can be pickled."
        )
    if not objective.rows.in_memory:
        raise ValueError(
            f"{name}.partial_fit goes on from the rows of fit, but this estimator was fitted from "
            "a source of rows that is too large for memory. On a clone, pass the chunks of the "
            "source to partial_fit from the start, or call fit with arrays or memory maps."
        )


def told(estimator):
    """How the optimiser tells its progress in a call: as `verbose` says, without callbacks."""
    return progress_of(estimator, _Silent())


class _Silent:
    def report(self, iteration, about=""):
        return False


def _with_rows(subject, stream, chunk, random_state):
    n = len(chunk.weight)
    bytes_of_a_row = sum(column.nbytes for column in chunk.columns) / n + 16
    memory = _SHARE_OF_MEMORY * get_config()["working_memory"] * 2**20
    capacity = max(1, int(min(subject.most_rows, memory / bytes_of_a_row)))
    reservoir = stream.reservoir
    for start in range(0, n, capacity):
        part = chunk.subset(slice(start, start + capacity))
        reservoir = reservoir.plus(*part, capacity, random_state)
    return stream._replace(reservoir=reservoir, seen=stream.seen + chunk.weight.sum())


def _memory(subject, stream, chunk, random_state):
    """How much the rows before still count; the later half of the new ones judges it."""
    half = len(chunk.weight) // 2
    if half < 2 or any(one is None or one.few for one in stream.learned):
        return 1.0
    learned, judged = chunk.subset(slice(half)), chunk.subset(slice(half, None))

    def densities(factor):
        trial = _with_rows(subject, stream.forgetting(factor), learned, random_state)
        estimator = copy.copy(subject.estimator)
        subject.store(estimator, *subject.fits(trial, learned, False))
        return subject.log_density(estimator, judged)

    with single_threaded_blas():
        return best_retention(densities)


def _number(total):
    """An int where it is one."""
    return int(total) if float(total).is_integer() else float(total)
