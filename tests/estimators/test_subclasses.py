"""Subclasses whose ``__init__`` has other parameters: fewer, more, or some of other names."""

import pickle
from importlib import import_module

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.model_selection import GridSearchCV

from skgp_sparse import BayesianGPLVM, SparseGPClassifier, SparseGPRegressor

QUICK = {"n_inducing": 8, "max_iter": 5, "random_state": 0}
KERNEL = RBF(2.0) + WhiteKernel(0.1)
RNG = np.random.RandomState(0)
X = RNG.uniform(-3, 3, size=(60, 2))
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=60)
TARGETS = {SparseGPRegressor: Y, SparseGPClassifier: Y > 0, BayesianGPLVM: None}
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def preset(base):
    """A subclass with two parameters, which sets some of the others."""

    class Preset(base):
        def __init__(self, kernel=None, *, random_state=None):
            super().__init__(kernel=kernel, **QUICK | {"random_state": random_state})

    return Preset(KERNEL, random_state=0)


def renamed(base):
    """A subclass whose parameters all have names of its own."""

    class Renamed(base):
        def __init__(self, covariance=None, points=8):
            super().__init__(kernel=covariance, **QUICK | {"n_inducing": points})
            self.covariance, self.points = covariance, points

    return Renamed(KERNEL)


def tagged(base):
    """A subclass that forgets the parameters of the base, whose defaults are then read."""

    class Tagged(base):
        def __init__(self, tag="a", kernel=None, n_inducing=8, max_iter=5, random_state=0):
            self.tag, self.kernel, self.n_inducing = tag, kernel, n_inducing
            self.max_iter, self.random_state = max_iter, random_state

    return Tagged(kernel=KERNEL)


@pytest.mark.parametrize("base", TARGETS)
@pytest.mark.parametrize("make", [preset, renamed, tagged])
def test_a_subclass_with_other_parameters_fits_as_its_base(make, base):
    model, plain = make(base), base(kernel=KERNEL, **QUICK)
    fits = [clone(one).fit(X, TARGETS[base]) for one in (model, plain)]
    ours, its = (one.log_marginal_likelihood_value_ for one in fits)
    assert ours == its and fits[0].kernel_ == fits[1].kernel_
    assert not vars(model).keys() ^ vars(clone(model)).keys()


@pytest.mark.parametrize("base", [SparseGPRegressor, SparseGPClassifier])
@pytest.mark.parametrize("make", [preset, renamed, tagged])
def test_a_subclass_learns_from_later_rows_as_its_base(make, base):
    y, parts = TARGETS[base], (slice(40), slice(40, None))
    ours, its = make(base), base(KERNEL, **QUICK)
    for part in parts:
        for one in (ours, its):
            one.partial_fit(X[part], y[part], classes=np.unique(y) if y.dtype == bool else None)
    assert_array_equal(ours.predict(X), its.predict(X))
    with pytest.raises(ValueError, match=rf"{type(ours).__name__}.partial_fit goes on .* bound="):
        ours.bound = "fitc"
        ours.partial_fit(X, y)


class Few(SparseGPRegressor):
    """A preset that can be pickled."""

    def __init__(self, kernel=None, n_inducing=8):
        super().__init__(kernel, n_inducing=n_inducing, max_iter=5, random_state=0)


def test_a_subclass_is_pickled_and_searched_over():
    grid = {"n_inducing": [4, 5], "kernel__k2__noise_level": [0.2]}
    search = GridSearchCV(Few(KERNEL), grid, cv=2).fit(X, Y)
    best = search.best_estimator_
    assert len(best.inducing_points_) == best.n_inducing < 8 and best.kernel.k2.noise_level == 0.2
    assert_array_equal(pickle.loads(pickle.dumps(best)).predict(X), search.predict(X))


@pytest.mark.parametrize("base", TARGETS)
def test_what_a_subclass_sets_is_checked(base):
    model = preset(base)
    model.max_iter = 0
    with pytest.raises(ValueError, match=r"'max_iter' parameter of Preset must be an int"):
        model.fit(X, TARGETS[base])


@pytest.mark.parametrize("base", [SparseGPRegressor, SparseGPClassifier])
def test_a_subclass_on_a_cluster_has_other_parameters(base):
    for needed in ("dask", "distributed"):
        pytest.importorskip(needed)
    on_cluster = getattr(import_module("skgp_sparse.dask"), f"Dask{base.__name__}")
    twin = clone(preset(on_cluster)).fit(X, TARGETS[base])  # arrays need no client
    assert_array_equal(twin.predict(X), preset(base).fit(X, TARGETS[base]).predict(X))
    assert_array_equal(twin.to_local().predict(X), twin.predict(X))
