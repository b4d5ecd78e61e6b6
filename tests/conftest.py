"""Kernels, bounds, data and comparisons that several test files share.

Every BLAS call of a test runs on one thread, here, in workers and in subprocesses: tests run beside
each other, and threads of several BLAS that wait for each other take forty times as long. A test
about threads of BLAS asks for more, by the fixture `two_blas_threads`.
"""

import os

for _library in ("OPENBLAS", "OMP", "MKL", "BLIS", "VECLIB_MAXIMUM"):
    os.environ[f"{_library}_NUM_THREADS"] = "1"

from pathlib import Path
from typing import NamedTuple

import inside
import numpy as np
import pytest
import scipy.linalg  # noqa: F401  # its BLAS must be there to be limited
from inside import ArrayDataset, InducingBasis, Jitter, NextSites, Options, Problem, arrays, plan
from numpy.testing import assert_allclose
from sklearn.gaussian_process import kernels as sk
from threadpoolctl import threadpool_limits

from skgp_sparse.bounds import DTC, FITC, PEP, Artemev, Titsias, TitsiasNew

threadpool_limits(1)  # for good, where NumPy was there before
pytest_plugins = ["tiers"]

ROOT = Path(__file__).parent.parent
DATA = ROOT / "tests" / "golden"
BOUNDS = {
    "dtc": DTC(),
    "vfe": Titsias(),
    "titsias_new": TitsiasNew(),
    "artemev": Artemev(),
    "fitc": FITC(),
    "pep_0.1": PEP(0.1),
    "pep_0.5": PEP(0.5),
    "pep_0.9": PEP(0.9),
}
NAMED_BOUNDS = ("titsias", "titsias_new", "artemev", "fitc", "pep", "dtc")  # by their first names
KERNELS = {
    "rbf": sk.ConstantKernel(1.7) * sk.RBF(0.8),
    "rbf_ard": sk.ConstantKernel(0.6) * sk.RBF([0.7, 1.5]),
    "matern_0.5": sk.ConstantKernel(1.2) * sk.Matern(1.1, nu=0.5),
    "matern_1.5": sk.ConstantKernel(1.2) * sk.Matern([0.9, 1.6], nu=1.5),
    "matern_2.5": sk.Matern([0.9, 1.6], nu=2.5),
    "rational_quadratic": sk.ConstantKernel(1.4) * sk.RationalQuadratic(0.9, 1.3),
    "periodic": sk.ConstantKernel(0.9) * sk.ExpSineSquared(1.1, 4.7),
    "dot_plus_rbf": sk.DotProduct(0.6) + sk.ConstantKernel(0.5) * sk.RBF(0.9),
    "sum": sk.ConstantKernel(0.7) * sk.Matern([0.8, 1.7], nu=1.5) + sk.RationalQuadratic(1.9, 0.8),
    "product": sk.ConstantKernel(1.2) * sk.RBF(2.0) * sk.Matern([1.1, 0.9], nu=2.5),
    "power": (sk.ConstantKernel(0.8) * sk.RBF([0.8, 1.2]) + sk.DotProduct(0.4)) ** 2,
    "fixed": sk.ConstantKernel(1.3, "fixed") * sk.RBF([0.8, 1.2]) + sk.DotProduct(0.5, "fixed"),
}
NOISES = ("white", "known", "known_and_white", "nested")


@pytest.fixture(autouse=True)
def registry(monkeypatch):
    """Kernels that a test registers are forgotten after it."""
    registered = dict(inside._differentiable.BUILDERS)
    monkeypatch.setattr(inside._differentiable, "BUILDERS", registered)


@pytest.fixture
def two_blas_threads():
    """BLAS has two threads while a test runs."""
    with threadpool_limits(2, user_api="blas"):
        yield


def stored(name):
    """Golden values: the arrays of a file in tests/golden, by their names."""
    return dict(np.load(DATA / f"{name}.npz"))


