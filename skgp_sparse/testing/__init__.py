"""Checks of user-defined bounds, kernel rules, likelihoods, posterior methods and sources.

Each check takes one instance, calls its methods as the package does, and compares the results with
something independent: derivatives with differences, rules with the scikit-learn kernel itself,
lower bounds with the exact value on small problems, and likelihoods with numerical integrals and
samples. Posterior methods and sources are used as an estimator uses them. If all results are
correct, the check returns None or, of a posterior method, what it refuses. Otherwise it raises an
AssertionError. The message names the object, the result that was found, and the result that was
expected.
"""

import pickle
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from numbers import Real
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import eigh, solve
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, Kernel, WhiteKernel
from sklearn.utils import check_array, check_random_state, column_or_1d

from skgp_sparse import kernels
from skgp_sparse._estimator import SparseGP, fits_of
from skgp_sparse.bounds import Bound
from skgp_sparse.classification import SparseGPClassifier
from skgp_sparse.data.checks import Rules
from skgp_sparse.data.door import OpenSource, as_chunk, survey
from skgp_sparse.data.moments import or_one
from skgp_sparse.ground.validation import AnyArray, Array, Bools, MaybeArray, Scalars
from skgp_sparse.ground.validation import RandomStateLike as Seed
from skgp_sparse.likelihoods import Binary, Likelihood
from skgp_sparse.posteriors import Posterior, PosteriorMethod
from skgp_sparse.regression import SparseGPRegressor
from skgp_sparse.sources import Chunk, Source, Stream, is_source

__all__ = ["check_bound", "check_kernel_rule", "check_likelihood", "check_posterior"]
__all__ += ["check_source"]

Place = Mapping[str, Array] | None  # the arguments of every entry by their names
Answer = TypeVar("Answer")


def that(condition: object, sentence: str) -> None:
    """Raise an AssertionError unless `condition` is true, even under ``python -O``."""
    if not condition:
        raise AssertionError(sentence)


def call(what: str, function: Callable[..., Answer], *arguments: object) -> Answer:
    """Return what a function returns; it must not write into the arrays that it is given."""
    try:
        return function(*map(_read_only, arguments))
    except Exception as error:
        raise AssertionError(f"{what} raised {type(error).__name__}: {error}") from error


def _read_only(value: object) -> object:
    return np.broadcast_to(value, value.shape) if isinstance(value, np.ndarray) else value


def instance(value: object, kind: type) -> None:
    """Require an instance of a public class, which scikit-learn can clone with its parameters."""
    path = f"{kind.__module__.split('._')[0]}.{kind.__name__}"
    that(isinstance(value, kind), f"{value!r} must be an instance of {path}.")
    call(f"sklearn.base.clone({value!r})", clone, value)


def everywhere(good: Bools, actual: ArrayLike, what: str, expected: ArrayLike, at: Place) -> None:
    """Require that all of `good` is true. `at` has the arguments of every entry by their names."""
    for index in np.flatnonzero(~np.asarray(good)):
        text = expected if isinstance(expected, str) else f"{np.ravel(expected)[index]:.10g}"
        place = ", ".join(f"{name} = {values[index]:g}" for name, values in (at or {}).items())
        found = f"{np.ravel(actual)[index]:.10g} at {place or f'entry {index}'}"
        raise AssertionError(f"{what} is {found}, expected {text}.")


def close(
    actual: ArrayLike, expected: ArrayLike, allowed: ArrayLike, what: str, at: Place = None
) -> None:
    """Require that two arrays are equal, or differ by at most `allowed`."""
    shape, expected = np.shape(actual), np.asarray(expected)
    that(shape == expected.shape, f"{what} has shape {shape}, expected {expected.shape}.")
    # equal infinities are close
    good = np.isclose(actual, expected, rtol=0.0, atol=np.minimum(allowed, 1e300))
    everywhere(good, actual, what, expected, at)


