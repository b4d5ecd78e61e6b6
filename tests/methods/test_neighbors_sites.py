"""Neighbours of rows with a likelihood: sites whose cavities are leave-one-out predictions."""

import pickle
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import differences
from inside import ArrayDataset, LocalSiteObjective, SiteRows, local_site_objective
from inside import neighbors_of_methods as neighbors
from numpy.testing import assert_allclose
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

from skgp_sparse import SparseGPClassifier, SparseGPRegressor
from skgp_sparse.likelihoods import Beta, Gamma, Logit, NegativeBinomial, Poisson, Probit, StudentT
from skgp_sparse.posteriors import Neighbors

KERNEL = ConstantKernel(2.0) * Matern([0.8, 1.2], nu=1.5)
LIKELIHOODS = [
    Probit(),
    Logit(),
    Poisson(level=1.0),
    NegativeBinomial(level=1.0, size=2.0),
    Gamma(level=1.0, shape=2.0),
    StudentT(scale=0.3, level=0.0),
]


def rows_of(likelihood, n=60, seed=0):
    rng = np.random.RandomState(seed)
    X = rng.uniform(-2, 2, size=(n, 2))
    return X, likelihood.sample(np.sin(2 * X).sum(axis=1), rng)


def objective_of(likelihood, X, y, k, kernel=KERNEL, **others):
    n = len(X)
    offset, weight = others.get("offset", np.zeros(n)), others.get("weight", np.ones(n))
    near = SiteRows(X, np.arange(n), y, offset, weight)
    near = near.with_neighbors(k, near.X / kernel.k2.length_scale, 1)
    given = {"rows": ArrayDataset(X, np.reshape(y, (n, -1))), "total": weight.sum()}
    return LocalSiteObjective(near=near, sites=np.zeros((2, n)), likelihood=likelihood, **given)


def dense_sites(likelihood, X, y, offset, sweeps=60):
    """Sites by a plain loop over rows, each given all others; halved steps."""
    n = len(X)
    K, sites = KERNEL(X), np.zeros((2, n))
    for _ in range(sweeps):
        cavities = np.empty((2, n))
        for i in range(n):
            rest = np.arange(n) != i
            precision = np.diag(sites[1, rest])
            # (K⁻¹ + Λ)⁻¹ without the inverse of K
            S = np.linalg.solve(np.eye(n - 1) + K[np.ix_(rest, rest)] @ precision, K[rest][:, rest])
            w = np.linalg.solve(K[np.ix_(rest, rest)], K[rest, i])
            cavities[:, i] = w @ S @ sites[0, rest], K[i, i] - w @ K[rest, i] + w @ S @ w
        m, v = cavities
        _, slope, curvature = likelihood.tilted(y, m + offset, v)
        # moments of the tilted distribution, and what they have beyond the cavity
        mean, variance = m + v * slope, v - v**2 * curvature
        target = np.stack([mean / variance - m / v, 1.0 / variance - 1.0 / v])
        sites += 0.5 * (target - sites)
    return sites, m, v


@pytest.mark.second(share=0.4)
@pytest.mark.parametrize("likelihood", LIKELIHOODS[:5], ids=lambda one: type(one).__name__)
def test_sweeps_end_where_a_plain_loop_over_rows_does(likelihood):
    X, y = rows_of(likelihood, n=25)
    offset = np.linspace(-0.5, 0.5, 25) if likelihood.is_log_concave else np.zeros(25)
    objective = objective_of(likelihood, X, y, 24, offset=offset)
    objective = objective.after_sweeps(KERNEL, most=100, tol=1e-24)
    sites, m, v = dense_sites(likelihood, X, y, offset)
    assert_allclose(objective.sites, sites, rtol=1e-6, atol=1e-6)
    value = likelihood.tilted(y, m + offset, v)[0].sum()
    assert_allclose(objective.value(KERNEL), value, rtol=1e-8)


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=lambda one: type(one).__name__)
def test_gradients_at_held_sites_are_slopes_of_the_density(likelihood):
    X, y = rows_of(likelihood)
    kernel = KERNEL + WhiteKernel(0.05)
    objective = objective_of(likelihood, X, y, 12, KERNEL).after_sweeps(kernel, most=5)
    objective = replace(objective, chosen=np.arange(0, 60, 2))
    gradient = objective.value_and_gradient(kernel).gradient
    values = {
        "kernel": lambda theta: objective.value(kernel.clone_with_theta(theta)),
        "likelihood": lambda theta: objective.at(likelihood=theta).value(kernel),
    }
    for name, theta in (("kernel", kernel.theta), ("likelihood", likelihood.theta)):
        if len(theta):
            slopes = differences(values[name], theta)
            assert_allclose(gradient[name], slopes, rtol=1e-5, atol=1e-6)


