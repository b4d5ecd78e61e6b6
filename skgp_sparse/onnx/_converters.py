"""Converters of both estimators for `skl2onnx`: names, shapes and formulas of the outputs.

The graph of a prediction has kernel matrices between queries and fixed points (`cross`), mean and
variance of a latent process (`PosteriorGraph`), and the normal distribution (`normal_cdf`).
"""

from functools import partial

import numpy as np
from numpy.polynomial import Chebyshev, Polynomial
from scipy.special import erfcx
from skl2onnx import update_registered_converter
from skl2onnx.algebra import onnx_ops
from skl2onnx.common.data_types import guess_proto_type, guess_tensor_type
from skl2onnx.common.shape_calculator import calculate_linear_classifier_output_shapes
from skl2onnx.common.utils_classifier import get_label_classes
from skl2onnx.proto import onnx_proto
from sklearn.gaussian_process import kernels as sk

from skgp_sparse import kernels
from skgp_sparse._estimator import fitted_view
from skgp_sparse.classification import SparseGPClassifier
from skgp_sparse.engine.feature_posterior import ExactPosterior, SparsePosterior
from skgp_sparse.explain.views import ResponseView
from skgp_sparse.ground.linalg import inverse_lower, is_well_conditioned
from skgp_sparse.likelihoods import Probit
from skgp_sparse.regression import SparseGPRegressor


def cross(ops, kernel, X, Z):
    """The kernel matrix (n, m) between the node X (n, d) and the points Z (m, d), without noise.

    A kernel that is the same for all pairs is a number. Distances are differences of one column
    after the other, which lose no digit where two points are close.
    """
    K = _formula(ops, kernel, X, Z)
    if isinstance(K, float):
        return ops.Add(ops.MatMul(X, np.zeros(Z.T.shape)), K)
    return K


def check(kernel, name, noise_only):
    """Raise if a part of the kernel, or only its noise, has no formula here."""
    for part in _leaves(kernel):
        is_known = type(part) in _FORMULAS and getattr(part, "nu", 0.5) in _OF_MATERN
        if type(part) is kernels.HeteroscedasticNoise or not (is_known or noise_only):
            raise NotImplementedError(
                f"A {name} whose kernel has the part {part} cannot be converted to ONNX. "
                f"Use sums and products of {_NAMES}, or predict in Python."
            )


def _leaves(kernel):
    if type(kernel) in (sk.Sum, sk.Product):
        return [*_leaves(kernel.k1), *_leaves(kernel.k2)]
    is_around = type(kernel) in (sk.Exponentiation, kernels.Columns)
    return _leaves(kernel.kernel) if is_around else [kernel]


def _formula(ops, kernel, X, Z):
    """A node (n, m), or a number."""
    return _FORMULAS[type(kernel)](ops, kernel, X, Z)


def _sum(ops, kernel, X, Z):
    one, two = _formula(ops, kernel.k1, X, Z), _formula(ops, kernel.k2, X, Z)
    return one + two if _are_numbers(one, two) else ops.Add(one, two)


def _product(ops, kernel, X, Z):
    one, two = _formula(ops, kernel.k1, X, Z), _formula(ops, kernel.k2, X, Z)
    return one * two if _are_numbers(one, two) else ops.Mul(one, two)


def _power(ops, kernel, X, Z):
    base, exponent = _formula(ops, kernel.kernel, X, Z), float(kernel.exponent)
    return base**exponent if _are_numbers(base) else ops.Pow(base, exponent)


def _columns(ops, kernel, X, Z):
    chosen = kernel.chosen(Z.shape[1])
    return _formula(ops, kernel.kernel, ops.Gather(X, chosen, axis=1), Z[:, chosen])


def _are_numbers(*values):
    return all(isinstance(value, float) for value in values)


def _rbf(ops, kernel, X, Z):
    return ops.Exp(ops.Mul(_squares(ops, X, Z, kernel.length_scale), -0.5))


