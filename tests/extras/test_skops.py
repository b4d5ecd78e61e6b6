"""Files of skops: they load with the types that they name, and predict the same."""

import importlib

import numpy as np
import pytest
from inside import plan, streams
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgp_sparse import BayesianGPLVM, SparseGPClassifier, SparseGPRegressor, kernels, likelihoods
from skgp_sparse.posteriors import FourierFeatures, InducingPoints

RNG = np.random.RandomState(0)
X = RNG.normal(size=(60, 2))
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=60)
LABELS, COUNTS = np.digitize(Y, [-0.5, 0.5]), np.exp(Y).round() + 1
SHARES = {"beta": COUNTS / (COUNTS.max() + 1)}
CODES = np.column_stack([X[:, 0], LABELS])
PLAIN = "functools.partial", "numpy.nan_to_num"  # functions and their arguments
VARYING = kernels.HeteroscedasticNoise(
    kernels.LogNoiseFunction(RBF(), np.zeros((1, 2)), np.ones(1), 0.0)
)
OF_KERNELS = {  # what is fitted to CODES
    "Categorical": kernels.Columns(RBF(), 0) * kernels.Columns(kernels.Categorical(), 1),
    "LogScale": kernels.LogScale(RBF(), [0]),
    "Missing": kernels.Missing(RBF()),
    "Sphere": kernels.Sphere(RBF()),
    "Tanimoto": kernels.Tanimoto(),
    "HeteroscedasticNoise": RBF() + VARYING,
}


def regressor(X=X, y=Y, **parameters):
    return SparseGPRegressor(**{"n_inducing": 10, "optimizer": None} | parameters).fit(X, y)


def classifier(y=LABELS, **parameters):
    return SparseGPClassifier(**{"n_inducing": 10, "optimizer": None} | parameters).fit(X, y)


def streamed(make, y, **parameters):
    """A model that forgets single rows, but not what they say."""
    model = make(optimizer=None, **{"n_inducing": 10} | parameters)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streams, "_MOST_WITH_SITES", 80)
        for _ in range(3):
            model.partial_fit(X, y, classes=[0, 1, 2])
    return model


FITS = {
    **{
        f"posterior={one}": lambda one=one: SparseGPRegressor(posterior=one, max_iter=2).fit(X, Y)
        for one in plan.BY_NAME
    },
    **{
        f"likelihood={one}": lambda one=one: regressor(y=SHARES.get(one, COUNTS), likelihood=one)
        for one in likelihoods.BY_NAME
    },
    **{
        f"likelihood={one}": lambda one=one: classifier(likelihood=one)
        for one in likelihoods.OF_LABELS
    },
    **{one: lambda one=one: regressor(CODES, kernel=OF_KERNELS[one]) for one in OF_KERNELS},
    "inducing points": regressor,
    "two targets": lambda: regressor(y=np.column_stack([Y, Y**2]), n_inducing="auto"),
    "n_mean": lambda: regressor(posterior=InducingPoints(n_mean=20)),
    "tight_variance": lambda: regressor(posterior=InducingPoints(tight_variance=True)),
    "features": lambda: regressor(posterior=FourierFeatures(10), n_inducing="auto"),
    "metric": lambda: SparseGPRegressor(posterior="neighbors", metric="full").fit(X, Y),
    "X_std": lambda: SparseGPRegressor(n_inducing=5, max_iter=2).fit(X, Y, X_std=0.1 + 0 * X),
    "exact sites": lambda: regressor(y=COUNTS, likelihood="poisson", n_inducing="auto"),
    "sites of neighbors": lambda: regressor(
        y=COUNTS, likelihood="poisson", posterior="neighbors", n_inducing="auto"
    ),
    "softmax": lambda: classifier(multi_class="softmax"),
    "exact softmax": lambda: classifier(multi_class="softmax", n_inducing=99),
    "one_vs_one": lambda: classifier(multi_class="one_vs_one"),
    "vfe": lambda: classifier(n_inducing=99, bound="vfe"),
    "gfitc-ep": lambda: classifier(n_inducing=99, bound="gfitc-ep"),
    "a stream": lambda: streamed(SparseGPRegressor, Y),
    "a stream of counts": lambda: streamed(SparseGPRegressor, COUNTS, likelihood="poisson"),
    "a stream of labels": lambda: streamed(SparseGPClassifier, LABELS),
    "a pipeline": lambda: make_pipeline(StandardScaler(), SparseGPRegressor()).fit(X, Y),
    "classes of scikit-learn": lambda: GaussianProcessClassifier().fit(X, LABELS),
    "mean=boosting": lambda: SparseGPRegressor(mean="boosting", max_iter=2).fit(X, Y),
    "mean=linear": lambda: SparseGPRegressor(mean="linear", max_iter=2).fit(X, Y),
    "a linear part of a kernel": lambda: SparseGPRegressor(RBF(), mean="linear").fit(X, Y),
    "residuals": lambda: SparseGPRegressor(RBF(), mean=LinearRegression()).fit(X, Y),
    "latent inputs": lambda: BayesianGPLVM(n_inducing=5, tol=1.0, n_restarts_optimizer=0).fit(X),
}


@pytest.mark.parametrize("name", FITS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_file_loads_with_the_types_that_it_names(name):
    skops = pytest.importorskip("skops.io")
    model = FITS[name]()
    content = skops.dumps(model)
    names = skops.get_untrusted_types(data=content)
    for one in names:
        module, last = one.rsplit(".", 1)
        assert getattr(importlib.import_module(module), last).__name__ == last
        assert one.startswith(("skgp_sparse.", "sklearn.")) or one in PLAIN
    again, answer = skops.loads(content, trusted=names), "predict"
    if isinstance(model, BayesianGPLVM):
        answer = "transform"
    np.testing.assert_array_equal(getattr(again, answer)(X), getattr(model, answer)(X))
    assert hasattr(again, "X_train_") == hasattr(model, "X_train_")
