"""Weighted means of a process and of another prediction, with weights from rows that are left out.

Numbers have the weighted mean of latent values that `PosteriorWithMean` describes. Labels have

    p(k | x) ∝ g_k(x)^a m_k(x)^c exp(b_k),

with probabilities g of the processes and m of another classifier: without the latter, this is a
temperature 1/a and a bias of every class, a calibration (Guo et al. 2017; Kull et al. 2019).
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import softmax

from skgp_sparse._engine.data.target_scaler import TargetScaler
from skgp_sparse._engine.predictions.posterior import LeftOut, Posterior
from skgp_sparse._engine.predictions.posterior_with_mean import PosteriorWithMean
from skgp_sparse._ground.typing import Array
from skgp_sparse.parameters.mean_functions import LEAST_PROBABILITY, MeanFunction

_RIDGE = 5.0  # nats that a change of a weight by one has to gain
_GRID = 21  # weights that are compared where a likelihood has no closed form


class WeightedMean(NamedTuple):
    """Another prediction, and its weight beside a process.

    Parameters
    ----------
    function : MeanFunction
    units : TargetScaler
        Of the process.
    level : float
        Constant that a likelihood adds to latent values.
    weight : ndarray of shape (p,)
        Weight of the prediction.
    spread : float
        Factor of standard deviations of the process.
    """

    function: MeanFunction
    units: TargetScaler
    level: float
    weight: Array
    spread: float

    def __call__(self, X: Array) -> Array:
        """Predictions (n, p) in the units of the process."""
        return self.standardised(self.function.latent(X))

    def standardised(self, latent: Array) -> Array:
        """Standardise latent values (n, p) as the process does."""
        return self.units.forward(latent) - self.level

    def of(self, process: Posterior) -> PosteriorWithMean:
        """The weighted mean of a process and the prediction."""
        return PosteriorWithMean(process, self, self.weight, self.spread, self.function.is_flat)


class LeftOutMean(NamedTuple):
    """Predictions (n, q) of the rows of a fit by others without them, and their weights."""

    predictions: Array
    weight: Array | None = None
    spread: float = 1.0

    def beside(self, left: LeftOut, chosen: Array) -> LeftOut:
        """`LeftOut` of the weighted mean, from that of the process."""
        if self.weight is None:
            return left
        mean = (1.0 - self.weight) * left.mean + self.weight * self.predictions[chosen]
        return LeftOut(mean, self.spread**2 * left.variance)


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
        if self.weight:
            logits = logits + self.weight * of_all_classes(latent)
        return softmax(logits, axis=1)


def centred_logs(probabilities: Array) -> Array:
    """Logarithms of probabilities (n, n_classes) that sum to zero in every row."""
    logs = np.log(np.maximum(probabilities, LEAST_PROBABILITY))
    return logs - logs.mean(axis=1, keepdims=True)


def of_all_classes(latent: Array) -> Array:
    """Latent values of all classes, from those of two classes in one column."""
    return np.hstack([-0.5 * latent, 0.5 * latent]) if latent.shape[1] == 1 else latent


def calibrated(probabilities: Array, labels: Array, weight: Array, function=None, latent=None):
    """The `Calibration` with the least log loss on rows that are left out.

    Parameters
    ----------
    probabilities : ndarray of shape (n, n_classes)
    labels : ndarray of shape (n,)
        Indices of classes.
    weight : ndarray of shape (n,)
        Weights of rows.
    function : MeanFunction or None
        It is part of the result where it has a weight.
    latent : ndarray of shape (n, q) or None
        Its predictions of these rows.
    """
    logs = [centred_logs(probabilities)]
    if latent is not None:
        logs.append(of_all_classes(latent))
    n_scales, target = len(logs), np.eye(probabilities.shape[1])[labels]
    start = np.zeros(n_scales + target.shape[1])
    start[0] = 1.0

    def loss(theta):
        logits = np.tensordot(theta[:n_scales], logs, axes=1) + theta[n_scales:]
        p = softmax(logits, axis=1)
        of_labels = np.maximum(np.sum(p * target, axis=1), np.finfo(float).tiny)
        wrong = weight[:, None] * (p - target)
        slope = [np.sum(wrong * one) for one in logs]
        change = theta - start
        value = _RIDGE * np.sum(change**2) - np.sum(weight * np.log(of_labels))
        return value, np.append(slope, wrong.sum(axis=0)) + 2.0 * _RIDGE * change

    limits = [(0.0, None)] * n_scales + [(None, None)] * target.shape[1]
    theta = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=limits).x
    share = float(theta[1]) if n_scales == 2 else 0.0
    function = function if share else None
    return Calibration(float(theta[0]), theta[n_scales:], share, function)