_ROWS, _POINTS, _COLUMNS, _STEPS = 16, 7, 3, 40  # of inputs of kernels
_RATIOS = np.concatenate([[0.0, 1e-300, 1e-12], np.geomspace(1e-3, 1e12, 46)])[None]
_MEANS = np.array([-1e3, -50.0, -12.0, -5.0, -2.0, -0.7, 0.0, 0.4, 3.0, 9.0, 50.0, 1e3])
_VARIANCES = np.array([1e-10, 1e-4, 1e-2, 0.1, 0.4, 1.0, 5.0, 1e2, 1e4])
_MOST_OBSERVATIONS, _LARGEST_VALUE = 8, 1e6  # the latter where differences keep their digits
_SHIFT = 1e-4  # of central differences
_POWERS = {"expected": {}, "tilted": {}, "tilted for power = 0.4": {"power": 0.4}}
_NODES = np.linspace(-12.0, 12.0, 4001)  # in standard deviations
_MASS = np.exp(-0.5 * _NODES**2) / np.exp(-0.5 * _NODES**2).sum()
_SAMPLES, _ERRORS = 4000, 6.0  # of the response, and standard errors that its mean may be off


def differences(function: Callable[[Array], Array], at: Array, step: float) -> Array:
    """Compute central differences of an array, one for each entry of the argument."""
    shifts = step * np.eye(np.size(at)).reshape(-1, *np.shape(at)) if np.size(at) else ()
    slopes = [(function(at + shift) - function(at - shift)) / (2.0 * step) for shift in shifts]
    return np.reshape(slopes, np.shape(at) + np.shape(slopes)[1:])


class _Curves:
    """A function that returns a value for each row, and derivatives of this value."""

    def __init__(self, what: str, function: Callable, names: tuple, parts: tuple) -> None:
        self.what, self.function, self.names, self.parts = what, function, names, parts
        self.may_overflow = what.endswith(".expected")  # where rows are not moderate

    def __call__(self, rows: Array) -> Sequence[Array]:
        """Return what the function returns, all finite and of the right shape."""
        found = call(f"{self.what} of {rows.shape[1]} rows", self.function, *rows)
        wanted = f"{len(found)} arrays, expected {len(self.parts)}"
        that(len(found) == len(self.parts), f"{self.what} returns {wanted}.")
        for part, values in zip(self.parts, found):
            what, shape = f"{self.what}: {part} of {rows.shape[1]} rows", np.shape(values)
            that(shape == rows[0].shape, f"{what} has shape {shape}, expected {rows[0].shape}.")
            good = np.isfinite(values)
            if self.may_overflow:
                good |= ~_is_moderate(rows) & ~np.isnan(values)
            everywhere(good, values, what, "a finite number", self.place(rows))
        return found

    def place(self, rows: Array) -> Place:
        return dict(zip(self.names, rows))

    def check_alone(self, rows: Array, few: int, digits: float, unit: float) -> None:
        """Check that what is returned for a row depends on this row only, also with few rows."""
        whole = self(rows)
        for some in np.arange(rows.shape[1])[::-3], np.arange(few):
            for part, alone, values in zip(self.parts, self(rows[:, some]), whole):
                allowed = digits * (unit + np.abs(values[some]))
                what = f"{self.what}: {part} of a row alone"
                close(alone, values[some], allowed, what, self.place(rows[:, some]))

    def check_slopes(self, rows: Array, low: Array, high: Array, allowed: Callable) -> None:
        """Compare derivatives with central differences; a third part is a negative second one."""
        found, above, below = self(rows), self(high), self(low)
        for k, part in enumerate(self.parts[1:]):
            change = (-1) ** k * (above[k] - below[k]) / np.max(high - low, axis=0)
            most = allowed(change, above[k])
            what = f"{self.what}: {part}, beside central differences,"
            close(found[k + 1], change, most, what, self.place(rows))


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
    close(call(what, pull, False), whole, 1e-9 * _largest(whole), what)
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
    close(K, symmetric, 1e-9 * _largest(K), f"{kernel}: k(X, Z), which must be k(Z, X).T,")
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


def _largest(values: ArrayLike) -> float:
    return np.max(np.abs(values), initial=1e-80)


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
        close(value, expected, 1e-9 * _largest(expected), f"{kernel}: {of}{where}")
        parts = ("theta", by_theta, np.ones(1)), ("the inputs", by_inputs, unit)
        for mine, (part, its, one) in zip(found, parts):
            text = f"{kernel}: the gradient of {what}{when} with respect to {part},"
            allowed = tolerance * max(_largest(expected), _largest(its)) / one
            close(mine, its / one, allowed, f"{text} beside differences,")


