"""`BayesianGPLVM`: what users meet; its bound and gradients are tested in `test_normal_inputs`."""

import pickle

import numpy as np
import pytest
from conftest import Recorder, agree
from inside import ArrayDataset, InducingBasis, LatentObjective, Normals
from kernel_cases import Opaque
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.gaussian_process.kernels import RBF, DotProduct, WhiteKernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from skgp_sparse import BayesianGPLVM
from skgp_sparse.bounds import TitsiasNew
from skgp_sparse.gplvm import in_order

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def curve(n=60, noise=0.02, seed=0):
    """Rows on a curve in five dimensions, and where on it they are."""
    rng = np.random.RandomState(seed)
    t = np.sort(rng.uniform(-2, 2, n))
    columns = [t, np.sin(2 * t), np.cos(t), t**2, 0.5 * t - np.sin(t)]
    return 3.0 + 2.0 * np.column_stack(columns) + noise * rng.normal(size=(n, 5)), t


def model(**parameters):
    defaults = {"n_components": 1, "n_inducing": 12, "n_restarts_optimizer": 0, "random_state": 0}
    return BayesianGPLVM(**{**defaults, **parameters})


@pytest.fixture(scope="module")
def fitted():
    return model(n_components=2, tol=1e-6).fit(curve()[0])


@pytest.mark.second(share=0.04)
@parametrize_with_checks([BayesianGPLVM(n_inducing=5, max_iter=5, n_restarts_optimizer=0)])
def test_estimator_checks_of_scikit_learn(estimator, check):
    check(estimator)


def test_a_curve_has_one_component(fitted):
    X, t = curve()
    assert fitted.relevances_[0] > 1.0 and fitted.relevances_[1] < 0.02
    position = fitted.embedding_[:, 0]
    assert abs(np.corrcoef(np.argsort(np.argsort(position)), np.arange(len(t)))[0, 1]) > 0.999
    assert position[np.abs(position).argmax()] > 0
    agree(fitted.inverse_transform(fitted.embedding_), X, 0.02)
    assert 0.01 < np.sqrt(fitted.noise_variance_) < 0.04


def test_transform_of_the_training_rows_is_the_embedding(fitted):
    mean, std = fitted.transform(curve()[0], return_std=True)
    agree(mean[:, 0], fitted.embedding_[:, 0], 5e-3)
    agree(std[:, 0], fitted.embedding_std_[:, 0], 5e-3)


@pytest.mark.second
def test_positions_have_the_spread_of_the_prior(fitted):
    """Another scale of a component would change the divergence from the prior only."""
    second = np.mean(fitted.embedding_**2 + fitted.embedding_std_**2, axis=0)
    agree(second, np.ones(2), 0.02)


@pytest.mark.second
def test_rows_are_placed_on_their_own(fitted):
    X = curve(seed=1)[0]
    X[::3, 1] = np.nan
    X[5] = np.nan
    together, bounds = fitted.transform(X), fitted.score_samples(X)
    agree(np.vstack([fitted.transform(row[None]) for row in X[:7]]), together[:7], 1e-7)
    agree(fitted.transform(X[::-1])[::-1], together, 1e-7)
    agree(fitted.score_samples(X[5:7]), bounds[5:7], 1e-6)


def test_missing_entries_are_found_again(fitted):
    X = curve(seed=1)[0]
    holes = X.copy()
    holes[np.arange(len(X)), np.arange(len(X)) % 5] = np.nan
    mean, std = fitted.inverse_transform(*fitted.transform(holes, return_std=True), return_std=True)
    error = (mean - X)[np.isnan(holes)]
    assert np.sqrt(np.mean(error**2)) < 0.1 * X.std()
    assert np.mean(np.abs(error) < 3 * std[np.isnan(holes)]) > 0.9


@pytest.mark.second
def test_rows_without_entries_are_at_the_prior():
    X = curve()[0]
    X[3] = np.nan
    at = model(max_iter=300, tol=1e-6).fit(X)  # a row alone is worth few nats
    agree(at.embedding_[3], [0.0], 0.05)
    agree(at.embedding_std_[3], [1.0], 0.05)
    mean, std = at.transform(X[3:4], return_std=True)
    agree(mean, [[0.0]], 1e-6)
    agree(std, [[1.0]], 1e-6)
    agree(at.score_samples(X[3:4]), [0.0], 1e-6)


@pytest.mark.second
def test_missing_entries_of_the_training_rows():
    X, t = curve()
    holes = X.copy()
    holes[np.random.RandomState(1).uniform(size=X.shape) < 0.2] = np.nan
    at = model(max_iter=300).fit(holes)
    error = (at.inverse_transform(at.embedding_) - X)[np.isnan(holes)]
    assert np.median(np.abs(error)) < 0.1 * X.std()  # a row may have two places that explain it


