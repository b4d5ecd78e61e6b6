"""`SparseGPClassifier` as a user meets it."""

import pickle
import warnings

import numpy as np
import pytest
from conftest import agree, differences
from inside import ArrayDataset, SiteObjectives, Softmax, Variational, class_problems, plan
from inside import model as family
from joblib import parallel_config
from sklearn import config_context
from sklearn.datasets import make_blobs, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, CompoundKernel, ConstantKernel, WhiteKernel
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline

from skgp_sparse import SparseGPClassifier
from skgp_sparse.likelihoods import Binary, Logit, Probit

BOUNDS = ("titsias", "titsias_new", "gfitc-ep")
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def small(kernel=None, **parameters):
    options = {"n_inducing": 10, "max_iter": 10, "random_state": 0}
    return SparseGPClassifier(kernel, **(options | parameters))


def moons(n=150, seed=0):
    return make_moons(n, noise=0.25, random_state=seed)


def blobs(n=90, centers=3, seed=0):
    return make_blobs(n, centers=centers, cluster_std=0.9, random_state=seed)


def proper(probability, n_classes):
    assert probability.shape[1] == n_classes
    assert np.all(np.isfinite(probability)) and np.all(probability >= 0)
    np.testing.assert_allclose(probability.sum(axis=1), 1.0, rtol=1e-12)


@pytest.mark.second(share=0.1)
@pytest.mark.parametrize("likelihood", ["probit", "logit"])
@pytest.mark.parametrize("bound", BOUNDS)
def test_learns_and_is_calibrated(bound, likelihood):
    X, y = moons(400)
    X_test, y_test = moons(400, seed=1)
    model = small(bound=bound, likelihood=likelihood, n_inducing=20, max_iter=60).fit(X, y)
    probability = model.predict_proba(X_test)
    proper(probability, 2)
    assert log_loss(y_test, probability) < 0.22
    assert abs(probability[:, 1].mean() - y_test.mean()) < 0.03
    np.testing.assert_array_equal(model.predict(X_test), np.argmax(probability, axis=1))


def test_no_worse_than_the_exact_process():
    X, y = moons(200)
    X_test, y_test = moons(500, seed=1)
    kernel = ConstantKernel(1.0) * RBF(1.0)
    ours = small(kernel, n_inducing=40, max_iter=100).fit(X, y)
    exact = GaussianProcessClassifier(kernel).fit(X, y)
    losses = [log_loss(y_test, model.predict_proba(X_test)) for model in (ours, exact)]
    assert losses[0] < 1.01 * losses[1]


@pytest.mark.second(share=0.37)
@pytest.mark.parametrize("bound", BOUNDS)
def test_value_is_the_bound_at_the_fitted_kernel_and_its_gradient_is_right(bound):
    X, y = moons()
    model = small(bound=bound, tol=1e-6).fit(X, y)  # the inner loops are as fine as tol asks
    theta = model.kernel_.theta
    stored = model.log_marginal_likelihood()
    assert stored == model.log_marginal_likelihood_value_
    value, gradient = model.log_marginal_likelihood(theta, eval_gradient=True)
    assert abs(value - stored) < 1e-7 * abs(stored)
    first, second = (model.log_marginal_likelihood(theta + 0.1) for _ in range(2))
    assert first == pytest.approx(second, rel=1e-12)  # BLAS rounds by where arrays are in memory
    agree(gradient, differences(model.log_marginal_likelihood, theta, 1e-3), 1e-4)
    model.log_marginal_likelihood(np.zeros_like(theta), clone_kernel=False)
    np.testing.assert_array_equal(model.kernel_.theta, 0.0)


def test_value_without_theta_has_no_gradient():
    model = small().fit(*moons())
    with pytest.raises(ValueError, match="Gradient can only be evaluated for theta!=None"):
        model.log_marginal_likelihood(eval_gradient=True)
    with pytest.raises(ValueError, match="theta must hold 3 log hyperparameters"):
        model.log_marginal_likelihood([0.0])