def test_precisions_are_positive_where_a_likelihood_is_not_log_concave():
    X, y = rows_of(StudentT(scale=0.3, level=0.0))
    y[::7] += 30.0
    objective = objective_of(StudentT(scale=0.3, level=0.0), X, y, 20).after_sweeps(KERNEL, most=50)
    assert np.all(objective.sites[1] > 0) and np.isfinite(objective.sites).all()
    assert objective.sites[1][::7].max() < 0.05 * np.median(objective.sites[1])


def test_rows_that_say_nothing_are_no_neighbours():
    X, y = rows_of(Probit())
    silent = np.arange(60) % 2 == 0
    objective = objective_of(Probit(), X, y, 59)
    sites = np.where(silent, 0.0, np.stack([y, np.ones(60)]))
    alone = objective_of(Probit(), X[~silent], y[~silent], 29)
    J = replace(objective, sites=sites, chosen=np.flatnonzero(~silent)).value(KERNEL)
    assert_allclose(J / 60, replace(alone, sites=sites[:, ~silent]).value(KERNEL) / 30, rtol=1e-10)


def fitted(estimator, X, y, k=20, k_fit=10, sample_weight=None, **others):
    model = estimator(posterior=Neighbors(k, k_fit), random_state=0, **others)
    return model.fit(X, y, sample_weight)


def test_a_classifier_with_neighbours_learns():
    rng = np.random.RandomState(0)
    X = rng.uniform(-3, 3, size=(600, 2))
    label = np.where(np.sin(2 * X[:, 0]) + np.sin(2 * X[:, 1]) > 0, "up", "down")
    model = fitted(SparseGPClassifier, X[:400], label[:400])
    assert model.posterior_ == "neighbors" and not hasattr(model, "inducing_points_")
    assert model.score(X[400:], label[400:]) > 0.9
    mean, variance = model.latent_mean_and_variance(X[400:])
    assert np.all(variance > 0) and np.mean((mean > 0) == (label[400:] == "up")) > 0.9
    value, gradient = model.log_marginal_likelihood(model.kernel_.theta, eval_gradient=True)
    assert_allclose(value, model.log_marginal_likelihood_value_, rtol=1e-5)
    assert np.isfinite(gradient).all()


@pytest.mark.parametrize("likelihood", ["probit", "logit"])
def test_weights_are_repeated_rows(likelihood):
    X, y = rows_of(Probit(), n=150)
    weight = np.random.RandomState(1).randint(0, 3, size=150)
    given = {"likelihood": likelihood, "kernel": KERNEL, "max_iter": 5}
    weighted = fitted(SparseGPClassifier, X, y, sample_weight=weight, **given)
    copies = np.repeat(X, weight, axis=0), np.repeat(y, weight)
    repeated = fitted(SparseGPClassifier, *copies, **given)
    Q = np.random.RandomState(2).uniform(-2, 2, size=(20, 2))
    assert_allclose(weighted.predict_proba(Q), repeated.predict_proba(Q), rtol=1e-10)
    # copies that are told apart by noise in X have each other as neighbours
    assert weighted._fitted.fits[0].objective.near.n_rows == np.count_nonzero(weight)


def test_rows_at_one_place_have_the_sum_of_their_sites():
    X, y = rows_of(Probit(), n=30)
    twice, labels = np.vstack([X, X]), np.append(y, -y)
    near = SiteRows(X, np.tile(np.arange(30), 2), labels, np.zeros(60), np.ones(60))
    near = near.with_neighbors(29, near.X, 1)
    sites = np.random.RandomState(0).uniform(0.5, 1.0, size=(2, 60))
    left = near.left_out(slice(None), sites, near.at_places(sites))
    own = left.near == left.own[:, None]
    assert np.array_equal(own.sum(axis=1), np.ones(60))
    other = np.roll(np.arange(60), 30)
    assert_allclose(1.0 / left.noise_near[own], sites[1][other], rtol=1e-8)
    assert_allclose(left.y_near[own][:, 0], (sites[0] / sites[1])[other], rtol=1e-8)
    assert len(twice) == near.n_rows


