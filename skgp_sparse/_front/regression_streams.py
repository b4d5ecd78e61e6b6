"""Rows of a regression that arrive later.

With Gaussian noise, sums over all rows are kept, and rows that come are added to them: at given
theta and Z, nothing is lost. With another likelihood, rows have sites (`site_streams`).
"""

from dataclasses import replace

import numpy as np

from skgp_sparse._engine.inducing_basis import InducingBasis
from skgp_sparse._engine.moments import Moments, moments_of
from skgp_sparse._engine.problem import Problem
from skgp_sparse._engine.rows import Rows
from skgp_sparse._engine.running_sums import RunningSums
from skgp_sparse._front import checks, parameter_checks
from skgp_sparse._front.choices import resolve_bound, resolve_likelihood
from skgp_sparse._front.plans import plan_of
from skgp_sparse._front.site_streams import Prepared, SiteSubject
from skgp_sparse._front.streams import (
    NewRows,
    Subject,
    Units,
    advance,
    check_chunk,
    check_kept,
    check_rows_of_fit,
    check_same_features,
    keep_names,
    new_stream,
    seeded,
    told,
)
from skgp_sparse._front.targets import scale_of
from skgp_sparse._front.training_rows import training_rows, with_noise_floor
from skgp_sparse._ground.normal import log_normal_density
from skgp_sparse._ground.parallel import single_threaded_blas
from skgp_sparse.inference.incremental import Action, Knowledge, next_action, take
from skgp_sparse.inference.objectives import CollapsedObjective
from skgp_sparse.inference.solvers import Fit


def can_learn_later(estimator):
    """Whether rows that arrive later can be learned: with one basis of inducing points."""
    if estimator.posterior == "rows" or estimator.n_mean is not None:
        raise AttributeError(
            f"{type(estimator).__name__}.partial_fit learns rows that arrive later with one basis "
            f"of inducing points. Got posterior={estimator.posterior!r} and n_mean="
            f"{estimator.n_mean!r}. Set posterior to 'inducing' and n_mean to None, or call fit "
            "with all rows."
        )
    return True


def partial_fit(estimator, X, y, sample_weight, offset):
    """What `SparseGPRegressor.partial_fit` does."""
    name = type(estimator).__name__
    check_chunk(name, X, y=y, sample_weight=sample_weight, offset=offset)
    parameter_checks.check_parameters(estimator, name)
    check_kept(estimator, name)
    _check_alpha(estimator.alpha, name)
    likelihood = resolve_likelihood(estimator.likelihood, name)
    kind = _GaussianSubject if likelihood is None else _ResponseSubject
    subject = kind(estimator, likelihood, name)
    stream = _known_stream(subject)
    names = None if stream is None else getattr(estimator, "feature_names_in_", None)
    if stream is not None:
        check_same_features(estimator, X)
    given = X, y, sample_weight, offset, likelihood, name
    rows = estimator._training_rows(*given, one_form=False)  # their order may be that of time
    keep_names(estimator, names)
    chunk = _chunk_of(rows)
    if stream is None:
        stream = new_stream(estimator, chunk, 1)
        if likelihood is None:
            stream = stream._replace(others=rows.y_scale)
    else:
        checks.check_columns(chunk.columns[1], stream.reservoir.columns[1].shape[1], name)
    with single_threaded_blas():
        advance(subject, stream, chunk)
    return estimator


class _RegressionSubject(Subject):
    def __init__(self, estimator, likelihood, name):
        self.estimator, self.likelihood, self.name = estimator, likelihood, name

    def store(self, estimator, stream, fits):
        """Set the fitted attributes."""
        (learned,) = stream.learned
        units = stream.units
        estimator._store(fits)
        estimator._likelihood = None if self.likelihood is None else learned.likelihood
        estimator.posterior_ = fits[0].posterior.kind
        estimator._y_train_mean, estimator._y_train_std = units
        estimator._one_column = len(units.mean) == 1
        estimator.likelihood_ = None
        if self.likelihood is not None:
            estimator.likelihood_ = estimator._in_units_of_y(estimator._likelihood)

    def _plan(self, rows, kernel):
        n_labels = None if self.likelihood is None else len(rows)
        return plan_of(self.estimator, rows, kernel, told(self.estimator), self.name, n_labels)