def check_bound(bound: Bound) -> None:
    """Check that a bound meets the requirements of `skgp_sparse.bounds.Bound`.

    `penalty` is evaluated for ratios from 0 to 1e12. The check examines the shape, the sign and the
    slope of the penalties, and whether the penalty of a row depends on this row only. `reduce` is
    examined in the same way. If ``is_lower_bound`` is True, which is the default, the objective is
    compared with the exact log marginal likelihood of small problems with various noise levels and
    length scales. The targets of these problems maximise the difference between the objective and
    the exact value.

    Parameters
    ----------
    bound : skgp_sparse.bounds.Bound
        The instance to check.

    Raises
    ------
    AssertionError
        If a requirement is not met. The message says which one.

    Examples
    --------
    >>> from skgp_sparse.bounds import Bound
    >>> from skgp_sparse.testing import check_bound
    >>> class Twice(Bound):
    ...     def penalty(self, x):
    ...         return x, 1.0
    >>> check_bound(Twice())
    """
    instance(bound, Bound)
    good = isinstance(bound.noise_share, Real) and 0 <= bound.noise_share <= 1
    that(good, f"{bound!r}.noise_share is {bound.noise_share!r}, expected a number in [0, 1].")

    def penalty(x: Array) -> tuple[Array, Scalars]:
        phi, slope = bound.penalty(x)
        return phi, slope if np.ndim(slope) else np.full(x.shape, slope)

    def reduce(n: float, means: Array) -> tuple[Array, Array]:
        value, slope = np.reshape([[*bound.reduce(float(x), n)] for x in n * means], (-1, 2)).T
        return value / n, slope

    low, high = _RATIOS * (1.0 - _SHIFT), np.maximum(_RATIOS * (1.0 + _SHIFT), 1e-9)  # one side
    most = lambda change, above: 1e-5 * (np.abs(change) + np.abs(above) / high[0])
    curves: dict[str, Callable] = {f"{bound!r}.penalty": penalty}
    curves |= {f"{bound!r}.reduce with n = {n}": partial(reduce, n) for n in (1.0, 20.0, 1e6)}
    for what, of in curves.items():
        curve = _Curves(what, of, ("x" if of is penalty else "total/n",), ("phi", "slope"))
        phi, place = curve(_RATIOS)[0], curve.place(_RATIOS)
        everywhere(phi[:1] == 0, phi, what, "0, as nothing is unexplained", place)
        is_right, expected = phi >= 0, "no negative number, as is_lower_bound is True"
        everywhere(is_right | (not bound.is_lower_bound), phi, what, expected, place)
        curve.check_slopes(_RATIOS, low, high, most)
        curve.check_alone(_RATIOS, 0, 1e-10, 0.0)
    # the first length scale makes rows independent
    for length_scale in (0.01, 0.3, 1.0, 4.0) if bound.is_lower_bound else ():
        _check_claim(bound, RBF(length_scale))


def _check_claim(bound: Bound, kernel: Kernel) -> None:
    """Compare the objective with the exact value at targets where it is relatively large."""
    # the difference of log densities is quadratic in y, and largest at 0, or grows without limit
    # along a direction in which the model has more variance than the exact process
    rng = np.random.RandomState(0)
    x, z = rng.uniform(0.0, 4.0, (12, 1)), rng.uniform(0.0, 4.0, (3, 1))
    K, cross, spread = kernel(x), kernel(x, z), rng.uniform(0.5, 2.0, 12)
    Q = cross @ solve(kernel(z) + 1e-10 * np.eye(3), cross.T, assume_a="pos")
    for noise in np.geomspace(1e-6, 1e4, 11)[:, None] * spread:  # the kernel has variance 1
        x = np.maximum(np.diag(K - Q), 0.0) / noise
        model, exact = Q + np.diag(noise * (1.0 + bound.noise_share * x)), K + np.diag(noise)
        subtracted = bound.reduce(bound.penalty(x)[0].sum(), float(len(x)))[0]
        for y in (np.zeros(len(x)), 1e3 * (exact @ eigh(model, exact)[1][:, -1])):
            actual, most = (multivariate_normal(cov=one).logpdf(y) for one in (model, exact))
            found = f"its objective is {actual - subtracted:.10g} for {kernel}"
            found += f", expected at most the exact value, {most:.10g}"
            sentence = f"{bound!r} has is_lower_bound = True, but {found}."
            good = actual - subtracted <= most + 1e-8 * max(1.0, abs(most))  # by rounding
            that(good, f"{sentence} Set is_lower_bound = False.")


