"""The check of kernel rules, which compares a rule with the scikit-learn kernel itself."""

import numpy as np
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF
from sklearn.utils import check_array, check_random_state

from skgp_sparse import kernels
from skgp_sparse.testing import _require as require

_ROWS, _POINTS, _COLUMNS = 16, 7, 3
_DIGITS, _TOLERANCE = 1e-9, 1e-6  # of values, and of gradients
_LEAST = 1e-80  # below which values count as 0
_STEP = 1e-6  # of central differences


def check_kernel_rule(kernel, X=None, random_state=0):
    """Check the derivative rule of a kernel: its own one, or one of `skgp_sparse.kernels.register`.

    The values of the rule are compared with those of the kernel itself, and the gradients with
    central differences of these values. The check also examines whether ``k(X, X)`` is symmetric
    and has the right diagonal, points that coincide, fixed hyperparameters, a sum with another
    kernel, and calls between a value and its gradient. The kernel may be a sum, product or power of
    other kernels.

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
    known = require.call(f"differentiable({kernel})", kernels.differentiable, kernel)
    hint = (
        "Make its kernels subclasses of DifferentiableKernel, or add a rule for each of them with "
        "skgp_sparse.kernels.register."
    )
    require.that(known, f"{kernel} has no derivative rule. {hint}")
    rng = check_random_state(random_state)
    if X is None:
        columns = max((p.n_elements for p in kernel.hyperparameters), default=1)
        X = rng.uniform(0.1, 2.0, (_ROWS, columns if columns > 1 else _COLUMNS))
    X = check_array(X, dtype=np.float64, ensure_min_samples=2)
    X = X[rng.permutation(len(X))[:_ROWS]]
    first = rng.randint(len(X), size=_POINTS)
    second = (first + rng.randint(1, len(X), size=_POINTS)) % len(X)
    Z = X[first] + rng.uniform(0.2, 0.8, (_POINTS, 1)) * (X[second] - X[first])
    G, unit = rng.normal(size=(len(X), _POINTS)), X.std(axis=0)
    unit[unit == 0.0] = 1.0
    _check_cross(kernel, X, Z, G, unit)
    _check_diagonal(kernel, X, G[:, :2].T, unit)
    # at rows that are also inducing points, as at the start of a fit
    _cross(kernel, X, X[:_POINTS], G[:, : len(X)], " where rows coincide")()
    _check_fixed(kernel, X, Z, G)
    halves = [(kernel, X[k::2], Z, G[k::2], " after another call") for k in (0, 1)]
    pulls = [_cross(*half) for half in halves]  # all values come before the first gradient
    for pull, half in zip(pulls, halves):
        for name, mine, its in zip(("theta", "Z"), pull()[1:], _cross(*half)()[1:]):
            _equal(mine, its, f"{kernel}: the gradient of {name} after another call")
    # a product and a sum reveal a pullback that overwrites arrays of other kernels
    _check_cross(kernel * kernel + RBF(np.sqrt(np.mean(unit**2))), X, Z, G, unit)


def _cross(kernel, X, Z, G, where=""):
    """Linearize; return a function for k(X, Z) and the gradients of ``sum(G * k(X, Z))``."""
    theta, what = kernel.theta.copy(), f"{kernel}: linearize"
    value, pull = require.call(what, kernels.linearize, kernel, X, Z)
    value = np.array(value)  # which the pullback may overwrite

    def answers(inputs=True):
        theta_bar, Z_bar = require.call(what, lambda: pull(G.copy(), inputs))
        same = np.array_equal(kernel.theta, theta)
        require.that(same, f"{kernel}: the rule changes theta to {kernel.theta}.")
        require.finite(value, (len(X), len(Z)), f"{kernel}: k(X, Z){where}")
        require.finite(theta_bar, theta.shape, f"{kernel}: the gradient of theta{where}")
        if inputs:
            require.finite(Z_bar, Z.shape, f"{kernel}: the gradient of Z{where}")
        return value, theta_bar, Z_bar

    return answers


def _check_cross(kernel, X, Z, G, unit):
    expected = kernel(X, Z)
    answers = _cross(kernel, X, Z, G)
    value, *gradients = answers()
    _equal(value, expected, f"{kernel}: k(X, Z)")
    what, sums = f"{kernel}: the gradient of linearize", lambda k, z: np.sum(G * k(X, z))
    _check_slopes(kernel, what, gradients, sums, Z, unit, expected)
    _, without, none = _cross(kernel, X, Z, G)(inputs=False)
    require.that(none is None, f"{kernel}: Z_bar is {none} with inputs=False, expected None.")
    _equal(without, gradients[0], f"{kernel}: the gradient of theta with inputs=False")


def _check_diagonal(kernel, X, g, unit):
    what, expected = f"{kernel}: linearize_diag", kernel.diag(X)
    signal, noise, pull = require.call(what, kernels.diagonal, kernel, X)
    gradients = require.call(what, pull, *g, inputs=True)
    signal, noise = (np.broadcast_to(part, len(X)) for part in (signal, noise))
    _equal(signal + noise, expected, f"{kernel}: k(x, x)")
    _equal(signal, _signal(kernel, X), f"{kernel}: k(x, x) without noise")
    K = kernels.evaluate(kernel, X, X)
    _equal(K, K.T, f"{kernel}: k(X, X), beside its transpose,")
    _equal(signal, K.diagonal(), f"{kernel}: k(x, x), beside the diagonal of k(X, X),")

    def sums(kernel, x):
        signal = _signal(kernel, x)
        return np.sum(g * (signal, kernel.diag(x) - signal))

    _check_slopes(kernel, f"{what}, its gradient", gradients, sums, X, unit, expected)


def _signal(kernel, X):
    """Return ``k(x, x)`` without white noise: ``kernel(X, X)`` does not include it."""
    return np.diagonal(kernel(X, X)) if kernels.learns_noise(kernel) else kernel.diag(X)


def _check_fixed(kernel, X, Z, G):
    """Check the gradient of theta with each hyperparameter fixed in turn."""
    free = [p for p in kernel.hyperparameters if not p.fixed]
    owners = [f"{p.name}_bounds" for p in free for _ in range(p.n_elements)]
    whole = _cross(kernel, X, Z, G)()[1]
    for bounds in sorted(set(owners) & set(kernel.get_params())):
        held = clone(kernel).set_params(**{bounds: "fixed"})
        actual, expected = _cross(held, X, Z, G)()[1], whole[[one != bounds for one in owners]]
        _equal(actual, expected, f"{kernel}: the gradient of theta with {bounds}='fixed'")


def _equal(actual, expected, what):
    require.close(actual, expected, _DIGITS * np.max(np.abs(expected), initial=_LEAST), what)


def _check_slopes(kernel, what, gradients, function, inputs, unit, terms):
    """Compare gradients with central differences of ``function(kernel, inputs)``.

    The tolerance is relative to the largest of the terms of the function.
    """
    moved, (by_theta, by_inputs) = kernel.clone_with_theta, gradients
    slopes = (
        require.differences(lambda t: function(moved(t), inputs), kernel.theta, _STEP),
        require.differences(lambda x: function(kernel, x * unit), inputs / unit, _STEP),
    )
    names = ("theta", "the inputs in units of their spread")
    for name, mine, its in zip(names, (by_theta, by_inputs * unit), slopes):
        allowed = _TOLERANCE * max(np.max(np.abs(terms)), np.max(np.abs(its), initial=_LEAST))
        require.close(mine, its, allowed, f"{what} with respect to {name}, beside differences,")
