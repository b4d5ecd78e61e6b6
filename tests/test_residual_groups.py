"""The penalty of blocks of near rows: dense algebra, gradients, laws, and what it refuses."""

import tracemalloc

import numpy as np
import pytest
from conftest import KERNELS, NOISES, agree, agree_evaluations, agree_posteriors, make_case
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, WhiteKernel
from sklearn.model_selection import GridSearchCV

from skgp_sparse import SparseGPClassifier, SparseGPRegressor, kernels
from skgp_sparse._engine import collapsed, exact, table
from skgp_sparse._engine.problem import Options
from skgp_sparse._engine.residual_groups import near_rows
from skgp_sparse._ground.linalg import Jitter
from skgp_sparse.bounds import DTC, TitsiasBlocks, TitsiasNew
from skgp_sparse.inference.objectives import GaussianModel
from skgp_sparse.posteriors import FourierFeatures, InducingPoints
from skgp_sparse.rows import part
from skgp_sparse.solvers import Minibatches
from skgp_sparse.sources import Arrays

SIZES = (2, 7, 20)


def objective(case, size, **options):
    options = Options(jitter=case.jitter, **options)
    return GaussianModel(TitsiasBlocks(size)).sparse(case.rows(), case.Z, options, case.kernel)


def dense_penalty(case, near):
    """``P/2 Σ log |I + N^-½ R N^-½|`` of the groups, from n × n matrices."""
    Kuf = kernels.evaluate(case.kernel, case.Z, case.X)
    Kuu = kernels.evaluate(case.kernel, case.Z, case.Z)
    R = kernels.evaluate(case.kernel, case.X, case.X) - Kuf.T @ np.linalg.solve(Kuu, Kuf)
    s2 = kernels.diagonal(case.kernel, case.X)[1] + case.noise
    root = np.sqrt((1.0 if case.weight is None else case.weight) / s2 * np.ones(len(R)))
    M = np.eye(len(R)) + root[:, None] * R * root
    groups = [*near.whole, near.rest] if len(near.rest) else near.whole
    log_dets = [np.linalg.slogdet(M[np.ix_(group, group)])[1] for group in groups]
    return 0.5 * np.size(case.y) / len(case.y) * np.sum(log_dets)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("kernel", ["rbf_ard", "matern_0.5", "dot_plus_rbf", "sum"])
def test_value_is_that_of_dense_algebra(kernel, noise, weighted):
    case = make_case(kernel, noise, n=45, targets=2, weighted=weighted)
    for size in SIZES:
        mine = objective(case, size)
        expected = collapsed.value(case.problem(DTC())) - dense_penalty(case, mine.near)
        agree(mine.value(case.kernel), expected, 1e-9)
        assert mine.value_and_gradient(case.kernel).value == mine.value(case.kernel)
        assert mine.conclude(case.kernel).value == mine.value(case.kernel)


@pytest.mark.parametrize("weighted, targets", [(False, 1), (True, 3)])
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("kernel", ["rbf_ard", "matern_2.5", "dot_plus_rbf", "product"])
def test_gradient_is_the_slope_of_the_value(kernel, noise, weighted, targets):
    case = make_case(kernel, noise, n=32, weighted=weighted, targets=targets)
    case = case._replace(jitter=Jitter(1e-6, relative=True))
    for size in SIZES:
        check_gradient(case, objective(case, size))


@pytest.mark.second(share=0.2)
@pytest.mark.parametrize("kernel", KERNELS)
def test_gradient_of_every_kernel(kernel):
    case = make_case(kernel, "known_and_white", n=30, weighted=True)
    check_gradient(case, objective(case, 8))


def check_gradient(case, at):
    theta, Z = case.kernel.theta, case.Z

    def value(vector):
        moved = at.at(basis=vector[len(theta) :].reshape(Z.shape))
        return moved.value(case.kernel.clone_with_theta(vector[: len(theta)]))

    found = at.value_and_gradient(case.kernel, inputs=True)
    x = np.append(theta, Z)
    h = 1e-5 * np.maximum(1.0, np.abs(x))
    slopes = [(value(x + step) - value(x - step)) / (2 * step.sum()) for step in np.diag(h)]
    agree(np.append(found.theta_bar, found.Z_bar), slopes, 2e-7)


def test_blocks_of_one_row_are_titsias_new():
    case = make_case("sum", "known_and_white", targets=2)
    one = near_rows(case.rows(), np.ones(2), 1)
    mine = objective(case, 5)
    mine = type(mine)(mine.rows, TitsiasBlocks(1), mine.basis, mine.options, one)
    its = collapsed.value_and_gradient(case.problem(TitsiasNew()))
    agree_evaluations(mine.value_and_gradient(case.kernel, True), its, 1e-11)
    assert type(objective(case, 1)) is not type(mine)  # and cost no more


