"""What scikit-learn expects of an estimator, for every bound, exact and sparse."""

import inspect
import pickle
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from conftest import NAMED_BOUNDS, Recorder, raising
from inside import BOUNDS, IterationReporter, _estimator, warn_at_bounds
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, Kernel, WhiteKernel
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from skgp_sparse import SparseGPClassifier, SparseGPRegressor
from skgp_sparse.bounds import PEP
from skgp_sparse.likelihoods import BY_NAME as LIKELIHOODS
from skgp_sparse.metrics import log_predictive_density_scorer
from skgp_sparse.posteriors import FourierFeatures, InducingPoints, IterativeExact, Neighbors
from skgp_sparse.solvers import LBFGS, Stochastic

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def table(n=60, seed=0):
    rng = np.random.RandomState(seed)
    X = rng.uniform(-3, 3, size=(n, 2))
    return X, np.sin(X[:, 0]) + 0.1 * rng.normal(size=n)


def small(**parameters):
    return SparseGPRegressor(**{"n_inducing": 8, "max_iter": 5, "random_state": 0} | parameters)


def estimators():
    sparse = [SparseGPRegressor(bound=bound, n_inducing=5, max_iter=5) for bound in NAMED_BOUNDS]
    labels = [
        SparseGPClassifier(bound=bound, multi_class=multi_class, max_iter=5, **size)
        for bound in ("titsias", "titsias_new", "gfitc-ep")
        for multi_class, size in (("one_vs_rest", {"n_inducing": 8}), ("one_vs_one", {}))
    ]
    labels += [
        SparseGPClassifier(multi_class="softmax", n_inducing=8, max_iter=5),
        SparseGPClassifier(multi_class="softmax", bound="titsias", max_iter=3),
        SparseGPClassifier(bound="pep", n_inducing=8, max_iter=5),
    ]
    numbers = [
        SparseGPRegressor(likelihood=likelihood, max_iter=5, **size)
        for likelihood in LIKELIHOODS
        if likelihood != "beta"  # the checks have targets above 1
        for size in ({"n_inducing": 5}, {})
    ]
    neighbors = [
        SparseGPRegressor(posterior=Neighbors(8, 5), max_iter=5),
        SparseGPClassifier(posterior=Neighbors(8, 5), max_iter=5),
        SparseGPClassifier(posterior=Neighbors(8, 5), max_iter=5, multi_class="one_vs_one"),
        SparseGPRegressor(likelihood="student_t", posterior=Neighbors(8, 5), max_iter=5),
    ]
    features = [
        SparseGPRegressor(posterior=FourierFeatures(10), max_iter=3),
        SparseGPClassifier(RBF(), posterior=FourierFeatures(10), optimizer=None),
    ]
    return sparse + labels + numbers + neighbors + features


def expected_failures(estimator):
    """Checks that set ``alpha = 0.01``, a variance of Gaussian noise, in every regressor."""
    if getattr(estimator, "likelihood", "gaussian") not in LIKELIHOODS:
        return {}
    return {"check_regressors_train": "sets alpha, which belongs to Gaussian noise"}


@parametrize_with_checks([SparseGPRegressor(optimizer=None)])
def test_estimator_checks_without_an_optimiser(estimator, check):
    check(estimator)


@pytest.mark.second
@parametrize_with_checks([SparseGPRegressor(), SparseGPClassifier()])
def test_estimator_checks_of_the_defaults(estimator, check):
    check(estimator)


@pytest.mark.full
@parametrize_with_checks(
    [SparseGPRegressor(posterior="neighbors"), SparseGPClassifier(posterior="neighbors")]
)
def test_estimator_checks_of_neighbors(estimator, check):
    check(estimator)


@pytest.mark.second(share=0.02)
@parametrize_with_checks(estimators()[::28], expected_failed_checks=expected_failures)
def test_estimator_checks(estimator, check):
    check(estimator)