def test_the_number_of_threads_has_no_say():
    X, y = rows_of(Probit(), n=400)
    one, two = (
        fitted(SparseGPClassifier, X, y, n_jobs=n, max_iter=6).predict_proba(X) for n in (1, 2)
    )
    assert np.array_equal(one, two)


def test_a_softmax_and_a_named_bound_are_refused():
    X, y = rows_of(Probit(), n=60)
    y[:20] = 2
    with pytest.raises(ValueError, match="one_vs_rest"):
        fitted(SparseGPClassifier, X, y, multi_class="softmax")
    with pytest.raises(ValueError, match="bound"):
        fitted(SparseGPClassifier, X, y, bound="titsias")


def counts(n=600, seed=0):
    rng = np.random.RandomState(seed)
    X = rng.uniform(-3, 3, size=(n, 2))
    f = np.sin(2 * X[:, 0]) + 0.5 * np.sin(2 * X[:, 1])
    return X, f, rng


@pytest.mark.second(share=0.11, keep=2)
@pytest.mark.parametrize("name", ["poisson", "negative_binomial", "gamma", "beta", "student_t"])
def test_numbers_with_a_likelihood_are_predicted(name):
    X, f, rng = counts()
    likelihood = {
        "poisson": Poisson(level=1.0),
        "negative_binomial": NegativeBinomial(level=1.0, size=5.0),
        "gamma": Gamma(level=1.0, shape=5.0),
        "beta": Beta(level=0.5, precision=30.0),
        "student_t": StudentT(scale=0.1, level=0.0),
    }[name]
    offset = rng.uniform(-1, 1, size=len(X))
    y = likelihood.sample(2.0 * f + offset, rng)
    model = SparseGPRegressor(likelihood=name, posterior=Neighbors(30, 15), random_state=0)
    model.fit(X[:400], y[:400], offset=offset[:400])
    mean = model.predict(X[400:], latent=True, offset=offset[400:])
    assert model.posterior_ == "neighbors"
    assert np.corrcoef(mean, 2.0 * f[400:] + offset[400:])[0, 1] > 0.95
    assert np.isfinite(model.log_predictive_density(X[400:], y[400:], offset=offset[400:])).all()


@pytest.mark.second
@pytest.mark.parametrize("multi_class", ["one_vs_rest", "one_vs_one"])
def test_several_classes_are_several_problems(multi_class):
    X, f, _ = counts()
    label = np.digitize(f, [-0.5, 0.5])
    given = {"k": 30, "k_fit": 15, "multi_class": multi_class, "max_iter": 10}
    model = fitted(SparseGPClassifier, X[:400], label[:400], **given)
    assert model.posterior_ == ["neighbors"] * 3
    assert model.score(X[400:], label[400:]) > 0.85
    assert_allclose(model.predict_proba(X[400:]).sum(axis=1), 1.0)


def test_training_may_know_some_of_the_rows_only(monkeypatch):
    # sites of the others begin where these predict them, and sweeps go on
    X, f, rng = counts(1500)
    label = f + 0.3 * rng.normal(size=len(f)) > 0
    given = {"kernel": ConstantKernel(5.0) * RBF(1.0), "max_iter": 8}
    whole = fitted(SparseGPClassifier, X[:1200], label[:1200], **given)
    monkeypatch.setattr(neighbors, "_TRAINED", 400)
    some = fitted(SparseGPClassifier, X[:1200], label[:1200], **given)
    assert [one._fitted.fits[0].objective.near.n_rows for one in (some, whole)] == [1200, 1200]
    scores = [
        np.mean(np.log(model.predict_proba(X[1200:])[np.arange(300), label[1200:].astype(int)]))
        for model in (whole, some)
    ]
    assert abs(scores[0] - scores[1]) < 0.03


