"""Converters of both estimators for `skl2onnx`: names, shapes and formulas of the outputs.

The graph of a prediction has kernel matrices between queries and fixed points, mean and variance of
a latent process (`latent_moments`), and the normal distribution (`normal_cdf`).
"""

import operator as of_numbers
from functools import partial
from typing import Any, NoReturn

import numpy as np
from numpy.polynomial import Chebyshev, Polynomial
from scipy.special import erfcx
from skl2onnx import update_registered_converter
from skl2onnx.algebra import onnx_ops
from skl2onnx.algebra.onnx_operator import OnnxOperator as Node
from skl2onnx.common._container import ModelComponentContainer as Container
from skl2onnx.common._topology import Operator, Scope, Variable
from skl2onnx.common.data_types import guess_proto_type, guess_tensor_type
from skl2onnx.common.shape_calculator import calculate_linear_classifier_output_shapes
from skl2onnx.common.utils_classifier import get_label_classes
from skl2onnx.proto import onnx_proto
from sklearn.gaussian_process import kernels as sk

from skgp_sparse import kernels
from skgp_sparse._estimator import fitted_view
from skgp_sparse.classification import SparseGPClassifier
from skgp_sparse.engine.basis import Harmonics, InducingFeatures
from skgp_sparse.engine.feature_posterior import ExactPosterior, SparsePosterior
from skgp_sparse.explain.views import ResponseView
from skgp_sparse.ground.linalg import inverse_lower, is_well_conditioned
from skgp_sparse.ground.validation import Array, Kernel
from skgp_sparse.likelihoods import Probit
from skgp_sparse.regression import SparseGPRegressor

_OF_NUMBERS = {"Add": of_numbers.add, "Mul": of_numbers.mul, "Pow": of_numbers.pow}


class Operators:
    """The operators of a version of ONNX: ``ops.Add(a, b)`` is a node, or a float of two floats."""

    def __init__(self, version: int) -> None:
        self.version = version

    def __getattr__(self, name: str) -> Any:
        return partial(self._node, name)

    def _node(self, name: str, *inputs: Node | Array | float, **attributes: object) -> Any:
        if all(isinstance(one, float) for one in inputs):
            return _OF_NUMBERS[name](*inputs)
        arrays = [np.array([one]) if isinstance(one, float) else one for one in inputs]
        return getattr(onnx_ops, f"Onnx{name}")(*arrays, op_version=self.version, **attributes)


def _formula(ops: Operators, kernel: Kernel, X: Node, Z: Array) -> Node | float:
    """The kernel between X (n, d) and Z (m, d), without noise: a node (n, m), or a number."""
    if type(kernel) not in _FORMULAS or getattr(kernel, "nu", 0.5) not in _OF_MATERN:
        _refuse(f"kernel with the part {kernel}", f"Use sums and products of {_NAMES}")
    return _FORMULAS[type(kernel)](ops, kernel, X, Z)


def _refuse(what: str, remedy: str) -> NoReturn:
    raise NotImplementedError(
        f"A {what} cannot be converted to ONNX. {remedy}, and fit again, or predict in Python."
    )


def _of_pair(name: str, ops: Operators, kernel: Kernel, X: Node, Z: Array) -> Node | float:
    return getattr(ops, name)(_formula(ops, kernel.k1, X, Z), _formula(ops, kernel.k2, X, Z))


def _power(ops: Operators, kernel: Kernel, X: Node, Z: Array) -> Node | float:
    return ops.Pow(_formula(ops, kernel.kernel, X, Z), float(kernel.exponent))


def _columns(ops: Operators, kernel: Kernel, X: Node, Z: Array) -> Node | float:
    chosen = kernel.chosen(Z.shape[1])
    return _formula(ops, kernel.kernel, ops.Gather(X, chosen, axis=1), Z[:, chosen])


def _rbf(ops: Operators, kernel: Kernel, X: Node, Z: Array) -> Node:
    return ops.Exp(ops.Mul(_squares(ops, X, Z, kernel.length_scale), -0.5))


