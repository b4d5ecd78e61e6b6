"""Panels of scikit-learn's Gaussian process gallery: the rows, the kernel and the grid of each.

Data, kernels and grids are those of scikit-learn's ``examples/gaussian_process`` (version 1.9);
`test_gallery` compares the numbers, and docs/benchmarks/gallery.py draws them. golden/README.md
says how ``data/co2_monthly.csv`` was made.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_iris
from sklearn.gaussian_process import kernels as sk

CO2 = Path(__file__).parent / "data" / "co2_monthly.csv"


class Panel(NamedTuple):
    """What one panel fits, and the inputs at which it draws."""

    name: str  # of the example, and of the panel in it
    X: np.ndarray
    y: np.ndarray
    kernel: object
    grid: np.ndarray
    options: dict = {}  # that the example passes besides the kernel
    landscape: np.ndarray | None = None  # thetas (rows, columns, p) of the evidence that is drawn


def all_pairs(*values):
    """Every combination of some numbers, one a row."""
    return np.stack(np.meshgrid(*values), axis=-1).reshape(-1, len(values))


# -- regression -----------------------------------------------------------------------------


def compare_gpr_krr():
    rng = np.random.RandomState(0)
    grid = np.linspace(0, 30, 1000)[:, None]
    rows = rng.choice(400, size=40, replace=False)
    X, y = grid[rows], np.sin(grid[rows, 0]) + 0.5 * rng.randn(40)
    periodic = 1.0 * sk.ExpSineSquared(1.0, 5.0, periodicity_bounds=(1e-2, 1e1))
    decay = sk.RBF(15, "fixed")
    yield Panel("compare_gpr_krr-periodic", X, y, periodic + sk.WhiteKernel(0.1), grid)
    yield Panel("compare_gpr_krr-decaying", X, y, periodic * decay + sk.WhiteKernel(0.1), grid)


def gpr_co2():
    year, month, co2 = np.loadtxt(CO2, delimiter=",", skiprows=1).T
    kernel = (
        50.0**2 * sk.RBF(50.0)
        + 2.0**2 * sk.RBF(100.0) * sk.ExpSineSquared(1.0, 1.0, periodicity_bounds="fixed")
        + 0.5**2 * sk.RationalQuadratic(1.0, 1.0)
        + (0.1**2 * sk.RBF(0.1) + sk.WhiteKernel(0.1**2, (1e-5, 1e5)))
    )
    X, y = (year + month / 12)[:, None], co2 - co2.mean()
    grid = np.linspace(1958, 2026, 1000)[:, None]
    yield Panel("gpr_co2", X, y, kernel, grid, {"normalize_y": False})


def gpr_noisy():
    X = np.random.RandomState(0).uniform(0, 5, size=(20, 1))
    y = 0.5 + np.sin(3 * X[:, 0]) + np.random.RandomState(1).normal(0, 0.3, size=20)
    grid = np.linspace(0, 5, 80)[:, None]
    scales, noises = np.logspace(-2, 4, 80), np.logspace(-2, 1, 80)
    landscape = np.log(np.stack(np.broadcast_arrays(0.36, scales, noises[:, None]), axis=-1))
    much = 1.0 * sk.RBF(10.0, (1e-2, 1e3)) + sk.WhiteKernel(1.0, (1e-10, 1e1))
    little = 1.0 * sk.RBF(0.1, (1e-2, 1e3)) + sk.WhiteKernel(1e-2, (1e-10, 1e1))
    restarts = {"alpha": 0.0, "n_restarts_optimizer": 10, "random_state": 0}
    yield Panel("gpr_noisy-much_noise", X, y, much, grid, {"alpha": 0.0})
    yield Panel("gpr_noisy-little_noise", X, y, little, grid, {"alpha": 0.0}, landscape)
    yield Panel("gpr_noisy-restarts", X, y, much, grid, restarts)


def gpr_noisy_targets():
    rng = np.random.RandomState(1)
    grid = np.linspace(0, 10, 1000)[:, None]
    rows = rng.choice(1000, size=6, replace=False)
    X, y = grid[rows], grid[rows, 0] * np.sin(grid[rows, 0])
    noisy = y + rng.normal(0.0, 0.75, size=6)
    kernel = 1 * sk.RBF(1.0, (1e-2, 1e2))
    restarts = {"n_restarts_optimizer": 9}
    yield Panel("gpr_noisy_targets-exact", X, y, kernel, grid, restarts)
    restarts = {**restarts, "alpha": 0.75**2}
    yield Panel("gpr_noisy_targets-noisy", X, noisy, kernel, grid, restarts)


def gpr_prior_posterior():
    X = np.random.RandomState(4).uniform(0, 5, 10)[:, None]
    y = np.sin((X[:, 0] - 2.5) ** 2)
    kernels = {
        "rbf": 1.0 * sk.RBF(1.0, (1e-1, 10.0)),
        "rational_quadratic": 1.0 * sk.RationalQuadratic(1.0, 0.1, alpha_bounds=(1e-5, 1e15)),
        "periodic": 1.0 * sk.ExpSineSquared(1.0, 3.0, (0.1, 10.0), (1.0, 10.0)),
        "dot_product": sk.ConstantKernel(0.1, (0.01, 10.0)) * sk.DotProduct(1.0, (0.1, 10.0)) ** 2,
        "matern": 1.0 * sk.Matern(1.0, (1e-1, 10.0), nu=1.5),
    }
    grid = np.linspace(0, 5, 100)[:, None]
    for name, kernel in kernels.items():
        yield Panel(f"gpr_prior_posterior-{name}", X, y, kernel, grid, {"random_state": 0})


# -- classification -------------------------------------------------------------------------


def gpc():
    X = np.random.RandomState(0).uniform(0, 5, 100)[:50, None]
    y = (X[:, 0] > 2.5).astype(int)
    grid = np.linspace(0, 5, 100)[:, None]
    variances, scales = np.logspace(0, 8, 30), np.logspace(-1, 1, 29)
    landscape = np.log(np.stack(np.broadcast_arrays(variances, scales[:, None]), axis=-1))
    kernel = 1.0 * sk.RBF(1.0)
    yield Panel("gpc-initial", X, y, kernel, grid, {"optimizer": None})
    yield Panel("gpc-optimised", X, y, kernel, grid, {}, landscape)


def gpc_iris():
    iris = load_iris()
    X, y = iris.data[:, :2], iris.target
    (left, bottom), (right, top) = X.min(axis=0) - 1, X.max(axis=0) + 1
    grid = all_pairs(np.arange(left, right, 0.02)[::5], np.arange(bottom, top, 0.02)[::5])
    yield Panel("gpc_iris-isotropic", X, y, 1.0 * sk.RBF([1.0]), grid)
    yield Panel("gpc_iris-anisotropic", X, y, 1.0 * sk.RBF([1.0, 1.0]), grid)


def gpc_isoprobability():
    X = np.array(
        [
            [-4.61611719, -6.00099547],
            [4.10469096, 5.32782448],
            [0.0, -0.5],
            [-6.17289014, -4.6984743],
            [1.3109306, -6.93271427],
            [-5.03823144, 3.10584743],
            [-2.87600388, 6.74310541],
            [5.21301203, 4.26386883],
        ]
    )
    y = (5.0 - X[:, 1] - 0.5 * X[:, 0] ** 2 > 0).astype(int)
    kernel = sk.ConstantKernel(0.1, (1e-5, np.inf)) * sk.DotProduct(sigma_0=0.1) ** 2
    side = np.linspace(-8, 8, 50)
    yield Panel("gpc_isoprobability", X, y, kernel, all_pairs(side, side))


def gpc_xor():
    X = np.random.RandomState(0).randn(200, 2)
    y = (X[:, 0] > 0) != (X[:, 1] > 0)
    side = np.linspace(-3, 3, 50)
    for name, kernel in (
        ("rbf", 1.0 * sk.RBF(1.15)),
        ("dot_product", 1.0 * sk.DotProduct(1.0) ** 2),
    ):
        yield Panel(f"gpc_xor-{name}", X, y, kernel, all_pairs(side, side), {"warm_start": True})


def by_name(*examples):
    return {panel.name: panel for example in examples for panel in example()}


REGRESSION = by_name(compare_gpr_krr, gpr_co2, gpr_noisy, gpr_noisy_targets, gpr_prior_posterior)
CLASSIFICATION = by_name(gpc, gpc_iris, gpc_isoprobability, gpc_xor)
