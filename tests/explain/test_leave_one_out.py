"""Training rows predicted from all others, without another fit."""

import pickle

import numpy as np
import pytest
from chunked_arrays import Arrays
from inside import moments
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm, poisson
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

from skgp_sparse import SparseGPClassifier, SparseGPRegressor
from skgp_sparse.bounds import PEP
from skgp_sparse.posteriors import FourierFeatures, InducingPoints, Neighbors

RNG = np.random.RandomState(0)
N = 40
X = RNG.uniform(-3, 3, size=(N, 2))
Y = np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.2 * RNG.normal(size=N)
Z = RNG.uniform(-3, 3, size=(8, 2))
KERNEL = ConstantKernel(1.5) * Matern([0.9, 1.4], nu=2.5)
ALPHA = RNG.uniform(0.02, 0.2, N)
HELD = {"optimizer": None, "normalize_y": False}
SOME = (0, 7, 23, 39)


def others(i, *arrays):
    return [np.delete(array, i, axis=0) for array in arrays]


def check_against_refits(model, alpha, y=Y, rtol=1e-8, rows=SOME):
    """Means, standard deviations and densities are those of fits without the row."""
    loo = model.set_params(alpha=alpha).fit(X, y).loo_predict()
    for i in rows:
        X_i, y_i, alpha_i = others(i, X, y, alpha)
        mean, std = model.set_params(alpha=alpha_i).fit(X_i, y_i).predict(X[[i]], return_std=True)
        std = np.sqrt(std[0] ** 2 + alpha[i])
        assert_allclose(loo.mean[i], mean[0], rtol=rtol, atol=1e-10)
        assert_allclose(loo.std[i], std, rtol=rtol)
        assert_allclose(loo.log_density[i], norm(mean[0], std).logpdf(y[i]), rtol=rtol, atol=1e-8)


@pytest.mark.parametrize("y", [Y, np.column_stack([Y, Y**2])], ids=["one target", "two targets"])
@pytest.mark.parametrize("kernel", [KERNEL, KERNEL + WhiteKernel(0.1)], ids=["alpha", "and white"])
def test_exact(kernel, y):
    check_against_refits(SparseGPRegressor(kernel, posterior="exact", **HELD), ALPHA, y)


@pytest.mark.parametrize(
    "bound", ["titsias", "titsias_new", "artemev", "fitc", "dtc", "pep", PEP(0.2)], ids=str
)
def test_inducing_points(bound):
    options = {"posterior": "inducing", "inducing_init": Z, "optimize_inducing": False, **HELD}
    check_against_refits(SparseGPRegressor(KERNEL, bound=bound, **options), ALPHA)
    model = SparseGPRegressor(KERNEL + WhiteKernel(0.1), bound=bound, **options)
    check_against_refits(model, ALPHA, np.column_stack([Y, Y**2]))


def test_random_features():
    posterior = FourierFeatures(n_components=10)
    model = SparseGPRegressor(KERNEL, posterior=posterior, random_state=0, **HELD)
    check_against_refits(model, ALPHA)


def test_neighbors():
    model = SparseGPRegressor(KERNEL, posterior=Neighbors(n_neighbors=6), **HELD)
    check_against_refits(model, ALPHA)


def test_iterative_exact_are_estimated():
    rng = np.random.RandomState(1)
    many = rng.uniform(-3, 3, size=(700, 2))
    y = np.sin(2 * many[:, 0]) + 0.2 * rng.normal(size=700)
    kernel = KERNEL + WhiteKernel(0.04)
    options = {"optimizer": None, "random_state": 0}
    exact = SparseGPRegressor(kernel, posterior="exact", **options).fit(many, y).loo_predict()
    rows = SparseGPRegressor(kernel, posterior="rows", n_inducing=50, **options)
    loo = rows.fit(many, y).loo_predict()
    factor = np.sqrt(rows.variance_factor_)
    assert_allclose(loo.mean, exact.mean, atol=0.03)
    assert_allclose(loo.std / factor, exact.std, rtol=0.02)


@pytest.mark.parametrize("posterior", ["exact", "inducing", "neighbors"])
def test_a_weight_is_a_number_of_copies(posterior):
    weight = RNG.randint(1, 4, N)
    place = np.repeat(np.arange(N), weight)
    options = {"optimizer": None, "n_inducing": 8 if posterior == "inducing" else "auto"}
    options |= {"inducing_init": Z} if posterior == "inducing" else {}
    model = SparseGPRegressor(KERNEL + WhiteKernel(0.1), posterior=posterior, **options)
    weighted = model.fit(X, Y, weight).loo_predict()
    repeated = model.fit(X[place], Y[place]).loo_predict()
    for one, other in zip(weighted, repeated):
        assert_allclose(one[place], other, rtol=1e-9)
    if posterior == "exact":  # the copies that stay are known
        i = int(np.argmax(weight))
        less = weight.copy()
        less[i] -= 1
        held = SparseGPRegressor(model.kernel, posterior="exact", **HELD)
        loo = held.fit(X, Y, weight).loo_predict()
        assert loo.mean[i] == pytest.approx(held.fit(X, Y, less).predict(X[[i]])[0])


