"""A kernel of groups of rows: each level of a column has an effect of its own.

    k(x, z) = v [a(x) = a(z)],

where a is the level. A missing level is that of no other row, so that the variance of such a row is
noise, as that of a `Missing` kernel is. Where a sparse method treats the effects of levels apart
from the rest of the process, the kernel `apart` takes the place of this one.
"""

from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Any, Literal, NamedTuple, cast

import numpy as np
from sklearn.gaussian_process.kernels import Kernel, Sum

from ._columns import ChosenColumns
from ._differentiable import DifferentiableKernel
from ._functions import parts
from ._nodes import Leaf, Node
from ._rules import Array, Ints, KernelRule, Pull, Scalars, constant_diag, no_gradient
from ._theta import assemble, count


class RandomEffect(ChosenColumns, DifferentiableKernel):
    r"""A kernel of groups: persons, shops or sites whose levels shift all of their rows.

    Each level of a column has an effect, which is drawn from N(0, v) independently of the others:

    .. math:: k(x, z) = v\, [a(x) = a(z)],

    with the level a. Add it to a kernel of the other columns. A level that `fit` has not seen has
    this prior, and so has a missing level, whose effect is that of no other row. There may be
    hundreds of thousands of levels: inducing points leave the effects out, which are integrated
    exactly, in O(n m) time more.

    Parameters
    ----------
    column : int or str
        The number of the column, counted from 0, or its name in a data frame. Its values are text,
        categories or whole numbers.
    variance : float, default=1.0
        The variance v.
    variance_bounds : pair of floats or "fixed", default=(1e-5, 1e5)
        Its bounds.
    numbers : dict of str to int, default=None
        The number of the column by name. `fit` sets it in `kernel_`.
    missing : float, default=None
        The code of a missing level, beside NaN. `fit` sets it in `kernel_`.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse.kernels import RandomEffect
    >>> persons = np.array([[7.0], [8.0], [7.0], [np.nan]])
    >>> RandomEffect(0, variance=0.5)(persons)
    array([[0.5, 0. , 0.5, 0. ],
           [0. , 0.5, 0. , 0. ],
           [0.5, 0. , 0.5, 0. ],
           [0. , 0. , 0. , 0.5]])

    A curve that all persons share, and a level of each of them:

    >>> import pandas as pd
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skgp_sparse import SparseGPRegressor
    >>> from skgp_sparse.kernels import Columns
    >>> X = pd.DataFrame({"age": np.arange(60) % 20, "person": np.repeat(["Ann", "Bo", "Cy"], 20)})
    >>> y = np.sin(X["age"] / 4) + X["person"].map({"Ann": 1.0, "Bo": 0.0, "Cy": -2.0})
    >>> kernel = Columns(RBF(5.0), "age") + RandomEffect("person")
    >>> model = SparseGPRegressor(kernel, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.99)
    True
    """

    footprint = 1
    is_apart = False  # whether effects of levels are no part of the process

    def __init__(
        self,
        column: int | str,
        variance: float = 1.0,
        variance_bounds: tuple[float, float] | Literal["fixed"] = (1e-5, 1e5),
        numbers: dict[str, int] | None = None,
        missing: float | None = None,
    ) -> None:
        self.column = column
        self.variance = variance
        self.variance_bounds = variance_bounds
        self.numbers = numbers
        self.missing = missing

    @property
    def columns(self) -> int | str:  # type: ignore[override]
        """The number or the name of the column (int or str)."""
        return self.column

    def __repr__(self) -> str:
        return f"RandomEffect({self.column!r}, variance={self.variance:.3g})"

    def levels(self, X: Array) -> Array:
        """Return the levels of points (..., d) as numbers (...), NaN where they are missing."""
        (j,) = self.chosen(np.shape(X)[-1])
        levels = np.rint(X[..., j])
        return levels if self.missing is None else np.where(levels == self.missing, np.nan, levels)

    def apart(self) -> "RandomEffect":
        """Return the kernel of a process without the effects of known levels."""
        other = copy(self)
        other.is_apart = True
        return other

    def linearize(self, X: Array, Z: Array) -> tuple[Scalars, Pull]:
        """Return the value of ``k(X, Z)`` and its pullback, without a gradient of levels."""
        if self.is_apart:
            return 0.0, no_gradient
        K = self.variance * (self.levels(X)[..., :, None] == self.levels(Z)[..., None, :])
        return K, partial(_pull, K)

    def linearize_stack(self, P: Array) -> tuple[Scalars, Pull]:
        """Return the values of ``k(P_i, P_i)`` and their pullback, without a gradient of levels."""
        return self.linearize(P, P)

    def linearize_diag(self, X: Array) -> tuple[Scalars, Pull]:
        """Return ``k(x, x)``, which is 0 of a missing level, and its pullback."""
        if self.is_apart:
            return constant_diag(0.0)
        known = self.variance * ~np.isnan(self.levels(X))
        return known, partial(_pull, known)

    def as_node(self) -> Node:
        """Return the node of this kernel."""
        return RandomEffectNode(self)

    def _matrix(self, X: Array, Y: Array | None) -> Array:
        K = super()._matrix(X, Y)
        return K if Y is not None else K + np.diag(self.variance * np.isnan(self.levels(X)))

    def diag(self, X: Array) -> Array:
        """Return ``k(x, x)`` of every row of X, which is v."""
        return np.full(len(np.atleast_2d(X)), float(self.variance))


