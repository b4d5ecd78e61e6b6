"""Checks of kernels and of their derivative rules."""

from collections.abc import Callable

import numpy as np
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, Kernel
from sklearn.utils import check_array, check_random_state

from skgp_sparse import kernels
from skgp_sparse.data.moments import or_one
from skgp_sparse.ground.validation import Array, MaybeArray
from skgp_sparse.ground.validation import RandomStateLike as Seed

from ._comparisons import call, close, differences, largest, that

_ROWS, _POINTS, _COLUMNS, _STEPS = 16, 7, 3, 40  # of inputs of kernels


def check_kernel_rule(kernel: Kernel, X: MaybeArray = None, random_state: Seed = 0) -> None:
    """Check the derivative rule of a kernel: its own one, or one of `skgp_sparse.kernels.register`.

    The values of the rule are compared with those of the kernel itself, and the gradients with
    central differences of these values. The check also examines ``k(x, x)``, points that coincide,
    fixed hyperparameters, a sum with another kernel, and calls between a value and its gradient.
    The kernel may be a sum, product or power of other kernels. If a part of it is your own, it must
    be a covariance: symmetric, and its matrices without a negative eigenvalue.

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
    hint = "Make its kernels subclasses of DifferentiableKernel, or add a rule for each of them"
    hint = f"{kernel} has no derivative rule. {hint} with skgp_sparse.kernels.register."
    that(call(f"differentiable({kernel})", kernels.differentiable, kernel), hint)
    rng = check_random_state(random_state)
    if X is None:
        columns = max((p.n_elements for p in kernel.hyperparameters), default=1)
        X = rng.uniform(0.1, 2.0, (_ROWS, columns if columns > 1 else _COLUMNS))
    at: Array = check_array(X, dtype=np.float64, ensure_min_samples=2)
    at = at[rng.permutation(len(at))[:_ROWS]]
    first = rng.randint(len(at), size=_POINTS)
    second = (first + rng.randint(1, len(at), size=_POINTS)) % len(at)
    Z = at[first] + rng.uniform(0.2, 0.8, (_POINTS, 1)) * (at[second] - at[first])
    G = rng.normal(size=(len(at), _POINTS))
    _check_covariance(kernel, at, Z)
    _check_rule(kernel, Z, at, G)
    _check_rule(kernel, at, at, G[:, 0])
    pull = lambda inputs: kernels.linearize(kernel, at, Z)[1](G.copy(), inputs)[0]
    what, whole = f"{kernel}: the gradient of theta with inputs=False", pull(True)
    close(call(what, pull, False), whole, 1e-9 * largest(whole), what)
    # at rows that are also inducing points, as at the start of a fit, where slopes may jump
    _check_rule(kernel, at[:_POINTS], at, G[:, : len(at)], " where rows coincide", tolerance=1e300)
    free = {f"{p.name}_bounds" for p in kernel.hyperparameters if not p.fixed}
    for bounds in sorted(free & set(kernel.get_params())):
        held = clone(kernel).set_params(**{bounds: "fixed"})
        _check_rule(held, Z, at, G, f" with {bounds}='fixed'")
    # a product and a sum reveal a pullback that overwrites arrays of other kernels
    _check_rule(kernel * kernel + RBF(np.sqrt(np.mean(or_one(at.std(axis=0)) ** 2))), Z, at, G)


def _check_covariance(kernel: Kernel, X: Array, Z: Array) -> None:
    """Check the symmetry of a kernel, and eigenvalues at rows and at even steps of a line."""
    shipped = ("sklearn.", "skgp_sparse.")  # ExpSineSquared of several columns is no covariance
    if all(type(part).__module__.startswith(shipped) for part in kernels.parts(kernel, Kernel)):
        return
    K = call(f"{kernel}(X, Z)", kernel, X, Z)
    symmetric = call(f"{kernel}(Z, X)", kernel, Z, X).T
    close(K, symmetric, 1e-9 * largest(K), f"{kernel}: k(X, Z), which must be k(Z, X).T,")
    for rows in np.vstack([X, Z]), np.linspace(X.min(axis=0), X.max(axis=0), _STEPS):
        values = np.linalg.eigvalsh(call(f"{kernel}(X, X)", kernel, rows, rows.copy()))
        text = f"{kernel}: k(X, X) has the eigenvalue {values[0]:.3g}, beside {values[-1]:.3g}, "
        text += f"but no covariance has a negative one. If {X.shape[1]} columns are wrong, pass X."
        that(values[0] >= -1e-8 * values[-1], text)


def _cross(kernel: Kernel, Z: Array, X: Array) -> tuple[Array, Callable]:
    value, pull = kernels.linearize(kernel, X, Z)
    return value, lambda G: pull(G.copy(), True)


def _diagonal(kernel: Kernel, x: Array, X: Array) -> tuple[Array, Callable]:
    """Return ``k(x, x)`` with white noise, and the pullback."""
    signal, noise, pull = kernels.diagonal(kernel, x)
    return np.broadcast_to(signal + noise, len(x)), lambda g: pull(g, g, inputs=True)


def _check_rule(
    kernel: Kernel, at: Array, X: Array, G: Array, where: str = "", tolerance: float = 1e-6
) -> None:
    """Compare values with those of the kernel, and gradients of ``sum(G * k)`` with differences."""
    on_diag = G.ndim == 1
    name, of = ("linearize_diag", "k(x, x)") if on_diag else ("linearize", "k(X, Z)")
    itself = (lambda kernel, x: kernel.diag(x)) if on_diag else lambda kernel, Z: kernel(X, Z)
    what, theta, unit = f"{name}{where}", kernel.theta.copy(), or_one(X.std(axis=0))
    expected = itself(kernel, at)
    sums = lambda kernel, x: np.sum(G * itself(kernel, x))
    by_theta = differences(lambda t: sums(kernel.clone_with_theta(t), at), theta, 1e-6)
    by_inputs = differences(lambda x: sums(kernel, x * unit), at / unit, 1e-6)
    for when in ("", " after another call"):
        linearize = _diagonal if on_diag else _cross
        value, pull = call(f"{kernel}: {what}", linearize, kernel, at, X)
        value = np.array(value)  # which the pullback may overwrite
        if when:
            linearize(kernel, at[::-1], X[::-1])
        found = call(f"{kernel}: {what}", pull, G)
        sentence = f"{kernel}: the rule changes theta to {kernel.theta}."
        that(np.array_equal(kernel.theta, theta), sentence)
        close(value, expected, 1e-9 * largest(expected), f"{kernel}: {of}{where}")
        parts = ("theta", by_theta, np.ones(1)), ("the inputs", by_inputs, unit)
        for mine, (part, its, one) in zip(found, parts):
            text = f"{kernel}: the gradient of {what}{when} with respect to {part},"
            allowed = tolerance * max(largest(expected), largest(its)) / one
            close(mine, its / one, allowed, f"{text} beside differences,")