@pytest.mark.full
@parametrize_with_checks(estimators(), expected_failed_checks=expected_failures)
def test_estimator_checks_of_all(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    "alias, bound", [("vfe", "titsias"), ("gfitc-ep", "fitc"), ("auto", "titsias_new")]
)
def test_two_names_of_a_bound_are_one_bound(alias, bound):
    assert {*NAMED_BOUNDS, "vfe", "gfitc-ep", "auto"} == set(BOUNDS)
    X, y = table()
    first, second = (small(bound=name).fit(X, y) for name in (alias, bound))
    np.testing.assert_array_equal(first.kernel_.theta, second.kernel_.theta)
    for one, other in zip(first.predict(X, return_std=True), second.predict(X, return_std=True)):
        np.testing.assert_array_equal(one, other)


@pytest.mark.second(share=0.1, thin=1)
@pytest.mark.parametrize("bound", ["titsias_new", "fitc", PEP(0.3)])
@pytest.mark.parametrize("init", ["k-means", "k-means++", "random", "greedy"])
def test_weights_are_repeated_rows_and_order_is_nothing(bound, init):
    X, y = table()
    rng = np.random.RandomState(1)
    weight = rng.randint(0, 4, size=len(X))
    order = rng.permutation(weight.sum())
    X_rep, y_rep = np.repeat(X, weight, axis=0)[order], np.repeat(y, weight)[order]
    model = small(bound=bound, inducing_init=init)
    weighted = clone(model).fit(X, y, sample_weight=weight)
    repeated = clone(model).fit(X_rep, y_rep)
    np.testing.assert_array_equal(weighted.inducing_points_, repeated.inducing_points_)
    np.testing.assert_array_equal(weighted.predict(X), repeated.predict(X))


@pytest.mark.parametrize("make", [SparseGPRegressor, SparseGPClassifier])
def test_pickle_leaves_the_training_rows_out(make):
    Z, sizes = np.linspace(-3, 3, 10)[:, None], []
    of_rows = 8 * (4000 - 200) if make is SparseGPRegressor else 0  # a score for each row
    for n in (200, 4000):
        X = np.linspace(-3, 3, n)[:, None]
        y = np.sin(X[:, 0]) if make is SparseGPRegressor else np.sin(X[:, 0]) > 0
        model = make(RBF() + WhiteKernel(), inducing_init=Z, max_iter=2).fit(X, y)
        sizes.append(len(pickle.dumps(model)))
    assert abs(sizes[0] - sizes[1]) < 200 + of_rows
    loaded = pickle.loads(pickle.dumps(model))
    name = "predict_quantiles" if make is SparseGPRegressor else "predict_proba"
    np.testing.assert_array_equal(*(getattr(one, name)(X) for one in (loaded, model)))
    assert loaded.log_marginal_likelihood() == model.log_marginal_likelihood()
    with pytest.raises(ValueError, match="does not contain the training rows.*Call fit again"):
        loaded.log_marginal_likelihood(model.kernel_.theta)


def test_clone_and_fit_leave_parameters_alone():
    X, y = table()
    Z, alpha, kernel = X[:5].copy(), np.full(len(X), 0.01), RBF()
    bound = PEP(0.3)
    model = small(kernel=kernel, bound=bound, inducing_init=Z, alpha=alpha)
    before = {name: pickle.dumps(value) for name, value in model.get_params().items()}
    model.fit(X, y)
    after = model.get_params()
    assert model.kernel is kernel and model.bound is bound and model.inducing_init is Z
    assert {name: pickle.dumps(value) for name, value in after.items()} == before
    assert not hasattr(clone(model), "kernel_")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_read_only_input_of_both_precisions(dtype):
    X, y = table()
    X = X.astype(dtype)
    X.flags.writeable = y.flags.writeable = False
    model = small(alpha=0.01, kernel=RBF()).fit(X, y)
    mean, std = model.predict(X, return_std=True)
    assert mean.dtype == std.dtype == np.float64
    np.testing.assert_allclose(mean, small(alpha=0.01, kernel=RBF()).fit(X.tolist(), y).predict(X))


