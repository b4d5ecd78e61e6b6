"""Labels of classes: one problem, several binary ones, or one for all of them.

The one for all has a process for every class, or one process where classes have an order.

A class of a stream may be announced before its first row comes. Until a problem has rows of two
kinds, nothing is learned from it: its kernel is the initial one.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.gaussian_process.kernels import Kernel
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import unique_labels

from skgp_sparse.choices import choices
from skgp_sparse.data.arrays import ArrayDataset
from skgp_sparse.data.checks import Rules
from skgp_sparse.data.classes import Task, tasks
from skgp_sparse.data.columns import ranks_of
from skgp_sparse.data.dataset import Dataset
from skgp_sparse.data.moments import TargetScaler
from skgp_sparse.explain.views import LabelView, TargetView
from skgp_sparse.ground.validation import AnyArray, as_text, is_name
from skgp_sparse.inference.site_loop import Inner
from skgp_sparse.inference.site_objective import SiteObjectives, Variational
from skgp_sparse.likelihoods import Likelihood, Ordinal, warn_outside_bounds
from skgp_sparse.likelihoods._labels import Softmax
from skgp_sparse.methods.contract import Fits, FittedJob, Job
from skgp_sparse.solvers import KeepParameters
from skgp_sparse.targets.model import ObservationModel
from skgp_sparse.targets.numbers import observations_of


class ClassLabels(ObservationModel):
    """Labels of classes; a stream announces them, and an order, before its rows."""

    rows_with_prior = 20
    ranks = None  # of the classes, where one process has their order

    def __init__(self, parameters: BaseEstimator, name: str, earlier: tuple | None = None) -> None:
        super().__init__(parameters, name)
        self.earlier = earlier  # classes, their kind, and fits to go on from
        self.sigmoid = choices.resolve_sigmoid(parameters.likelihood, name)
        if self.moves():
            warn_outside_bounds(self.sigmoid, name)
        self.is_ordinal = isinstance(self.sigmoid, Ordinal)
        if not self.is_ordinal and parameters.ordinal_classes is not None:
            raise ValueError(
                f"{name}: ordinal_classes is the order of labels for likelihood='ordinal'. Got "
                f"likelihood={as_text(parameters.likelihood)}. Change this, or leave it out."
            )
        self.rules = Rules(name, parameters.kernel, labels=True)

    def announce(self, classes: npt.ArrayLike | None, order: list[Any] | None) -> None:
        """Know the labels of a stream and their order, which were announced now or before."""
        given, name = self.parameters, self.name
        before, former = (getattr(given, key, None) for key in ("classes_", "ordinal_classes_"))
        if classes is None and before is None:
            raise ValueError(
                f"classes must be passed on the first call to {name}.partial_fit, because the "
                "first chunk need not have rows of all classes. Pass all labels that may come, "
                "such as classes=np.unique(y_all)."
            )
        known: AnyArray | Any = before if classes is None else unique_labels(classes)
        if before is not None and not np.array_equal(known, before):
            raise ValueError(
                f"{name}.partial_fit: classes={as_text(known)} is not the same as on the last "
                f"call, which had {as_text(before)}. Leave it out, or call fit with all rows."
            )
        if len(known) < 2:
            raise ValueError(
                f"{name} requires 2 or more distinct classes; got {len(known)} class in classes."
            )
        order = order if given.ordinal_classes is None else np.ravel(given.ordinal_classes).tolist()
        if former is not None:
            former = former.tolist()
            if order is not None and [label for label in order if label in former] != former:
                raise ValueError(
                    f"{name}.partial_fit: the order of the labels was {as_text(former)}, and is "
                    f"{as_text(order)} now. Pass the same order, or call fit with all rows."
                )
        self.order = order if former is None else former
        self._know(known)
        given, fitted = self.parameters.class_weight, self.parameters._fitted
        if fitted is not None:
            self.class_weight = fitted.class_weight
        elif is_name(given, "balanced"):
            raise ValueError(f"{name}.partial_fit has no class_weight='balanced'. Pass a dict.")
        elif given is not None:
            self.class_weight = compute_class_weight(given, classes=known, y=known)

    def _know(self, classes: AnyArray) -> None:
        """The problems of these classes."""
        self.classes = classes
        self.multi_class = self.parameters.multi_class if len(classes) > 2 else "one_vs_rest"
        self.tasks = tasks(len(classes), self.multi_class)
        is_softmax = self.multi_class == "softmax"
        self.likelihood: Likelihood = Softmax(len(classes)) if is_softmax else self.sigmoid
        if self.is_ordinal:
            self.ranks = ranks_of(classes, self.parameters.ordinal_classes, self.order, self.name)
            self.multi_class, self.tasks = "ordinal", [Task(self.ranks)]
            self.likelihood = Ordinal(gaps=(1.0,) * (len(classes) - 2))
        self.site_method = choices.resolve_method(self.parameters.bound, self.likelihood, self.name)
        self.n_classes, self.have_all_rows = len(classes), self.multi_class != "one_vs_one"
        has_sum = isinstance(self.site_method, Variational) and not len(self.sigmoid.theta)
        self.starts_together = has_sum and self.multi_class == "one_vs_rest" and len(self.tasks) > 2
        self.check_posterior_method()

    def random_states(self, random_state: np.random.RandomState) -> list[np.random.RandomState]:
        """Random states for all problems, each with the same seed."""
        seed = random_state.randint(2**31 - 1)
        return [np.random.RandomState(seed) for _ in self.tasks]

    def jobs(self, rows: Dataset) -> list[Job]:
        """A job for each task; a warm start goes on from the earlier fit of the same task."""
        self._know(np.asarray(rows.classes))
        self.class_weight, given = rows.class_weight, self.parameters.class_weight
        if given is not None:
            is_dict, known = isinstance(given, dict), self.classes
            own = compute_class_weight(given, classes=known, y=known) if is_dict else None
            own = 1.0 / rows.class_totals() if own is None else own
            self.class_weight = own * (1.0 if rows.class_weight is None else rows.class_weight)
        jobs = [self._job(rows.of_problem(task).in_one_form(), task) for task in self.tasks]
        if self.earlier is None or not (self.parameters.warm_start and self.moves()):
            return jobs
        classes, multi_class, fits = self.earlier
        if multi_class != self.multi_class or not np.array_equal(classes, self.classes):
            return jobs
        return [job._replace(before=_start_at(fit, job.kernel)) for job, fit in zip(jobs, fits)]

    def jobs_of_part(self, part: ArrayDataset, stream: object) -> list[Job]:
        """Jobs of all problems for rows in memory; some problems may have no rows."""
        return [self._job_of_part(part, task) for task in self.tasks]

    def view(self, fits: Fits, scaler: TargetScaler) -> LabelView:
        """The `LabelView` of all problems together, given the fit of each."""
        latent = [TargetView(fit.posterior) for fit in fits]
        likelihoods = [fit.likelihood for fit in fits]
        return LabelView(latent, likelihoods, len(self.classes), self.multi_class, ranks=self.ranks)

    def attributes(self, fits: Fits, scaler: TargetScaler) -> dict[str, Any]:
        """The classes, and what the posteriors were given."""
        own = {"classes_": self.classes, "n_classes_": len(self.classes)}
        if self.ranks is not None:
            own["ordinal_classes_"] = self.classes[np.argsort(self.ranks)]
        return super().attributes(fits, scaler) | own

    def accept(self, part: ArrayDataset, earlier: AnyArray | None) -> ArrayDataset:
        """The part with indices of classes in the place of labels, all of which are known."""
        if len(unknown := np.setdiff1d(part.y, self.classes)):
            raise ValueError(
                f"{self.name}.partial_fit: y contains the label '{unknown[0]}', which is not in "
                f"classes ({list(map(str, self.classes))}). Pass all labels that may come as "
                "classes in the first call."
            )
        return replace(part, y=np.searchsorted(self.classes, part.y))

    def target_name(self, number: int) -> str:
        """Name, for users, of one of the classes of a softmax."""
        return f"class {self.classes[number]}"

    def _job(self, rows: Dataset, task: Task) -> Job:
        """The `Job` of a problem, whose rows have its labels."""
        given, columns = self.user_kernel(), self.columns()
        kernel = choices.resolve_latent_kernel(given, self.likelihood, rows, columns, 1.0)
        inner = Inner.within(self.tol, self.parameters.max_iter_predict, "max_iter_predict")
        name = task.name(self.classes) if len(self.tasks) > 1 else ""
        method = self.site_method
        if self.is_ordinal:
            method = replace(method, likelihood=self.likelihood.started(*observations_of(rows)))
        job = self.job(rows, kernel, SiteObjectives(method, inner), name)
        of_a_row = sum(not np.isnan(one.of_class[0]) for one in self.tasks)
        return job.with_settings(tol=self.tol / of_a_row)

    def _job_of_part(self, part: ArrayDataset, task: Task) -> Job:
        """The `Job` of a problem for rows in memory, which moves nothing until it has both labels.

        A pair of classes without rows has those of the others, with weights that say nothing.
        """
        rows, label = task.labels(part.y)
        if rows is not None and len(rows) == 0:
            index = np.full_like(part.y, task.of_class.index(-1.0))
            part = replace(part, y=index, weight=1e-12 * part.row_weights())
        job = self._job(part.of_problem(task).in_one_form(), task)
        if len(label) > 0 and np.ptp(label) > 0:
            return job
        return job.with_settings(solver=KeepParameters())  # there is nothing to learn yet

    def rows_of(self, fits: Fits) -> ArrayDataset:
        """The rows of a classifier from the tables of its problems, class by class."""
        parts = []
        for k in range(len(self.classes)):  # from the first problem that tells it from the others
            labels = ((task.label_of(k), fit.rows) for fit, task in zip(fits, self.tasks))
            label, rows = next(pair for pair in labels if pair[0] is not None)
            is_here = rows.y[:, 0] == label
            parts.append((rows.X[is_here], rows.mean_weight * rows.row_weights()[is_here]))
        X, weight = (np.concatenate(columns) for columns in zip(*parts))
        index = np.repeat(np.arange(len(parts)), [len(part[1]) for part in parts])
        return ArrayDataset(X, index, weight=weight).counting()


def _start_at(fit: FittedJob, kernel: Kernel) -> tuple | None:
    """Kernel and inducing points, if any, of an earlier fit whose kernel had this structure."""

    def outline(of: Kernel) -> tuple:
        return type(of), [(one.name, one.n_elements, one.fixed) for one in of.hyperparameters]

    if outline(kernel) != outline(fit.kernel):
        return None
    theta = np.clip(fit.kernel.theta, *np.reshape(kernel.bounds, (-1, 2)).T)
    features = getattr(fit.posterior, "features", None)
    return kernel.clone_with_theta(theta), getattr(features, "Z", None)