def _matern_of_roots(degree, ops, kernel, X, Z):
    """``exp(-s) (1 + s + ...)`` with ``s = √(2ν) r``, a polynomial of degree 0, 1 or 2."""
    squares = _squares(ops, X, Z, kernel.length_scale / np.sqrt(2.0 * kernel.nu))
    s = ops.Sqrt(squares)
    decay = ops.Exp(ops.Neg(s))
    if degree == 0:
        return decay
    polynomial = ops.Add(s, 1.0)
    if degree == 2:
        polynomial = ops.Add(polynomial, ops.Div(squares, 3.0))
    return ops.Mul(decay, polynomial)


def _rational_quadratic(ops, kernel, X, Z):
    scale = kernel.length_scale * np.sqrt(2.0 * kernel.alpha)
    return ops.Pow(ops.Add(_squares(ops, X, Z, scale), 1.0), -float(kernel.alpha))


def _exp_sine_squared(ops, kernel, X, Z):
    distance = ops.Sqrt(_squares(ops, X, Z, kernel.periodicity / np.pi))
    sine = ops.Div(ops.Sin(distance), float(kernel.length_scale))
    return ops.Exp(ops.Mul(ops.Mul(sine, sine), -2.0))


def _squares(ops, X, Z, scale):
    """Squared distances (n, m) in units of the length scales."""
    total = None
    for column, (z, unit) in enumerate(zip(Z.T, np.broadcast_to(scale, Z.shape[1]))):
        x = ops.Gather(X, np.array([column]), axis=1)
        offsets = ops.Div(ops.Sub(x, z[None]), float(unit))
        square = ops.Mul(offsets, offsets)
        total = square if total is None else ops.Add(total, square)
    return total


_OF_MATERN = {
    0.5: lambda *given: _matern_of_roots(0, *given),
    1.5: lambda *given: _matern_of_roots(1, *given),
    2.5: lambda *given: _matern_of_roots(2, *given),
    np.inf: _rbf,
}
_FORMULAS = {  # by exact type: a subclass may have another formula
    sk.ConstantKernel: lambda ops, kernel, X, Z: float(kernel.constant_value),
    sk.WhiteKernel: lambda ops, kernel, X, Z: 0.0,
    sk.RBF: _rbf,
    sk.Matern: lambda ops, kernel, X, Z: _OF_MATERN[kernel.nu](ops, kernel, X, Z),
    sk.RationalQuadratic: _rational_quadratic,
    sk.ExpSineSquared: _exp_sine_squared,
    sk.Sum: _sum,
    sk.Product: _product,
    sk.Exponentiation: _power,
    kernels.Columns: _columns,
}
_NAMES = (
    "ConstantKernel, WhiteKernel, RBF, Matern (nu 0.5, 1.5, 2.5 or inf), RationalQuadratic, "
    "ExpSineSquared and Columns"
)


_DEGREE = 14  # of g, which is then off by 2e-10


class Operators:
    """The operators of one version of ONNX: ``ops.Add(a, b)`` is a node.

    Parameters
    ----------
    version : int
        The version of the operator set.
    """

    def __init__(self, version):
        self.version = version

    def __getattr__(self, name):
        return partial(self._node, getattr(onnx_ops, f"Onnx{name}"))

    def _node(self, operator, *inputs, **attributes):
        inputs = [np.array([one]) if isinstance(one, float) else one for one in inputs]
        return operator(*inputs, op_version=self.version, **attributes)