def check_likelihood(likelihood: Likelihood, y: MaybeArray = None, random_state: Seed = 0) -> None:
    """Check that a likelihood meets the requirements of `skgp_sparse.likelihoods.Likelihood`.

    `expected` and `tilted` are evaluated for means between -50 and 50, for means of ±1000, and for
    variances from 1e-10 to 1e4. Slopes and curvatures are compared with central differences. Values
    are compared with numerical integrals of the log density, which is the value of `expected` for a
    variance of zero. Far from zero, `expected` may be minus infinity, as for a log link it
    overflows there. Curvatures must not be negative if `is_log_concave` is true. Powers of the
    density are compared too, if the likelihood is log-concave: `tilted` must then take the argument
    `power`, which expectation propagation passes.
    `response` is compared with samples of `sample`, and so are `cdf` and `quantile` if they are
    defined; a finite variance of a distribution with an infinite fourth moment cannot be confirmed
    that way. About each observation, `cdf` must rise by the integral of the density, or jump by its
    probability. The
    gradients with respect to learned parameters are compared with central differences. The
    probabilities of a `Binary` likelihood must agree with `tilted`. If the likelihood
    `standardises`, the density of targets in other units must be that of `rescaled`.

    Parameters
    ----------
    likelihood : skgp_sparse.likelihoods.Likelihood
        The instance to check, whose parameters all have values (none is None).
    y : array-like of shape (n,), default=None
        Observations in the domain of the likelihood. The check uses at most eight distinct values.
        It is not needed for a `Binary` likelihood, whose labels are -1 and 1.
    random_state : int, RandomState instance or None, default=0
        Determines random number generation for the choice of observations, the small shifts of the
        means, and the samples.

    Raises
    ------
    AssertionError
        If a requirement is not met. The message says which one.
    ValueError
        If `y` is missing and the likelihood is not `Binary`, or is outside of its domain.

    Examples
    --------
    >>> from skgp_sparse.likelihoods import Gamma, Logit
    >>> from skgp_sparse.testing import check_likelihood
    >>> check_likelihood(Logit())
    >>> check_likelihood(Gamma(), y=[0.3, 2.0])
    """
    instance(likelihood, Likelihood)
    if y is None and not isinstance(likelihood, Binary):
        raise ValueError(f"check_likelihood needs y: observations in the domain of {likelihood!r}.")
    rng = check_random_state(random_state)
    y = np.unique(column_or_1d([-1.0, 1.0] if y is None else y)).astype(float)
    likelihood.check(y, "check_likelihood")
    means = _MEANS + rng.uniform(-0.1, 0.1, len(_MEANS)) * (np.abs(_MEANS) < 50.0)
    grid = np.meshgrid(rng.permutation(y)[:_MOST_OBSERVATIONS], means, _VARIANCES, indexing="ij")
    rows = np.reshape(grid, (3, -1))
    curves = {one: _curve(likelihood, one) for one in [*_POWERS][: 2 + likelihood.is_log_concave]}
    try:
        _check_curves(likelihood, curves, rows)
    except AssertionError as error:
        strip = getattr(likelihood, "strip", None)
        hint = "" if strip is None else f" Numerical integrals need a small strip, now {strip:.3g}."
        raise AssertionError(f"{error}{hint}") from error
    if isinstance(likelihood, Binary):
        rows[0], what = 1.0, f"{likelihood!r}.probability"
        p = call(what, likelihood.probability, *rows[1:])
        close(p, np.exp(curves["tilted"](rows)[0]), 1e-9, what, curves["tilted"].place(rows))
    rows = rows[:, (np.abs(rows[1]) <= 2.5) & (rows[2] <= 1.0)]
    if likelihood.standardises:  # twice the density of y is that of y / 2, in units of 2
        what = f"{likelihood!r}.rescaled(0, 2), which standardises=True needs: value of `expected`"
        half = _curve(call(what, likelihood.rescaled, 0.0, 2.0), "expected")
        value, log_unit = curves["expected"](rows)[0], np.log(2.0) * likelihood.is_density(rows[0])
        found = half(rows / [[2.0], [2.0], [4.0]])[0] - log_unit
        close(found, value, 1e-6 * (1.0 + np.abs(value)), what, half.place(rows))
    _check_samples(likelihood, rows, rng)