def stored_cases(name):
    """Golden values {case: {what: array}} of a file in tests/golden."""
    found = {}
    for key, array in stored(name).items():
        case, _, what = key.partition("/")
        found.setdefault(case, {})[what] = array
    return found


class Case(NamedTuple):
    """A model and a table: what a `Problem` needs apart from the bound."""

    kernel: object
    Z: np.ndarray
    X: np.ndarray
    y: np.ndarray
    noise: float | np.ndarray = 0.0
    weight: np.ndarray | None = None
    jitter: Jitter = Jitter(0.0, relative=False)

    def rows(self):
        """The table as the engine takes it."""
        y = self.y.reshape(len(self.y), -1)
        return ArrayDataset(self.X, y, self.noise, self.weight)

    def problem(self, bound, **options):
        """The question for the collapsed engine."""
        options = Options(jitter=self.jitter, **options)
        return Problem(self.kernel, InducingBasis(self.Z), self.rows(), bound, options)

    def groups(self):
        """The table as the exact engine takes it."""
        return arrays.DistinctInputs.of_block(self.rows().everything())

    def repeated(self):
        """The same table with rows of weight w written w times."""
        again = np.repeat(np.arange(len(self.X)), self.weight.astype(int))
        noise = self.noise if np.ndim(self.noise) == 0 else self.noise[again]
        return self._replace(X=self.X[again], y=self.y[again], noise=noise, weight=None)


def make_case(name="rbf_ard", noise="white", *, n=40, m=6, targets=1, weighted=False, seed=0):
    """A random table for `KERNELS[name]`; no coordinate of Z is near one of X or of another Z."""
    rng = np.random.default_rng(seed)
    d = 1 if name == "periodic" else 2
    X = rng.integers(-20, 20, (n, d)) / 10.0
    Z = np.stack([rng.permutation(40)[:m] for _ in range(d)], axis=1) / 10.0 - 1.95
    y = np.sin(X.sum(axis=1, keepdims=True) * np.arange(1, targets + 1))
    y = (y + 0.3 * rng.normal(size=(n, targets))).reshape((n, targets) if targets > 1 else n)
    known = rng.uniform(0.05, 0.4, n) if noise.startswith("known") else 0.0
    weight = rng.integers(0, 4, n).astype(float) if weighted else None
    return Case(_with_noise(KERNELS[name], noise), Z, X, y, known, weight)


def _with_noise(signal, noise):
    if noise == "known":
        return signal
    if noise == "nested":  # its level differs between rows
        return signal + (sk.DotProduct(0.8) + sk.ConstantKernel(0.5)) * sk.WhiteKernel(0.15)
    return signal + sk.WhiteKernel(0.15)


def agree(actual, expected, tolerance=1e-10):
    """Assert equality up to `tolerance` times the largest entry, or 1 if that is larger."""
    scale = max(1.0, np.max(np.abs(expected), initial=0.0))
    assert_allclose(actual, expected, rtol=0, atol=tolerance * scale)


def differences(function, at, step=1e-5):
    """Central differences of a number along every entry of an array."""
    moves = step * np.eye(np.size(at)).reshape(np.size(at), *np.shape(at))
    slopes = [(function(at + move) - function(at - move)) / (2 * step) for move in moves]
    return np.reshape(slopes, np.shape(at))


def row_differences(function, X, step=1e-5):
    """Central differences (n, ..., d) of what a function makes of rows (n, d)."""
    changes = step * np.eye(X.shape[1])
    return np.stack([(function(X + h) - function(X - h)) / (2 * step) for h in changes], axis=-1)


def slope(value_at, step=1e-4):
    """Central difference of the fourth order at 0."""
    near, far = (value_at(k * step) - value_at(-k * step) for k in (1, 2))
    return (8 * near - far) / (12 * step)


def slopes_of_parameters(likelihood, kind, *row):
    """Differences (parameters, n) of values of `expected` or `tilted` along the parameters."""
    value = lambda theta: getattr(likelihood.with_theta(theta), kind)(*row)[0]
    units = np.eye(len(likelihood.theta))
    return [slope(lambda h, u=unit: value(likelihood.theta + h * u), 3e-4) for unit in units]