@pytest.mark.second(share=0.1, thin=1)
@pytest.mark.parametrize("multi_class", ["one_vs_rest", "one_vs_one"])
@pytest.mark.parametrize("bound", BOUNDS)
def test_several_classes(bound, multi_class):
    X, y = blobs()
    names = np.array(["red", "green", "blue"])[y]
    model = small(bound=bound, multi_class=multi_class).fit(X, names)
    probability = model.predict_proba(X)
    proper(probability, 3)
    np.testing.assert_array_equal(model.classes_, ["blue", "green", "red"])
    assert model.n_classes_ == 3 and model.score(X, names) > 0.8
    assert np.mean(model.classes_[np.argmax(probability, 1)] == model.predict(X)) > 0.97
    assert isinstance(model.kernel_, CompoundKernel) and len(model.inducing_points_) == 3
    with pytest.raises(ValueError, match="only supported for binary"):
        model.latent_mean_and_variance(X)


@pytest.mark.second(share=0)
def test_thirty_classes_one_with_a_single_member():
    y = np.append(np.repeat(np.arange(29), 4), 29)
    X = np.column_stack([y % 6, y // 6]) + 0.05 * np.random.RandomState(0).normal(size=(117, 2))
    names = np.array([f"class {label:02d}" for label in range(30)])
    model = small(max_iter=2).fit(X, names[y])
    proper(model.predict_proba(X), 30)
    assert model.score(X, names[y]) > 0.9 and model.predict(X[-1:]) == names[-1:]


@pytest.mark.second(share=0.44)
@pytest.mark.parametrize("multi_class", ["one_vs_rest", "one_vs_one"])
def test_bound_of_several_classes_takes_one_theta_or_all(multi_class):
    X, y = blobs(120, centers=4)
    model = small(RBF(), multi_class=multi_class, max_iter=3, tol=1e-6).fit(X, y)
    problems = len(model.kernel_.kernels)
    theta = model.kernel_.theta
    value, gradient = model.log_marginal_likelihood(theta, eval_gradient=True)
    assert abs(value - model.log_marginal_likelihood_value_) < 1e-6 * abs(value)
    assert gradient.shape == (problems,)
    shared, slope = model.log_marginal_likelihood(theta[:1], eval_gradient=True)
    stacked, parts = model.log_marginal_likelihood(np.repeat(theta[:1], problems), True)
    assert shared == pytest.approx(stacked, rel=1e-12)
    assert abs(slope[0] - parts.sum()) < 1e-9 * np.abs(parts).sum()
    with pytest.raises(ValueError, match=f"theta must hold 1 or {problems} log"):
        model.log_marginal_likelihood([0.0, 0.0])


@pytest.mark.second(keep=2)
@pytest.mark.parametrize("bound", BOUNDS)
def test_rare_class_is_not_forgotten(bound):
    rng = np.random.RandomState(0)
    X = rng.normal(size=(2004, 2))
    y = np.zeros(2004, dtype=bool)
    X[:4], y[:4] = [4.0, 4.0] + 0.3 * rng.normal(size=(4, 2)), True
    model = small(bound=bound, n_inducing=30, max_iter=60).fit(X, y)
    proper(model.predict_proba(X), 2)
    assert model.predict_proba([[4.0, 4.0]])[0, 1] > 0.3
    assert model.predict_proba([[0.0, 0.0]])[0, 1] < 0.01


@pytest.mark.second(share=0.26)
@pytest.mark.parametrize("bound", BOUNDS)
def test_separable_and_conflicting_labels(bound):
    rng = np.random.RandomState(0)
    X = rng.normal(size=(100, 2))
    separable = small(bound=bound, max_iter=50).fit(X, X[:, 0] > 0)
    proper(separable.predict_proba(1e3 * X), 2)
    twice = np.repeat(X, 2, axis=0)
    conflict = small(bound=bound).fit(twice, np.tile([0, 1], 100))
    np.testing.assert_allclose(conflict.predict_proba(X), 0.5, atol=0.05)


@pytest.mark.second(share=0.25)
@pytest.mark.parametrize("labels", [[-1, 1], [False, True], ["no", "yes"], [3.0, 7.0]])
def test_labels_of_any_kind(labels):
    X, y = moons()
    labels = np.array(labels)
    model = small(max_iter=2).fit(X, labels[y])
    np.testing.assert_array_equal(model.classes_, labels)
    assert model.predict(X).dtype == labels.dtype
    reference = small(max_iter=2).fit(X, y)
    np.testing.assert_array_equal(model.predict_proba(X), reference.predict_proba(X))


def test_one_class_is_an_error():
    X, _ = moons(20)
    with pytest.raises(ValueError, match=r"requires 2 or more distinct classes; got 1 class"):
        small().fit(X, np.zeros(20))
    with pytest.raises(ValueError, match="only class False is present with positive sample_weight"):
        small().fit(X, np.arange(20) == 3, sample_weight=np.arange(20) != 3)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"bound": "dtc"},
            r"'dtc' is defined for Gaussian noise only\. .* SparseGPClassifier must be one of",
        ),
        ({"bound": "tit"}, r"must be one of \['artemev', 'auto', 'fitc', 'gfitc-ep'"),
        ({"likelihood": "poisson"}, r"'likelihood' parameter .* 'ordinal', 'probit'\]"),
        ({"multi_class": "crammer"}, "'multi_class' parameter"),
        ({"multi_class": np.array(["one_vs_rest"] * 2)}, "'multi_class' parameter"),
        ({"max_iter_predict": 0}, "'max_iter_predict' parameter"),
        ({"warm_start": 1}, "'warm_start' parameter"),
        ({"kernel": CompoundKernel([RBF()])}, "kernel cannot be a CompoundKernel"),
    ],
)
def test_parameters_that_make_no_sense(parameters, message):
    with pytest.raises(ValueError, match=message):
        small(**parameters).fit(*moons(30))