def _check_curves(likelihood: Likelihood, curves: dict[str, _Curves], rows: Array) -> None:
    """Check `expected` and `tilted` at rows of y, mean and variance, (3, n)."""
    for curve in curves.values():
        curve.check_alone(rows, 1, 1e-9, 1.0)
        curvature, what = curve(rows)[2], "no negative number: p(y | f) must be log-concave in f"
        good = curvature >= -1e-9 * _largest(curvature[np.isfinite(curvature)])
        good |= not likelihood.is_log_concave
        everywhere(good, curvature, f"{curve.what}: curvature", what, curve.place(rows))
    expected, rest = curves["expected"], rows[:, _is_moderate(rows)]
    value, _, curvature = expected(rest)
    size = np.maximum(np.abs(value), np.abs(curvature) * np.maximum(rest[2], 1.0))
    rest = rest[:, (size <= _LARGEST_VALUE) | (np.min(size) > _LARGEST_VALUE)]
    for kind, curve in curves.items():
        _check_derivatives(likelihood, kind, curve, rest)
    # values, beside sums over nodes, where these cover the mass of the integrand
    f = rest[1][:, None] + np.sqrt(rest[2])[:, None] * _NODES
    dense = np.stack([np.repeat(rest[0], len(_NODES)), f.ravel(), np.full(f.size, 1e-18)])
    logs, _, curvature = np.reshape(expected(dense), (3, *f.shape))
    top = np.abs(_NODES[np.argmax(logs - 0.5 * _NODES**2, axis=1)])
    enough = (rest[2] * np.max(np.abs(curvature), axis=1) <= 300.0) & (top <= 6.0)
    rest, logs = rest[:, enough], logs[enough]
    for kind, curve in curves.items() if enough.any() else ():
        sums = logsumexp(_POWERS[kind].get("power", 1.0) * logs, axis=1, b=_MASS)
        sums = logs @ _MASS if kind == "expected" else sums
        what, allowed = f"{curve.what}: value, beside a sum over 4001 nodes,", 1.0 + np.abs(sums)
        close(curve(rest)[0], sums, 1e-6 * allowed, what, curve.place(rest))


def _curve(likelihood: Likelihood, kind: str) -> _Curves:
    function = partial(getattr(likelihood, kind.split()[0]), **_POWERS[kind])
    quiet = np.errstate(all="ignore")(lambda *rows: function(*rows))
    parts, names = ("value", "slope", "curvature"), ("y", "mean", "variance")
    return _Curves(f"{likelihood!r}.{kind}", quiet, names, parts)


def _is_moderate(rows: Array) -> Bools:
    return (np.abs(rows[1]) <= 12.5) & (rows[2] <= 5.0)


def _check_derivatives(likelihood: Likelihood, kind: str, curve: _Curves, rows: Array) -> None:
    """Compare slopes, curvatures and gradients of parameters with central differences."""
    of_largest = 1e-9 if likelihood.is_log_concave else 1e-6  # signs change
    allowed = lambda change, _: of_largest * _largest(change) + 1.1e-5 * np.abs(change)
    shift, method = np.array([[0.0], [_SHIFT], [0.0]]), f"{kind.split()[0]}_slopes"
    curve.check_slopes(rows, rows - shift, rows + shift, allowed)
    moved = lambda theta: _curve(likelihood.with_theta(theta), kind)(rows)[0]
    expected = differences(moved, likelihood.theta, _SHIFT).reshape(-1, rows.shape[1])
    what, most = f"{likelihood!r}.{method} (of {kind})", 1e-5 * (1.0 + np.abs(expected))
    slopes = call(what, partial(getattr(likelihood, method), **_POWERS[kind]), *rows)
    close(slopes, expected, most, f"{what}, beside central differences,")


