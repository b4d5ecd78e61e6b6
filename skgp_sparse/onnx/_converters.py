"""Converters of both estimators for `skl2onnx`: names, shapes and formulas of the outputs."""

import numpy as np
from skl2onnx import update_registered_converter
from skl2onnx.common.data_types import guess_proto_type, guess_tensor_type
from skl2onnx.common.shape_calculator import calculate_linear_classifier_output_shapes
from skl2onnx.common.utils_classifier import get_label_classes
from skl2onnx.proto import onnx_proto

from skgp_sparse._estimator import fitted_view
from skgp_sparse.classification import SparseGPClassifier
from skgp_sparse.explain.views import ResponseView
from skgp_sparse.likelihoods import Probit
from skgp_sparse.onnx._process_formulas import Operators, PosteriorGraph, normal_cdf
from skgp_sparse.regression import SparseGPRegressor


def register():
    """Tell `skl2onnx` of both estimators, which ``import skgp_sparse.onnx`` does.

    A regressor becomes a model with the outputs ``GPmean``, of shape (n, n_targets), and with the
    option ``return_std`` also ``GPcovstd``, the standard deviations of new observations, as that of
    scikit-learn's `GaussianProcessRegressor`. A classifier has the outputs and options
    (``zipmap``, ``nocl``, ``output_class_labels``) of scikit-learn's classifiers. Formulas are
    computed in double precision; results have the type of X. With X in double precision,
    classifiers need ``zipmap=False``, because ONNX has no dictionaries of double precision.

    An estimator that has no formulas in ONNX raises `NotImplementedError` when it is converted.
    There are formulas for posteriors that are exact, given inducing points (without parameters) or
    random features, for sums, products and powers of stationary kernels, for Gaussian noise of one
    variance, and for the probit probabilities of two classes or, with one against the rest, of
    several, all with ``mean=None`` and ``calibration=None``.

    Examples
    --------
    >>> import numpy as np
    >>> import onnxruntime
    >>> from skl2onnx import to_onnx
    >>> import skgp_sparse.onnx
    >>> from skgp_sparse import SparseGPRegressor
    >>> rng = np.random.RandomState(0)
    >>> X = rng.uniform(-3, 3, size=(300, 1))
    >>> y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=300)
    >>> model = SparseGPRegressor(n_inducing=20, random_state=0).fit(X, y)
    >>> proto = to_onnx(model, X[:1], options={SparseGPRegressor: {"return_std": True}})
    >>> session = onnxruntime.InferenceSession(proto.SerializeToString())
    >>> mean, std = session.run(None, {"X": X})
    >>> bool(np.allclose(mean[:, 0], model.predict(X)))
    True
    """
    update_registered_converter(
        SparseGPRegressor,
        "SkgpSparseGPRegressor",
        _shapes_of_regression,
        _convert_regressor,
        parser=_outputs_of_regression,
        options={"return_std": [False, True]},
    )
    update_registered_converter(
        SparseGPClassifier,
        "SkgpSparseGPClassifier",
        calculate_linear_classifier_output_shapes,
        _convert_classifier,
        options={
            "zipmap": [True, False, "columns"],
            "nocl": [False, True],
            "output_class_labels": [False, True],
        },
    )


def _outputs_of_regression(scope, model, inputs, custom_parsers=None):
    """The operator's outputs, named as those of `GaussianProcessRegressor`."""
    operator = scope.declare_local_operator("SkgpSparseGPRegressor", model)
    operator.inputs = inputs
    wants_std = scope.get_options(model, {"return_std": False})["return_std"]
    for name in ("GPmean", "GPcovstd")[: 1 + wants_std]:
        variable = scope.declare_local_variable(name, guess_tensor_type(inputs[0].type))
        operator.outputs.append(variable)
    return operator.outputs


def _shapes_of_regression(operator):
    n, n_targets = operator.inputs[0].get_first_dimension(), len(_scale(operator.raw_operator))
    shapes = [n, n_targets], [n, n_targets] if n_targets > 1 else [n]
    for output, shape in zip(operator.outputs, shapes):
        output.type.shape = shape


def _scale(model):
    return fitted_view(model).units.scale