@pytest.mark.second
def test_warm_start_goes_on():
    X, y = moons(300)
    model = small(warm_start=True, max_iter=15).fit(X, y)
    first = model.log_marginal_likelihood_value_
    Z = model.inducing_points_
    model.set_params(max_iter=1).fit(X, y)
    assert model.log_marginal_likelihood_value_ >= first - 1e-6
    assert np.abs(model.inducing_points_ - Z).max() < 1.0
    cold = small(max_iter=1).fit(X, y)
    assert cold.log_marginal_likelihood_value_ < model.log_marginal_likelihood_value_
    model.set_params(kernel=RBF()).fit(X, y)  # another kernel: from the start
    assert isinstance(model.kernel_, RBF)


@pytest.mark.second(keep=4)
@pytest.mark.parametrize("n_inducing", [20, "auto"])
@pytest.mark.parametrize(
    "change", [1e3, 1e-3, 1e6, 0.01, 0.03, 0.1, 10.0, [1.0, 1e-3], [0.01, 1.0]], ids=str
)
def test_a_warm_start_that_is_worse_than_a_cold_one_is_none(n_inducing, change):
    X, y = moons(300)
    change = np.broadcast_to(change, 2)
    cold = small(n_inducing=n_inducing, max_iter=100).fit(change * X, y)
    warm = small(n_inducing=n_inducing, max_iter=100, warm_start=True).fit(X, y).fit(change * X, y)
    assert warm.score(change * X, y) > cold.score(change * X, y) - 0.01
    moved = change * X + 1e4 * change
    assert warm.fit(moved, y).score(moved, y) > cold.score(change * X, y) - 0.01


def test_a_warm_start_keeps_the_hyperparameters_where_inducing_points_change():
    X, y = moons(300)
    kernel = 1.0 * RBF(1.0)
    model = small(kernel, n_inducing=20, warm_start=True, max_iter=50).fit(X, y)
    seen = []

    def optimizer(objective, theta, bounds):
        seen.append(theta)
        return theta, 0.0

    found = model.kernel_.theta
    model.set_params(n_inducing=30, optimizer=optimizer).fit(X, y)
    np.testing.assert_allclose(seen, [found])


@pytest.mark.second(thin=1)
@pytest.mark.parametrize("options", [{"n_inducing": 8}, {"n_inducing": 200}], ids=str)
@pytest.mark.parametrize("bound, likelihood", [("titsias_new", "probit"), ("fitc", "logit")])
def test_an_extreme_theta_has_a_value_or_none(options, bound, likelihood):
    X, y = moons(60)
    kernel = 1.0 * RBF() + WhiteKernel()
    options = options | {"bound": bound, "likelihood": likelihood, "optimizer": None}
    model = small(kernel, **options).fit(X, y)
    for extreme in (-800.0, -300.0, 300.0, 800.0, 1e3, np.inf, np.nan):
        for chosen in np.ndindex(2, 2, 2):
            theta = np.where(chosen, extreme, 0.0)
            value, gradient = model.log_marginal_likelihood(theta, eval_gradient=True)
            assert np.isfinite(gradient).all() and (np.isfinite(value) or value == -np.inf)


