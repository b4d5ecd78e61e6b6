"""The check of kernel rules, which compares a rule with the scikit-learn kernel itself."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF
from sklearn.utils import check_array, check_random_state

from skgp_sparse import kernels
from skgp_sparse.testing import _require as require

_ROWS, _POINTS, _COLUMNS = 16, 7, 3
_DIGITS = 1e-9  # of values
_TOLERANCE = 1e-6  # of gradients
_PATIENCE = 60.0  # seconds that a thread waits for the other one
_LEAST = 1e-80  # below which values count as 0
_STEP = 1e-6  # of central differences


class _Case(NamedTuple):
    """A kernel, two point sets, and a cotangent of the kernel matrix between them."""

    kernel: object
    X: np.ndarray
    Z: np.ndarray
    G: np.ndarray

    def unit(self):
        """Return the standard deviation of each column, or 1 if a column is constant."""
        spread = self.X.std(axis=0)
        return np.where(spread > 0.0, spread, 1.0)

    def cross(self, inputs=True, between=lambda: None):
        """Return the value of the rule, and the gradients of ``sum(G * k(X, Z))``.

        `between` is called after the value was computed.
        """
        with require.no_error(f"{self.kernel}: linearize (X and Z are read-only)"):
            points = map(require.read_only, (self.X, self.Z))
            value, pull = kernels.linearize(self.kernel, *points)
        value = np.array(value)  # which the pullback may overwrite
        between()
        with require.no_error(f"{self.kernel}: the pullback of linearize"):
            theta_bar, Z_bar = pull(self.G.copy(), inputs)
        shape = self.kernel.theta.shape
        require.shape(theta_bar, shape, f"{self.kernel}: the gradient of theta")
        if inputs:
            require.shape(Z_bar, self.Z.shape, f"{self.kernel}: the gradient of Z")
        return value, theta_bar, Z_bar

    def diagonal(self):
        """Return the signal and the noise of every row, and the gradients of weighted sums."""
        with require.no_error(f"{self.kernel}: linearize_diag (arguments are read-only)"):
            *parts, pull = kernels.diagonal(self.kernel, require.read_only(self.X))
            gradients = pull(*map(require.read_only, self.G[:, :2].T), inputs=True)
        return *(np.broadcast_to(part, len(self.X)) for part in parts), *gradients


def check_kernel_rule(kernel, X=None, random_state=0):
    """Check the derivative rule of a kernel: its own one, or one of `skgp_sparse.kernels.register`.

    The values of the rule are compared with those of the kernel itself, and the gradients with
    central differences of these values. The check also examines whether ``k(X, X)`` is symmetric
    and has the right diagonal, points that coincide, fixed hyperparameters, a sum with another
    kernel, and calls from two threads. The kernel may be a sum, product or power of other kernels.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        The instance to check, with hyperparameters that suit `X`.
    X : array-like of shape (n, d), default=None
        Typical inputs of the kernel. The check uses at most 16 of the rows, and points between
        them. No two rows should have a coordinate in common, because the kernel may not be
        differentiable there. By default, the inputs are random numbers between 0.1 and 2. They
        have 3 columns, or as many columns as the largest hyperparameter has entries.
    random_state : int, RandomState instance or None, default=0
        Determines random number generation for the points and the cotangents.

    Raises
    ------
    AssertionError
        If the rule is incorrect. The message describes the difference.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
    >>> from skgp_sparse.testing import check_kernel_rule
    >>> check_kernel_rule(ConstantKernel(2.0) * RBF([0.8, 1.3]) + WhiteKernel(0.1))
    """
    with require.no_error(f"skgp_sparse.kernels.differentiable({kernel})"):
        known = kernels.differentiable(kernel)
    hint = (
        "Make its kernels subclasses of DifferentiableKernel, or add a rule for each of them with "
        "skgp_sparse.kernels.register."
    )
    require.that(known, f"{kernel} has no derivative rule. {hint}")
    case = _make_case(kernel, X, check_random_state(random_state))
    theta = kernel.theta.copy()
    case.cross(), case.diagonal()
    same = np.array_equal(kernel.theta, theta)
    require.that(same, f"{kernel}: the rule changes theta to {kernel.theta}.")
    _check_cross(case)
    _check_diagonal(case)
    _check_coincidence(case)
    _check_fixed(case)
    _check_threads(case)
    # a product and a sum reveal a pullback that overwrites arrays of other kernels
    beside = RBF(np.sqrt(np.mean(case.unit() ** 2)))
    _check_cross(case._replace(kernel=kernel * kernel + beside))


def _make_case(kernel, X, rng):
    if X is None:
        columns = max((p.n_elements for p in kernel.hyperparameters), default=1)
        X = rng.uniform(0.1, 2.0, (_ROWS, columns if columns > 1 else _COLUMNS))
    X = check_array(X, dtype=np.float64, ensure_min_samples=2)
    X = X[rng.permutation(len(X))[:_ROWS]]
    first = rng.randint(len(X), size=_POINTS)
    second = (first + rng.randint(1, len(X), size=_POINTS)) % len(X)
    Z = X[first] + rng.uniform(0.2, 0.8, (_POINTS, 1)) * (X[second] - X[first])
    return _Case(kernel, X, Z, rng.normal(size=(len(X), _POINTS)))


def _check_cross(case):
    kernel, X, Z, G = case
    (value, theta_bar, Z_bar), expected = case.cross(), kernel(X, Z)
    _require_equal(value, expected, f"{kernel}: k(X, Z)", "by the kernel itself")

    def weighted(kernel, z):
        return np.sum(G * kernel(X, z))

    _require_slopes(case, "linearize", (theta_bar, Z_bar), weighted, Z, expected)
    _, without, none = case.cross(inputs=False)
    require.that(none is None, f"{kernel}: Z_bar is {none} with inputs=False, expected None.")
    what = f"{kernel}: the gradient of theta with inputs=False"
    _require_equal(without, theta_bar, what, "with inputs=True")


def _check_diagonal(case):
    kernel, X = case.kernel, case.X
    (signal, noise, theta_bar, X_bar), expected = case.diagonal(), kernel.diag(X)
    _require_equal(signal + noise, expected, f"{kernel}: k(x, x)", "by kernel.diag")
    what = f"{kernel}: k(x, x) without noise"
    _require_equal(signal, _signal(kernel, X), what, "by the kernel itself")
    K = kernels.evaluate(kernel, X, X)
    _require_equal(K, K.T, f"{kernel}: k(X, X)", "by its transpose")
    _require_equal(signal, K.diagonal(), what, "by the diagonal of k(X, X)")

    def weighted(kernel, x):
        signal = _signal(kernel, x)
        return np.sum(case.G[:, :2].T * (signal, kernel.diag(x) - signal))

    _require_slopes(case, "linearize_diag", (theta_bar, X_bar), weighted, X, expected)


def _signal(kernel, X):
    """Return ``k(x, x)`` without white noise: ``kernel(X, X)`` does not include it."""
    return np.diagonal(kernel(X, X)) if kernels.learns_noise(kernel) else kernel.diag(X)


def _require_equal(actual, expected, what, source):
    allowed = _DIGITS * np.max(np.abs(expected), initial=_LEAST)
    require.close(actual, expected, allowed, what, source)


def _require_slopes(case, what, gradients, function, inputs, terms):
    """Compare gradients with central differences of ``function(kernel, inputs)``.

    The tolerance is relative to the largest of the terms of the function.
    """
    (kernel, unit), (by_theta, by_inputs) = (case.kernel, case.unit()), gradients
    moved = kernel.clone_with_theta
    slopes = (
        require.differences(lambda t: function(moved(t), inputs), kernel.theta, _STEP),
        require.differences(lambda x: function(kernel, x * unit), inputs / unit, _STEP),
    )
    names = ("theta", "the inputs in units of their spread")
    for name, mine, its in zip(names, (by_theta, by_inputs * unit), slopes):
        allowed = _TOLERANCE * max(np.max(np.abs(terms)), np.max(np.abs(its), initial=_LEAST))
        name = f"{kernel}: the gradient of {what} with respect to {name}"
        require.close(mine, its, allowed, name, "by central differences of the kernel itself")


def _check_coincidence(case):
    """Check the rule at rows that are also inducing points, as at the start of a fit."""
    met = case._replace(Z=case.X[:_POINTS], G=case.G[:, : len(case.X)])
    names = ("k(X, Z)", "the gradient of theta", "the gradient of Z")
    for name, values in zip(names, met.cross()):
        require.finite(values, f"{case.kernel}: {name} where rows coincide")


def _check_fixed(case):
    """Check the gradient of theta with each hyperparameter fixed in turn."""
    free = [p for p in case.kernel.hyperparameters if not p.fixed]
    owners = [f"{p.name}_bounds" for p in free for _ in range(p.n_elements)]
    whole = case.cross()[1]
    for bounds in sorted(set(owners) & set(case.kernel.get_params())):
        held = clone(case.kernel).set_params(**{bounds: "fixed"})
        actual = case._replace(kernel=held).cross()[1]
        expected = whole[[owner != bounds for owner in owners]]
        what = f"{case.kernel}: the gradient of theta with {bounds}='fixed'"
        _require_equal(actual, expected, what, "the other entries when it is free")


def _check_threads(case):
    """Check two threads that both compute their values before they call their pullbacks."""
    halves = [case._replace(X=case.X[rows::2], G=case.G[rows::2]) for rows in (0, 1)]
    barrier = Barrier(2, timeout=_PATIENCE)
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(lambda half: half.cross(between=barrier.wait), halves))
    for actual, half in zip(together, halves):
        for name, mine, its in zip(("theta", "Z"), actual[1:], half.cross()[1:]):
            what = f"{case.kernel}: the gradient of {name} with two threads at work"
            _require_equal(mine, its, what, "by one thread")
