"""The base class of kernels that carry their derivatives: two methods make a kernel."""

import pickle
import subprocess
import sys

import cloudpickle
import numpy as np
import pytest
from kernel_cases import check_stack, run_script
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, RationalQuadratic, WhiteKernel

from skgp_sparse import SparseGPRegressor, kernels
from skgp_sparse.kernels import Columns, DifferentiableKernel, Missing
from skgp_sparse.testing import check_kernel_rule

X = np.random.RandomState(0).uniform(0.1, 2.0, (30, 3))
IN_A_SCRIPT = """
import numpy as np
import test_registered_rules
from skgp_sparse.kernels import DifferentiableKernel
class Bell(DifferentiableKernel):
    def __init__(self, scale=1.0, scale_bounds=(1e-3, 1e3)):
        self.scale, self.scale_bounds = scale, scale_bounds
    def linearize(self, X, Z):
        squares = ((X[:, None] - Z) ** 2).sum(axis=2) / self.scale**2
        K = np.exp(-0.5 * squares)
        def pull(G, inputs):
            W = G * K
            Z_bar = (W.T @ X - W.sum(axis=0)[:, None] * Z) / self.scale**2
            return {"scale": np.sum(W * squares)}, Z_bar
        return K, pull
    def linearize_diag(self, X):
        return 1.0, lambda g, inputs: ({}, 0.0)
if __name__ == "__main__":
    test_registered_rules.check_classifier(Bell(0.5))
"""


class Cauchy(DifferentiableKernel):
    """``v / (1 + Σ (x - z)² / l²)``."""

    footprint = 1

    def __init__(self, scale=1.0, variance=1.0, scale_bounds=(0.1, 9.0), variance_bounds=(0.1, 9)):
        self.scale, self.scale_bounds = scale, scale_bounds
        self.variance, self.variance_bounds = variance, variance_bounds

    def linearize(self, X, Z):
        offsets = X[:, None] - Z
        shares = (offsets / self.scale) ** 2
        C = 1.0 / (1.0 + shares.sum(axis=2))
        K = self.variance * C

        def pull(G, inputs):
            W = 2.0 * G * K * C
            of_scales = np.einsum("ij,ijd->d", W, shares)
            of_scales = of_scales if np.ndim(self.scale) else of_scales.sum()
            Z_bar = np.einsum("ij,ijd->jd", W, offsets / np.asarray(self.scale) ** 2)
            return {"scale": of_scales, "variance": np.sum(G * K)}, Z_bar

        return K, pull

    def linearize_diag(self, X):
        return self.variance, lambda g, inputs: ({"variance": self.variance * np.sum(g)}, 0.0)


class Warp(DifferentiableKernel):
    """``k(log x, log z)``: a kernel of a kernel, whose pullback returns the gradient of theta."""

    def __init__(self, kernel):
        self.kernel = kernel

    def linearize(self, X, Z):
        K, pull = kernels.linearize(self.kernel, np.log(X), np.log(Z))

        def pull_through(G, inputs):
            theta_bar, bar = pull(G, inputs)
            return theta_bar, bar / Z if inputs else 0.0

        return K, pull_through

    def linearize_diag(self, X):
        signal, _, pull = kernels.diagonal(self.kernel, np.log(X))

        def pull_through(g, inputs):
            theta_bar, bar = pull(g, np.zeros_like(g), inputs)
            return theta_bar, bar / X if inputs else 0.0

        return signal, pull_through


