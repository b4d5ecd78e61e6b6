"""State of a fitted estimator: its fits, and what answers questions about them."""

from dataclasses import InitVar, dataclass, field, replace
from typing import Any

import numpy as np

from skgp_sparse.data.arrays import ArrayDataset
from skgp_sparse.data.dataset import Dataset
from skgp_sparse.engine import posteriors_around
from skgp_sparse.engine.functions import SobolIndices, quantiles_of_columns, sobol_indices
from skgp_sparse.explain.leave_one_out import Scores, scores_of
from skgp_sparse.explain.views import processes_of
from skgp_sparse.explain.weighted_means import of_all_classes
from skgp_sparse.ground.parallel import single_threaded_blas
from skgp_sparse.ground.validation import Array, Kernel
from skgp_sparse.inference.contracts import attempt, value_or_minus_inf
from skgp_sparse.methods.contract import Fits, FittedJob


@dataclass(eq=False, repr=False)
class Fitted:
    """State of a fitted estimator; the constructor puts the `blend` into the `view`."""

    fits: Fits
    scaler: Any  # `TargetScaler`
    view: Any  # that predicts in the units of y
    blend: Any = None  # `WeightedMean` or `Calibration`
    kept: dict[str, str] = field(default_factory=dict)  # parameters of a stream, as text
    types: Any = None  # `ColumnTypes`; None: all are numbers
    values: Array | None = None  # (K, d) in the place of one that is missing in a query
    rows: InitVar[Dataset | None] = None  # of `fit`, of which weights are kept
    stream: Any = None  # `StreamState`
    is_learned: bool = True  # hyperparameters were learned from the rows
    class_weight: Array | None = None  # (n_classes,) factors of probabilities; None: all are one
    scores: Scores | None = None
    quantiles: Array | None = None
    sobol: SobolIndices | None = None

    def __post_init__(self, rows: Dataset | None) -> None:
        self.has_scores = rows is not None and rows.in_memory and self.scores is None
        self.weight = rows.weight if rows is not None and self.has_scores else None
        around = [self.blend, self.fits[0].fit.combination]
        if all(around) and self.blend.weights.is_added:
            around.reverse()
        for one in around:
            self.view = self.view if one is None else one.around(self.view)
        if self.class_weight is not None:
            self.view = self.view._replace(class_weight=self.class_weight)

    def __getstate__(self) -> dict[str, Any]:
        """State without rows, but for those that posteriors keep."""
        self.know_columns()
        kept = {"fits": [_as_kept(fit) for fit in self.fits], "has_scores": False, "weight": None}
        return {**vars(self), **kept}

    @property
    def kernel(self) -> Any:
        """Kernel of the first problem, whose columns are those of all others."""
        return self.fits[0].kernel

    def answering(self, X: Array) -> Any:
        """The view that answers queries (n, d), which may lack values."""
        values = self.values
        if values is None or not posteriors_around.missing_entries(X, values).any():
            return self.view
        kind = posteriors_around.PosteriorWithMissingValues
        return self.view.each(lambda part: part._replace(process=kind(part.process, values)))

    def mean_part(self, X: Array) -> Array | float:
        """The part of the mean at queries (n, d), in units of y or latent; 0 without one."""
        if self.blend is None:
            return 0.0

        def weighted(X: Array) -> Array:
            weight = self.view.of_latent().process.weight(X)
            return self.blend.scaler.among_constants(weight) * self.blend.function.latent(X)

        return posteriors_around.averaged(weighted, X, self.values)

    def logits_of_mean(self, X: Array, n_classes: int) -> Array:
        """The part of the mean in the logits (n, n_classes) of queries; 0 without one."""
        if self.blend is None or self.blend.function is None:
            return np.zeros((len(X), n_classes))
        return self.blend.weight * of_all_classes(self.blend.function.latent(X))

    def residuals(self, rows: ArrayDataset) -> ArrayDataset:
        """Other rows as the process sees them: without a mean that is added to it."""
        if self.blend is None or not self.blend.weights.is_added:
            return rows
        return replace(rows, y=rows.y - self.blend.function.latent(rows.X.astype(float)))

    def scores_of_rows(self, n_jobs: int | None) -> Scores | None:
        """`Scores` for conformal intervals, once they are asked for; None where there are none."""
        if self.has_scores:
            weights = self.blend and self.blend.weights
            self.scores = scores_of(self.fits[0], weights, self.weight, self.is_learned, n_jobs)
            self.has_scores, self.weight = False, None
        return self.scores

    def know_columns(self) -> Array | None:
        """Quantiles of the columns of rows in memory, None where these are not known."""
        if self.quantiles is None:
            self.quantiles = quantiles_of_columns([fit.rows for fit in self.fits])
        return self.quantiles

    def relevance(self, n_jobs: int | None) -> SobolIndices | None:
        """`SobolIndices`, once they are asked for; None where columns are not known."""
        if self.sobol is None and (quantiles := self.know_columns()) is not None:
            self.sobol = sobol_indices(processes_of(self.view), quantiles, n_jobs)
        return self.sobol

    def mean_value(self, kernels: list[Kernel], eval_gradient: bool, shared: bool) -> Any:
        """Mean bound at kernels, and its gradient wrt all thetas in order, or a `shared` one."""
        with single_threaded_blas():
            pairs = [(fit.objective, kernel) for fit, kernel in zip(self.fits, kernels)]
            if not eval_gradient:
                return np.mean([value_or_minus_inf(*pair) for pair in pairs])
            found = [attempt(*pair) for pair in pairs]
        values, gradients = zip(*((one.value, one.theta_bar) for one in found))
        total = np.sum(gradients, axis=0) if shared else np.concatenate(gradients)
        return np.mean(values), total / len(found)


def _as_kept(fit: FittedJob) -> FittedJob:
    """The fit as pickles hold it: its objective has the rows, which not every posterior keeps."""
    fit = fit._replace(left_out=None)
    if fit.rows is None or (fit.posterior.n_rows_kept and fit.rows.in_memory):
        return fit
    return fit._replace(all_rows=None, mean=None).with_fit(objective=None)