def _check_samples(likelihood: Likelihood, rows: Array, rng: np.random.RandomState) -> None:
    """Compare the response, `cdf` and quantiles with samples, which must be in the domain."""
    (y, mean, variance), place = rows, dict(zip(("mean", "variance"), rows[1:]))
    what = f"{likelihood!r}.response and sample of {rows.shape[1]} rows"
    f = mean + np.sqrt(variance) * rng.normal(size=(_SAMPLES, len(mean)))
    response = call(what, likelihood.response, mean, variance)
    drawn = call(what, likelihood.sample, f, rng)
    call(what, likelihood.check, drawn.ravel(), "check_likelihood")
    for part, values, samples in zip(place, response, (drawn, (drawn - drawn.mean(axis=0)) ** 2)):
        expected, most = samples.mean(axis=0), np.max(np.abs(samples - samples.mean(0)), axis=0)
        allowed = _ERRORS * (samples.std(axis=0) / np.sqrt(_SAMPLES) + most / _SAMPLES) + 1e-9
        allowed += _ERRORS**2 * np.abs(values) / _SAMPLES * (part == "variance")
        allowed[np.isinf(values)] = np.inf  # an infinite variance has no estimate
        close(values, expected, allowed, f"{what}: {part}, beside {_SAMPLES} samples,", place)
    with suppress(NotImplementedError):  # there may be neither
        place["y"] = y = np.clip(y, *likelihood.ends)  # as a fit does
        step, what = 1e-6 * (1.0 + np.abs(y)), f"{likelihood!r}.cdf"
        low, below, high = (likelihood.cdf(at, mean, variance) for at in (y - step, y, y + step))
        allowed = _ERRORS * np.sqrt(below * (1.0 - below) / _SAMPLES) + _ERRORS**2 / _SAMPLES
        close(below, np.mean(drawn <= y, axis=0), allowed, f"{what}, beside samples,", place)
        rise, p = high - low, np.exp(likelihood.log_density(y, mean, variance))
        good = np.isclose(rise, 2.0 * step * p, 1e-4, 1e-11) | np.isclose(rise, p, 1e-4, 1e-9)
        everywhere(good, 0.5 * rise / step, f"{what}: slope (or jump)", p, place)
        mean, variance = mean[y == y[0]], variance[y == y[0]]
        drawn = drawn[:, y == y[0]]
        for q in (0.1, 0.5, 0.95):
            actual, off = likelihood.quantile(q, mean, variance), np.sqrt(q * (1 - q) / _SAMPLES)
            good = np.mean(drawn < actual, axis=0) <= q + _ERRORS * off
            good &= np.mean(drawn <= actual, axis=0) >= q - _ERRORS * off
            everywhere(good, actual, f"{likelihood!r}.quantile", f"quantile {q} of samples", place)


def check_source(source: Source, pickles: bool = False) -> None:
    """Check that an object meets the requirements of `skgp_sparse.sources`.

    All chunks are read in order three times, as in the evaluations of a fit, and then every other
    chunk. They must be the same every time, also after `close`, if the source has this method.
    Those of the first pass must be what `fit` takes: as many rows as `chunk_sizes` says, numbers
    without gaps, and in all chunks the same columns, weights or none, and offsets or none. They
    stay in memory: check a source of few rows.

    Parameters
    ----------
    source : object
        The source to check.
    pickles : bool, default=False
        Whether the source must give the same chunks after it was pickled. A fit does not need it,
        and the pickle of a fitted estimator leaves the source out.

    Raises
    ------
    AssertionError
        If a requirement is not met. The message says which one, and names the chunk.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse.testing import check_source
    >>> class Squares:
    ...     chunk_sizes = [100, 50]
    ...     def chunk(self, k):
    ...         X = np.random.RandomState(k).normal(size=(self.chunk_sizes[k], 2))
    ...         return X, (X**2).sum(axis=1)
    >>> check_source(Squares())
    """
    name = type(source).__name__
    that(is_source(source), f"{name} must have the members chunk_sizes and chunk.")
    chunks = _chunks(source)
    rules = Rules(name, None, any(chunk.y.dtype.kind in "OSU" for chunk in chunks))
    members: dict[str, object] = {"chunk": {**dict(enumerate(chunks)), len(chunks): None}.get}
    members |= {one: getattr(source, one, None) for one in ("chunk_sizes", "feature_names")}
    call(f"a fit to {name}", survey, OpenSource(type(name, (), members)(), name), rules, None)

    def compare(source: Source, when: str, step: int = 1) -> None:
        now, first = _chunks(source, step), chunks[::step]
        that(len(now) == len(first), f"{name} {when} has {len(now)} chunks, expected {len(first)}.")
        for k, one, other in zip(count(0, step), now, first):
            for part, values, before in zip(Chunk._fields, one, other):
                sentence = f"{name} {when}: chunk({k}) has another {part} than the first time."
                that(np.array_equal(values, before), sentence)

    compare(source, "in a second pass")
    compare(source, "after chunks were left out", step=2)
    call(f"{name}.close()", OpenSource(source, name).close)
    compare(source, "after close")
    if pickles:
        compare(call(f"pickling {name}", _pickled, source), "from a pickle")