@pytest.mark.second
def test_threads_do_not_change_results():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(9000, 3))  # three blocks of 4369 rows
    y = np.sin(X[:, 0])
    models = [small(n_jobs=n_jobs, n_inducing=300, max_iter=2).fit(X, y) for n_jobs in (1, 2)]
    X_many = np.tile(X, (3, 1))
    for call in ({}, {"return_std": True}):
        np.testing.assert_array_equal(*(model.predict(X_many, **call) for model in models))
    np.testing.assert_array_equal(*(model.inducing_points_ for model in models))


def test_metadata_routing_of_weights_std_and_latent():
    X, y = table()
    with config_context(enable_metadata_routing=True):
        model = small().set_fit_request(sample_weight=True)
        model.set_predict_request(return_std=True, latent=True)
        weight = np.ones(len(X))
        weight[::2] = 0.0
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        pipe = make_pipeline(scaler, model).fit(X, y, sample_weight=weight)
        mean, std = pipe.predict(X, return_std=True, latent=True)
        alone = clone(model).fit(StandardScaler().fit_transform(X), y, sample_weight=weight)
        np.testing.assert_allclose(mean, alone.predict(StandardScaler().fit_transform(X)))
        scored = cross_validate(
            small().set_fit_request(sample_weight=True).set_score_request(sample_weight=True),
            X,
            y,
            params={"sample_weight": weight},
            cv=2,
        )
    assert np.isfinite(scored["test_score"]).all() and std.shape == mean.shape


@pytest.mark.second
def test_groups_of_a_split_are_not_passed_on():
    X, y = table()
    groups = np.arange(len(X)) % 9
    with config_context(enable_metadata_routing=True):
        for model, target in ((small(), y), (SparseGPClassifier(n_inducing=5), y > 0)):
            given = {"cv": GroupKFold(3), "params": {"groups": groups}}
            assert np.isfinite(cross_validate(model, X, target, **given)["test_score"]).all()


def test_grid_search_over_bounds_by_log_density():
    X, y = table(90)
    pipe = make_pipeline(StandardScaler(), small())
    grid = [
        {"sparsegpregressor__bound": ["titsias", "titsias_new", "fitc"]},
        {"sparsegpregressor__bound": [PEP()], "sparsegpregressor__bound__alpha": [0.1, 0.9]},
    ]
    search = GridSearchCV(pipe, grid, scoring=log_predictive_density_scorer, cv=2).fit(X, y)
    scores = search.cv_results_["mean_test_score"]
    assert np.isfinite(scores).all() and len(set(scores)) == 5


def with_objects():
    return small(posterior=InducingPoints(n_mean=20), solver=LBFGS())


def test_parameters_of_posterior_and_solver_are_set_and_cloned():
    model = with_objects().set_params(posterior__n_mean=30)
    assert model.posterior.n_mean == 30
    assert {"posterior__n_mean", "solver"} < model.get_params().keys()
    copy = clone(model)
    assert copy.posterior is not model.posterior and copy.get_params()["posterior__n_mean"] == 30
    X, y = table()
    fitted = copy.fit(X, y)
    assert fitted.posterior.n_mean == 30 and fitted.solver is copy.solver
    loaded = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(loaded.predict(X), fitted.predict(X))
    with pytest.raises(ValueError, match="Invalid parameter 'n_mean'"):
        model.set_params(posterior__n_mean=3, posterior=IterativeExact())


def test_names_have_no_parameters():
    model = small(posterior="inducing")
    with pytest.raises(ValueError, match="First set posterior to .*skgp_sparse.posteriors"):
        model.set_params(posterior__n_mean=100)
    model.set_params(posterior__n_mean=100, posterior=InducingPoints())
    assert model.posterior.n_mean == 100