class _GaussianSubject(_RegressionSubject):
    """Rows with Gaussian noise: their sums are kept."""

    def log_density(self, estimator, chunk):
        """Mean log densities of the targets (n,), with the known noise."""
        X, y, _ = chunk.columns
        view = estimator._view()._replace(one_column=False)
        mean, std = view.mean_and_std(X, False)
        variance = std**2 + (estimator.alpha or 0.0) + np.finfo(float).tiny
        return log_normal_density(y, mean, np.sqrt(variance)).mean(axis=1)

    def fits(self, stream, chunk, due):
        """Sums of all rows at the theta and Z of now, or at others."""
        X, y, _ = chunk.columns
        moments = stream.moments or Moments()
        moments = moments.merged(moments_of(y / stream.others, chunk.weight))
        stream = stream._replace(moments=moments)
        latest, learned = self._latest_units(stream), stream.learned[0]
        everything = _rows_of(stream, stream.units or latest, self.estimator.alpha)
        if stream.calls == 0:  # the reservoir may not hold all of them
            everything = replace(everything, X=X, y=y, weight=_or_none(chunk.weight))
        kernel = None if learned is None else learned.kernel
        if kernel is None or learned.few:
            kernel = self.estimator._with_gaussian_noise(everything, self.name)[1]
        plan = self._plan(everything, kernel)
        action = next_action(everything, plan, learned, due)
        if action in (Action.START, Action.MOVE) or not self.moves():
            stream = stream._replace(units=latest)
        if action is Action.HOLD:
            rows = Rows(X, y, everything.noise, _or_none(chunk.weight), *stream.units)
            problem = self._problem(rows, learned, plan)
            sums = stream.sums.plus(problem)
            n_iter = 0
        else:
            rows, kernel, model = self._model(everything, stream.units)
            found = take(action, rows, kernel, model, plan, learned, stream.random_state())
            learned, n_iter = found[1], found[0].n_iter
            problem = self._problem(rows, learned, plan)
            sums = RunningSums.of(problem)
        stream = stream._replace(sums=sums, learned=(learned,))
        return stream, [self._fit(stream, problem, n_iter)]

    def _latest_units(self, stream):
        """Mean and scale of all targets; with known noise, the scale of the first rows."""
        moments, unit = stream.moments, stream.others
        if not self.estimator.normalize_y:
            return Units(np.zeros_like(unit), np.ones_like(unit))
        mean = moments.mean * unit
        if self.estimator.alpha:
            return Units(mean, unit)
        return Units(mean, unit * scale_of(moments.mean, moments.spread))

    def _model(self, rows, units):
        rows = replace(rows, y_mean=units.mean, y_scale=units.scale)
        return self.estimator._with_gaussian_noise(rows, self.name)

    def _problem(self, rows, learned, plan):
        bound = resolve_bound(self.estimator.bound, self.name)
        rows = with_noise_floor(rows, learned.kernel)
        return Problem(learned.kernel, InducingBasis(learned.Z), rows, bound, plan.options)

    def _fit(self, stream, problem, n_iter):
        value, posterior, jitter = stream.sums.solved(problem, *stream.units)
        rows = with_noise_floor(
            _rows_of(stream, stream.units, self.estimator.alpha), problem.kernel
        )
        objective = CollapsedObjective(rows, problem.bound, problem.basis, problem.options)
        return Fit(problem.kernel, objective, posterior, value, n_iter, jitter)


class _ResponseSubject(_RegressionSubject, SiteSubject):
    """Rows with another likelihood."""

    def log_density(self, estimator, chunk):
        """Log densities of the targets (n,)."""
        X, y, offset = chunk.columns
        return estimator._view().log_density(X, y[:, 0], offset)

    def prepare(self, chunk, one_form=False):
        """The only problem there is."""
        (X, y, offset), weight = chunk
        normalize = self.estimator.normalize_y and self.likelihood.standardises
        rows = training_rows(
            X,
            y,
            weight,
            alpha=None,
            normalize=normalize,
            name=self.name,
            offset=offset if offset.any() else None,
            one_form=one_form,
        )
        kernel, model = self.estimator._with_likelihood(self.likelihood, rows, self.name)
        return [Prepared("", rows, kernel, model, self._plan(rows, kernel))]

    def counts(self, chunk):
        """All rows of the chunk."""
        return [len(chunk.weight)]

    def in_units(self, rows, units):
        """A table whose targets have other units."""
        offset = rows.offset
        if offset is not None:
            offset = offset * (rows.y_scale[0] / units.scale[0])
        return replace(rows, y_mean=units.mean, y_scale=units.scale, offset=offset)

    def units_of(self, rows):
        """Those of a table."""
        return Units(rows.y_mean, rows.y_scale)


def _known_stream(subject):
    """What is known of the rows before; None if there were none."""
    estimator, name = subject.estimator, subject.name
    if hasattr(estimator, "_stream") or not hasattr(estimator, "kernel_"):
        return getattr(estimator, "_stream", None)
    check_rows_of_fit(estimator, name)
    fit = estimator._fits[0]
    rows = fit.objective.rows
    chunk = _chunk_of(rows)
    plan = subject._plan(rows, fit.kernel)
    Z = fit.objective.inducing_points
    few = not plan.fixed_inducing and rows.distinct(most=plan.n_inducing) is not None
    fits = plan.fixed_inducing or len(Z) <= plan.n_inducing
    learned = Knowledge(fit.kernel, Z if fits else None, estimator._likelihood, few)
    stream = new_stream(estimator, chunk, 1)._replace(
        learned=(learned,), units=Units(rows.y_mean, rows.y_scale)
    )
    stream = seeded(subject, stream, chunk)._replace(n_iter=estimator.n_iter_)
    if subject.likelihood is not None:
        return stream
    moments = moments_of(chunk.columns[1] / rows.y_scale, chunk.weight)
    stream = stream._replace(others=rows.y_scale, moments=moments)
    if learned.Z is None:
        return stream
    return stream._replace(sums=RunningSums.of(subject._problem(rows, learned, plan)))


def _chunk_of(rows):
    """The rows of a table, in the units of the user, without those that do not count."""
    offset = np.zeros(len(rows)) if rows.offset is None else rows.offset * rows.y_scale[0]
    weight = np.ones(len(rows)) if rows.weight is None else rows.weight
    chunk = NewRows((rows.X, rows.y, offset), weight)
    return chunk if weight.all() else chunk.subset(weight > 0)


def _rows_of(stream, units, alpha):
    """The rows in the reservoir as a table, by reference."""
    X, y, _ = stream.reservoir.columns
    weight = _or_none(stream.reservoir.weights())
    return Rows(X, y, float(alpha or 0.0), weight, *units)


def _or_none(weight):
    """Weights, None where each row counts once."""
    return None if np.all(weight == 1) else weight


def _check_alpha(alpha, name):
    if np.ndim(alpha):
        raise ValueError(
            f"{name}.partial_fit: alpha must be None or a number, because the rows of later calls "
            f"are not known yet. Got an array of shape {np.shape(alpha)}. Leave alpha at None to "
            "learn the noise, or give rows of little noise a larger sample_weight."
        )