def _convert_regressor(scope, operator, container):
    model, outputs = operator.raw_operator, operator.outputs
    ops, X = _start(operator, container)
    for output, node in zip(outputs, _moments(ops, X, model, len(outputs) > 1)):
        _finish(ops, node, output, scope, container)


def _moments(ops, X, model, wants_std):
    """Mean (n, p) and, if wanted, standard deviation, (n,) or (n, p), in units of y."""
    view, name = fitted_view(model), type(model).__name__
    if isinstance(view, ResponseView):
        given = f"the likelihood {type(view.likelihood).__name__}"
        _refuse(name, given, "likelihood='gaussian'")
    graph = PosteriorGraph(ops, view.process, X, name)
    mean = graph.mean()
    if not np.all(view.units.scale):  # constant targets, of which the process says nothing
        mean = ops.MatMul(mean, np.eye(len(view.units.scale))[view.units.scale > 0])
    yield ops.Add(ops.Mul(mean, view.units.scale), view.units.mean)
    if wants_std:
        std = ops.Mul(ops.Sqrt(graph.variance()), view.units.scale)
        yield std if len(view.units.scale) > 1 else ops.Reshape(std, np.array([-1]))


def _convert_classifier(scope, operator, container):
    model, (label, probability) = operator.raw_operator, operator.outputs
    ops, X = _start(operator, container)
    best, probabilities = _decide(ops, X, model)
    classes = _labels(get_label_classes(scope, model))
    ops.Gather(classes, best, output_names=[label]).add_to(scope, container)
    _finish(ops, probabilities, probability, scope, container)


def _decide(ops, X, model):
    """Index of the class (n,) and probabilities (n, n_classes)."""
    view, name = fitted_view(model), type(model).__name__
    if view.n_classes > 2 and view.multi_class != "one_vs_rest":
        given = f"multi_class={view.multi_class!r}"
        _refuse(name, given, "multi_class='one_vs_rest'")
    if view.calibration is not None:
        _refuse(name, "a mean or a calibration", "mean and calibration to None")
    columns = []
    for latent, likelihood in zip(view.latent, view.likelihoods):
        if type(likelihood) is not Probit:
            given = f"the likelihood {type(likelihood).__name__}"
            _refuse(name, given, "likelihood='probit'")
        graph = PosteriorGraph(ops, latent.process, X, name)
        mean, variance = graph.mean(), graph.variance()
        columns.append(normal_cdf(ops, ops.Div(mean, ops.Sqrt(ops.Add(variance, 1.0)))))
    if view.n_classes == 2:
        (positive,) = columns
        best = ops.Cast(ops.Greater(mean, 0.0), to=onnx_proto.TensorProto.INT64)
        probabilities = ops.Concat(ops.Sub(1.0, positive), positive, axis=1)
        return ops.Reshape(best, np.array([-1])), probabilities
    positive = ops.Concat(*columns, axis=1)
    total = ops.MatMul(positive, np.ones((view.n_classes, 1)))
    share = ops.Div(positive, ops.Max(total, np.finfo(float).tiny))
    nothing = ops.Not(ops.Greater(total, 0.0))
    probabilities = ops.Where(nothing, np.array([[1.0 / view.n_classes]]), share)
    return ops.ArgMax(positive, axis=1, keepdims=0), probabilities


def _refuse(name, given, remedy):
    raise NotImplementedError(
        f"A {name} with {given} cannot be converted to ONNX. Set {remedy}, and fit again, or "
        "predict in Python."
    )


def _labels(classes):
    """The labels as constants of ONNX: strings or whole numbers."""
    classes = np.asarray(classes)
    return classes.astype(str if classes.dtype.kind in "USO" else np.int64)


def _start(operator, container):
    """The operators, and the queries in double precision."""
    ops = Operators(container.target_opset)
    return ops, ops.Cast(operator.inputs[0], to=onnx_proto.TensorProto.DOUBLE)


def _finish(ops, node, output, scope, container):
    """Write a node, in the type of the output."""
    to = guess_proto_type(output.type)
    ops.Cast(node, to=to, output_names=[output]).add_to(scope, container)
