"""Weighted means of a process and of another prediction, with weights from rows that are left out.

Numbers have the weighted mean of latent values that `PosteriorWithMean` describes. Labels have

    p(k | x) ∝ g_k(x)^a m_k(x)^c exp(b_k),

with probabilities g of the processes and m of another classifier: without the latter, this is a
temperature 1/a and a bias of every class, a calibration (Guo et al. 2017; Kull et al. 2019).
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import softmax

from skgp_sparse.data.moments import TargetScaler
from skgp_sparse.engine.posteriors_around import MeanWeights, PosteriorWithMean, averaged
from skgp_sparse.explain.leave_one_out import LeftOutRows
from skgp_sparse.explain.views import LabelView, RealView
from skgp_sparse.ground.parallel import openmp_threads
from skgp_sparse.ground.validation import Array, Ints

_HUBER = 3.0  # standard deviations, beyond which an error counts by its size and not its square
_OF_WEIGHT = 1e-4, 1e-3  # ridges of intercept and slope, per row

LEAST_PROBABILITY = 1e-6  # of which a logarithm is taken


class MeanFunction(NamedTuple):
    """A fitted mean; `values` take the place of one that is missing in a query."""

    estimators: tuple  # a regressor for each target, or one classifier
    n_classes: int = 0  # 0 of numbers
    least: float | None = None  # smallest prediction that has a logarithm; None: none has
    values: Array | None = None  # (K, d) as of `spread_values`
    most: float = np.inf  # if it is finite, the logarithm is a logit

    def latent(self, X: Array) -> Array:
        """Latent values (n, q) of rows (n, d), averaged over values that only queries lack."""
        with openmp_threads():
            return averaged(self._of_complete_rows, X, self.values)

    def _of_complete_rows(self, X: Array) -> Array:
        """Latent values (n, q) of rows that lack no values."""
        if self.n_classes:
            classifier, known = self.estimators[0], np.zeros((len(X), self.n_classes))
            known[:, classifier.classes_] = classifier.predict_proba(X)
            logs = np.log(np.maximum(known, LEAST_PROBABILITY))
            return logs[:, 1:] - logs[:, :1] if self.n_classes == 2 else centred_logs(known)
        values = np.column_stack([np.ravel(one.predict(X)) for one in self.estimators])
        if self.least is None:
            return values
        values = np.clip(values, self.least, self.most * (1.0 - LEAST_PROBABILITY))
        return np.log(values) - np.log1p(-values / self.most)

    @property
    def is_flat(self) -> bool:
        """Whether the gradient is zero nearly everywhere, as that of trees is."""
        trees = "HistGradientBoosting", "GradientBoosting", "RandomForest", "ExtraTrees"
        return all(type(one).__name__.startswith(trees) for one in self.estimators)


class WeightedMean(NamedTuple):
    """Another prediction beside a process, and its weights."""

    function: MeanFunction
    scaler: TargetScaler  # of the process
    level: float  # that a likelihood adds to latent values
    weights: MeanWeights
    pays: bool = True  # whether it does beside neighbours without a global process

    def __call__(self, X: Array) -> Array:
        """Predictions (n, p) in the units of the process."""
        return self.scaler.forward(self.function.latent(X)) - self.level

    def around(self: Any, view: RealView) -> RealView:
        """The view with the weighted mean of its process and the prediction."""
        is_flat = self.function.is_flat
        around = partial(PosteriorWithMean, predict=self, weights=self.weights, is_flat=is_flat)
        return view.each(lambda part: part._replace(process=around(part.process)))


class Calibration(NamedTuple):
    """How probabilities of classes were changed, as rows say that are left out.

    Logarithms of probabilities are multiplied by `scale`. Those of the classifier `mean_`, times
    `weight`, and `bias` are added, and the probabilities sum to one again.

    Parameters
    ----------
    scale : float
        Inverse of a temperature.
    bias : ndarray of shape (n_classes,)
        Of every class.
    weight : float
        Of the mean, 0 where there is none.
    function : MeanFunction or None
        The mean.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse import SparseGPClassifier
    >>> X = np.linspace(0, 1, 40)[:, None]
    >>> y = (X[:, 0] > 0.5).astype(int)
    >>> SparseGPClassifier(random_state=0).fit(X, y).calibration_ is None
    True
    """

    scale: float
    bias: Array
    weight: float = 0.0
    function: MeanFunction | None = None

    def around(self, view: LabelView) -> LabelView:
        """Change the probabilities of a view.

        Parameters
        ----------
        view : LabelView
            That of the processes.

        Returns
        -------
        LabelView
            That of the changed probabilities.
        """
        return view._replace(calibration=self)

    def at(self, probabilities: Array, X: Array) -> Array:
        """Calibrate probabilities of queries.

        Parameters
        ----------
        probabilities : ndarray of shape (n, n_classes)
            Those of the processes.
        X : ndarray of shape (n, d)
            Queries.

        Returns
        -------
        ndarray of shape (n, n_classes)
            Probabilities that sum to one in every row.
        """
        latent = None if self.function is None else self.function.latent(X)
        return self.combined(probabilities, latent)

    def combined(self, probabilities: Array, latent: Array | None) -> Array:
        """Combine probabilities of the processes with predictions of the mean.

        Parameters
        ----------
        probabilities : ndarray of shape (n, n_classes)
            Those of the processes.
        latent : ndarray of shape (n, q) or None
            Latent values that the mean predicts; None: there is no mean.

        Returns
        -------
        ndarray of shape (n, n_classes)
            Probabilities that sum to one in every row.
        """
        logits = self.scale * centred_logs(probabilities) + self.bias
        if latent is not None and self.weight:
            logits = logits + self.weight * of_all_classes(latent)
        return softmax(logits, axis=1)


def centred_logs(probabilities: Array) -> Array:
    """Logarithms of probabilities (n, n_classes) that sum to zero in every row."""
    logs = np.log(np.maximum(probabilities, LEAST_PROBABILITY))
    return logs - logs.mean(axis=1, keepdims=True)


def logs_of_labels(probabilities: Array, labels: Ints) -> Array:
    """Logarithms (k,) of probabilities of labels, none so small that one row decides."""
    return np.log(np.maximum(probabilities[np.arange(len(labels)), labels], 1e-4))


def of_all_classes(latent: Array) -> Array:
    """Latent values of all classes, from those of two classes in one column."""
    return np.hstack([-0.5 * latent, 0.5 * latent]) if latent.shape[1] == 1 else latent


def calibrated(own: Array, labels: Ints, weight: Array, latent: Array | None = None) -> Calibration:
    """The `Calibration` with the least log loss of own probabilities (n, n_classes) of rows."""
    logs = [centred_logs(own)]
    if latent is not None:
        logs.append(of_all_classes(latent))
    n_scales, target = len(logs), np.eye(own.shape[1])[labels]
    start = np.eye(1, n_scales + target.shape[1])[0]
    ridge = 5.0  # nats that a change of a weight by one has to gain

    def loss(theta: Array) -> tuple[float, Array]:
        p = softmax(np.tensordot(theta[:n_scales], logs, axes=1) + theta[n_scales:], axis=1)
        of_labels = np.maximum(np.sum(p * target, axis=1), np.finfo(float).tiny)
        wrong = weight[:, None] * (p - target)
        slope = [np.sum(wrong * one) for one in logs]
        change = theta - start
        value = ridge * np.sum(change**2) - np.sum(weight * np.log(of_labels))
        return value, np.append(slope, wrong.sum(axis=0)) + 2.0 * ridge * change

    limits = [(0.0, None)] * n_scales + [(None, None)] * target.shape[1]
    theta = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=limits).x
    return Calibration(float(theta[0]), theta[n_scales:], float(theta[1]) if n_scales == 2 else 0.0)


# -- weights of numbers ----------------------------------------------------------------


class StackedRows(NamedTuple):
    """Rows that are left out, of which weights of another prediction are learned."""

    left_out: LeftOutRows
    predicted: Array  # (k, p) the other predictions

    @property
    def row_weight(self) -> Array:
        """Weights (k,) of the rows."""
        return np.broadcast_to(self.left_out.block.weight, len(self.predicted))

    @property
    def share(self) -> Array:
        """Weights (k,) in units of their mean."""
        return self.row_weight / self.row_weight.mean()

    def densities(self, weights: MeanWeights) -> Array:
        """Log densities (k,) of the targets, averaged over these."""
        return self.left_out.beside(self.predicted, weights).log_density().mean(axis=1)

    def without_mean(self) -> MeanWeights:
        """`MeanWeights` with which the process is alone."""
        error = np.ones(1)  # where latent values are not seen
        if self.left_out.likelihood is None:
            error = (self.left_out.block.y - self.predicted) ** 2
            error = np.average(error, axis=0, weights=self.row_weight)
        return MeanWeights(np.full(len(error), -np.inf), np.zeros(len(error)), error)

    def weights(self) -> MeanWeights:
        """The best `MeanWeights`: Huber's loss for means, densities for factors of variances.

        With a likelihood, a weight that is the same everywhere has the highest density.
        """
        alone = self.without_mean()
        if self.left_out.likelihood is not None:
            return self._densest(lambda t: alone._replace(intercept=t), [(-1.0,)], _OF_WEIGHT[:1])
        targets = [self._least_loss(j, error) for j, error in enumerate(alone.error)]
        intercept, slope = np.transpose(targets)
        found = alone._replace(intercept=intercept, slope=slope)
        return self._densest(lambda t: found._replace(log_factor=t), [(0.0, -0.5)], (0.1, 0.01))

    def loss(self, weights: MeanWeights) -> float:
        """Mean Huber loss of means, averaged over targets with Gaussian noise."""
        left = self.left_out
        mean = left.mean + weights.of(left.total) * (self.predicted - left.mean)
        scale = np.sqrt((left.total + left.known)[:, None] * weights.error)
        squared = (left.block.y - mean) ** 2 / scale
        linear = 2.0 * _HUBER * np.sqrt(squared) - _HUBER**2
        return float(np.mean(self.share[:, None] * np.where(squared < _HUBER**2, squared, linear)))

    def _least_loss(self, j: int, error: float) -> Array:
        """Intercept and slope of the weight of one target."""
        left, one = self.left_out, np.s_[:, j : j + 1]
        left = left._replace(block=left.block._replace(y=left.block.y[one]), mean=left.mean[one])
        rows = StackedRows(left, self.predicted[one])

        def loss(theta: Array) -> float:
            return rows.loss(MeanWeights(theta[:1], theta[1:], np.array([error])))

        return self._minimised(loss, [(-1.0, 0.0), (-1.0, 1.0), (0.0, 0.5)], _OF_WEIGHT)

    def _densest(self, at: Callable[[Any], MeanWeights], starts: list, ridge: tuple) -> MeanWeights:
        """`MeanWeights` of the numbers that have the highest density."""
        end = self._minimised(lambda t: -np.mean(self.share * self.densities(at(t))), starts, ridge)
        return at(end)

    def _minimised(self, loss: Callable[[Array], Any], starts: list, ridge: tuple) -> Array:
        """The best end of searches, with a ridge per row that is larger where rows are few."""
        per_row = max(1.0, 200 / self.row_weight.sum()) * np.array(ridge)
        total = lambda t: loss(t) + np.dot(per_row, t**2)
        runs = [minimize(total, start, method="Nelder-Mead") for start in starts]
        return min(runs, key=lambda run: run.fun).x