@pytest.mark.parametrize("likelihood", ["probit", "logit"])
def test_queries_of_any_size_are_answered(likelihood):
    X, y = moons(100)
    model = small(likelihood=likelihood).fit(X, y)
    queries = np.array([[1e160, 1e160], [-1e300, 1.0], [1.7e308, -1.7e308]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_allclose(model.predict_proba(queries), 0.5, atol=1e-12)


def test_optimizer_none_and_inducing_points_of_ones_own():
    X, y = moons()
    kernel = ConstantKernel(2.0) * RBF(0.7)
    Z = X[:7].copy()
    options = {"inducing_init": Z, "optimize_inducing": False}
    model = small(kernel, optimizer=None, **options).fit(X, y)
    assert model.kernel_ == kernel and model.kernel_ is not kernel
    np.testing.assert_array_equal(model.inducing_points_, Z)
    learned = small(kernel, **options).fit(X, y)
    np.testing.assert_array_equal(learned.inducing_points_, Z)
    assert learned.log_marginal_likelihood_value_ > model.log_marginal_likelihood_value_


def test_white_noise_is_part_of_the_latent_process():
    X, y = moons()
    kernel = ConstantKernel(2.0) * RBF(0.7)
    plain = small(kernel, optimizer=None).fit(X, y)
    noisy = small(kernel + WhiteKernel(0.5), optimizer=None).fit(X, y)
    assert noisy.log_marginal_likelihood_value_ < plain.log_marginal_likelihood_value_
    _, variance = noisy.latent_mean_and_variance(X)
    assert np.all(variance > 0.5)


def test_inner_iterations_that_do_not_suffice_are_a_warning_with_a_remedy():
    X, y = moons()
    with pytest.warns(ConvergenceWarning, match="Raise max_iter_predict .now 1."):
        small(ConstantKernel(1e3) * RBF(), optimizer=None, max_iter_predict=1).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        small(ConstantKernel(1e3) * RBF(), optimizer=None).fit(X, y)


@pytest.mark.second(share=0.5)
@pytest.mark.parametrize(
    "mode, names",
    [
        ("one_vs_rest", [f"{name} against the rest" for name in "abc"]),
        ("one_vs_one", ["b against a", "c against a", "c against b"]),
    ],
)
def test_verbose_names_the_problem_where_there_are_several(mode, names, capsys):
    X, y = blobs()
    small(verbose=1, max_iter=2, multi_class=mode).fit(X, np.array(["a", "b", "c"])[y])
    printed = capsys.readouterr().out.splitlines()
    told = list(dict.fromkeys(line.split("] ")[1].split(", iter")[0] for line in printed))
    assert told[0].startswith("plan: ") and told[1:] == names


@pytest.mark.second
def test_weights_are_repeats_for_the_size_of_the_start_too():
    X, y = moons(1300)
    options = {"max_iter": 1, "n_inducing": 5, "inducing_init": "greedy"}
    weighted = small(**options).fit(X, y, sample_weight=np.full(len(X), 2.0))
    repeated = small(**options).fit(np.repeat(X, 2, axis=0), np.repeat(y, 2))
    np.testing.assert_allclose(weighted.kernel_.theta, repeated.kernel_.theta, rtol=1e-6)


def test_variance_of_the_default_kernel_is_bounded_where_the_sigmoid_is_saturated():
    X = np.linspace(-3, 3, 80)[:, None]
    model = small(max_iter=200).fit(X, X[:, 0] > 0)
    assert np.exp(model.kernel_.theta[0]) <= 50.0 * (1 + 1e-9)


def test_coupling_recovers_probabilities_that_the_pairs_came_from():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(5), size=40)
    pairs = [(i, j) for i in range(5) for j in range(i + 1, 5)]
    pairwise = np.column_stack([p[:, j] / (p[:, i] + p[:, j]) for i, j in pairs])
    np.testing.assert_allclose(class_problems.coupled(pairwise, 5), p, atol=1e-9)
    np.testing.assert_array_equal(class_problems.votes(pairwise, 5), np.argmax(p, axis=1))


def test_coupling_of_certain_and_of_circular_pairs():
    certain = class_problems.coupled(np.array([[0.0, 0.0, 0.5]]), 3)
    proper(certain, 3)
    assert certain[0, 0] > 0.99
    circular = np.array([[0.1, 0.9, 0.1]])  # 0 beats 1, 2 beats 0, 1 beats 2
    np.testing.assert_allclose(class_problems.coupled(circular, 3), 1 / 3, atol=1e-9)
    np.testing.assert_allclose(class_problems.normalised(np.zeros((1, 3))), 1 / 3)


def test_parameters_set_after_a_fit_change_no_prediction():
    X, y = blobs()
    model = small(max_iter=3).fit(X, y)
    before = model.predict_proba(X), model.predict(X)
    model.set_params(multi_class="one_vs_one")
    for earlier, now in zip(before, (model.predict_proba(X), model.predict(X))):
        np.testing.assert_array_equal(now, earlier)


def test_processes_bring_back_no_rows(monkeypatch):
    found = []

    class Parallel:
        def __init__(self, n_jobs):
            self.n_jobs = n_jobs

        def __call__(self, jobs):
            for function, arguments, _ in jobs:
                found.append(function(*arguments))
                assert found[-1][0].objective.rows is None
                yield found[-1]

    monkeypatch.setattr(family, "Parallel", Parallel)
    X, y = blobs()
    model = small(max_iter=1, n_jobs=2).fit(X, y)
    assert len(found) == 3 and all(len(fit.objective.rows) == len(X) for fit in model._fitted.fits)
    assert all(not fit.objective.inner_state.history for fit in model._fitted.fits)


@pytest.mark.second(share=0.15)
def test_threads_can_fit_the_problems_too():
    X, y = blobs(centers=6)
    alone = small(max_iter=2).fit(X, y)
    with parallel_config("threading"), pytest.warns(ConvergenceWarning) as caught:
        model = small(max_iter=2, n_jobs=3).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), alone.predict_proba(X), atol=1e-6)
    told = [str(one.message) for one in caught if "stopped after 2" in str(one.message)]
    assert [message.split(":")[0] for message in told] == [
        f"{k} against the rest" for k in range(6)
    ]