def _pickled(value: Answer) -> Answer:
    return pickle.loads(pickle.dumps(value))


def _chunks(source: Source, step: int = 1) -> list[Chunk]:
    """Copies of every step-th chunk, as some sources fill the same array again."""
    sizes, found = source.chunk_sizes, []
    for number in count(0, step) if sizes is None else range(0, len(sizes), step):
        what = f"{type(source).__name__}.chunk({number})"
        chunk = call(what, source.chunk, number)
        if chunk is None and sizes is None:
            break
        columns = call(what, as_chunk, chunk)
        found.append(Chunk(*(None if one is None else np.array(one) for one in columns)))
    return found


_ROWS_OF_FITS, _DRAWS = 60, 20_000
_REFUSALS = (ValueError, TypeError, AttributeError, NotImplementedError, pickle.PicklingError)


def check_posterior(method: PosteriorMethod) -> dict[str, str]:
    """Check that a posterior method meets the requirements of `skgp_sparse.posteriors`.

    The method is fitted to a table of 60 rows. Means, variances, covariances and samples of its
    `Posterior` must belong together, variances must not be negative, and neither blocks of rows,
    types of numbers nor pickles may change a prediction. Then uses of an estimator are tried. Each
    must work, or be refused by an error of one or more sentences. Weights and known noise that are
    not refused must change predictions, and with ``optimizer=None`` the kernel must stay as it is,
    unless predictions do not depend on the rows at all.

    Parameters
    ----------
    method : PosteriorMethod
        The method to check.

    Returns
    -------
    dict
        By the name of each use, the message by which it was refused; "" where it works.

    Raises
    ------
    AssertionError
        If a requirement is not met. The message says which one.

    Examples
    --------
    >>> from skgp_sparse.posteriors import Neighbors
    >>> from skgp_sparse.testing import check_posterior
    >>> refused = check_posterior(Neighbors(n_neighbors=10))
    >>> refused["leave one out"], bool(refused["sampled functions"])
    ('', True)
    """
    name, rng = type(method).__name__, np.random.RandomState(0)
    that(isinstance(method, PosteriorMethod), f"{name} must be a PosteriorMethod.")
    kernel = RBF() + WhiteKernel(0.1)
    X = rng.uniform(-2, 2, (_ROWS_OF_FITS, 2))
    y = np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.2 * rng.normal(size=_ROWS_OF_FITS)

    def held(X: Array, y: Array, weight: MaybeArray = None, alpha: MaybeArray = None) -> Array:
        """Mean and standard deviation at 0 after a fit that learns no hyperparameters."""
        options = {"kernel": kernel, "alpha": alpha, "optimizer": None, "normalize_y": False}
        model = _model(method, **options).fit(X, y, weight)
        wrong = f"{method!r} must keep job.kernel with optimizer=None (solver.moves is False)."
        that(np.array_equal(model.kernel_.theta, kernel.theta), wrong)
        return np.stack(model.predict(np.zeros((1, 2)), return_std=True))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = call(f"fitting {name}", _model(method).fit, X, y)
        fit = fits_of(model)[0]
        check_predictions(fit.posterior, X[:12] + 0.05)
        uses = _uses(method, model, X, y).items()
        refused = {use: _outcome(f"{use} with {name}", act) for use, act in uses}
        if np.ptp(model.predict(X)) > 0.0:  # the posterior depends on rows
            plain, weight = held(X, y), 1 + np.arange(len(y)) % 3
            for use, given in ("known noise", (None, weight)), ("weights", (weight,)):
                found = None if refused[use] else held(X, y, *given)
                wrong = f"{name} ignores {use}: use weight and noise of job.rows.block(rows)."
                that(found is None or not np.allclose(found, plain), wrong)
            if fit.given is None and found is not None:  # a weight counts as so many copies
                copies = held(np.repeat(X, weight, axis=0), np.repeat(y, weight))
                close(found, copies, 1e-5, f"predictions of {name} with weights")
        return refused