def test_rows_are_in_their_order():
    model = SparseGPRegressor(random_state=0).fit(X, Y)
    order = RNG.permutation(N)
    again = SparseGPRegressor(random_state=0).fit(X[order], Y[order])
    for one, other in zip(model.loo_predict(), again.loo_predict()):
        assert_allclose(one[order], other, rtol=1e-9)
    assert model.loo_predict().mean.shape == (N,)
    twin = pickle.loads(pickle.dumps(model))
    assert_array_equal(twin.loo_predict().mean, model.loo_predict().mean)


def test_it_is_in_units_of_y():
    first = SparseGPRegressor(random_state=0).fit(X, Y).loo_predict()
    other = SparseGPRegressor(random_state=0).fit(X, 100.0 * Y + 7.0).loo_predict()
    assert_allclose(other.mean, 100.0 * first.mean + 7.0, rtol=1e-5)
    assert_allclose(other.std, 100.0 * first.std, rtol=1e-4)
    assert_allclose(other.log_density, first.log_density - np.log(100.0), atol=1e-3)


COUNTS = RNG.poisson(np.exp(1.0 + np.sin(X[:, 0]))).astype(float)
OFFSET = RNG.uniform(-0.2, 0.2, N)


@pytest.mark.second(share=0.13, thin=1)
@pytest.mark.parametrize("bound", ["titsias_new", "gfitc-ep"])
@pytest.mark.parametrize("posterior", ["exact", "inducing"])
def test_cavities_are_close_to_fits_without_the_row(bound, posterior):
    options = {"inducing_init": Z, "optimize_inducing": False} if posterior == "inducing" else {}
    model = SparseGPRegressor(
        0.5 * RBF(2.0), likelihood="poisson", bound=bound, posterior=posterior, optimizer=None
    ).set_params(**options)
    loo = model.fit(X, COUNTS, offset=OFFSET).loo_predict()
    in_fit = model.predict(X, return_std=True, offset=OFFSET)
    refits = np.empty((3, N))
    for i in range(N):
        X_i, y_i, offset_i = others(i, X, COUNTS, OFFSET)
        given = {"offset": OFFSET[[i]]}
        one = model.fit(X_i, y_i, offset=offset_i)
        mean, std = one.predict(X[[i]], return_std=True, **given)
        density = one.log_predictive_density(X[[i]], COUNTS[[i]], **given)
        refits[:, i] = mean[0], std[0], density[0]
    for found, refit, fitted in zip(loo, refits, in_fit):  # the other sites would move a little
        moved = np.maximum(np.abs(refit - fitted), 0.05)
        assert np.median(np.abs(found - refit) / moved) < 0.1
    assert loo.log_density.mean() == pytest.approx(refits[2].mean(), abs=0.006)


@pytest.mark.second
def test_neighbors_with_a_likelihood():
    rng = np.random.RandomState(0)
    many = rng.uniform(-3, 3, size=(400, 2))
    y = rng.poisson(np.exp(1.0 + np.sin(many[:, 0]))).astype(float)
    model = SparseGPRegressor(likelihood="poisson", posterior="neighbors", random_state=0)
    loo = model.fit(many, y).loo_predict()
    assert np.all(loo.log_density <= 0) and np.all(loo.std > 0)
    best = poisson(np.exp(1.0 + np.sin(many[:, 0]))).logpmf(y).mean()
    assert loo.log_density.mean() == pytest.approx(best, abs=0.1)


LABELS = np.digitize(Y, [-0.4, 0.5])


@pytest.mark.second(share=0.06, thin=2)
@pytest.mark.parametrize("bound", ["titsias_new", "gfitc-ep"])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("n_inducing", [8, 40])
def test_labels(bound, n_classes, n_inducing):
    options = {"inducing_init": Z, "optimize_inducing": False} if n_inducing == 8 else {}
    model = SparseGPClassifier(2.0 * RBF(1.5), bound=bound, optimizer=None, **options)
    check_labels(model, np.minimum(LABELS, n_classes - 1))


