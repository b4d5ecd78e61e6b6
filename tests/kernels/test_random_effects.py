"""Random effects of levels: the kernel, bounds and posteriors beside dense algebra, estimators."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from skgp_sparse import SparseGPRegressor, bounds, kernels
from skgp_sparse._engine.data import dataset
from skgp_sparse._engine.data.array_dataset import ArrayDataset
from skgp_sparse._engine.features.inducing_basis import InducingBasis
from skgp_sparse._engine.features.problem import Options
from skgp_sparse._ground.linalg import Jitter
from skgp_sparse.inference.objectives import GaussianObjectives
from skgp_sparse.kernels import Columns, RandomEffect
from skgp_sparse.posteriors import InducingPoints
from skgp_sparse.solvers import Minibatches
from skgp_sparse.sources import Arrays
from skgp_sparse.testing import check_kernel_rule

RNG = np.random.RandomState(0)
N, LEVELS, V, NOISE = 60, 9, 0.8, 0.1
X = np.column_stack([RNG.uniform(0, 5, N), RNG.randint(0, LEVELS, N)])
X[RNG.uniform(size=N) < 0.1, 1] = np.nan
EFFECTS = RNG.normal(size=LEVELS)
Y = np.column_stack(
    [np.sin(X[:, 0]) + EFFECTS[np.nan_to_num(X[:, 1]).astype(int)], RNG.normal(size=N)]
)
WEIGHT, KNOWN = RNG.randint(1, 4, N).astype(float), RNG.uniform(0.05, 0.2, N)
Z = np.column_stack([np.linspace(0, 5, 8), np.zeros(8)])
NEW = np.column_stack([RNG.uniform(0, 5, 7), [0, 3, 3, 99, 99, np.nan, np.nan]])
KERNEL = ConstantKernel(1.3) * Columns(RBF(), 0) + RandomEffect(1, V) + WhiteKernel(NOISE)
BOUNDS = [bounds.Titsias(), bounds.TitsiasNew(), bounds.Artemev(), bounds.FITC(), bounds.PEP(0.4)]


def objective_of(bound, kernel=KERNEL):
    (effect,) = kernels.random_effects(kernel)
    rows = ArrayDataset(X, Y, KNOWN, WEIGHT)
    options = Options(jitter=Jitter(1e-12))
    return GaussianObjectives(bound, effect.kernel).in_basis(rows, InducingBasis(Z), options)


class Dense:
    """The same by dense algebra, where a row of weight w is w rows."""

    def __init__(self, bound):
        copies = np.repeat(np.arange(N), WEIGHT.astype(int))
        self.X, self.y = X[copies], Y[copies]
        noise = KNOWN[copies] + NOISE + V * np.isnan(self.X[:, 1])
        Q = self.process(self.X, self.X)
        x = (1.3 - np.diag(Q)) / noise
        self.S = Q + self.effects(self.X, self.X) + np.diag(noise * (1 + bound.noise_share * x))
        self.penalty = bound.reduce(bound.penalty(x)[0].sum(), len(x))[0]

    @staticmethod
    def process(a, b):
        Ka, Kb = (1.3 * RBF()(one[:, :1], Z[:, :1]) for one in (a, b))
        return Ka @ np.linalg.solve(1.3 * (RBF()(Z[:, :1]) + 1e-12 * np.eye(len(Z))), Kb.T)

    @staticmethod
    def effects(a, b):
        return V * (a[:, 1, None] == b[:, 1])

    def value(self):
        density = multivariate_normal(np.zeros(len(self.S)), self.S)
        return sum(density.logpdf(y) - self.penalty for y in self.y.T)

    def predicted(self, at):
        across = self.process(at, self.X) + self.effects(at, self.X)
        prior = 1.3 * RBF()(at[:, :1]) + self.effects(at, at)
        return across @ np.linalg.solve(self.S, self.y), prior - across @ np.linalg.solve(
            self.S, across.T
        )


@pytest.mark.parametrize("missing", [None, 2.0])
def test_rule(missing):
    codes = np.column_stack([RNG.uniform(0.1, 2, 20), RNG.randint(0, 4, 20)])
    effect = RandomEffect(1, 0.7, missing=missing)
    for kernel in (effect, effect * Columns(RBF(), 0), Columns(RBF(), 0) + effect):
        check_kernel_rule(kernel, codes)
    K, gradient = effect(X, eval_gradient=True)
    np.testing.assert_allclose(gradient[..., 0], K, atol=1e-10)
    np.testing.assert_allclose(effect.diag(X), K.diagonal())


@pytest.mark.parametrize("size", [60, 7, 1])
@pytest.mark.parametrize("bound", BOUNDS, ids=str)
def test_bound_and_gradient(bound, size, monkeypatch):
    def blocks(n, *_):
        return [slice(start, min(start + size, n)) for start in range(0, n, size)]

    monkeypatch.setattr(dataset, "row_blocks", blocks)
    objective = objective_of(bound)
    assert len(objective.problem(KERNEL).layout().blocks) == {60: 1, 7: 7, 1: 12}[size]
    found = objective.value_and_gradient(KERNEL, inputs=True)
    assert abs(found.value - Dense(bound).value()) < 1e-7
    assert found.value == pytest.approx(objective.value(KERNEL), abs=1e-10)
    theta, h = KERNEL.theta, 1e-5
    slopes = [
        (
            objective.value(KERNEL.clone_with_theta(theta + step))
            - objective.value(KERNEL.clone_with_theta(theta - step))
        )
        / (2 * h)
        for step in h * np.eye(len(theta))
    ]
    np.testing.assert_allclose(found.gradient["kernel"], slopes, atol=1e-5)
    for i, j in np.ndindex(Z.shape):
        step = np.zeros(Z.shape)
        step[i, j] = h
        up, down = (objective.at(basis=Z + sign * step).value(KERNEL) for sign in (1, -1))
        assert abs(found.gradient["basis"][i, j] - (up - down) / (2 * h)) < 1e-5


@pytest.mark.parametrize("bound", BOUNDS, ids=str)
def test_posterior(bound):
    posterior = objective_of(bound).conclude(KERNEL).posterior
    mean, covariance = Dense(bound).predicted(NEW)
    found, variance = posterior.mean_and_variance(NEW)
    np.testing.assert_allclose(found, mean, atol=1e-9)
    np.testing.assert_allclose(posterior.mean(NEW), mean, atol=1e-9)
    np.testing.assert_allclose(variance, covariance.diagonal(), atol=1e-9)
    np.testing.assert_allclose(posterior.covariance(NEW), covariance, atol=1e-9)
    np.testing.assert_allclose(posterior.prior_variance(NEW), 1.3 + V * ~np.isnan(NEW[:, 1]))
    slopes, h = posterior.gradients(NEW, latent=True), np.array([1e-5, 0.0])
    ends = [posterior.mean_and_variance(NEW + sign * h) for sign in (1, -1)]
    of_mean, of_variance = ((up - down) / 2e-5 for up, down in zip(*ends))
    np.testing.assert_allclose(slopes.mean_slope[..., 0], of_mean, atol=1e-8)
    np.testing.assert_allclose(slopes.variance_slope[:, 0], of_variance, atol=1e-8)
    np.testing.assert_allclose(slopes.variance, variance, atol=1e-12)


def test_fixed_variance_and_many_samples():
    kernel = KERNEL.k1.k1 + RandomEffect(1, V, "fixed") + WhiteKernel(NOISE)
    objective = objective_of(bounds.TitsiasNew(), kernel)
    assert objective.value(kernel) == objective_of(bounds.TitsiasNew()).value(KERNEL)
    free = objective_of(bounds.TitsiasNew()).value_and_gradient(KERNEL).gradient["kernel"]
    held = objective.value_and_gradient(kernel).gradient["kernel"]
    np.testing.assert_allclose(held, np.delete(free, 2), atol=1e-10)
    posterior = objective.conclude(kernel).posterior
    many = np.tile(NEW, (600, 1))  # too many for one factorisation
    drawn = posterior.deviations(many, 500, np.random.RandomState(0))[: len(NEW)]
    expected = posterior.covariance(NEW)
    np.testing.assert_allclose(np.cov(drawn), expected, atol=0.3)
    assert np.corrcoef(drawn[3], drawn[4])[0, 1] > 0.2  # of one level that is not known


def people(n, seed):
    """A data frame of rows of persons, some of whom are not known, and targets."""
    rng = np.random.RandomState(seed)
    person = rng.randint(0, 50, n)
    effects = np.random.RandomState(1).normal(size=50)
    frame = pd.DataFrame({"person": [f"p{k}" for k in person], "x": rng.uniform(0, 5, n)})
    y = np.sin(frame["x"]) + effects[person] + 0.2 * rng.normal(size=n)
    frame.loc[rng.uniform(size=n) < 0.05, "person"] = None
    return frame, y


FRAME, TARGET = people(400, 0)
OF_PEOPLE = Columns(RBF(), "x") + RandomEffect("person")


def test_inducing_points_are_as_good_as_all_rows():
    exact = SparseGPRegressor(OF_PEOPLE, random_state=0).fit(FRAME, TARGET)
    sparse = SparseGPRegressor(OF_PEOPLE, n_inducing=15, random_state=0).fit(FRAME, TARGET)
    assert (exact.posterior_, sparse.posterior_) == ("exact", "inducing")
    values = [model.log_marginal_likelihood_value_ for model in (exact, sparse)]
    assert abs(values[0] - values[1]) < 0.05
    new = FRAME[:40].copy()
    new.loc[:5, "person"], new.loc[6:10, "person"] = "nobody", None
    for mine, its in zip(sparse.predict(new, return_std=True), exact.predict(new, return_std=True)):
        np.testing.assert_allclose(mine, its, atol=0.01)
    mean, std = sparse.predict(new, return_std=True)
    is_known = new["person"].isin(FRAME["person"].dropna())
    assert std[~is_known].min() > 2 * std[is_known].max()  # others have the prior
    again = pickle.loads(pickle.dumps(sparse))
    np.testing.assert_array_equal(again.predict(new), mean)


def test_missing_levels_are_those_of_no_other_row():
    frame, y = FRAME.copy(), TARGET.copy()
    frame["person"] = np.where(frame.index < 200, "one", None)
    y[frame.index < 200] += 5.0
    model = SparseGPRegressor(OF_PEOPLE, n_inducing=15, random_state=0).fit(frame, y)
    codes = SparseGPRegressor(OF_PEOPLE, posterior="exact", random_state=0).fit(frame, y)
    new = pd.DataFrame({"person": ["one", None, "other"], "x": [1.0, 1.0, 1.0]})
    assert abs(model.predict(new)[1] - model.predict(new)[2]) < 1e-9
    np.testing.assert_allclose(model.predict(new), codes.predict(new), atol=0.01)


@pytest.mark.parametrize("posterior", ["exact", "inducing"])
def test_levels_that_are_missing_later_only_are_those_of_no_other_row(posterior):
    kernel = Columns(RBF(), "x") + RandomEffect("person", 2.0) + WhiteKernel(0.1)
    how = {"posterior": posterior, "n_inducing": 15, "optimizer": None, "random_state": 0}
    model = SparseGPRegressor(kernel, **how).fit(FRAME, TARGET)
    new = pd.DataFrame({"person": [None, None, "new", "new"], "x": [1.0, 1.0, 1.0, 1.0]})
    covariance = model.predict(new, return_cov=True)[1] / TARGET.var()
    assert covariance[0, 1] < 0.5 < 1.9 < covariance[2, 3]


NUMBERS = np.column_stack([FRAME["x"], RNG.randint(1000, 1050, 400)])
OF_NUMBERS = Columns(RBF(), 0) + RandomEffect(1)


@pytest.mark.parametrize(
    "kernel, parameters, words",
    [
        (OF_NUMBERS, {"posterior": "neighbors"}, "takes no RandomEffect"),
        (OF_NUMBERS, {"posterior": "rows"}, "takes no RandomEffect"),
        (OF_NUMBERS, {"posterior": "fourier"}, "RandomEffect"),
        (OF_NUMBERS, {"posterior": InducingPoints(n_mean=30)}, "takes no RandomEffect"),
        (OF_NUMBERS, {"solver": Minibatches()}, "random rows"),
        (OF_NUMBERS, {"solver": "stochastic"}, "random rows"),
        (OF_NUMBERS, {"likelihood": "student_t"}, "needs likelihood='gaussian'"),
        (OF_NUMBERS + RandomEffect(1), {}, "takes one RandomEffect"),
        (Columns(RBF(), 0) * RandomEffect(1), {}, "takes one RandomEffect"),
    ],
)
def test_what_is_refused(kernel, parameters, words):
    with pytest.raises(ValueError, match=words):
        SparseGPRegressor(kernel, n_inducing=10, **parameters).fit(NUMBERS, TARGET)


def test_other_refusals():
    model = SparseGPRegressor(OF_NUMBERS, n_inducing=10, random_state=0)
    assert not hasattr(model, "partial_fit")
    halves = NUMBERS.copy()
    halves[3, 1] += 0.5
    with pytest.raises(ValueError, match=r"no whole number below 2\*\*53 is 10"):
        model.fit(halves, TARGET)
    large = NUMBERS.copy()
    large[:, 1] += 2.0**53
    with pytest.raises(ValueError, match=r"no whole number below 2\*\*53 is 9"):
        model.fit(large, TARGET)
    with pytest.raises(ValueError, match="functions.*not available|not available"):
        model.fit(NUMBERS, TARGET).sample_functions(2)


def test_numbers_with_missing_levels_weights_and_small_sources():
    rows = NUMBERS.copy()
    rows[::7, 1] = np.nan
    weight = RNG.randint(1, 3, len(rows)).astype(float)
    model = SparseGPRegressor(OF_NUMBERS, n_inducing=12, max_iter=5, random_state=0)
    mean = model.fit(rows, TARGET, sample_weight=weight).predict(rows[:9])
    copies = np.repeat(np.arange(len(rows)), weight.astype(int))
    again = model.fit(rows[copies], np.asarray(TARGET)[copies]).predict(rows[:9])
    np.testing.assert_allclose(again, mean, atol=1e-6)
    assert model.fit(Arrays(NUMBERS, np.asarray(TARGET))).score(NUMBERS, TARGET) > 0
