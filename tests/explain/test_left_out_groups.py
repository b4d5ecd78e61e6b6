"""Groups of training rows that are left out together, beside fits without them."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from skgp_sparse import SparseGPRegressor
from skgp_sparse.kernels import Columns, RandomEffect
from skgp_sparse.sources import Arrays

RNG = np.random.RandomState(0)
X = np.column_stack([RNG.uniform(0, 5, 80).round(1), RNG.randint(0, 9, 80)])
X[::11, 1] = np.nan
X = np.vstack([X, X[:6]])  # some inputs are there twice, some of them with the same targets
Y = np.column_stack([np.sin(2 * X[:, 0]) + np.nan_to_num(X[:, 1]) / 3, RNG.normal(size=len(X))])
Y[:80] += 0.2 * RNG.normal(size=(80, 2))
Y[-6:-3] = Y[:3]
GROUPS = RNG.randint(0, 7, len(X))
Z = np.column_stack([np.linspace(0, 5, 10), np.zeros(10)])
OF_CURVE = Columns(RBF(), 0) + WhiteKernel(0.1)
WITH_EFFECTS = Columns(RBF(), 0) + RandomEffect(1, 0.8) + WhiteKernel(0.1)
SPARSE = {"n_inducing": 10, "inducing_init": Z}


def estimator(kernel, **parameters):
    return SparseGPRegressor(kernel, optimizer=None, normalize_y=False, **parameters)


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("kernel", [OF_CURVE, WITH_EFFECTS], ids=["curve", "effects"])
@pytest.mark.parametrize(
    "parameters",
    [{"posterior": "exact"}, {**SPARSE, "bound": "titsias_new"}, {**SPARSE, "bound": "fitc"}],
    ids=["exact", "titsias_new", "fitc"],
)
def test_as_fits_without_the_groups(kernel, parameters, is_weighted):
    rows = slice(0, 80) if is_weighted else slice(None)  # equal rows have their mean weight
    x, y, groups = X[rows], Y[rows], GROUPS[rows]
    x = np.nan_to_num(x) if kernel is OF_CURVE else x
    weight = np.random.RandomState(1).uniform(0.5, 3, len(x)) if is_weighted else None
    left = estimator(kernel, **parameters).fit(x, y, sample_weight=weight).loo_predict(groups)
    for group in np.unique(groups):
        others, own = groups != group, groups == group
        of_others = None if weight is None else weight[others]
        model = estimator(kernel, **parameters).fit(x[others], y[others], sample_weight=of_others)
        mean, std = model.predict(x[own], return_std=True)
        np.testing.assert_allclose(left.mean[own], mean, atol=1e-10)
        np.testing.assert_allclose(left.std[own], std, atol=1e-10)
        density = -0.5 * (((y[own] - mean) / std) ** 2 + np.log(2 * np.pi * std**2))
        np.testing.assert_allclose(left.log_density[own], density, atol=1e-8)


@pytest.mark.parametrize("parameters", [{"posterior": "exact"}, SPARSE], ids=["exact", "sparse"])
def test_groups_of_one_row(parameters):
    model = estimator(WITH_EFFECTS, **parameters).fit(X, Y)
    for mine, its in zip(model.loo_predict(groups=np.arange(len(X))), model.loo_predict()):
        np.testing.assert_allclose(mine, its, atol=1e-9)


def test_with_a_mean_and_as_text():
    x, y = np.nan_to_num(X), Y[:, 0]
    model = SparseGPRegressor(mean="boosting", random_state=0)
    left = model.fit(x, y, groups=GROUPS).loo_predict(groups=GROUPS.astype(str))
    assert np.isfinite(left.log_density).all()


@pytest.mark.parametrize(
    "parameters, words",
    [
        ({"posterior": "rows", "n_inducing": 5}, "not available"),
        ({"likelihood": "student_t"}, "Gaussian noise"),
    ],
)
def test_what_is_refused(parameters, words):
    x, y = np.nan_to_num(X), Y[:, 0]
    model = SparseGPRegressor(RBF(), random_state=0, **parameters).fit(x, y)
    with pytest.raises(ValueError, match=words):
        model.loo_predict(groups=GROUPS)


def test_groups_are_checked():
    model = estimator(OF_CURVE).fit(Arrays(np.nan_to_num(X), Y))
    with pytest.raises(ValueError, match="a group for each of the 86 rows"):
        model.loo_predict(groups=GROUPS[:5])
