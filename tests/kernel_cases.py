"""Kernels of every kind, for tests of all of them."""

import subprocess
import sys
from pathlib import Path

import numpy as np
from numpy.testing import assert_allclose
from sklearn.gaussian_process import kernels as sk

from skgp_sparse import kernels

STATIONARY = [
    sk.RBF(0.8),
    sk.RBF([0.9]),
    sk.RBF([0.8, 1.3, 2.0]),
    *(sk.Matern(0.9, nu=nu) for nu in (0.5, 1.5, 2.5)),
    sk.Matern([0.8, 1.3, 2.0], nu=0.5),
    sk.Matern([0.8, 1.3, 2.0], nu=np.inf),
    sk.RationalQuadratic(1.2, 0.7),
    sk.ExpSineSquared(0.9, 1.7),
]
COMPOSITES = [
    sk.ConstantKernel(2.0),
    sk.ConstantKernel(2),
    sk.DotProduct(0.6),
    sk.DotProduct(2),
    sk.ConstantKernel(2) ** 0.5,
    sk.ConstantKernel(2) * sk.RBF(3),
    sk.ConstantKernel(1.4, "fixed") * sk.RBF([0.8, 1.3, 2.0], "fixed") + sk.DotProduct(0.5),
    sk.RationalQuadratic(1.2, 0.7, alpha_bounds="fixed"),
    sk.ExpSineSquared(0.9, 1.7, length_scale_bounds="fixed"),
    sk.RBF(0.8) + sk.Matern(1.1, nu=1.5),
    sk.RBF(0.8) + sk.ConstantKernel(0.3),
    sk.ConstantKernel(0.3) + sk.RBF(0.8),
    sk.RBF(0.8) * sk.ConstantKernel(0.3),
    sk.RBF(0.8) * sk.Matern([1.1, 0.7, 2.0], nu=1.5) * sk.DotProduct(0.5),
    (sk.RBF(0.8) + sk.DotProduct(0.4)) ** 3,
    (sk.ConstantKernel(0.5) * sk.RBF(0.8)) ** 0.5,
    (sk.ConstantKernel(0.5) + sk.WhiteKernel(0.2) + sk.ConstantKernel(0.1)) * sk.RBF(0.8),
    sk.RBF(0.8) * sk.WhiteKernel(0.3) + sk.Matern(0.7),
    sk.ConstantKernel(2.0) * (sk.RBF() + sk.WhiteKernel(0.5)),
    (sk.RBF(0.7) + sk.WhiteKernel(0.5)) * (sk.DotProduct(0.3) + sk.WhiteKernel(0.2)),
    (sk.ConstantKernel(1.5) * (sk.RBF(0.7) + sk.WhiteKernel(0.5))) ** 2 + sk.WhiteKernel(0.1),
    (sk.DotProduct(1.0) + sk.WhiteKernel(0.5)) ** 0.5,
    sk.WhiteKernel(0.5) ** 0.5 + sk.RBF(0.8),
    sk.WhiteKernel(0.5),
]
ALL = STATIONARY + COMPOSITES


class Opaque(sk.RBF):
    """An RBF that is none to the registry, which goes by exact type."""


class Rippled(sk.RBF):
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
    return eval(str(text).replace("1e400", "float('inf')"), dict(vars(sk)))


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