def check_predictions(posterior: Posterior, X: Array) -> None:
    """Check that the predictions of a `Posterior` at a few distinct rows (n, d) belong together."""
    name, n = type(posterior).__name__, len(X)
    mean, variance = posterior.mean_and_variance(X)
    draws = posterior.deviations(X, _DRAWS, np.random.RandomState(0))
    covariance = posterior.covariance(X)
    signal = np.broadcast_to(kernels.diagonal(posterior.kernel, X)[0], n)
    unit = 1e-7 * max(variance.max(), signal.max())
    that(np.all(variance >= 0.0), f"{name} has a negative variance: {variance.min()}.")
    above = np.all(variance.T <= signal + unit)
    that(above, f"{name} has a variance that is larger than that of its kernel.")
    drawn = np.einsum("is...,js...->ij...", draws, draws) / _DRAWS
    far, single = 6.0 * np.sqrt(covariance.max() / _DRAWS), X.astype(np.float32)
    copy = call(f"pickling {name}", _pickled, posterior).mean_and_variance(X)
    blocks = zip(*map(posterior.mean_and_variance, (X[: n // 2], X[n // 2 :])))
    for what, found, expected, allowed in (
        ("mean", posterior.mean(X), mean, 1e-12 * np.abs(mean).max()),
        ("diagonal of the covariance", np.einsum("ii...->i...", covariance), variance, unit),
        ("transposed covariance", covariance.swapaxes(0, 1), covariance, unit),
        ("mean of samples", draws.mean(axis=1), np.zeros(variance.shape), far),
        ("covariance of samples", drawn, covariance, 0.06 * covariance.max()),
        ("mean at float32 rows", posterior.mean(single), posterior.mean(single.astype(float)), 0),
    ):
        close(found, expected, allowed, f"{what} of {name}")
    for when, found in (("two blocks", map(np.concatenate, blocks)), ("a pickle", copy)):
        for part, one, other in zip(("mean", "variance"), found, (mean, variance)):
            close(one, other, 1e-9 * max(np.abs(other).max(), 1.0), f"{part} by {when} of {name}")


def _uses(method: PosteriorMethod, fitted: SparseGP, X: Array, y: Array) -> dict[str, Callable]:
    """Pairs of a name and a function, for everything that may be asked."""

    def fit(y: AnyArray = y, X: Array = X, rows: Mapping = {}, **options: object) -> None:
        _model(method, **options).fit(X, y, **rows).predict(X)

    labels, counts = (y > 0).astype(int), np.random.RandomState(0).poisson(np.exp(y))
    gaps = np.where((np.arange(_ROWS_OF_FITS) < 10)[:, None] & [True, False], np.nan, X)
    ones = np.ones(X.shape)
    return {
        "weights": lambda: fit(rows={"sample_weight": ones[:, 0]}),
        "several targets": lambda: fit(np.column_stack([y, -y])),
        "known noise": lambda: fit(alpha=np.full(_ROWS_OF_FITS, 0.1)),
        "a likelihood": lambda: fit(counts, likelihood="poisson"),
        "uncertain inputs": lambda: fit(rows={"X_std": 0.1 * ones}),
        "labels": lambda: _model(method, SparseGPClassifier).fit(X, labels).predict(X),
        "missing values": lambda: fit(X=gaps),
        "a source": lambda: _model(method).fit(Stream(lambda: iter([(X, y)]))).predict(X),
        "rows that arrive later": lambda: _model(method).partial_fit(X, y).predict(X),
        "leave one out": lambda: fitted.loo_predict().mean,
        "gradients": lambda: fitted.predict(X, return_std=True, return_gradient=True),
        "sampled functions": lambda: fitted.sample_functions(2)(X),
        "uncertain queries": lambda: fitted.predict(X, return_std=True, X_std=ones),
        "a pickle": lambda: _pickled(fitted).predict(X),
    }


def _outcome(what: str, act: Callable) -> str:
    """The message by which a use was refused, "" where it works; raises where it fails."""
    try:
        act()
        return ""
    except Exception as error:
        message = str(error.__cause__ or error)  # that of a method that is not there
        in_words = isinstance(error, _REFUSALS) and len(message.split()) > 5
        got = f"Got {type(error).__name__}: {error}"
        that(in_words, f"{what} must work, or be refused in words. {got}")
        return message


def _model(method: PosteriorMethod, kind: type = SparseGPRegressor, /, **given: object) -> SparseGP:
    return kind(posterior=method, max_iter=5, random_state=0, n_jobs=1, **given)