def check_site_gradient(found, kernel, Z, inner_state=None):
    """Central differences of an objective, its sites found again at every point."""
    evaluation = found.value_and_gradient(kernel, inputs=True, inner_state=inner_state)

    def check(value_at, expected, of):
        size = max(1.0, np.abs(of).max())
        assert abs(slope(value_at, 1e-3) - expected) <= 2e-6 * size

    for unit, expected in zip(np.eye(len(kernel.theta)), evaluation.theta_bar):
        moved = lambda h, u=unit: kernel.clone_with_theta(kernel.theta + h * u)
        check(lambda h, m=moved: found.value(m(h), inner_state), expected, evaluation.theta_bar)
    theta = found.site_method.likelihood.theta
    own = evaluation.gradient.get("likelihood", np.zeros(0))
    for unit, expected in zip(np.eye(len(theta)), own):
        at = lambda h, u=unit: found.at(likelihood=theta + h * u).value(kernel, inner_state)
        check(at, expected, own)
    if evaluation.Z_bar is not None:
        direction = np.random.default_rng(0).normal(size=Z.shape)
        at = lambda h: found.at(basis=Z + h * direction).value(kernel, inner_state)
        check(at, np.vdot(direction, evaluation.Z_bar), evaluation.Z_bar)


def agree_evaluations(actual, expected, tolerance):
    """Assert that two evaluations have the same value and gradient."""
    agree(actual.value, expected.value, tolerance)
    agree(actual.theta_bar, expected.theta_bar, tolerance)
    assert (actual.Z_bar is None) == (expected.Z_bar is None)
    if actual.Z_bar is not None:
        agree(actual.Z_bar, expected.Z_bar, tolerance)


def agree_posteriors(actual, expected, X, tolerance):
    """Assert that two posteriors have the same mean, variance and covariance at X."""
    for mine, its in zip(actual.mean_and_variance(X), expected.mean_and_variance(X), strict=True):
        agree(mine, its, tolerance)
    agree(actual.mean(X), expected.mean(X), tolerance)
    agree(actual.covariance(X), expected.covariance(X), tolerance)


def infer(objective, kernel, inner_state=None):
    """The `Solution` of an inner loop as arrays, without the axis of the processes if it is one."""
    solution = objective.infer(kernel, inner_state)[1]
    step, result = solution.step, solution.step.result
    result = *result[:2], NextSites(*map(_without_axis, result[2]))
    step = step._replace(result=result, target=_without_axis(step.target))
    return solution._replace(state=_without_axis(solution.state), step=step)


def _without_axis(numbers):
    """Numbers (..., k, n) of every row as an array, (..., n) where k is 1."""
    numbers = np.asarray(numbers)
    return numbers[..., 0, :] if numbers.ndim > 1 and numbers.shape[-2] == 1 else numbers


def raising(error):
    """A function that raises an error, whatever it is given."""

    def fail(*_, **__):
        raise error

    return fail


class Recorder:
    """A callback of scikit-learn's protocol that counts, stops or fails."""

    def __init__(self, at=None, action=None):
        self.at, self.action = at, action
        self.setups = self.teardowns = self.iterations = 0
        self.fitted = self.rows = None

    def setup(self, estimator, context):
        self.setups += 1

    def teardown(self, estimator, context):
        self.teardowns += 1

    def on_fit_task_begin(self, estimator, context, *, X=None):
        self.rows = X

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        if context.task_name == "fit":
            self.fitted = fitted_estimator
        if context.task_name == "iteration":
            self.iterations += 1
            if self.iterations == self.at:
                return self.action()
        return False


@pytest.fixture
def without_means(monkeypatch):
    """Default fits have neither a mean nor a calibration, as those of sources and clusters."""
    monkeypatch.setattr(plan, "ROWS_OF_A_MEAN", np.inf)