def _matern(ops: Operators, kernel: Kernel, X: Node, Z: Array) -> Node:
    """``exp(-s) (1 + s + ...)`` with ``s = √(2ν) r``, a polynomial of degree 0, 1 or 2."""
    if kernel.nu == np.inf:
        return _rbf(ops, kernel, X, Z)
    squares = _squares(ops, X, Z, kernel.length_scale / np.sqrt(2.0 * kernel.nu))
    s = ops.Sqrt(squares)
    decay = ops.Exp(ops.Neg(s))
    if kernel.nu == 0.5:
        return decay
    polynomial = ops.Add(s, 1.0)
    if kernel.nu == 2.5:
        polynomial = ops.Add(polynomial, ops.Div(squares, 3.0))
    return ops.Mul(decay, polynomial)


def _rational_quadratic(ops: Operators, kernel: Kernel, X: Node, Z: Array) -> Node:
    scale = kernel.length_scale * np.sqrt(2.0 * kernel.alpha)
    return ops.Pow(ops.Add(_squares(ops, X, Z, scale), 1.0), -float(kernel.alpha))


def _exp_sine_squared(ops: Operators, kernel: Kernel, X: Node, Z: Array) -> Node:
    distance = ops.Sqrt(_squares(ops, X, Z, kernel.periodicity / np.pi))
    sine = ops.Div(ops.Sin(distance), float(kernel.length_scale))
    return ops.Exp(ops.Mul(ops.Mul(sine, sine), -2.0))


def _squares(ops: Operators, X: Node, Z: Array, scale: Array | float) -> Node:
    """Squared distances (n, m) in units of the length scales."""
    total = 0.0  # by column: differences lose no digit where two points are close
    for column, (z, unit) in enumerate(zip(Z.T, np.broadcast_to(scale, Z.shape[1]))):
        offsets = ops.Div(ops.Sub(ops.Gather(X, np.array([column]), axis=1), z[None]), float(unit))
        square = ops.Mul(offsets, offsets)
        total = ops.Add(total, square) if column else square
    return total


_OF_MATERN = (0.5, 1.5, 2.5, np.inf)
_FORMULAS: dict[type, Any] = {  # by exact type: a subclass may have another formula
    sk.ConstantKernel: lambda ops, kernel, X, Z: float(kernel.constant_value),
    sk.WhiteKernel: lambda ops, kernel, X, Z: 0.0,
    sk.RBF: _rbf,
    sk.Matern: _matern,
    sk.RationalQuadratic: _rational_quadratic,
    sk.ExpSineSquared: _exp_sine_squared,
    sk.Sum: partial(_of_pair, "Add"),
    sk.Product: partial(_of_pair, "Mul"),
    sk.Exponentiation: _power,
    kernels.Columns: _columns,
}
_NAMES = (
    "ConstantKernel, WhiteKernel, RBF, Matern (nu 0.5, 1.5, 2.5 or inf), RationalQuadratic, "
    "ExpSineSquared and Columns"
)
_IN_WORDS = {"PosteriorWithMean": "a mean", "DecoupledPosterior": "n_mean of InducingPoints"}
_IN_WORDS["TightPosterior"] = "tight_variance of InducingPoints"
_DEGREE = 14  # of g, which is then off by 2e-10


def latent_moments(ops: Operators, process: Any, X: Node, name: str) -> tuple[Node, Node]:
    """Mean (n, p) of a latent process at the queries, and variance (n, 1) with the kernel's noise.

        mean = K u,     variance = k** + noise - ‖V‖² + ‖V TBᵀ‖²,     V = K L⁻ᵀ

    with the kernel matrix K between queries and the inducing points, or all rows of an exact
    process, where the last term is absent. The kernels are stationary, so that ``k**`` is a number.
    Random features take the place of V where there are some, and only the last term is left of the
    variance. `name` is that of the estimator, for errors.
    """
    if type(process) not in (ExactPosterior, SparsePosterior):
        what = _IN_WORDS.get(type(process).__name__, f"posterior_={process.name!r}")
        _refuse(
            f"{name} with {what}",
            "Set posterior to 'exact', 'fourier' or 'inducing' (without parameters), metric to "
            "'ard' and mean to None",
        )
    for part in kernels.parts(process.kernel, kernels.HeteroscedasticNoise):
        _refuse(f"{name} with the kernel part {part}", "Use WhiteKernel")
    features, is_exact = process.features, process.is_exact
    K = _raw_features(ops, features, X)
    place = features.basis.origin[None] if features.complete else features.Z[:1]
    signal, noise = (float(np.squeeze(one)) for one in kernels.diagonal(process.kernel, place)[:2])

    def norms(V: Node) -> Node:
        """Squared norms (n, 1) of rows."""
        return ops.MatMul(ops.Mul(V, V), np.ones((features.size, 1)))

    if features.complete:
        variance = norms(_times_transposed(ops, K, process.TB))
    else:
        V = _whitened(ops, K, features.L)
        variance = ops.Sub(signal, norms(V))
        if not is_exact:
            variance = ops.Add(variance, norms(_times_transposed(ops, V, process.TB)))
    return ops.MatMul(K, process.u), ops.Add(ops.Max(variance, 0.0), noise)