SCALES = np.array([0.8, 1.3, 2.0])
KERNELS = [
    Cauchy(0.7),
    Cauchy(SCALES, 2.0),
    Cauchy(SCALES, scale_bounds="fixed"),
    Cauchy(scale_bounds="fixed", variance_bounds="fixed"),
    ConstantKernel(2.0) * Columns(Cauchy(0.5), [2, 0]) + Cauchy(3.0) * RBF() + WhiteKernel(0.1),
    Warp(Cauchy(0.7)),
    Warp(RBF(SCALES) * Cauchy(0.7)),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_derivatives(kernel):
    check_kernel_rule(kernel, X)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_many_point_sets_at_once(kernel):
    check_stack(kernel, X.reshape(6, 5, 3))


def test_parameters_with_bounds_are_hyperparameters():
    kernel = Cauchy(SCALES, 2.0)
    assert [(one.name, one.n_elements) for one in kernel.hyperparameters] == [
        ("scale", 3),
        ("variance", 1),
    ]
    assert_array_equal(kernel.theta, np.log([*SCALES, 2.0]))
    assert_array_equal(kernel.bounds, np.log([[0.1, 9.0]] * 4))
    kernel.theta = np.zeros(4)
    assert_array_equal(kernel.scale, np.ones(3))
    assert kernel.variance == 1.0 and isinstance(kernel.variance, float)
    held = Cauchy(SCALES, 2.0, "fixed", "fixed")
    assert held.theta.shape == (0,) and held.bounds.shape == (0, 2)


def test_text_names_the_hyperparameters():
    assert str(Warp(Cauchy(SCALES))) == "Warp(Cauchy(scale=[0.8, 1.3, 2], variance=1))"


def test_kernels_inside_come_first():
    kernel = Warp(Cauchy(0.7) + WhiteKernel(0.5))
    names = [one.name for one in kernel.hyperparameters]
    assert names == ["kernel__k1__scale", "kernel__k1__variance", "kernel__k2__noise_level"]
    assert kernel.get_params()["kernel__k1__scale"] == 0.7
    assert [*kernel.get_params(deep=False)] == ["kernel"]
    moved = kernel.clone_with_theta(np.zeros(3))
    assert moved.kernel.k1.scale == 1.0 and kernel.kernel.k1.scale == 0.7


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_equality_clones_and_pickles(kernel):
    assert clone(kernel) == kernel and pickle.loads(pickle.dumps(kernel)) == kernel
    assert_allclose(kernel.clone_with_theta(kernel.theta).theta, kernel.theta, atol=1e-15)
    moved = kernel.clone_with_theta(kernel.theta + 0.1)
    assert (moved != kernel) == (len(kernel.theta) > 0)
    assert Cauchy(SCALES) != Cauchy(0.8) and Cauchy(SCALES) != RBF()


def test_it_is_a_kernel_of_scikit_learn():
    kernel, theirs = Cauchy(0.7, variance_bounds="fixed"), RationalQuadratic(0.5**0.5, alpha=1.0)
    theirs.alpha_bounds = "fixed"  # (1 + r² / 2 α l²)^-α
    for mine, its in zip(kernel(X, eval_gradient=True), theirs(X, eval_gradient=True)):
        assert mine.shape == its.shape
    theirs.length_scale = 0.7 / 2**0.5
    K, gradient = kernel(X, eval_gradient=True)
    assert_allclose(K, theirs(X), atol=1e-14)
    assert_allclose(gradient, theirs(X, eval_gradient=True)[1], atol=1e-11)
    assert_array_equal(kernel.diag(X), np.ones(len(X)))
    with pytest.raises(ValueError, match="only be evaluated when Y is None"):
        kernel(X, X, eval_gradient=True)
    y = np.sin(3 * X[:, 0])
    gpr = GaussianProcessRegressor(Cauchy() + WhiteKernel(0.1)).fit(X, y)
    model = SparseGPRegressor(gpr.kernel, posterior="exact", alpha=1e-10, normalize_y=False)
    value = model.fit(X, y).log_marginal_likelihood(gpr.kernel_.theta)
    assert value == pytest.approx(gpr.log_marginal_likelihood_value_, rel=1e-6)


def test_gradients_of_missing_values_are_those_of_the_definition():
    Y = X.copy()
    Y[::3, 1] = np.nan
    kernel = Missing(RBF(0.7), columns=[1], correlation=np.array([0.6]), noise=0.2)
    gradient, step = kernel(Y, eval_gradient=True)[1], 1e-5
    for j, unit in enumerate(step * np.eye(len(kernel.theta))):
        up, down = (kernel.clone_with_theta(kernel.theta + k * unit)(Y) for k in (1, -1))
        assert_allclose(gradient[:, :, j], (up - down) / (2 * step), atol=1e-9)


def test_a_kernel_needs_both_methods():
    class Half(DifferentiableKernel):
        def linearize(self, X, Z):
            return 0.0, None

    with pytest.raises(TypeError, match="linearize_diag"):
        Half()


def test_all_kernels_of_the_package_are_subclasses():
    own = [getattr(kernels, name) for name in kernels.__all__]
    found = [one for one in own if isinstance(one, type) and hasattr(one, "is_stationary")]
    assert len(found) == 8 and all(issubclass(one, DifferentiableKernel) for one in found)


def test_a_class_without_a_module_travels_whole():
    source = IN_A_SCRIPT.split("if __name__")[0].replace("import test_registered_rules", "")
    names = {"__name__": "__main__"}
    exec(source, names)
    text = cloudpickle.dumps(names["Bell"](0.7))
    code = (
        "import pickle, sys, numpy as np; from skgp_sparse import kernels;"
        "kernel = pickle.loads(sys.stdin.buffer.read());"
        "print(kernels.differentiable(kernel), kernel.theta)"
    )
    done = subprocess.run([sys.executable, "-c", code], input=text, capture_output=True)
    assert done.stdout.decode().split()[0] == "True", done.stderr


@pytest.mark.second
def test_fits_of_a_script_are_the_same_in_two_processes(tmp_path):
    run_script(tmp_path, IN_A_SCRIPT)