@pytest.mark.second
def test_scores_are_below_the_density_of_the_rows(fitted):
    """The average over positions that are drawn from the prior tends to the density from below."""
    X = curve(seed=2)[0][:5]
    random_state, samples = np.random.RandomState(0), []
    for _ in range(40):
        mean, std = fitted.inverse_transform(random_state.normal(size=(2000, 2)), return_std=True)
        logs = -0.5 * ((X[:, None] - mean) / std) ** 2 - np.log(std) - 0.5 * np.log(2 * np.pi)
        samples.append(logs.sum(axis=2))
    logs = np.hstack(samples)
    top = logs.max(axis=1, keepdims=True)
    density = top[:, 0] + np.log(np.mean(np.exp(logs - top), axis=1))
    assert np.all(fitted.score_samples(X) < density + 0.05)
    assert fitted.score(X) == np.mean(fitted.score_samples(X))


def test_units_of_the_rows_scale_everything():
    """A power of two changes no digit."""
    X = curve()[0]
    one, other = (model(max_iter=20).fit(table) for table in (X, 1024.0 * X))
    assert np.array_equal(other.embedding_, one.embedding_)
    assert other.noise_variance_ == 1024.0**2 * one.noise_variance_
    assert other.log_marginal_likelihood_value_ == one.log_marginal_likelihood_value_
    shift = X.shape[1] * np.log(1024.0)
    agree(other.score_samples(1024.0 * X), one.score_samples(X) - shift, 1e-12)


@pytest.mark.second
def test_more_starts_are_never_worse():
    X = curve(30)[0]
    values = [model(n_components=2, n_restarts_optimizer=k, max_iter=60).fit(X) for k in range(3)]
    values = [one.log_marginal_likelihood_value_ for one in values]
    assert values == sorted(values)


def test_samples_have_the_moments_of_the_rows(fitted):
    X, drawn = curve(400)[0], fitted.sample(4000, random_state=0)
    assert drawn.shape == (4000, 5)
    assert np.array_equal(drawn, fitted.sample(4000, random_state=0))
    assert np.all(np.abs(drawn.mean(axis=0) - X.mean(axis=0)) < 0.5 * X.std(axis=0))
    assert np.all(np.abs(np.log(drawn.std(axis=0) / X.std(axis=0))) < 0.5)


def test_uncertain_positions_predict_more_uncertain_rows(fitted):
    positions = fitted.embedding_[:5]
    _, known = fitted.inverse_transform(positions, return_std=True)
    _, unknown = fitted.inverse_transform(positions, 0.5 * np.ones((5, 2)), return_std=True)
    assert np.all(unknown > known)


def test_neither_threads_nor_pickles_matter(fitted):
    X = curve()[0]
    one, two = (model(max_iter=20, n_jobs=n_jobs).fit(X) for n_jobs in (1, 2))
    assert np.array_equal(one.embedding_, two.embedding_)
    copy = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(copy.transform(X[:4]), fitted.transform(X[:4]))
    assert len(pickle.dumps(fitted)) < 40_000


@pytest.mark.second
def test_it_has_feature_names_and_stands_in_a_pipeline():
    X, t = curve()
    pipeline = make_pipeline(StandardScaler(), model(max_iter=50), SVC()).fit(X, t > 0)
    assert pipeline.score(X, t > 0) > 0.8
    names = model(max_iter=5).fit(X).set_output(transform="pandas").transform(X).columns
    assert list(names) == ["bayesiangplvm0"]


@pytest.mark.second
def test_noise_of_the_user_is_kept():
    X = curve()[0]
    at = model(noise_variance=0.25, max_iter=50).fit(X)
    agree(at.noise_variance_, 0.25, 1e-12)
    at = model(kernel=RBF() + DotProduct() + WhiteKernel(0.1), max_iter=50).fit(X)
    assert at.noise_variance_ < 0.1 * at.scale_**2


def test_the_order_of_components_does_not_change_the_bound():
    rng = np.random.RandomState(0)
    n, kernel = 20, RBF([1.0, 2.0, 3.0]) + DotProduct() + WhiteKernel(0.1)
    y = rng.normal(size=(n, 4))
    objective = LatentObjective(
        rows=ArrayDataset(np.empty((n, 0)), y),
        bound=TitsiasNew(),
        basis=InducingBasis(rng.normal(size=(6, 3))),
        prior=Normals(np.zeros((n, 3)), np.ones((n, 3))),
        shift=rng.normal(size=(n, 3)) * [0.1, 2.0, -1.0],
        log_ratio=rng.normal(size=(n, 3)),
        patterns=np.ones((n, 1)),
        of_column=np.zeros(4, dtype=int),
    )
    ordered, in_its_order = in_order(objective, kernel)
    agree(ordered.value(in_its_order), objective.value(kernel), 1e-12)
    assert np.all(np.diff(ordered.divergences().sum(axis=0)) < 0)
    assert not np.array_equal(in_its_order.k1.k1.length_scale, [1.0, 2.0, 3.0])