def _whitened(ops: Operators, K: Node, L: Array) -> Node:
    """``V = K L⁻ᵀ`` (n, m), refined as ``V + (K - V Lᵀ) Tᵀ`` where L is ill-conditioned."""
    T = inverse_lower(L)  # ONNX has no triangular solve
    V = _times_transposed(ops, K, T)
    if is_well_conditioned(L, T):
        return V
    return ops.Add(V, _times_transposed(ops, ops.Sub(K, _times_transposed(ops, V, L)), T))


def _times_transposed(ops: Operators, A: Node, B: Array) -> Node:
    return ops.MatMul(A, np.ascontiguousarray(B.T))


def _raw_features(ops: Operators, features: InducingFeatures | Harmonics, X: Node) -> Node:
    """Kernel functions, or cosines and sines (n, m)."""
    if isinstance(features, InducingFeatures):
        K = _formula(ops, features.kernel, X, features.Z)
        if isinstance(K, float):
            return ops.Add(ops.MatMul(X, np.zeros(features.Z.T.shape)), K)
        return K
    phase = _times_transposed(ops, ops.Sub(X, features.basis.origin[None]), features.frequencies)
    cosine = ops.Sin(ops.Add(phase, np.pi / 2))  # runtimes of Python 3.10 have no double cosine
    amplitudes = np.tile(features.amplitudes, 2)[None]
    return ops.Mul(ops.Concat(cosine, ops.Sin(phase), axis=1), amplitudes)


def normal_cdf(ops: Operators, x: Node) -> Node:
    """``Φ(x)`` of a node (n, 1): for x < 0, ``½ t g(t) exp(-x²/2)`` with ``t = 1/(1 - x/√8)``."""
    # g is nearly a polynomial, and the probability of an unlikely class has all its digits
    t = ops.Div(1.0, ops.Add(ops.Mul(ops.Abs(x), 8.0**-0.5), 1.0))
    g = Chebyshev.interpolate(lambda t: erfcx(2.0 / t - 2.0) / t, _DEGREE, domain=[0.0, 1.0])
    series = g.convert(kind=Polynomial, domain=[-1, 1], window=[-1, 1]).coef
    tail = ops.Mul(t, float(series[-1]) / 2)
    for coefficient in series[-2::-1]:  # Horner
        tail = ops.Mul(t, ops.Add(tail, float(coefficient) / 2))
    tail = ops.Mul(tail, ops.Exp(ops.Mul(ops.Mul(x, x), -0.5)))
    return ops.Where(ops.Greater(x, 0.0), ops.Sub(1.0, tail), tail)


def register() -> None:
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
    switch = [False, True]
    update_registered_converter(
        SparseGPClassifier,
        "SkgpSparseGPClassifier",
        calculate_linear_classifier_output_shapes,
        _convert_classifier,
        options={"zipmap": [*switch, "columns"], "nocl": switch, "output_class_labels": switch},
    )


def _outputs_of_regression(
    scope: Scope, model: SparseGPRegressor, inputs: list[Variable], custom_parsers: object = None
) -> list[Variable]:
    """The operator's outputs, named as those of `GaussianProcessRegressor`."""
    operator = scope.declare_local_operator("SkgpSparseGPRegressor", model)
    operator.inputs = inputs
    wants_std = scope.get_options(model, {"return_std": False})["return_std"]
    for name in ("GPmean", "GPcovstd")[: 1 + wants_std]:
        variable = scope.declare_local_variable(name, guess_tensor_type(inputs[0].type))
        operator.outputs.append(variable)
    return operator.outputs


