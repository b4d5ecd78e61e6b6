"""Models of ONNX predict what the estimators predict, or are refused by name."""

import numpy as np
import pytest
from scipy.special import ndtr
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import kernels as sk
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgp_sparse import SparseGPClassifier, SparseGPRegressor
from skgp_sparse.kernels import Columns, Sphere
from skgp_sparse.likelihoods import Probit
from skgp_sparse.posteriors import FourierFeatures, InducingPoints, IterativeExact, Neighbors

skl2onnx = pytest.importorskip("skl2onnx")
onnxruntime = pytest.importorskip("onnxruntime")
_process_formulas = pytest.importorskip("skgp_sparse.onnx._converters")

RNG = np.random.RandomState(0)
X, QUERIES = RNG.uniform(-3, 3, (90, 2)), RNG.uniform(-4, 4, (40, 2))
F = np.sin(2 * X[:, 0]) + 0.3 * X[:, 1]
Y = F + 0.1 * RNG.normal(size=90)
TARGET = 30.0 * Y + 100.0
KERNELS = {
    "default": None,
    "matern_0.5": sk.ConstantKernel(2.0) * sk.Matern(1.5, nu=0.5),
    "matern_1.5": sk.ConstantKernel(2.0) * sk.Matern([1.0, 2.0], nu=1.5),
    "matern_2.5": sk.ConstantKernel(2.0) * sk.Matern([1.0, 2.0], nu=2.5) + sk.WhiteKernel(0.1),
    "matern_inf": sk.Matern([1.0, 2.0], nu=np.inf) + sk.ConstantKernel(0.5),
    "rbf": sk.RBF(1.3) + sk.RBF([1.0, 5.0]),
    "rational_quadratic": sk.ConstantKernel(0.7) * sk.RationalQuadratic(1.2, 0.8),
    "power": sk.Matern(2.0, nu=1.5) ** 2 + sk.WhiteKernel(0.1) * sk.ConstantKernel(2.0),
    "constant": sk.ConstantKernel(2.0) + sk.WhiteKernel(0.1),
    "columns": Columns(sk.RBF(1.3), 1) * Columns(sk.Matern([2.0, 1.0], nu=1.5), [1, 0])
    + Columns(sk.RBF(), 0),
}
LABELS = {
    "strings": np.array(["a", "b", "c"]),
    "numbers": np.array([4, 7, 9]),
    "floats": np.array([4.0, 7.0, 9.0]),
    "truth": np.array([False, True]),
}


def regressor(**options):
    """One whose kernel is not learned, if it is given."""
    options = {"n_inducing": 15, "max_iter": 5, "random_state": 0} | options
    options |= {} if options.get("kernel") is None else {"optimizer": None}
    return SparseGPRegressor(**options)


def classifier(n_classes=2, labels=LABELS["strings"], **options):
    y = labels[np.digitize(Y, [0.0] if n_classes == 2 else [-0.5, 0.5])]
    options = {"n_inducing": 15, "max_iter": 3, "random_state": 0, "calibration": None} | options
    options |= {} if options.get("kernel") is None else {"optimizer": None}
    return SparseGPClassifier(**options).fit(X, y)


def answers(model, queries=QUERIES, **options):
    """What the model of ONNX returns."""
    proto = skl2onnx.to_onnx(model, queries[:1], options={id(model): options} if options else None)
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    return session.run(None, {"X": queries})


def assert_same_moments(model, queries=QUERIES):
    mean, std = model.predict(queries, return_std=True)
    ours = answers(model, queries, return_std=True)
    assert ours[0].ndim == 2
    np.testing.assert_allclose(ours[0].reshape(mean.shape), mean, 1e-7, 1e-7 * np.ptp(mean))
    np.testing.assert_allclose(ours[1], std, 1e-7)


def assert_same_labels(model):
    label, probabilities = answers(model, zipmap=False)
    assert np.array_equal(label, model.predict(QUERIES))
    np.testing.assert_allclose(probabilities, model.predict_proba(QUERIES), 1e-7)