def test_a_warm_start_goes_on_where_the_last_fit_ended():
    X, f, _ = counts(300)
    label = f > 0
    model = SparseGPClassifier(posterior=Neighbors(20, 10), random_state=0, warm_start=True)
    first = model.fit(X, label).log_marginal_likelihood_value_
    assert model.fit(X, label).log_marginal_likelihood_value_ > first - 1.0


def test_hyperparameters_stay_without_an_optimizer():
    X, f, _ = counts(300)
    model = fitted(SparseGPClassifier, X, f > 0, kernel=KERNEL, optimizer=None)
    assert np.array_equal(model.kernel_.theta, KERNEL.theta)
    assert_allclose(
        model.log_marginal_likelihood(KERNEL.theta), model.log_marginal_likelihood_value_
    )


def test_a_pickle_predicts_and_evaluates():
    X, f, _ = counts(300)
    model = fitted(SparseGPClassifier, X.astype(np.float32), f > 0, max_iter=5)
    copy = pickle.loads(pickle.dumps(model))
    assert copy._fitted.fits[0].posterior.rows.X.dtype == np.float32
    assert np.array_equal(copy.predict_proba(X), model.predict_proba(X))
    theta = model.kernel_.theta
    assert copy.log_marginal_likelihood(theta) == model.log_marginal_likelihood(theta)


@pytest.mark.parametrize("together", [7, 1 << 14])
def test_sweeps_with_kernel_matrices_at_hand_are_those_without(together, monkeypatch):
    X, y = rows_of(Probit())
    kernel = KERNEL + WhiteKernel(0.05)
    monkeypatch.setattr(local_site_objective, "_ROWS_PER_SWEEP_BLOCK", together)
    kept = objective_of(Probit(), X, y, 12).after_sweeps(kernel, most=4)
    monkeypatch.setattr(local_site_objective, "_KEPT", 0)
    again = objective_of(Probit(), X, y, 12).after_sweeps(kernel, most=4)
    assert np.array_equal(kept.sites, again.sites)


@pytest.fixture
def small_selection(monkeypatch):
    """Selections of few rows and inducing points."""
    monkeypatch.setattr("skgp_sparse.choices.plan.EXACT_ROWS", 400)
    monkeypatch.setattr("skgp_sparse.choices.plan.POINTS_OF_LABELS", 12)


@pytest.mark.second
def test_auto_predicts_labels_as_the_candidate_that_leads(small_selection):
    X, f, rng = counts(900)
    rough = np.sin(2.5 * X[:, 0]) + np.sin(2.5 * X[:, 1]) > 0
    linear = X[:, 0] + rng.normal(size=900) > 0
    kernel = ConstantKernel(5.0) * RBF([1.0, 1.0])
    models = [SparseGPClassifier(kernel, random_state=0).fit(X, label) for label in (rough, linear)]
    assert [model.posterior_ for model in models] == ["neighbors", "inducing"]
    for model, worst in zip(models, (0.55, 0.6)):
        names = [candidate.name for candidate in model.selection_]
        assert names[0] == "neighbors (100 neighbors)" and names[1] == "inducing (at the start)"
        assert all(np.isnan(one.rmse) and one.seconds >= 0 for one in model.selection_)
        assert all(-1.0 < one.density < 0.0 for one in model.selection_)
        assert max(one.density for one in model.selection_) > -worst
    again = SparseGPClassifier(kernel, random_state=0).fit(X, rough)
    assert np.array_equal(again.predict_proba(X), models[0].predict_proba(X))


@pytest.mark.second
def test_binary_problems_select_together(small_selection, monkeypatch):
    X, f, _ = counts(500)
    waves = np.sin(4 * X)
    label = np.where(waves[:, 0] + waves[:, 1] > 0, 2, waves[:, 0] > waves[:, 1])
    given = {"random_state": 0, "max_iter": 8, "mean": None, "calibration": None}
    monkeypatch.setattr("skgp_sparse.methods.selection._MOST_PROBLEMS", 2)
    model = SparseGPClassifier(**given).fit(X, label)
    assert model.posterior_ == ["neighbors"] * 3
    assert [len(of_problem) >= 2 for of_problem in model.selection_] == [True, False, True]
    for options in ({"n_jobs": 2}, {"posterior": "neighbors"}):
        other = SparseGPClassifier(**given, **options).fit(X, label)
        assert np.array_equal(other.predict_proba(X), model.predict_proba(X))
    softmax = SparseGPClassifier(random_state=0, max_iter=2, multi_class="softmax").fit(X, label)
    assert softmax.posterior_ == "inducing" and softmax.selection_ == []