def _shapes_of_regression(operator: Operator) -> None:
    view = fitted_view(operator.raw_operator)
    n, n_targets = operator.inputs[0].get_first_dimension(), len(view.scaler.scale)
    shapes = [n, n_targets], [n, n_targets] if n_targets > 1 else [n]
    for output, shape in zip(operator.outputs, shapes):
        output.type.shape = shape


def _convert_regressor(scope: Scope, operator: Operator, container: Container) -> None:
    """Write mean (n, p) and standard deviation, (n,) or (n, p), in units of y."""
    view, name = fitted_view(operator.raw_operator), type(operator.raw_operator).__name__
    ops, X = _start(operator, container)
    if isinstance(view, ResponseView):
        likelihood = type(view.likelihood).__name__
        _refuse(f"{name} with the likelihood {likelihood}", "Set likelihood='gaussian'")
    mean, variance = latent_moments(ops, view.process, X, name)
    scaler = view.scaler
    if not np.all(scaler.scale):  # constant targets, of which the process says nothing
        mean = ops.MatMul(mean, np.eye(len(scaler.scale))[scaler.scale > 0])
    std = ops.Mul(ops.Sqrt(variance), scaler.scale)
    std = std if len(scaler.scale) > 1 else ops.Reshape(std, np.array([-1]))
    mean = ops.Add(ops.Mul(mean, scaler.scale), scaler.mean)
    for output, node in zip(operator.outputs, (mean, std)):
        _finish(ops, node, output, scope, container)


def _convert_classifier(scope: Scope, operator: Operator, container: Container) -> None:
    """Write labels (n,) and probabilities (n, n_classes)."""
    model, (label, probability) = operator.raw_operator, operator.outputs
    view, name = fitted_view(model), type(model).__name__
    ops, X = _start(operator, container)
    if view.n_classes > 2 and view.multi_class != "one_vs_rest":
        _refuse(f"{name} with multi_class={view.multi_class!r}", "Set multi_class='one_vs_rest'")
    if view.calibration is not None:
        _refuse(f"{name} with a mean or a calibration", "Set mean and calibration to None")
    columns = []
    for latent, likelihood in zip(view.latent, view.likelihoods):
        if type(likelihood) is not Probit:
            given = f"the likelihood {type(likelihood).__name__}"
            _refuse(f"{name} with {given}", "Set likelihood='probit'")
        mean, variance = latent_moments(ops, latent.process, X, name)
        columns.append(normal_cdf(ops, ops.Div(mean, ops.Sqrt(ops.Add(variance, 1.0)))))
    if view.n_classes == 2:
        best = ops.Cast(ops.Greater(mean, 0.0), to=onnx_proto.TensorProto.INT64)
        best = ops.Reshape(best, np.array([-1]))
        probabilities = ops.Concat(ops.Sub(1.0, columns[0]), columns[0], axis=1)
    else:
        positive = ops.Concat(*columns, axis=1)
        total = ops.MatMul(positive, np.ones((view.n_classes, 1)))
        share = ops.Div(positive, ops.Max(total, np.finfo(float).tiny))
        nothing = ops.Not(ops.Greater(total, 0.0))
        probabilities = ops.Where(nothing, np.array([[1.0 / view.n_classes]]), share)
        best = ops.ArgMax(positive, axis=1, keepdims=0)
    if view.class_weight is not None:
        weighted = ops.Mul(probabilities, view.class_weight)
        probabilities = ops.Div(weighted, ops.MatMul(weighted, np.ones((view.n_classes, 1))))
        best = ops.ArgMax(probabilities, axis=1, keepdims=0)
    labels = np.asarray(get_label_classes(scope, model))
    classes = labels.astype(str if labels.dtype.kind in "USO" else np.int64)
    ops.Gather(classes, best, output_names=[label]).add_to(scope, container)
    _finish(ops, probabilities, probability, scope, container)


def _start(operator: Operator, container: Container) -> tuple[Operators, Node]:
    """The operators, and the queries in double precision."""
    ops = Operators(container.target_opset)
    return ops, ops.Cast(operator.inputs[0], to=onnx_proto.TensorProto.DOUBLE)


def _finish(ops: Operators, node: Node, output: Variable, *place: Scope | Container) -> None:
    """Write a node, in the type of the output, to a container of a scope."""
    ops.Cast(node, to=guess_proto_type(output.type), output_names=[output]).add_to(*place)