def _pull(K: Array, G: Any, inputs: bool) -> tuple[Any, Any]:
    return {"variance": np.vdot(G, K)}, 0.0


class RandomEffectNode(Leaf):
    """The node of a `RandomEffect`: missing levels are noise."""

    noisy = takes_missing = True

    def __init__(self, kernel: RandomEffect) -> None:
        super().__init__(kernel, cast(KernelRule, type(kernel)))
        self.arrays = 0 if kernel.is_apart else 1

    def diagonal(self, X: Array) -> tuple[Scalars, Scalars, Pull]:
        signal, pull = self.kernel.linearize_diag(X)
        noise = self.kernel.variance * np.isnan(self.kernel.levels(X))
        return signal, noise if noise.any() else 0.0, partial(_pull_diag, self.kernel, pull, noise)

    def inputs(self, columns: Ints) -> Ints:
        return columns[self.kernel.chosen(len(columns))] if self.arrays else columns[:0]


def _pull_diag(
    kernel: RandomEffect, pull: Pull, noise: Array, g_signal: Any, g_noise: Any, inputs: bool
) -> tuple[Any, Any]:
    slope = pull(g_signal, inputs)[0].get("variance", 0.0) + np.sum(noise * g_noise)
    return assemble(kernel, {"variance": slope}), 0.0


class Effect(NamedTuple):
    """A `RandomEffect` that is a term of a kernel.

    Parameters
    ----------
    kernel : RandomEffect
        The term.
    place : int or None
        The place of its variance in theta of the sum; None: it is fixed.
    """

    kernel: RandomEffect
    place: int | None

    @property
    def variance(self) -> float:
        """The variance v."""
        return float(self.kernel.variance)


def random_effects(kernel: Kernel) -> list[Effect]:
    """Return the random effects that are terms of a kernel, in the order of theta.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel expression.

    Returns
    -------
    list of Effect
        Those inside products, powers and maps are left out.
    """
    found, start = [], 0
    for term in _terms(kernel):
        size = count(term)
        if isinstance(term, RandomEffect):
            found.append(Effect(term, start if size else None))
        start += size
    return found


def _terms(kernel: Kernel) -> list[Kernel]:
    return [*_terms(kernel.k1), *_terms(kernel.k2)] if type(kernel) is Sum else [kernel]


def apart(kernel: Kernel) -> Kernel:
    """Return a kernel with the same theta, whose random effects are no part of the process.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel expression, which is not changed.

    Returns
    -------
    sklearn.gaussian_process.kernels.Kernel
        The kernel itself, if no term of it is a `RandomEffect`.
    """
    if not random_effects(kernel):
        return kernel
    return Sum(apart(kernel.k1), apart(kernel.k2)) if type(kernel) is Sum else kernel.apart()


def with_missing_level(kernel: Kernel, code_of: Callable[[int], float | None], d: int) -> Kernel:
    """Return a kernel whose random effects know which code a missing level has.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel expression, of which the caller has the only copy.
    code_of : callable
        ``column -> code`` of a missing level, None where there is none.
    d : int
        Number of input columns.

    Returns
    -------
    sklearn.gaussian_process.kernels.Kernel
        The kernel.
    """
    for part in parts(kernel, RandomEffect):
        part.missing = code_of(int(part.chosen(d)[0]))
    return kernel
