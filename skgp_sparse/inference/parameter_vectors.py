"""Parameters in named blocks, as one flat vector in units in which a step of one is sensible.

Also an objective as a function of this vector, and evaluations that may fail.
"""

from contextlib import contextmanager, suppress
from copy import copy
from typing import NamedTuple

import numpy as np

from skgp_sparse import kernels
from skgp_sparse._engine.basis import Evaluation
from skgp_sparse.hyperpriors import NO_PRIOR

_DIVERGED = 10.0  # nats per row, by which a value is lower whose inner loop has diverged


class ParameterBlock(NamedTuple):
    """Some parameters, optimised as ``(value - centre) / scale``.

    Parameters
    ----------
    name : str
    value : ndarray
        Of any shape.
    centre, scale : float or ndarray
        Of a shape that broadcasts against `value`.
    limits : ndarray of shape (size, 2) or None
        Limits of the flat value where centre is 0 and scale 1; None: free.
    """

    name: str
    value: np.ndarray
    centre: float | np.ndarray = 0.0
    scale: float | np.ndarray = 1.0
    limits: np.ndarray | None = None


class Parameters:
    """Translates between blocks and the optimiser's vector.

    Parameters
    ----------
    blocks : list of ParameterBlock
    """

    def __init__(self, blocks):
        self.blocks = blocks
        sizes = [block.value.size for block in blocks]
        edges = np.cumsum([0, *sizes])
        self.places = [slice(*pair) for pair in zip(edges[:-1], edges[1:])]

    def pack(self, **values):
        """Vector of the values of the blocks, or of those given by name."""
        values = [values.get(block.name, block.value) for block in self.blocks]
        return self._flat((v - b.centre) / b.scale for b, v in zip(self.blocks, values))

    def unpack(self, vector):
        """Values by name."""
        parts = (np.reshape(vector[p], b.value.shape) for b, p in zip(self.blocks, self.places))
        return {b.name: part * b.scale + b.centre for b, part in zip(self.blocks, parts)}

    def pack_gradient(self, gradient):
        """Gradient with respect to the vector, from gradients by name."""
        return self._flat(gradient[block.name] * block.scale for block in self.blocks)

    def filled(self, value, **values):
        """Vector of one number for each block: `value`, or one given by name."""
        return self._flat(
            np.full(block.value.shape, values.get(block.name, value)) for block in self.blocks
        )

    def limits(self):
        """Limits (size, 2)."""
        free = np.array([[-np.inf, np.inf]])
        parts = [
            np.tile(free, (b.value.size, 1)) if b.limits is None else np.reshape(b.limits, (-1, 2))
            for b in self.blocks
        ]
        return np.vstack(parts)

    def _flat(self, arrays):
        return np.concatenate([np.ravel(array) for array in arrays])


class VectorFunction:
    """Value and gradient wrt the vector of all blocks; an evaluation begins where the last ended.

    Parameters
    ----------
    objective : Objective
    kernel : sklearn kernel
    move_basis : bool
    prior : ThetaPrior
        What is added to the objective.
    """

    def __init__(self, objective, kernel, move_basis=False, prior=NO_PRIOR):
        self.objective, self.kernel, self.prior = objective, kernel, prior
        self.parameters = Parameters(objective.blocks(kernel, move_basis))
        self.inputs, self.inner_state, self.highest = move_basis, None, -np.inf

    def __call__(self, vector):
        objective, kernel = self.at(vector)
        with arithmetic():
            evaluation = objective.value_and_gradient(kernel, self.inputs, self.inner_state)
        self._remember(evaluation)
        if self.prior is not NO_PRIOR:
            theta = self.parameters.unpack(vector)["kernel"]
            evaluation = self.prior.added_to(evaluation, theta)
        return evaluation.value, self.parameters.pack_gradient(evaluation.gradient)

    def on(self, rows):
        """A copy of the function with other rows, in the same units."""
        function = copy(self)
        function.objective, function.inner_state = self.objective.on(rows), None
        function.highest = -np.inf
        return function

    def _remember(self, evaluation):
        """Keep the state with which the next inner loop begins, unless this one has diverged."""
        if evaluation.value >= self.highest - _DIVERGED * self.objective.size():
            self.inner_state = evaluation.inner_state
        self.highest = max(self.highest, evaluation.value)

    def at(self, vector):
        """The objective and the kernel at a vector."""
        blocks = self.parameters.unpack(vector)
        kernel = kernels.moved(self.kernel, blocks.pop("kernel"))
        return self.objective.at(**blocks), kernel