@pytest.mark.second(share=0.15)
def test_all_problems_get_the_memory_of_the_user(monkeypatch):
    seen, fit_elsewhere = [], family._fit_elsewhere

    def fit(job, *rest):
        seen.append(job.settings.options.memory)
        return fit_elsewhere(job, *rest)

    monkeypatch.setattr(family, "_fit_elsewhere", fit)
    with config_context(working_memory=64), parallel_config("threading"):
        small(max_iter=1, n_jobs=2).fit(*blobs(centers=12))
    assert seen == 12 * [64 * 2**20]


def test_processes_change_no_bit_and_warnings_name_the_problem_and_the_line():
    (X, y), found = blobs(), []
    kernel = RBF(2.0, (2.0 - 1e-7, 2.0 + 1e-7)) * ConstantKernel(1.0, "fixed")
    for n_jobs in (None, 2):
        model = make_pipeline(small(kernel, max_iter=1, n_jobs=n_jobs))
        with pytest.warns(ConvergenceWarning) as caught:
            found.append(model.fit(X, np.array(list("abc"))[y]).predict_proba(X))
        for what in ("stopped after 1 iterations", "length_scale is close to the specified"):
            told = [one for one in caught if what in str(one.message)]
            names = [str(one.message).split(":")[0] for one in told]
            assert names == ["a against the rest", "b against the rest", "c against the rest"]
            assert {one.filename for one in told} == {__file__}
    np.testing.assert_array_equal(*found)


def test_warm_start_on_another_number_of_features_starts_again():
    X, y = moons()
    model = small(RBF(), warm_start=True, max_iter=2).fit(X, y)
    assert model.fit(np.hstack([X, X]), y).inducing_points_.shape == (10, 4)