@pytest.mark.parametrize("seed", range(20))
def test_it_is_between_titsias_new_and_the_exact_value(seed):
    names = [name for name in KERNELS if name != "periodic"]
    case = make_case(names[seed % len(names)], NOISES[seed % 4], n=40, seed=seed)
    case = case._replace(jitter=Jitter(1e-8))
    new, truth = (
        collapsed.value(case.problem(TitsiasNew())),
        exact.value(case.kernel, case.groups()),
    )
    for size in (2, 5, 13, 40):
        value = objective(case, size).value(case.kernel)
        assert new - 1e-8 * abs(truth) <= value <= truth + 1e-8 * abs(truth)
    halves, whole = (objective(case, size).value(case.kernel) for size in (20, 40))
    assert halves <= whole  # the first are halves of the others


def test_one_block_of_copies_is_a_row_of_their_weight():
    case = make_case("rbf_ard", "known_and_white", weighted=True)
    copies = case.repeated()
    values = [objective(one, 500).value(case.kernel) for one in (case, copies)]
    agree(*values, 1e-10)


def test_posterior_is_that_of_titsias_new():
    case = make_case("matern_1.5", "known_and_white", targets=2, weighted=True)
    mine = objective(case, 7).conclude(case.kernel).posterior
    agree_posteriors(mine, collapsed.posterior(case.problem(TitsiasNew()))[0], case.X, 1e-13)