@pytest.mark.parametrize(
    "parameters, match",
    [
        ({"posterior": "all"}, "'posterior' parameter .* one of .*'inducing', 'neighbors'"),
        ({"posterior": InducingPoints}, "'posterior' parameter .* object .no class. such as"),
        ({"solver": Stochastic}, "'solver' parameter .* object such as"),
    ],
)
def test_what_is_no_posterior_or_solver_is_refused(parameters, match):
    model = small(**parameters)
    assert hasattr(model, "partial_fit")
    for fit in (model.fit, model.partial_fit):
        with pytest.raises(ValueError, match=match):
            fit(*table())


@pytest.mark.parametrize("make", [small, SparseGPClassifier])
def test_pickles_name_their_version_and_another_is_refused(make, monkeypatch):
    X, y = table()
    model = make(max_iter=2).fit(X, y if make is small else y > 0)
    dumped = pickle.dumps(model)
    assert "skgp_sparse_version" in model.__getstate__()
    loaded = pickle.loads(dumped)
    assert vars(loaded).keys() == vars(model).keys()
    monkeypatch.setattr(_estimator, "__version__", "99.0")
    name = type(model).__name__
    with pytest.raises(ValueError, match=f"{name} was made by skgp_sparse .* this is 99.0.*fit"):
        pickle.loads(dumped)


def test_parameters_of_gpr_have_its_names_and_positions():
    from sklearn.gaussian_process import GaussianProcessRegressor

    ours = inspect.signature(SparseGPRegressor).parameters
    theirs = inspect.signature(GaussianProcessRegressor).parameters
    assert set(theirs) - set(ours) == {"copy_X_train"}
    for name in set(theirs) & set(ours):
        assert ours[name].kind == theirs[name].kind
    for method in ("predict", "sample_y", "log_marginal_likelihood"):
        names = list(inspect.signature(getattr(GaussianProcessRegressor, method)).parameters)
        assert (
            list(inspect.signature(getattr(SparseGPRegressor, method)).parameters)[: len(names)]
            == names
        )


@pytest.fixture
def callbacks():
    return pytest.importorskip("sklearn.callback")


@pytest.mark.parametrize("n_inducing", [8, 100])
def test_callbacks_see_every_iteration_and_the_fitted_estimator(callbacks, n_inducing):
    X, y = table()
    recorder = Recorder()
    model = small(n_inducing=n_inducing, n_restarts_optimizer=2).set_callbacks(recorder).fit(X, y)
    assert recorder.iterations >= model.n_iter_
    assert (recorder.setups, recorder.teardowns) == (1, 1)
    np.testing.assert_array_equal(recorder.fitted.predict(X), model.predict(X))


@pytest.mark.parametrize("n_inducing", [8, 100])
def test_a_callback_can_stop_the_whole_fit(callbacks, n_inducing):
    X, y = table()
    recorder = Recorder(at=1, action=lambda: True)
    model = small(n_inducing=n_inducing, n_restarts_optimizer=3).set_callbacks(recorder)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)  # it ends because it was told to
        model.fit(X, y)
    assert recorder.iterations == 1 and model.n_iter_ == 1
    mean, std = model.predict(X, return_std=True)
    assert np.isfinite(mean).all() and np.all(std > 0)
    assert model.log_marginal_likelihood(model.kernel_.theta) == pytest.approx(
        model.log_marginal_likelihood_value_
    )
    assert pickle.loads(pickle.dumps(model.set_callbacks())).predict(X) == pytest.approx(mean)