def test_inducing_points_of_a_callable_come_from_the_rows_of_the_problem():
    X, y = blobs()
    seen = []

    def first(X, n_inducing, kernel, random_state):
        seen.append(len(X))
        return X[:n_inducing]

    small(max_iter=1, inducing_init=first, multi_class="one_vs_one").fit(X, y)
    assert seen == [60, 60, 60]


def test_the_start_of_a_rare_class_sees_it():
    rng = np.random.RandomState(0)
    X, y = rng.normal(size=(5000, 2)), np.full(5000, -1.0)
    y[:40] = 1.0
    rows = ArrayDataset(X, y[:, None]).in_one_form()
    model = SiteObjectives(Variational(Logit(), True))
    chosen = model.sample(rows, 250, np.random.RandomState(1))
    assert len(chosen) == len(np.unique(chosen)) == 250
    assert np.sum(rows.y[chosen] > 0) == 25
    np.testing.assert_array_equal(model.sample(rows, 6000, rng), np.arange(5000))


def test_auto_is_the_exact_process_up_to_a_number_of_distinct_rows(monkeypatch):
    monkeypatch.setattr(plan, "EXACT_LABELS", 60)
    monkeypatch.setattr(plan, "POINTS_OF_LABELS", 7)
    for n, m in ((60, 60), (61, 7)):
        X, y = moons(n)
        model = SparseGPClassifier(RBF(), optimizer=None, random_state=0).fit(X, y)
        assert model.n_inducing_ == len(model.inducing_points_) == m
    X, y = blobs(60)
    model = SparseGPClassifier(RBF(), optimizer=None, random_state=0).fit(X, y)
    assert model.n_inducing_ == [60, 60, 60]


class Steep(Binary):
    """Φ(a y f), where a is learned."""

    def __init__(self, a=1.0):
        self.a = a

    theta = property(lambda self: np.log([self.a]))
    limits = property(lambda self: np.log([[1e-2, 1e2]]))

    def with_theta(self, theta):
        return Steep(np.exp(theta[0]))

    strip = property(lambda self: Probit.strip / self.a)

    def probability(self, mean, variance):
        return Probit().probability(self.a * mean, self.a**2 * variance)

    def log_sigmoid(self, t):
        value, slope, curvature = Probit().log_sigmoid(self.a * t)
        return value, self.a * slope, self.a**2 * curvature

    def tilted_slopes(self, y, mean, variance, power=1.0):
        _, slope, curvature = self.tilted(y, mean, variance, power)
        return (slope * mean + (slope**2 - curvature) * variance)[None]


def test_likelihoods_of_labels_are_fitted_attributes():
    X, y = moons(40)
    model = small(likelihood="logit", max_iter=2).fit(X, y)
    assert type(model.likelihood_) is Logit
    model = small(likelihood=Steep(), bound="gfitc-ep", max_iter=5).fit(X, np.arange(40) % 3)
    assert [type(one) for one in model.likelihood_] == 3 * [Steep]
    assert all(one.a != 1.0 for one in model.likelihood_)
    model = small(multi_class="softmax", max_iter=2).fit(X, np.arange(40) % 3)
    assert type(model.likelihood_) is Softmax and model.likelihood_.n_classes == 3


@pytest.mark.second
@pytest.mark.parametrize("n_inducing", [10, 300])
def test_predictions_know_the_learned_parameters_of_a_likelihood(n_inducing):
    X, y = moons(300)
    options = {"bound": "gfitc-ep", "n_inducing": n_inducing, "tol": 1e-7}
    mine = small(RBF(), likelihood=Steep(), **options).fit(X, y)
    learned = mine.likelihood_.a  # of unit variance: a stands for the root of the variance
    assert learned > 1.5
    again = pickle.loads(pickle.dumps(mine))
    np.testing.assert_allclose(again.predict_proba(X), mine.predict_proba(X))
    kernel = ConstantKernel(learned**2) * mine.kernel_
    scaled = small(kernel, optimizer=None, **options)
    scaled.set_params(inducing_init=mine.inducing_points_).fit(X, y)
    np.testing.assert_allclose(scaled.predict_proba(X), mine.predict_proba(X), atol=1e-5)