@pytest.mark.second
def test_labels_of_a_softmax():
    model = SparseGPClassifier(2.0 * RBF(1.5), multi_class="softmax", optimizer=None)
    check_labels(model, LABELS, share=0.3)  # one class knows nothing of the sites of another


def check_labels(model, labels, share=0.1):
    """Probabilities are close to those of fits without the row, beside those with it."""
    loo, in_fit = model.fit(X, labels).loo_predict_proba(), model.predict_proba(X)
    assert_allclose(loo.sum(axis=1), 1.0)
    refits = [model.fit(*others(i, X, labels)).predict_proba(X[[i]])[0] for i in range(N)]
    assert np.abs(loo - refits).mean() < share * np.abs(in_fit - refits).mean()
    own = np.arange(N), labels
    assert np.log(loo[own]).mean() == pytest.approx(
        np.log(np.array(refits)[own]).mean(), abs=0.25 * share
    )


def test_the_cavity_of_expectation_propagation_is_dense_algebra():
    labels = np.where(Y > 0, 1, 0)
    kernel = 2.0 * RBF(1.5)
    model = SparseGPClassifier(kernel, bound="gfitc-ep", posterior="exact", optimizer=None)
    loo = model.fit(X, labels).loo_predict_proba()
    fit = model._fitted.fits[0]
    linear, precision = np.asarray(fit.objective.inner_state.sites)[:, 0]
    table = fit.objective.rows
    for row in SOME:
        i = int(table.places[row])
        rest = np.delete(np.arange(N), i)
        across = kernel(table.X[[i]], table.X[rest])
        A = kernel(table.X[rest]) + np.diag(1.0 / precision[rest])
        mean = across @ np.linalg.solve(A, (linear / precision)[rest])
        variance = kernel(table.X[[i]])[0, 0] - across @ np.linalg.solve(A, across.T)[:, 0]
        expected = fit.objective.likelihood.probability(mean, variance)
        assert_allclose(loo[row, 1], expected, rtol=1e-7)


def test_labels_and_neighbors():
    many = RNG.uniform(-3, 3, size=(400, 2))
    labels = np.sin(2 * many[:, 0]) + 0.5 * RNG.normal(size=400) > 0
    model = SparseGPClassifier(posterior="neighbors", random_state=0)
    loo = model.fit(many, labels).loo_predict_proba()
    own = np.log(loo[np.arange(400), labels.astype(int)])
    best = norm.cdf(np.where(labels, 2, -2) * np.sin(2 * many[:, 0]))
    assert own.mean() == pytest.approx(np.log(best).mean(), abs=0.1)


def test_labels_that_cannot_be_left_out():
    model = SparseGPClassifier(optimizer=None)
    with pytest.raises(ValueError, match="one_vs_one"):
        model.set_params(multi_class="one_vs_one").fit(X, LABELS).loo_predict_proba()
    model = SparseGPClassifier(optimizer=None)
    with pytest.raises(ValueError, match="weight zero"):
        model.fit(X, LABELS > 0, np.arange(N)).loo_predict_proba()


def test_tiny_noise_loses_no_digits():
    y = np.sin(X[:, 0])
    check_against_refits(
        SparseGPRegressor(KERNEL, posterior="exact", **HELD), np.full(N, 1e-10), y, rtol=1e-5
    )


def test_what_is_not_known():
    for posterior, message in (
        (InducingPoints(n_mean=20), "Set n_mean to None"),
        (InducingPoints(tight_variance=True), "Set tight_variance to False"),
    ):
        model = SparseGPRegressor(posterior=posterior, n_inducing=5, max_iter=2, random_state=0)
        with pytest.raises(ValueError, match=message):
            model.fit(X, Y).loo_predict()
    model = SparseGPRegressor(max_iter=1)
    with pytest.raises(ValueError, match="weight zero"):
        model.fit(X, Y, np.arange(N)).loo_predict()
    with pytest.raises(ValueError, match="X_std"):
        model.fit(X, Y, X_std=0.1).loo_predict()
    few = SparseGPRegressor(n_inducing=5, max_iter=1, random_state=0).fit(X, Y)
    with pytest.raises(ValueError, match="loaded from a pickle"):
        pickle.loads(pickle.dumps(few)).loo_predict()


def test_rows_that_are_not_in_memory(monkeypatch):
    monkeypatch.setattr(moments, "_SMALL_TABLE", 0)
    model = SparseGPRegressor(KERNEL + WhiteKernel(), inducing_init=Z, optimizer=None)
    arrays = model.fit(X, Y).loo_predict()
    assert len(arrays.mean) == N
    with pytest.raises(ValueError, match="large source"):
        model.fit(Arrays(X, Y, chunk_size=10)).loo_predict()