def kernel_block(kernel):
    """The hyperparameters of a kernel."""
    return ParameterBlock("kernel", kernel.theta, limits=np.reshape(kernel.bounds, (-1, 2)))


def basis_block(kernel, basis, spread):
    """The parameters of a basis, such as inducing points, in its units; inputs have this spread."""
    return ParameterBlock("basis", basis.parameters, *basis.units(kernel, spread))


def raise_noise(kernel, objective):
    """Kernel whose noise also covers the variance that the inducing points leave unexplained.

    The noise of an exact fit is too low for a sparse one: the bound would start where its penalty
    ``r/σ²`` outweighs everything else.
    """
    noise, residual = objective.noise_and_residual(kernel)
    if residual == 0.0:
        return kernel
    theta = kernel.theta
    for positions in kernels.positions_of(kernel, "noise_level"):
        theta[positions] += np.log1p(residual / noise)
    return kernel.clone_with_theta(np.clip(theta, *np.reshape(kernel.bounds, (-1, 2)).T))


def value_or_minus_inf(objective, kernel, eval_gradient, inner_state=None, prior=NO_PRIOR):
    """Value, and the gradient if asked for: -inf and zeros where theta cannot be evaluated.

    For users' optimisers and samplers, which scikit-learn's `GaussianProcessRegressor` answers in
    the same way.
    """
    if eval_gradient:
        evaluation = attempt(objective, kernel, inner_state, prior)
        return evaluation.value, evaluation.theta_bar
    with suppress(np.linalg.LinAlgError), arithmetic():
        value = objective.value(kernel, inner_state) + prior.log_density(kernel.theta)
        return value if np.isfinite(value) else -np.inf
    return -np.inf


def attempt(objective, kernel, inner_state=None, prior=NO_PRIOR):
    """`Evaluation` with the gradient wrt theta: -inf and zeros where it cannot be evaluated."""
    with suppress(np.linalg.LinAlgError), arithmetic():
        evaluation = objective.value_and_gradient(kernel, inner_state=inner_state)
        if np.isfinite(evaluation.value) and np.isfinite(evaluation.theta_bar).all():
            return prior.added_to(evaluation, kernel.theta)
    return Evaluation(-np.inf, {"kernel": np.zeros(len(kernel.bounds))}, np.nan, inner_state)


def if_possible(function, *given, otherwise=None):
    """Result of an optional step, and `otherwise` where its matrices have no factor.

    For whatever may improve a fit and need not. Nothing but numerical failures is caught.
    """
    with suppress(np.linalg.LinAlgError), arithmetic():
        return function(*given)
    return otherwise


@contextmanager
def arithmetic():
    """Context in which overflow and division by zero end as `LinAlgError`, or in the numbers.

    Those who evaluate an objective at any theta look at the numbers, so NumPy need not warn.
    """
    try:
        with np.errstate(all="ignore"):
            yield
    except ArithmeticError as error:
        raise np.linalg.LinAlgError(
            "A hyperparameter of the kernel is too large or too small to compute with. Check the "
            "scale of X and y and the bounds of the hyperparameters."
        ) from error


def split_thetas(theta, kernels):
    """Log hyperparameters of each of some kernels, and whether they were given for all at once."""
    theta, sizes = np.asarray(theta, dtype=np.float64), [len(kernel.theta) for kernel in kernels]
    if theta.shape == (sizes[0],):
        return [theta] * len(kernels), True
    if theta.shape == (sum(sizes),):
        return np.split(theta, np.cumsum(sizes)[:-1]), False
    expected = " or ".join(str(size) for size in dict.fromkeys((sizes[0], sum(sizes))))
    raise ValueError(
        f"theta must hold {expected} log hyperparameters, which are those of kernel_ that are not "
        f"fixed. Got an array of shape {theta.shape}."
    )
