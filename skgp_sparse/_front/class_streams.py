"""Rows with class labels that arrive later.

Rows have sites (`site_streams`) in every problem that they take part in. A class may be announced
before its first row comes. Until a problem has rows of two kinds, nothing is learned from it: its
kernel is the initial one.
"""

import numpy as np
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import validate_data

from skgp_sparse._front import checks, multiclass, parameter_checks
from skgp_sparse._front.choices import resolve_method, resolve_sigmoid, resolve_strategy
from skgp_sparse._front.default_kernels import resolve_latent_kernel
from skgp_sparse._front.plans import plan_of
from skgp_sparse._front.site_streams import Prepared, SiteSubject
from skgp_sparse._front.sklearn_compat import check_sample_weight
from skgp_sparse._front.streams import (
    NewRows,
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
from skgp_sparse._front.training_rows import Labelled
from skgp_sparse._ground.parallel import single_threaded_blas
from skgp_sparse.inference.incremental import Knowledge
from skgp_sparse.inference.site_loop import Inner
from skgp_sparse.inference.site_objective import SiteModel
from skgp_sparse.likelihoods import Softmax

_FLOATS = (np.float64, np.float32)
_LEAST_PROBABILITY = 1e-4  # of a label, in comparisons: one row should not decide them
_NOTHING = 1e-12  # weight of a row that only shows where rows are


def partial_fit(estimator, X, y, sample_weight, classes):
    """What `SparseGPClassifier.partial_fit` does."""
    name = type(estimator).__name__
    check_chunk(name, X, y=y, sample_weight=sample_weight)
    parameter_checks.check_parameters(estimator, name)
    check_kept(estimator, name)
    stream = _known_stream(estimator, name)
    names = None if stream is None else getattr(estimator, "feature_names_in_", None)
    if stream is not None:
        check_same_features(estimator, X)
    classes = _classes(classes, stream, name)
    chunk = _chunk_of(estimator, X, y, sample_weight, classes, name)
    keep_names(estimator, names)
    subject = _LabelSubject(estimator, classes, name)
    if stream is None:
        stream = new_stream(estimator, chunk, len(subject.tasks), classes)
    with single_threaded_blas():
        advance(subject, stream, chunk)
    return estimator


class _LabelSubject(SiteSubject):
    def __init__(self, estimator, classes, name):
        self.estimator, self.classes, self.name = estimator, classes, name
        sigmoid = resolve_sigmoid(estimator.likelihood, name)
        self.strategy = resolve_strategy(estimator.multi_class, len(classes), name)
        self.tasks = multiclass.tasks(len(classes), self.strategy)
        self.likelihood = Softmax(len(classes)) if self.strategy == "softmax" else sigmoid

    def log_density(self, estimator, chunk):
        """Logarithms of the probabilities of the labels (n,)."""
        X, index = chunk.columns
        found = estimator._probabilities_of_classes(X)[np.arange(len(X)), index]
        return np.log(np.maximum(found, _LEAST_PROBABILITY))

    def prepare(self, chunk, one_form=False):
        """The problems of all tasks."""
        labelled = Labelled(*chunk.columns, chunk.weight, self.classes)
        return [self._prepare_one(labelled, task, one_form) for task in self.tasks]

    def counts(self, chunk):
        """How many rows of a chunk each of the problems has."""
        parts = [task.labels(chunk.columns[1])[0] for task in self.tasks]
        return [len(chunk.weight) if part is None else len(part) for part in parts]

    def store(self, estimator, stream, fits):
        """Set the fitted attributes."""
        estimator._store(fits)
        estimator.classes_, estimator.n_classes_ = self.classes, len(self.classes)
        estimator._strategy = self.strategy
        estimator._likelihoods = [fit.objective.method.likelihood for fit in fits]

    def _prepare_one(self, labelled, task, one_form):
        rows, is_complete = _table(labelled, task, self.name, one_form)
        kernel = resolve_latent_kernel(self.estimator.kernel, self.likelihood, rows)
        method = resolve_method(self.estimator.bound, self.likelihood, self.name)
        limits = self.estimator.tol, self.estimator.max_iter_predict, "max_iter_predict"
        model = SiteModel(method, Inner.within(*limits))
        name = task.name(self.classes) if len(self.tasks) > 1 else ""
        return Prepared(name, rows, kernel, model, self._plan(rows, kernel), is_complete)

    def _plan(self, rows, kernel):
        estimator = self.estimator
        plan = plan_of(estimator, rows, kernel, told(estimator), self.name, len(rows))
        several = multiclass.problems_of_a_row(len(self.classes), self.strategy)
        return plan._replace(tol=estimator.tol / several)


def _table(labelled, task, name, one_form):
    """The rows of a problem, and whether there are several kinds of them.

    A pair of classes without rows has those of the others, with weights that say nothing.
    """
    rows, label = task.labels(labelled.index)
    if rows is not None and len(rows) == 0:
        labelled = labelled._replace(
            index=np.full_like(labelled.index, task.negative), weight=_NOTHING * labelled.weight
        )
    is_complete = len(label) > 0 and np.ptp(label) > 0
    return labelled.table(task, name, one_form), is_complete


def _classes(classes, stream, name):
    """Sorted labels, announced now or before."""
    before = None if stream is None else stream.others
    if classes is None:
        if before is None:
            raise ValueError(
                f"classes must be passed on the first call to {name}.partial_fit, because the "
                "first chunk need not have rows of all classes. Pass all labels that may come, "
                "such as classes=np.unique(y_all)."
            )
        return before
    classes = unique_labels(classes)
    if before is not None and not np.array_equal(classes, before):
        raise ValueError(
            f"{name}.partial_fit: classes={classes!r} is not the same as on the last call, which "
            f"had {before!r}. Leave it out, or call fit with all rows to begin anew."
        )
    if len(classes) < 2:
        raise ValueError(
            f"{name} requires 2 or more distinct classes; got {len(classes)} class in classes."
        )
    return classes


def _chunk_of(estimator, X, y, sample_weight, classes, name):
    """The rows of a call that count, with the index of each label."""
    checks.check_inputs(X, estimator.kernel, name)
    checks.check_no_none(y)
    X, y = validate_data(estimator, X, y, dtype=_FLOATS)
    check_classification_targets(y)
    weight = check_sample_weight(sample_weight, X)
    unknown = np.setdiff1d(y, classes)
    if len(unknown):
        raise ValueError(
            f"{name}.partial_fit: y contains the label '{unknown[0]}', which is not in classes "
            f"({list(map(str, classes))}). Pass all labels that may come as classes in the first "
            "call."
        )
    weight = np.ones(len(X)) if weight is None else weight
    chunk = NewRows((X, np.searchsorted(classes, y)), weight)
    return chunk if weight.all() else chunk.subset(weight > 0)


def _known_stream(estimator, name):
    """What is known of the rows before; None if there were none."""
    if hasattr(estimator, "_stream") or not hasattr(estimator, "kernel_"):
        return getattr(estimator, "_stream", None)
    check_rows_of_fit(estimator, name)
    fits, classes = estimator._fits, estimator.classes_
    subject = _LabelSubject(estimator, classes, name)
    chunk = _rows_of_all(fits, subject.tasks, len(classes))
    stream = new_stream(estimator, chunk, len(fits), classes)
    learned = tuple(_learned_by(fit, subject) for fit in fits)
    stream = stream._replace(learned=learned, n_iter=estimator.n_iter_)
    return seeded(subject, stream, chunk)


def _learned_by(fit, subject):
    """What a fit has learned, as far as a stream can go on from it."""
    rows, Z = fit.objective.rows, fit.objective.inducing_points
    plan = subject._plan(rows, fit.kernel)
    few = not plan.fixed_inducing and rows.distinct(most=plan.n_inducing) is not None
    usable = plan.fixed_inducing or len(Z) <= plan.n_inducing
    return Knowledge(fit.kernel, Z if usable else None, fit.objective.method.likelihood, few)


def _rows_of_all(fits, tasks, n_classes):
    """The rows of a classifier from the tables of its problems, class by class."""
    parts = [_rows_of_class(k, fits, tasks) for k in range(n_classes)]
    X, weight = (np.concatenate(some) for some in zip(*parts))
    index = np.repeat(np.arange(n_classes), [len(part[1]) for part in parts])
    keep = weight > 0
    return NewRows((X[keep], index[keep]), weight[keep])


def _rows_of_class(k, fits, tasks):
    """Inputs and weights of a class, from the first problem that tells it from the others."""
    for fit, task in zip(fits, tasks):
        label = {None: k, k: 1.0}.get(task.positive, -1.0 if _is_against(k, task, tasks) else None)
        if label is not None:
            rows = fit.objective.rows
            weight = np.ones(len(rows)) if rows.weight is None else rows.weight
            own = rows.y[:, 0] == label
            return rows.X[own], weight[own]
    raise AssertionError(k)


def _is_against(k, task, tasks):
    """Whether the negative rows of a problem are those of a class."""
    return task.negative == k or len(tasks) == 1
