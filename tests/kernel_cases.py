"""Kernels of every kind, for tests of all of them."""

import subprocess
import sys
from pathlib import Path

import numpy as np
from numpy.testing import assert_allclose
from sklearn.gaussian_process import kernels as sklearn_kernels
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Matern,
    RationalQuadratic,
    WhiteKernel,
)

from skgp_sparse import kernels

STATIONARY = [
    RBF(0.8),
    RBF([0.9]),
    RBF([0.8, 1.3, 2.0]),
    *(Matern(0.9, nu=nu) for nu in (0.5, 1.5, 2.5)),
    Matern([0.8, 1.3, 2.0], nu=0.5),
    Matern([0.8, 1.3, 2.0], nu=np.inf),
    RationalQuadratic(1.2, 0.7),
    ExpSineSquared(0.9, 1.7),
]
COMPOSITES = [
    ConstantKernel(2.0),
    ConstantKernel(2),
    DotProduct(0.6),
    DotProduct(2),
    ConstantKernel(2) ** 0.5,
    ConstantKernel(2) * RBF(3),
    ConstantKernel(1.4, "fixed") * RBF([0.8, 1.3, 2.0], "fixed") + DotProduct(0.5),
    RationalQuadratic(1.2, 0.7, alpha_bounds="fixed"),
    ExpSineSquared(0.9, 1.7, length_scale_bounds="fixed"),
    RBF(0.8) + Matern(1.1, nu=1.5),
    RBF(0.8) + ConstantKernel(0.3),
    ConstantKernel(0.3) + RBF(0.8),
    RBF(0.8) * ConstantKernel(0.3),
    RBF(0.8) * Matern([1.1, 0.7, 2.0], nu=1.5) * DotProduct(0.5),
    (RBF(0.8) + DotProduct(0.4)) ** 3,
    (ConstantKernel(0.5) * RBF(0.8)) ** 0.5,
    (ConstantKernel(0.5) + WhiteKernel(0.2) + ConstantKernel(0.1)) * RBF(0.8),
    RBF(0.8) * WhiteKernel(0.3) + Matern(0.7),
    ConstantKernel(2.0) * (RBF() + WhiteKernel(0.5)),
    (RBF(0.7) + WhiteKernel(0.5)) * (DotProduct(0.3) + WhiteKernel(0.2)),
    (ConstantKernel(1.5) * (RBF(0.7) + WhiteKernel(0.5))) ** 2 + WhiteKernel(0.1),
    (DotProduct(1.0) + WhiteKernel(0.5)) ** 0.5,
    WhiteKernel(0.5) ** 0.5 + RBF(0.8),
    WhiteKernel(0.5),
]
ALL = STATIONARY + COMPOSITES


class Opaque(RBF):
    """An RBF that is none to the registry, which goes by exact type."""


class Rippled(RBF):
    """A subclass with another formula: not an RBF."""

    def __call__(self, X, Y=None, eval_gradient=False):
        if not eval_gradient:
            return np.cos(super().__call__(X, Y))
        K, dK = super().__call__(X, Y, eval_gradient=True)
        return np.cos(K), -np.sin(K)[:, :, None] * dK

    def diag(self, X):
        return np.cos(super().diag(X))


def parsed(text):
    """The kernel of scikit-learn that has a text as its repr."""
    names = {name: getattr(sklearn_kernels, name) for name in dir(sklearn_kernels)}
    return eval(str(text).replace("1e400", "float('inf')"), names)


def check_stack(kernel, P, inputs=True):
    """Assert that values and the pullback of many point sets are those of each."""
    K, pull = kernels.linearize_stack(kernel, P)
    G = np.random.RandomState(2).normal(size=K.shape)
    G += G.transpose(0, 2, 1)
    theta_bar, P_bar = pull(G.copy(), inputs)
    total = np.zeros(len(kernel.theta))
    for number, points in enumerate(P):
        value, pull_one = kernels.linearize(kernel, points, points)
        of_theta, of_Z = pull_one(G[number].copy(), inputs)
        total += of_theta
        assert_allclose(K[number], value, atol=1e-14)
        if inputs:
            assert_allclose(P_bar[number], 2.0 * of_Z, atol=1e-12)
    assert_allclose(theta_bar, total, atol=1e-12)


def run_script(folder, text):
    """Run a script that imports tests of kernels, in a process of its own."""
    (folder / "script.py").write_text(text)
    folders = [str(Path(__file__).parent / "kernels"), *sys.path]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", folder / "script.py"],
        env={"PYTHONPATH": ":".join(folders), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