@pytest.mark.parametrize("n, size", [(1, 5), (5, 5), (6, 5), (11, 5), (103, 10), (128, 16)])
def test_groups_hold_every_row_of_positive_weight_once(n, size):
    case = make_case(n=n, weighted=True)
    near = near_rows(case.rows(), np.ones(2), size)
    used = np.flatnonzero(case.weight)
    np.testing.assert_array_equal(np.sort(near.order()), used)
    assert near.whole.shape == (len(used) // size, size) and len(near.rest) == len(used) % size


def test_groups_are_of_near_rows_in_the_units_that_are_given():
    X = np.random.RandomState(0).uniform(size=(256, 2))
    rows = make_case()._replace(X=X, y=X[:, 0]).rows()
    near = near_rows(rows, np.array([1.0, 100.0]), 16)  # the second column hardly matters
    assert np.ptp(X[near.whole], axis=1).max(axis=0)[0] < 0.15
    assert np.ptp(X[near.whole], axis=1).mean(axis=0)[1] > 0.7


def test_neither_blocks_of_a_visit_nor_threads_matter(monkeypatch):
    case = make_case("dot_plus_rbf", "known_and_white", n=230, weighted=True)
    whole = objective(case, 10).value_and_gradient(case.kernel, True)
    monkeypatch.setattr(table, "_FEWEST_ROWS", 1)
    monkeypatch.setattr(table, "_BLOCK_BYTES", 8 * len(case.Z) * 37)
    one, three = (
        objective(case, 10, n_jobs=n_jobs).value_and_gradient(case.kernel, True)
        for n_jobs in (1, 3)
    )
    agree_evaluations(one, whole, 1e-11)
    assert one.value == three.value
    np.testing.assert_array_equal(one.theta_bar, three.theta_bar)
    np.testing.assert_array_equal(one.Z_bar, three.Z_bar)


def data(n=300):
    rng = np.random.RandomState(0)
    X = rng.uniform(-2, 2, size=(n, 2))
    return X, np.sin(5 * X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=n)


class Twice(TitsiasNew):
    block_size = 10


KERNEL = ConstantKernel() * RBF([1.0, 1.0]) + WhiteKernel(0.1)
GIVEN = {"kernel": KERNEL, "n_inducing": 15, "random_state": 0}


def test_a_fit_ends_above_that_of_titsias_new_and_its_bounds_hold():
    X, y = data()
    new, blocks = (
        SparseGPRegressor(bound=bound, **GIVEN).fit(X, y)
        for bound in ("titsias_new", "titsias_blocks")
    )
    value = blocks.log_marginal_likelihood_value_
    assert value > new.log_marginal_likelihood_value_ + 1.0
    assert blocks.log_marginal_likelihood(blocks.kernel_.theta) == pytest.approx(value)
    for found in (blocks.evidence_bounds(), blocks.evidence_bounds(X, y)):
        assert found.own < found.upper
        assert found.own == pytest.approx(value, rel=0.05)  # rows may be in other blocks
    assert blocks.evidence_bounds().own == value


def test_all_rows_are_seen_where_other_bounds_would_learn_from_parts_of_them():
    X, y = data(1000)
    given = {**GIVEN, "n_inducing": 2, "max_iter": 5}  # 500 rows per inducing point
    auto, all_rows = (
        SparseGPRegressor(bound="titsias_blocks", solver=solver, **given).fit(X, y)
        for solver in ("auto", "lbfgs")
    )
    np.testing.assert_array_equal(auto.kernel_.theta, all_rows.kernel_.theta)
    draws = FourierFeatures(n_components=10)  # have no residual, so that no block matters
    given = {"kernel": KERNEL, "posterior": draws, "random_state": 0, "max_iter": 5}
    SparseGPRegressor(bound="titsias_blocks", solver="stochastic", **given).fit(X, y)


def test_blocks_whose_residuals_are_rounding_have_a_value():
    rng = np.random.RandomState(0)
    X = np.column_stack([rng.uniform(1950, 2020, 400), rng.uniform(-2, 2, 400)])  # a year
    y = 0.02 * (X[:, 0] - 1985) + np.sin(2 * X[:, 1])
    kernel = ConstantKernel() * RBF([10.0, 1.0]) + DotProduct() ** 2 + WhiteKernel(0.01)
    new, blocks = (
        SparseGPRegressor(kernel, bound=bound, optimizer=None, n_inducing=30, random_state=0)
        for bound in ("titsias_new", "titsias_blocks")
    )
    new, blocks = (model.fit(X, y).log_marginal_likelihood_value_ for model in (new, blocks))
    assert new <= blocks + 1e-6 * abs(new)


def test_memory_is_kept_with_large_blocks():
    case, rng = make_case("matern_0.5"), np.random.default_rng(0)
    case = case._replace(X=rng.normal(size=(6000, 2)), y=rng.normal(size=6000), jitter=Jitter())
    at = objective(case, 100, memory=1.6e7)
    tracemalloc.start()
    try:
        at.value_and_gradient(case.kernel, True)
        assert tracemalloc.get_traced_memory()[1] < 1.6e7
    finally:
        tracemalloc.stop()


def test_size_of_blocks_is_a_parameter_to_search():
    X, y = data(120)
    search = GridSearchCV(
        SparseGPRegressor(bound=TitsiasBlocks(), **{**GIVEN, "n_inducing": 8}),
        {"bound__block_size": [1, 30]},
        cv=2,
    ).fit(X, y)
    assert search.best_params_["bound__block_size"] in (1, 30)


@pytest.mark.parametrize("metric", [1, "full"])
def test_blocks_in_a_learned_metric(metric):
    X, y = data()
    model = SparseGPRegressor(bound="titsias_blocks", n_inducing=15, metric=metric, random_state=0)
    found = model.fit(X, y).evidence_bounds()
    assert found.own == model.log_marginal_likelihood_value_ < found.upper


@pytest.mark.parametrize(
    "parameters, words",
    [
        ({"solver": Minibatches()}, "which random rows are not"),
        ({"solver": "stochastic"}, "which random rows are not"),
        ({"bound": Twice()}, "only TitsiasBlocks and its subclasses"),
        ({"posterior": InducingPoints(n_mean=50)}, "needs the bound"),
        ({"posterior": "neighbors", "n_inducing": "auto"}, "has no bound"),
        ({"likelihood": "poisson"}, "for Gaussian noise only"),
        ({"bound": TitsiasBlocks(0)}, "bound__block_size"),
        ({"bound": TitsiasBlocks(2.5)}, "bound__block_size"),
    ],
)
def test_what_it_is_not_for_is_said_in_words(parameters, words):
    X, y = data(50)
    given = {"bound": "titsias_blocks", "n_inducing": 5, **parameters}
    with pytest.raises(ValueError, match=words):
        SparseGPRegressor(**given).fit(X, np.abs(np.round(y)))


def test_labels_sources_uncertain_inputs_and_later_rows_are_refused(monkeypatch):
    monkeypatch.setattr(part, "_SMALL_TABLE", 0)
    X, y = data(50)
    given = {"bound": TitsiasBlocks(), "n_inducing": 5}
    with pytest.raises(ValueError, match="for Gaussian noise only"):
        SparseGPClassifier(**given).fit(X, y > 0)
    with pytest.raises(ValueError, match="all rows in memory"):
        SparseGPRegressor(**given).fit(Arrays(X, y, chunk_size=20))
    with pytest.raises(ValueError, match="X_std needs bound"):
        SparseGPRegressor(**given).fit(X, y, X_std=0.1 * np.ones_like(X))
    assert not hasattr(SparseGPRegressor(**given), "partial_fit")
    with pytest.raises(AttributeError) as caught:
        SparseGPRegressor(**given).partial_fit(X, y)
    assert "bound to 'auto'" in str(caught.value.__cause__)