@pytest.mark.second(share=0.02, thin=1)
@pytest.mark.parametrize("posterior", ["exact", "inducing"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_means_and_deviations(kernel, posterior):
    model = regressor(kernel=KERNELS[kernel], posterior=posterior)
    assert_same_moments(model.fit(X, TARGET))


@pytest.mark.second(share=0.02, thin=2)
@pytest.mark.parametrize("n_inducing", [15, 90])
@pytest.mark.parametrize("kernel", ["default", "matern_0.5", "rbf"])
@pytest.mark.parametrize("bound", ["titsias_new", "fitc"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_labels_and_probabilities(n_classes, bound, kernel, n_inducing):
    options = {"bound": bound, "n_inducing": n_inducing}
    assert_same_labels(classifier(n_classes, kernel=KERNELS[kernel], **options))


@pytest.mark.parametrize("posterior", ["exact", "inducing"])
def test_periods(posterior):
    model = regressor(kernel=sk.ExpSineSquared(1.5, 3.0) * sk.RBF(5.0), posterior=posterior)
    assert_same_moments(model.fit(X[:, :1], Y), QUERIES[:, :1])


def test_random_features():
    given = {"posterior": FourierFeatures(20), "n_inducing": "auto"}
    kernel = sk.Matern([1.0, 2.0], nu=1.2) + 0.3 * sk.RBF() + sk.WhiteKernel(0.1)
    assert_same_moments(regressor(kernel=kernel, **given).fit(X, np.column_stack([Y, Y**2])))
    assert_same_labels(classifier(kernel=sk.RBF(), **given))
    assert_same_moments(
        regressor(kernel=Columns(sk.RBF(), 1) + sk.WhiteKernel(0.1), **given).fit(X, Y)
    )


@pytest.mark.parametrize("kind", LABELS)
def test_labels_have_the_type_of_classes(kind):
    assert_same_labels(classifier(labels=LABELS[kind], kernel=sk.RBF()))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_weights_of_classes(n_classes):
    assert_same_labels(classifier(n_classes, kernel=sk.RBF(), class_weight="balanced"))


def test_several_targets_and_constant_ones():
    targets = np.column_stack([np.full(len(Y), 7.0), Y, np.zeros(len(Y)), 100.0 * X[:, 1]])
    assert_same_moments(regressor().fit(X, targets))


def test_unlikely_classes_have_all_digits():
    """Otherwise probabilities would have none after they were normalised."""
    x = np.linspace(-12, 12, 49)[:, None]
    node = _process_formulas.normal_cdf(_process_formulas.Operators(18), "x")
    session = onnxruntime.InferenceSession(node.to_onnx({"x": x}).SerializeToString())
    np.testing.assert_allclose(session.run(None, {"x": x})[0], ndtr(x), 1e-6, 1e-35)


def test_float32_inputs_have_float32_outputs():
    model = regressor().fit(X, Y)
    mean, std = answers(model, QUERIES.astype(np.float32), return_std=True)
    assert mean.dtype == std.dtype == np.float32
    np.testing.assert_allclose(mean[:, 0], model.predict(QUERIES), rtol=1e-4, atol=1e-4)


def test_pipelines_and_dictionaries_of_probabilities():
    model = make_pipeline(StandardScaler(), regressor(normalize_y=False)).fit(X, Y)
    np.testing.assert_allclose(answers(model)[0][:, 0], model.predict(QUERIES), rtol=1e-7)
    rows = answers(model := classifier(), QUERIES.astype(np.float32))[1]  # ZipMap takes float32
    assert abs(rows[0]["b"] - model.predict_proba(QUERIES[:1])[0, 1]) < 1e-5


def test_a_prior_is_refused():
    with pytest.raises(NotFittedError):
        answers(SparseGPRegressor())


class OwnKernel(sk.RBF):
    pass


class OwnSigmoid(Probit):
    pass


OF_NUMBERS = {
    "kernel.* part DotProduct": {"kernel": sk.DotProduct() + sk.RBF()},
    "kernel.* part Sphere": {"kernel": Sphere(sk.RBF())},
    "kernel.* part OwnKernel": {"kernel": OwnKernel()},
    "kernel.* part Matern.*nu=3": {"kernel": sk.Matern(nu=3.0)},
    "with posterior_='rows' cannot.*posterior": {"posterior": IterativeExact()},
    "with posterior_='neighbors' cannot.*posterior": {"posterior": Neighbors(20, 10)},
    "Regressor with n_mean of InducingPoints.*without parameters": {
        "posterior": InducingPoints(n_mean=40)
    },
    "with tight_variance of InducingPoints.*without parameters": {
        "posterior": InducingPoints(tight_variance=True)
    },
    "SparseGPRegressor with a mean cannot.*mean to None": {"mean": "boosting"},
    "kernel.* part StandardisedColumns": {"kernel": sk.RBF(), "mean": "linear"},
    "likelihood Poisson.*likelihood='gaussian'": {"likelihood": "poisson"},
    "kernel.* part HeteroscedasticNoise": {"noise": "learned"},
}
TARGETS = {
    "likelihood": RNG.poisson(np.exp(F)),
    "noise": F + 0.3 * np.exp(X[:, 0]) * RNG.normal(size=90),
}
OF_LABELS = {
    "likelihood OwnSigmoid": (2, {"likelihood": OwnSigmoid()}),
    "a mean or a calibration cannot.*mean and calibration to None": (
        2,
        {"mean": "boosting", "calibration": "auto"},
    ),
    "likelihood Logit.*likelihood='probit'": (2, {"likelihood": "logit"}),
    "likelihood Logit.*likelihood='probit', and": (3, {"likelihood": "logit"}),
    "multi_class='softmax'.*'one_vs_rest'": (3, {"multi_class": "softmax"}),
    "multi_class='one_vs_one'.*'one_vs_rest'": (3, {"multi_class": "one_vs_one"}),
}


@pytest.mark.second(share=0.21)
@pytest.mark.parametrize("words", OF_NUMBERS | OF_LABELS)
def test_what_has_no_formula_is_refused(words):
    if words in OF_NUMBERS:
        options = OF_NUMBERS[words]
        model = regressor(**options).fit(X, TARGETS.get(next(iter(options)), Y))
    else:
        n_classes, options = OF_LABELS[words]
        model = classifier(n_classes, **options)
    with pytest.raises(NotImplementedError, match=words):
        answers(model)


@pytest.mark.parametrize("kernel", ["rbf", "matern_2.5"])
def test_deviations_where_noise_is_tiny(kernel):
    kernel = {"rbf": sk.ConstantKernel(25.0) * sk.RBF(0.8), "matern_2.5": sk.Matern(1.0, nu=2.5)}[
        kernel
    ]
    rng = np.random.RandomState(0)
    inputs, queries = rng.uniform(size=(50, 1)), rng.uniform(size=(200, 1))
    model = regressor(kernel=kernel, alpha=1e-10, normalize_y=False)
    model.fit(inputs, np.sin(3.0 * inputs[:, 0]))
    mean, std = model.predict(queries, return_std=True)
    ours = answers(model, queries, return_std=True)
    np.testing.assert_allclose(ours[0][:, 0], mean, atol=1e-7)
    np.testing.assert_allclose(ours[1].ravel(), std, 3e-3)
