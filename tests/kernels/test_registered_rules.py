"""Rules that a user registered are known in other processes: fits are the same for all `n_jobs`."""

import copy
import pickle

import numpy as np
import pytest
from inside import _differentiable, _sklearn_kernels
from kernel_cases import run_script
from sklearn.gaussian_process.kernels import RBF
from sklearn.model_selection import GridSearchCV

from skgp_sparse import SparseGPClassifier, SparseGPRegressor, kernels

RNG = np.random.RandomState(0)
X = RNG.uniform(-3, 3, (60, 1))
LABELS = np.digitize(np.sin(2 * X[:, 0]), [-0.4, 0.4])
QUICK = {"n_inducing": 6, "max_iter": 4, "random_state": 0}
IN_A_SCRIPT = """
import test_registered_rules as module
if __name__ == "__main__":
    class Mine(module.RBF): pass
    class Rule(module.RuleOfWavy): pass
    module.kernels.register(Mine, Rule())
    module.check_classifier(Mine(0.5))
"""


class Wavy(RBF):
    """A kernel without a rule of the package."""


class RuleOfWavy(_sklearn_kernels.LengthScaleRule):
    """A rule of a user."""

    def __init__(self):
        super().__init__(_sklearn_kernels.squared_exponential, footprint=1)


class WithState(Wavy):
    """A kernel that pickles itself in a way of its own."""

    def __getstate__(self):
        return {"halved": 0.5 * self.length_scale}

    def __setstate__(self, state):
        self.length_scale, self.length_scale_bounds = 2.0 * state["halved"], (0.1, 9.0)


def forget(kind):
    del _differentiable.BUILDERS[kind]
    assert not kernels.differentiable(kind())


def check_classifier(kernel):
    alone, together = (
        SparseGPClassifier(kernel, n_jobs=n_jobs, **QUICK).fit(X, LABELS) for n_jobs in (1, 2)
    )
    np.testing.assert_array_equal(together.kernel_.theta, alone.kernel_.theta)
    for one, other in zip(together.inducing_points_, alone.inducing_points_):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("kind", [Wavy, WithState])
def test_a_pickle_of_a_kernel_brings_its_rule(kind):
    kernels.register(kind, RuleOfWavy())
    text = pickle.dumps(SparseGPRegressor(kind(0.7)))
    forget(kind)
    kernel = pickle.loads(text).kernel
    assert kernels.differentiable(kernel) and type(kernel) is kind and kernel.length_scale == 0.7
    rule = _differentiable.BUILDERS[kind]
    assert copy.deepcopy(kernel).length_scale == copy.copy(kernel).length_scale == 0.7
    assert _differentiable.BUILDERS[kind] is rule  # copies leave the registry as it is


def test_a_class_of_the_user_with_a_rule_of_the_package():
    kernels.register(Wavy, _sklearn_kernels.RBF_RULE)
    text = pickle.dumps(Wavy())
    forget(Wavy)
    assert kernels.differentiable(pickle.loads(text))


def test_pickles_of_kernels_of_the_package_hold_no_rules():
    assert b"Rule" not in pickle.dumps(RBF()) and b"Rule" not in pickle.dumps(kernels.Categorical())


@pytest.mark.second
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_fits_in_other_processes_know_the_rule():
    kernels.register(Wavy, RuleOfWavy())
    check_classifier(Wavy(0.5))
    model, grid = SparseGPRegressor(**QUICK), {"kernel": [Wavy(0.5)]}
    search = GridSearchCV(model, grid, n_jobs=2, cv=2)
    found = search.fit(X, LABELS).cv_results_["mean_test_score"]
    assert found == search.set_params(n_jobs=1).fit(X, LABELS).cv_results_["mean_test_score"]


@pytest.mark.second
def test_rules_of_a_script_are_known_in_other_processes(tmp_path):
    run_script(tmp_path, IN_A_SCRIPT)