@pytest.mark.second(share=0.3)
@pytest.mark.second
def test_counts_have_a_selection_and_streams_go_on_from_its_winner(small_selection):
    X, _, rng = counts(1000)
    f = np.sin(4 * X[:, 0]) + np.sin(4 * X[:, 1])
    y = rng.poisson(np.exp(2.0 * f))
    model = SparseGPRegressor(likelihood="poisson", random_state=0).fit(X[:800], y[:800])
    assert model.posterior_ == "neighbors" and np.isnan(model.selection_[0].rmse)
    found = model.log_predictive_density(X[800:], y[800:]).mean()
    assert abs(found - model.selection_[0].density) < 0.3
    model.partial_fit(X[800:], y[800:])
    assert model.posterior_ == "inducing" and np.isfinite(model.predict(X)).all()


def test_trials_of_wide_tables_have_fewer_rows():
    numbers = [neighbors.most_trained(d) for d in (2, 64, 256, 6400)]
    assert numbers == [20_000, 20_000, 10_000, 2000]


# -- where time ends before all rows were swept over -----------------------------------


def test_last_sites_are_predicted_from_rows_at_other_places():
    X, y = rows_of(Probit(), 80)
    y = y[:, None]
    some = objective_of(Probit(), X[:50], y[:50], 12).after_sweeps(KERNEL, most=50)
    some = replace(some, rows=ArrayDataset(X[:50], y[:50]))
    everything = SiteRows(X, np.arange(80), y, np.zeros(80), np.ones(80))
    search = SimpleNamespace(k_fit=12, n_jobs=1)
    given = some, KERNEL, everything
    first = neighbors.SiteSearch._predicted_sites(search, *given, False)
    last = neighbors.SiteSearch._predicted_sites(search, *given, True)
    assert_allclose(last[:, 50:], first[:, 50:], rtol=1e-8)
    moments = some.cavities(KERNEL, np.arange(50))
    known = local_site_objective.next_sites(Probit(), y[:50, 0], *moments, np.zeros(50))
    assert_allclose(last[:, :50], known, rtol=1e-6)
    assert np.abs(first[:, :50] - known).max() > 1e-3


def test_neighbors_that_are_looked_for_later_are_the_same():
    X, y = rows_of(Probit(), 60)
    whole = objective_of(Probit(), X, y[:, None], 12).after_sweeps(KERNEL, most=3)
    whole = replace(whole, rows=ArrayDataset(X, y[:, None]))
    asked = whole.near._replace(near=None, search=(12, X / KERNEL.k2.length_scale))
    later = replace(whole, near=asked, is_rough=True)
    chosen = np.array([3, 17, 40])
    assert_allclose(later.cavities(KERNEL, chosen), whole.cavities(KERNEL, chosen), rtol=1e-12)
    swept, expected = (one.after_sweeps(KERNEL, most=2).sites for one in (later, whole))
    assert_allclose(swept, expected, rtol=1e-12)


def test_without_time_no_sweep_sees_all_rows(monkeypatch):
    rng = np.random.RandomState(0)
    X = rng.uniform(-2, 2, size=(900, 2))
    y = np.sin(2 * X).sum(axis=1) + 0.2 * rng.normal(size=900) > 0
    sizes, swept = [], LocalSiteObjective._swept

    def counted(self, *given):
        sizes.append(self.near.n_rows)
        return swept(self, *given)

    monkeypatch.setattr(LocalSiteObjective, "_swept", counted)
    model = SparseGPClassifier(posterior="neighbors", time_limit=0, random_state=0).fit(X, y)
    left_out = model.loo_predict_proba()
    assert max(sizes) < 900 and np.mean((left_out[:, 1] > 0.5) == y) > 0.9
    assert model.score(X, y) > 0.9
    value = model.log_marginal_likelihood(model.kernel_.theta)  # which sweeps
    assert max(sizes) == 900 and np.isfinite(value)
