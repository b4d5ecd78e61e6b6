"""White noise whose variance varies with the inputs."""

from collections.abc import Callable
from typing import Literal

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from skgp_sparse.ground.parallel import slices
from skgp_sparse.ground.validation import Array, Scalars, as_text

from ._differentiable import (
    DifferentiableKernel,
    Node,
    Pull,
    Pulled,
    White,
    assemble,
    evaluate,
    linearize,
    no_gradient,
)


class HeteroscedasticNoise(DifferentiableKernel):
    r"""White noise whose variance varies with the inputs.

    .. math:: k(x, z) = [x \text{ and } z \text{ are the same row}] \, s \, e^{f(x)},

    with a level s, which is learned, and a function f of the inputs, which is given.
    `SparseGPRegressor` with ``noise="auto"`` or ``noise="learned"`` finds f, and puts this kernel
    in the place of the `WhiteKernel`.

    Parameters
    ----------
    log_factor : callable
        The function f: it takes inputs of shape (n, d) and returns an array of shape (n,).
        Gradients of predicted standard deviations need its method ``pull(X, bar)``, which returns
        the gradient of ``bar @ f(X)``.
    noise_level : float, default=1.0
        The variance s where f is 0.
    noise_level_bounds : pair of floats or "fixed", default=(1e-5, 1e5)
        Its bounds.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skgp_sparse.kernels import HeteroscedasticNoise
    >>> X = np.array([[0.0], [1.0]])
    >>> kernel = RBF() + HeteroscedasticNoise(lambda X: X[:, 0], noise_level=0.1)
    >>> kernel(X).round(3)
    array([[1.1  , 0.607],
           [0.607, 1.272]])

    Noise whose variance is known up to a factor:

    >>> from skgp_sparse import SparseGPRegressor
    >>> rng = np.random.RandomState(0)
    >>> X = rng.uniform(0, 4, size=(200, 1))
    >>> y = np.sin(X[:, 0]) + 0.3 * np.exp(X[:, 0] / 2 - 2) * rng.normal(size=200)
    >>> model = SparseGPRegressor(kernel).fit(X, y)
    >>> model.noise_std([[0.0], [4.0]]).round(2)
    array([0.04, 0.29])
    """

    def __init__(
        self,
        log_factor: Callable[[Array], Array],
        noise_level: float = 1.0,
        noise_level_bounds: tuple[float, float] | Literal["fixed"] = (1e-5, 1e5),
    ) -> None:
        self.log_factor = log_factor
        self.noise_level = noise_level
        self.noise_level_bounds = noise_level_bounds

    def linearize(self, X: Array, Z: Array) -> tuple[Scalars, Pull]:
        """Return 0, the value without noise, and its pullback."""
        return 0.0, no_gradient

    def linearize_diag(self, X: Array) -> tuple[Scalars, Pull]:
        """Return 0, the diagonal without noise, and its pullback."""
        return 0.0, no_gradient

    def as_node(self) -> Node:
        """Return the node of this kernel, which is nothing but noise."""
        return HeteroscedasticNoiseNode(self)


class HeteroscedasticNoiseNode(White):
    """White noise whose variance varies with the inputs."""

    def diagonal(self, X: Array) -> tuple[Scalars, Scalars, Pull]:
        variance = self.kernel.noise_level * np.exp(self.kernel.log_factor(X))

        def pull(g_signal: Array, g_noise: Scalars, inputs: bool) -> Pulled:
            of_log, log_factor = g_noise * variance, self.kernel.log_factor
            if inputs and not hasattr(log_factor, "pull"):
                raise TypeError(
                    f"log_factor={as_text(log_factor)} of HeteroscedasticNoise has no gradient "
                    "with respect to inputs. Give it a method pull(X, bar), which returns that of "
                    "bar @ log_factor(X)."
                )
            theta_bar = assemble(self.kernel, {"noise_level": np.sum(of_log)})
            return theta_bar, log_factor.pull(X, of_log) if inputs else 0.0

        return 0.0, variance, pull


class LogNoiseFunction:
    """The function f of a `HeteroscedasticNoise`: the mean of a process, ``c + k(x, Z) u``.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel of the process, without white noise.
    Z : ndarray of shape (m, d)
        Its inducing points.
    u : ndarray of shape (m,)
        Weights of the kernel functions.
    mean : float
        The constant c.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skgp_sparse.kernels import LogNoiseFunction, HeteroscedasticNoise
    >>> f = LogNoiseFunction(RBF(), Z=np.zeros((1, 1)), u=np.ones(1), mean=0.0)
    >>> HeteroscedasticNoise(f, noise_level=0.1).diag([[0.0], [9.0]]).round(3)
    array([0.272, 0.1  ])
    """

    def __init__(self, kernel: Kernel, Z: Array, u: Array, mean: float) -> None:
        self.kernel, self.Z, self.u, self.mean = kernel, Z, u, mean

    def __call__(self, X: Array) -> Array:
        X = np.asarray(X, dtype=np.float64)
        blocks = slices(len(X), _ROWS_PER_BLOCK)
        parts = [evaluate(self.kernel, X[block], self.Z) @ self.u for block in blocks]
        return np.concatenate([np.zeros(0), *parts]) + self.mean

    def pull(self, X: Array, bar: Array) -> Array:
        """Return the gradient of ``bar @ f(X)``.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Inputs, float64.
        bar : ndarray of shape (n,)
            Weights of the rows.

        Returns
        -------
        ndarray of shape (n, d)
            The gradient with respect to X.
        """
        return linearize(self.kernel, self.Z, X)[1](np.outer(self.u, bar), True)[1]

    def __eq__(self, other: object) -> bool:
        if type(other) is not LogNoiseFunction:
            return NotImplemented
        arrays = (self.Z, other.Z), (self.u, other.u), (self.mean, other.mean)
        same = all(np.array_equal(mine, its, equal_nan=True) for mine, its in arrays)
        return same and self.kernel == other.kernel

    def __deepcopy__(self, memo: dict[int, object]) -> "LogNoiseFunction":
        return self  # it never changes


_ROWS_PER_BLOCK = 1 << 12  # rows