def test_length_scales_follow_their_components():
    rng = np.random.RandomState(0)
    X = curve(40)[0] @ rng.normal(size=(5, 6)) + 0.3 * rng.normal(size=(40, 6))
    at = model(n_components=3, kernel=RBF([1.0, 2.0, 3.0]), max_iter=60).fit(X)
    assert np.all(np.diff(at.relevances_) <= 0)
    agree(at.kernel_.k1.bounds.shape, (3, 2), 0)
    again = at.transform(X)
    agree(at.inverse_transform(again), at.inverse_transform(at.embedding_), 0.2)


@pytest.mark.second(share=0.22)
@pytest.mark.parametrize(
    "X",
    [
        curve()[0][:, :1],
        np.column_stack([curve()[0], np.ones(60)]),
        np.ones((6, 3)),
        curve(3)[0],
        np.repeat(curve(8)[0], 4, axis=0),
    ],
    ids=["one column", "a constant column", "constant", "fewer rows than components", "copies"],
)
def test_odd_tables(X):
    at = model(n_components=4, max_iter=40).fit(X)
    for numbers in (at.embedding_, at.embedding_std_, at.transform(X), at.score_samples(X)):
        assert np.isfinite(numbers).all()
    mean, std = at.inverse_transform(at.embedding_, return_std=True)
    assert np.isfinite(mean).all() and np.all(std > 0)


@pytest.mark.parametrize(
    "parameters, message",
    [
        ({"n_components": 0}, "'n_components' parameter .* must be an int"),
        ({"n_inducing": "auto"}, "'n_inducing' parameter .* must be an int"),
        ({"noise_variance": "none"}, '"learn" or a float'),
        ({"noise_variance": 0.0}, "'noise_variance' parameter"),
        ({"bound": "fitc"}, "not count residual variance as noise"),
        ({"bound": "none"}, "'bound' parameter"),
        ({"kernel": 3}, "'kernel' parameter"),
        ({"kernel": Opaque()}, "must be differentiable"),
        ({"kernel": RBF() + WhiteKernel(), "noise_variance": 1.0}, "noise is given twice"),
        ({"kernel": RBF([1.0, 2.0])}, "2 length scales"),
        ({"max_iter": 0}, "'max_iter' parameter"),
        ({"tol": -1.0}, "'tol' parameter"),
    ],
)
def test_parameters_that_cannot_be_used(parameters, message):
    with pytest.raises(ValueError, match=message):
        model(**parameters).fit(curve()[0])


def test_data_that_cannot_be_used(fitted):
    X, at, std = curve()[0], fitted.embedding_, fitted.embedding_std_
    empty = X.copy()
    empty[:, 2] = np.nan
    of_shape = "must be standard deviations, which are not negative, of the shape of X"
    for words, call, *given in (
        ("column 2 of X has no entry", model().fit, empty),
        ("has no entry", model().fit, np.full((5, 3), np.nan)),
        ("infinity", model().fit, np.where(X > 3, np.inf, X)),
        ("2 components. Got an array of shape", fitted.inverse_transform, X),
        (of_shape, fitted.inverse_transform, at, np.ones((2, 2))),
        (of_shape, fitted.inverse_transform, at, 0.1),
        ("not negative", fitted.inverse_transform, at, -std),
    ):
        with pytest.raises(ValueError, match=words):
            call(*given)
    with pytest.raises(NotFittedError):
        model().sample()


def test_a_fit_that_was_too_short_says_so():
    with pytest.warns(ConvergenceWarning, match="Raise max_iter"):
        model(max_iter=2).fit(curve()[0])


def test_a_failed_fit_leaves_no_trace(fitted):
    at = clone(fitted)
    with pytest.raises(ValueError):
        at.fit(np.full((5, 3), np.nan))
    assert not [name for name in vars(at) if name.endswith("_")]


def test_progress_is_printed(capsys):
    model(max_iter=3, n_restarts_optimizer=1, verbose=1).fit(curve(20)[0])
    lines = capsys.readouterr().out.splitlines()
    assert "start 1, iteration 1" in lines[0] and any("start 2, iteration 3" in l for l in lines)


@pytest.mark.parametrize("at, iterations", [(None, 10), (3, 3)])
def test_callbacks_see_every_iteration_and_can_stop_the_fit(at, iterations):
    pytest.importorskip("sklearn.callback")
    recorder = Recorder(at=at, action=lambda: True)
    fit = model(max_iter=5, n_restarts_optimizer=1).set_callbacks(recorder).fit(curve(20)[0])
    assert recorder.iterations == iterations and recorder.setups == recorder.teardowns == 1
    assert np.array_equal(recorder.fitted.embedding_, fit.embedding_)


def test_time_limit_ends_the_fit(capsys):
    at = model(time_limit=0.0, n_restarts_optimizer=5, verbose=100).fit(curve(20)[0])
    assert np.isfinite(at.embedding_).all()
    assert "time_limit=0 is over" in capsys.readouterr().out