@pytest.mark.parametrize("n_inducing", [8, 100])
def test_an_interrupt_tears_callbacks_down_and_keeps_the_former_fit(callbacks, n_inducing):
    X, y = table()
    model = small(n_inducing=n_inducing).fit(X, y)
    before = model.predict(X, return_std=True)
    state = dict(vars(model))
    recorder = Recorder(at=1, action=raising(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        model.set_callbacks(recorder).fit(X[:, :1], -y)
    assert recorder.teardowns == 1
    model.set_callbacks()
    assert vars(model).keys() == state.keys()
    np.testing.assert_array_equal(model.predict(X, return_std=True), before)
    assert model.log_marginal_likelihood(model.kernel_.theta) == pytest.approx(
        model.log_marginal_likelihood_value_
    )


def labelled_table(n_classes):
    X, y = table()
    return X, np.digitize(y, np.quantile(y, np.linspace(0, 1, n_classes + 1)[1:-1]))


def small_classifier(**parameters):
    return SparseGPClassifier(n_inducing=8, max_iter=5, random_state=0, **parameters)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_callbacks_see_every_class_of_a_classifier(callbacks, n_classes):
    X, y = labelled_table(n_classes)
    recorder = Recorder()
    model = small_classifier().set_callbacks(recorder).fit(X, y)
    problems = 1 if n_classes == 2 else 3
    assert recorder.iterations == sum(one.fit.n_iter for one in model._fitted.fits) >= problems
    assert (recorder.setups, recorder.teardowns) == (1, 1)
    np.testing.assert_array_equal(recorder.fitted.predict_proba(X), model.predict_proba(X))
    recorder = Recorder(at=1, action=lambda: True)
    small_classifier().set_callbacks(recorder).fit(X, y)
    assert recorder.iterations == problems


def test_problems_in_several_threads_have_nothing_to_tell_without_callbacks(callbacks, monkeypatch):
    from sklearn.callback._callback_context import CallbackContext

    both, add = threading.Barrier(2, timeout=20), CallbackContext._add_child

    def meet_and_add(self, child):  # both threads have taken the same number here
        both.wait()
        add(self, child)

    monkeypatch.setattr(CallbackContext, "_add_child", meet_and_add)
    reporter = IterationReporter(small_classifier(), None, None, 5)
    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(reporter.report, [1, 1])) == [False, False]


def test_callbacks_are_called_from_the_thread_of_the_fit(callbacks):
    X, y = labelled_table(4)
    recorder, seen = Recorder(), set()
    recorder.on_fit_task_begin = lambda estimator, context: seen.add(threading.get_ident())
    small_classifier().set_callbacks(recorder).fit(X, y)
    assert seen == {threading.get_ident()}


@pytest.mark.parametrize("level", [1e-3, 1.0, 1e3])
@pytest.mark.skipif(not hasattr(Kernel, "_check_bounds_params"), reason="a private method")
def test_bounds_are_reported_in_the_words_of_scikit_learn(level):
    kernel = RBF([2.0, level], (1e-3, 1e3)) + WhiteKernel(level, "fixed")

    def messages(function):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            function()
        return [(warning.category, str(warning.message)) for warning in caught]

    expected = messages(kernel._check_bounds_params)
    assert messages(lambda: warn_at_bounds(kernel)) == expected
    assert len(expected) == (level != 1.0)


def test_progress_bar_runs(callbacks, capsys):
    pytest.importorskip("rich")
    X, y = table()
    small().set_callbacks(callbacks.ProgressBar()).fit(X, y)
    assert "SparseGPRegressor" in capsys.readouterr().out


def test_verbose_prints_the_bound(capsys):
    X, y = table()
    small(verbose=1).fit(X, y)
    plan, *lines = capsys.readouterr().out.splitlines()
    assert plan.startswith("[SparseGPRegressor] plan: ")
    assert plan.endswith("; steps: likely scale, logarithms, warnings")
    assert lines and all("SparseGPRegressor] iteration" in line for line in lines)


def test_the_scorer_takes_other_regressors_with_std():
    from sklearn.gaussian_process import GaussianProcessRegressor

    X, y = table()
    assert np.isfinite(
        log_predictive_density_scorer(GaussianProcessRegressor(alpha=0.1).fit(X, y), X, y)
    )
    with pytest.raises(TypeError):
        log_predictive_density_scorer(LinearRegression().fit(X, y), X, y)
