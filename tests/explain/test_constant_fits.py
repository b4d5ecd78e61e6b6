"""A fit that explains no more than a constant says so, where near rows are alike."""

import warnings

import numpy as np
import pytest
from inside import MeanWeights, WeightedMean, fit_warnings
from scipy.special import logit
from sklearn.gaussian_process.kernels import RBF, DotProduct, WhiteKernel

from skgp_sparse import SparseGPClassifier, SparseGPRegressor
from skgp_sparse.exceptions import ConstantFitWarning
from skgp_sparse.likelihoods import Censored

HOURS = np.arange(300.0)[:, None]
LONG = 1.0 * RBF(500.0)  # from which a search sees noise


def wave(seed=0):
    noise = np.random.RandomState(seed).normal(size=len(HOURS))
    return 3 * np.sin(2 * np.pi * HOURS[:, 0] / 12) + 0.5 * noise


def told(fit):
    """Messages of the warning during a fit."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit()
    return [str(one.message) for one in caught if one.category is ConstantFitWarning]


@pytest.mark.second
@pytest.mark.parametrize("options", [{}, {"posterior": "inducing", "n_inducing": 30}])
def test_a_fit_that_has_lost_the_structure_is_told_once(options):
    model = SparseGPRegressor(LONG + WhiteKernel(), random_state=0, **options)
    (message,) = told(lambda: model.fit(HOURS, wave()))
    assert "It may have missed structure" in message
    assert message.startswith("SparseGPRegressor: the fit explains no more than a constant")
    assert np.var(model.predict(HOURS)) < 0.05 * np.var(wave())
    assert not told(lambda: SparseGPRegressor(random_state=0).fit(HOURS, wave()))


@pytest.mark.second
def test_targets_and_classes_are_named():
    noise, kernel = np.random.RandomState(1).normal(size=300), LONG + WhiteKernel()
    model = SparseGPRegressor(kernel, random_state=0)
    (message,) = told(lambda: model.fit(HOURS, np.column_stack([noise, wave()])))
    assert "fit of target 1 explains" in message
    c = np.array(["low", "middle", "high"])[np.digitize(wave(), [-1.5, 1.5])]
    (message,) = told(lambda: SparseGPClassifier(LONG, random_state=0).fit(HOURS, c))
    assert "high against the rest" in message
    softmax = SparseGPClassifier(LONG, multi_class="softmax", random_state=0)
    (message,) = told(lambda: softmax.fit(HOURS, c))
    assert "class high" in message


@pytest.mark.second
@pytest.mark.parametrize(
    "likelihood",
    ["poisson", "negative_binomial", "gamma", "student_t", Censored(upper=2.0)],
    ids=str,
)
def test_responses_are_told(likelihood):
    y = wave()
    targets = {
        "poisson": np.random.RandomState(0).poisson(np.exp(y / 3)),
        "negative_binomial": np.random.RandomState(0).poisson(3 * np.exp(y / 3)),
        "gamma": np.exp(y / 3),
    }.get(str(likelihood), y)
    model = SparseGPRegressor(LONG, likelihood=likelihood, random_state=0)
    assert len(told(lambda: model.fit(HOURS, targets))) == 1


@pytest.mark.parametrize("size", [10.0, -10.0, 100.0])
@pytest.mark.parametrize("seed", range(4))
def test_outliers_that_hide_all_structure_are_told_with_their_remedy(seed, size):
    rng = np.random.RandomState(seed)
    x = rng.uniform(size=30)
    wanted = np.sin(6.0 * x)
    y = wanted + 0.1 * rng.normal(size=30)
    y[[4, 11]] += size * np.array([1.0, 1.1])
    model, others = SparseGPRegressor(random_state=0), np.delete(np.arange(30), [4, 11])
    messages = told(lambda: model.fit(x[:, None], y))
    off = np.delete(model.loo_predict().mean - wanted, [4, 11])
    assert len(messages) == 1 or np.var(off) < 0.8 * np.var(wanted)
    for message in messages:
        assert "without a few targets that are far from all others" in message
        assert "Set likelihood='student_t'" in message
    robust = SparseGPRegressor(likelihood="student_t", random_state=0)
    assert not told(lambda: robust.fit(x[:, None], y))
    assert np.std(robust.predict_quantiles(x[:, None], 0.5)[others] - wanted[others]) < 0.2


def test_outliers_of_noise_and_peaks_that_are_found_are_not_told():
    rng = np.random.RandomState(0)
    for _ in range(4):
        y = rng.normal(size=30)
        y[[4, 11]] += 20.0
        x = rng.uniform(size=(30, 1))
        assert not told(lambda x=x, y=y: SparseGPRegressor(random_state=0).fit(x, y))
        assert not told(lambda x=x, y=y: SparseGPRegressor(random_state=0).fit(x, y % 1.0))
    x = np.linspace(0.0, 1.0, 300)
    peak = 50.0 * np.exp(-0.5 * ((x - 0.5) / 0.02) ** 2) + 0.2 * np.sin(60.0 * x)
    y = peak + 0.2 * rng.normal(size=300)
    assert not told(lambda: SparseGPRegressor(random_state=0).fit(x[:, None], y))


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("slope", [-3e-4, 1.0, 1e4])
@pytest.mark.parametrize("n", [3, 4, 5])
def test_few_rows_on_a_line_are_fitted(n, slope, unit):
    x = unit * np.arange(n)
    model = SparseGPRegressor(random_state=0)
    assert not told(lambda: model.fit(x[:, None], 5.0 + slope * x / unit))
    np.testing.assert_allclose(
        model.predict(x[:, None]), 5.0 + slope * x / unit, atol=0.01 * abs(slope)
    )


def test_few_rows_on_a_line_or_plane_that_are_lost_are_told():
    rng = np.random.RandomState(2)
    X = rng.normal(size=(4, 2))
    y = X @ rng.normal(size=2)
    model = SparseGPRegressor(random_state=0)
    (message,) = told(lambda: model.fit(X, y))
    assert np.ptp(model.predict(X)) < 0.01 * np.ptp(y)
    assert "the targets are linear in X" in message and "DotProduct" in message
    again = SparseGPRegressor(DotProduct() + WhiteKernel(), random_state=0)
    assert not told(lambda: again.fit(X, y))
    np.testing.assert_allclose(again.predict(X), y, atol=0.01 * np.ptp(y))
    short = SparseGPRegressor(RBF(), random_state=0)
    assert told(lambda: short.fit([[0.0], [0.01], [0.02]], [1.0, 2.0, 3.0]))
    # any three targets are linear in two columns, and noise is not
    assert not told(lambda: SparseGPRegressor(random_state=0).fit(X[:3], y[:3]))
    assert not told(lambda: SparseGPRegressor(random_state=0).fit(X, rng.normal(size=4)))
    assert not told(lambda: SparseGPRegressor(random_state=0).fit(X, np.ones(4)))


def test_what_is_judged_is_predicted_with_the_mean(monkeypatch):
    """A process that explains nothing may stand beside a mean that does."""
    warn_of_constant_fits = fit_warnings.warn_of_constant_fits

    def with_weight(weight):
        def warned(found):
            weights = MeanWeights(logit(np.full(1, weight)), np.zeros(1), np.ones(1))
            fits = [f._replace(mean=f.rows.y) for f in found.fits]
            beside = WeightedMean(None, found.scaler, 0.0, weights)
            warn_of_constant_fits(found._replace(fits=fits, blend=beside))

        monkeypatch.setattr(fit_warnings, "warn_of_constant_fits", warned)
        return told(lambda: SparseGPRegressor(LONG + WhiteKernel(), random_state=0).fit(*known))

    known = HOURS, wave()
    assert with_weight(0.0)
    assert not with_weight(0.2)


@pytest.mark.second
@pytest.mark.parametrize("n_rare", [12, 24])
def test_a_rare_class_that_is_told_apart_is_no_constant(n_rare):
    rng = np.random.RandomState(0)
    X = rng.normal(size=(1200, 6))
    y = np.arange(1200) < n_rare
    X[y] += 1.5 * rng.normal(size=6)
    model = SparseGPClassifier(random_state=0, mean=None, calibration=None)
    assert not told(lambda: model.fit(X, y))
    of_noise = X[rng.permutation(1200)]
    assert not told(lambda: model.fit(of_noise, y))


def test_a_class_that_is_lost_is_told_where_it_is_rare():
    hours = np.arange(1200.0)[:, None]
    rare = hours[:, 0] % 200 < 5
    assert told(lambda: SparseGPClassifier(LONG, random_state=0).fit(hours, rare))


@pytest.mark.second
@pytest.mark.parametrize("share", [0.1, 0.2])
@pytest.mark.parametrize("seed", range(3))
def test_weak_signals_are_no_constant(seed, share):
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(1200, 2))
    wanted = np.sin(X[:, 0]) / np.std(np.sin(X[:, 0]))
    y = np.sqrt(share) * wanted + np.sqrt(1 - share) * rng.normal(size=1200)
    assert not told(lambda: SparseGPRegressor(n_inducing=20, random_state=0).fit(X, y))


def test_noise_that_varies_is_no_constant():
    """Rows are alike by their variance alone where their mean is the same."""
    x = np.linspace(0, 10, 400)
    y = np.exp(np.sin(x)) * np.random.RandomState(0).standard_normal(400)
    model = SparseGPRegressor(noise="learned", mean=None, random_state=0)
    assert not told(lambda: model.fit(x[:, None], y))


def test_it_is_silent_where_it_should_be():
    def model(**options):
        return SparseGPRegressor(LONG + WhiteKernel(), random_state=0, **options)

    assert not told(lambda: model().fit(HOURS, np.ones(300)))
    assert not told(lambda: model().fit(HOURS[:19], wave()[:19]))
    assert not told(lambda: model(optimizer=None).fit(HOURS, wave()))
    assert not told(lambda: model().partial_fit(HOURS, wave()))


@pytest.mark.second(share=0.23)
@pytest.mark.parametrize("seed", range(20))
def test_noise_is_no_structure(seed):
    rng = np.random.RandomState(seed)
    n, d = rng.randint(20, 150), rng.randint(1, 9)
    X, y = rng.normal(size=(n, d)), rng.standard_t(3, size=n)
    model = SparseGPRegressor(1.0 * RBF(np.ones(d)) + WhiteKernel(), max_iter=20)
    assert not told(lambda: model.fit(X, y))


@pytest.mark.second(share=0.04, thin=1)
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", ["integers", "binary", "levels", "repeated rows", "in order"])
def test_ties_are_no_structure(kind, seed):
    """Tables may be sorted by their targets: rows of one value are not alike for that."""
    rng = np.random.RandomState(seed)
    n, y = 200, np.sort(rng.normal(size=200))
    if kind == "levels":
        pd = pytest.importorskip("pandas")
        X = pd.DataFrame({"a": rng.choice(["u", "v", "w"], n), "b": rng.choice(["p", "q"], n)})
    else:
        X = {
            "integers": rng.randint(0, 5, size=(n, 2)),
            "binary": rng.randint(0, 2, size=(n, 1)),
            "repeated rows": rng.normal(size=(20, 2))[rng.randint(0, 20, size=n)],
            "in order": rng.randint(0, 3, size=(n, 3)),
        }[kind]
    y = np.cumsum(rng.normal(size=n)) if kind == "in order" else y
    assert not told(lambda: SparseGPRegressor(max_iter=20, random_state=0).fit(X, y))
