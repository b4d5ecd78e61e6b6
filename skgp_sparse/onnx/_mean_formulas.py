"""A mean beside the process as nodes of a graph: weighted means and calibrated probabilities."""

import numpy as np
from skl2onnx.algebra.onnx_operator import OnnxSubEstimator
from skl2onnx.proto import onnx_proto

from skgp_sparse._engine.predictions.posterior_with_mean import PosteriorWithMean
from skgp_sparse.onnx._process_formulas import PosteriorGraph
from skgp_sparse.onnx._tree_formulas import raw_predictions
from skgp_sparse.parameters.mean_functions import LEAST_PROBABILITY


def moments(ops, process, X, name):
    """Mean (n, p) and variance (n, 1) of a process at queries; the noise is part of the latter."""
    if type(process) is not PosteriorWithMean:
        graph = PosteriorGraph(ops, process, X, name)
        return graph.mean(), graph.variance
    graph = PosteriorGraph(ops, process.posterior, X, name)
    own, other = 1.0 - process.weight, process.predict
    predicted = _standardised(ops, other, _latent(ops, other.function, X))
    mean = ops.Add(ops.Mul(graph.mean(), own), ops.Mul(predicted, process.weight))
    return mean, lambda: ops.Mul(graph.variance(), np.array([process.spread**2]))


def calibrated(ops, calibration, probabilities, X, n_classes):
    """Probabilities (n, n_classes) after a `Calibration`."""
    logits = ops.Mul(_centred_logs(ops, probabilities, n_classes), np.array([calibration.scale]))
    logits = ops.Add(logits, calibration.bias[None])
    if calibration.weight:
        others = _logits(ops, calibration.function.estimators[0], X, n_classes)
        logits = ops.Add(logits, ops.Mul(others, np.array([calibration.weight])))
    return ops.Softmax(logits, axis=1)


def _centred_logs(ops, probabilities, n_classes):
    logs = ops.Log(ops.Max(probabilities, LEAST_PROBABILITY))
    mean = ops.MatMul(logs, np.full((n_classes, 1), 1.0 / n_classes))
    return ops.Sub(logs, mean)


def _logits(ops, estimator, X, n_classes):
    """Centred logarithms of the probabilities (n, n_classes) of a classifier."""
    if not _is_boosting(estimator):
        return _centred_logs(ops, _sub_estimator(ops, estimator, 1), n_classes)
    raw = raw_predictions(ops, estimator, X)
    logits = ops.MatMul(raw, np.array([[-0.5, 0.5]])) if n_classes == 2 else raw
    return _centred_logs(ops, ops.Softmax(logits, axis=1), n_classes)


def _is_boosting(estimator):
    return type(estimator).__name__.startswith("HistGradientBoosting")


def _latent(ops, function, X):
    """Predictions (n, p) of the estimators of a mean, or their logarithms."""
    if all(map(_is_boosting, function.estimators)):
        columns = [raw_predictions(ops, one, X) for one in function.estimators]
        return columns[0] if len(columns) == 1 else ops.Concat(*columns, axis=1)
    columns = [ops.Reshape(_sub_estimator(ops, one, 0), _COLUMN) for one in function.estimators]
    values = columns[0] if len(columns) == 1 else ops.Concat(*columns, axis=1)
    return values if function.least is None else ops.Log(ops.Max(values, float(function.least)))


def _standardised(ops, other, latent):
    units = other.units
    if not np.all(units.scale):
        latent = ops.MatMul(latent, np.eye(len(units.scale))[:, units.scale > 0])
    varies = units.scale > 0
    centred = ops.Sub(latent, units.mean[varies] + other.level * units.scale[varies])
    return ops.Div(centred, units.scale[varies])


def _sub_estimator(ops, estimator, output):
    """An output of another estimator, in double precision."""
    options = {"zipmap": False} if output else None
    node = OnnxSubEstimator(estimator, ops.given, op_version=ops.version, options=options)
    return ops.Cast(node[output], to=onnx_proto.TensorProto.DOUBLE)


_COLUMN = np.array([-1, 1])
