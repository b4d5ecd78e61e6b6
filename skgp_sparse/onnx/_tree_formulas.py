"""Boosted trees as one node of a graph, in double precision."""

import numpy as np
from onnx.numpy_helper import from_array
from skl2onnx.algebra.onnx_ops import OnnxTreeEnsembleRegressor_3
from skl2onnx.proto import onnx_proto

from skgp_sparse._ground.sklearn_compat import boosted_trees

_VERSION = 3  # of the operator, the first one with double precision


def raw_predictions(ops, estimator, X):
    """Raw predictions (n, n_outputs) of histogram gradient boosting: before its link.

    Parameters
    ----------
    ops : Operators
    estimator : HistGradientBoostingRegressor or HistGradientBoostingClassifier
        Without categories.
    X : node of shape (n, d)
    """
    trees, baseline = boosted_trees(estimator)
    nodes = np.concatenate([one for _, one in trees])
    sizes = [len(one) for _, one in trees]
    tree, place = np.repeat(np.arange(len(trees)), sizes), np.concatenate([*map(np.arange, sizes)])
    output = np.repeat([k for k, _ in trees], sizes)
    leaf, splits = nodes["is_leaf"].astype(bool), ~nodes["is_leaf"].astype(bool)
    node = OnnxTreeEnsembleRegressor_3(
        X,
        nodes_treeids=_ints(tree),
        nodes_nodeids=_ints(place),
        nodes_featureids=_ints(np.where(splits, nodes["feature_idx"], 0)),
        nodes_modes=["LEAF" if is_leaf else "BRANCH_LEQ" for is_leaf in leaf],
        nodes_values_as_tensor=from_array(np.where(splits, nodes["num_threshold"], 0.0)),
        nodes_truenodeids=_ints(np.where(splits, nodes["left"], 0)),
        nodes_falsenodeids=_ints(np.where(splits, nodes["right"], 0)),
        nodes_missing_value_tracks_true=_ints(np.where(splits, nodes["missing_go_to_left"], 0)),
        target_treeids=_ints(tree[leaf]),
        target_nodeids=_ints(place[leaf]),
        target_ids=_ints(output[leaf]),
        target_weights_as_tensor=from_array(nodes["value"][leaf].astype(np.float64)),
        base_values_as_tensor=from_array(baseline.astype(np.float64)),
        n_targets=len(baseline),
        op_version=_VERSION,
    )
    return ops.Cast(node, to=onnx_proto.TensorProto.DOUBLE)


def _ints(values):
    return [int(one) for one in values]