class PosteriorGraph:
    """A process at the queries.

    It has the mean and the variance of a latent process, as nodes of a graph.

        mean = K u,     variance = k** + noise - ‖V‖² + ‖V TBᵀ‖²,     V = K L⁻ᵀ

    with the kernel matrix K between queries and the inducing points, or all rows of an exact
    process, where the last term is absent. The kernels are stationary, so that ``k**`` is a number.
    Random features take the place of V where there are some, and only the last term is left of the
    variance.

    ONNX has no triangular solve. With ``T = L⁻¹``, the product ``K Tᵀ`` loses digits where L is
    ill-conditioned, and a step of refinement, ``V + (K - V Lᵀ) Tᵀ``, gives them back.

    Parameters
    ----------
    ops : Operators
    process : ExactPosterior or SparsePosterior
    X : node of shape (n, d)
    name : str
        That of the estimator, for errors.
    """

    def __init__(self, ops, process, X, name):
        _check(process, name)
        self.ops, self.process = ops, process
        self.X, self.K = X, _raw_features(ops, process.features, X)

    def mean(self):
        """Mean (n, p)."""
        return self.ops.MatMul(self.K, self.process.u)

    def variance(self):
        """Variance (n, 1), that of the noise of the kernel included."""
        features = self.process.features
        place = features.basis.origin[None] if features.complete else features.Z[:1]
        noise = float(np.squeeze(kernels.diagonal(self.process.kernel, place)[1]))
        return self.ops.Add(self.ops.Max(self._latent(), 0.0), noise)

    def _latent(self):
        ops, features = self.ops, self.process.features
        TB = None if self.process.is_exact else self.process.TB
        if features.complete:
            return self._norms(_times_transposed(ops, self.K, TB))
        V = self._whitened(features.L)
        signal = kernels.diagonal(self.process.kernel, features.Z[:1])[0]
        rest = ops.Sub(float(np.squeeze(signal)), self._norms(V))
        return rest if TB is None else ops.Add(rest, self._norms(_times_transposed(ops, V, TB)))

    def _whitened(self, L):
        """V (n, m)."""
        ops, T = self.ops, inverse_lower(L)
        V = _times_transposed(ops, self.K, T)
        if is_well_conditioned(L, T):
            return V
        rest = ops.Sub(self.K, _times_transposed(ops, V, L))
        return ops.Add(V, _times_transposed(ops, rest, T))

    def _norms(self, V):
        """Squared norms (n, 1) of rows."""
        ops = self.ops
        return ops.MatMul(ops.Mul(V, V), np.ones((self.process.features.size, 1)))


def _times_transposed(ops, A, B):
    return ops.MatMul(A, np.ascontiguousarray(B.T))


def _raw_features(ops, features, X):
    """Kernel functions, or cosines and sines (n, m)."""
    if not features.complete:
        return cross(ops, features.kernel, X, features.Z)
    offsets = ops.Sub(X, features.basis.origin[None])
    phase = ops.MatMul(offsets, np.ascontiguousarray(features.frequencies.T))
    cosine = ops.Sin(ops.Add(phase, np.pi / 2))  # runtimes of Python 3.10 have no double cosine
    waves = ops.Concat(cosine, ops.Sin(phase), axis=1)
    return ops.Mul(waves, np.tile(features.amplitudes, 2)[None])


def _check(process, name):
    if type(process) not in (ExactPosterior, SparsePosterior):
        raise NotImplementedError(
            f"A {name} whose prediction is a {type(process).__name__} cannot be converted to ONNX. "
            "Set posterior to 'exact', 'fourier' or 'inducing' (without parameters), metric to "
            "'ard' and mean to None, and fit again."
        )
    check(process.kernel, name, process.features.complete)


def normal_cdf(ops, x):
    """``Φ(x)`` of a node (n, 1).

    It is ``Φ(x) = ½ t g(t) exp(-x²/2)`` for negative x, with ``t = 1 / (1 - x/√8)``, where g is
    nearly a polynomial. So the probability of an unlikely class has as many digits as that of any
    other.
    """
    t = ops.Div(1.0, ops.Add(ops.Mul(ops.Abs(x), 8.0**-0.5), 1.0))
    g = Chebyshev.interpolate(lambda t: erfcx(2.0 / t - 2.0) / t, _DEGREE, domain=[0.0, 1.0])
    series = 0.5 * g.convert(kind=Polynomial, domain=[-1, 1], window=[-1, 1]).coef
    tail = ops.Mul(t, float(series[-1]))
    for coefficient in series[-2::-1]:  # Horner
        tail = ops.Mul(t, ops.Add(tail, float(coefficient)))
    tail = ops.Mul(tail, ops.Exp(ops.Mul(ops.Mul(x, x), -0.5)))
    return ops.Where(ops.Greater(x, 0.0), ops.Sub(1.0, tail), tail)


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
