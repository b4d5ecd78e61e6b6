"""Contracts of training: what an objective, a factory of them, a method and a solver answer.

They list every member that callers use; `tests/engine/test_contracts.py` reads them.

Parameters stand in named blocks. `VectorFunction` is an objective as a function of one flat vector
of these, in units in which a step of one is sensible, and `attempt` an evaluation that may fail.
`Settings` says how hyperparameters are looked for.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import Field, replace
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from skgp_sparse import kernels
from skgp_sparse.data.dataset import Dataset
from skgp_sparse.engine.basis import Basis, Evaluation, InducingBasis, Observations, Options
from skgp_sparse.engine.collapsed_sites import Cores
from skgp_sparse.engine.posterior import Posterior, RowTerms
from skgp_sparse.ground.parallel import Deadline
from skgp_sparse.ground.validation import AnyArray, Array, ArrayLike, Ints, Kernel, Rng, Scalars
from skgp_sparse.hyperpriors import NO_PRIOR, ThetaPrior

_DIVERGED = 10.0  # nats per row, by which a value is lower whose inner loop has diverged


class ParameterBlock(NamedTuple):
    """Some parameters, optimised as ``(value - centre) / scale``."""

    name: str
    value: Array | Any  # of any shape
    centre: float | np.ndarray = 0.0  # of a shape that broadcasts
    scale: float | np.ndarray = 1.0
    limits: np.ndarray | tuple[float, float] = (-np.inf, np.inf)  # (size, 2) of what is optimised


class VectorFunction:
    """Value and gradient wrt the vector of all blocks; evaluations begin where the last ended."""

    def __init__(
        self, objective: Any, kernel: Kernel, move_basis: bool = False, prior: ThetaPrior = NO_PRIOR
    ) -> None:
        self.objective, self.kernel, self.prior = objective, kernel, prior
        self.blocks = objective.blocks(kernel, move_basis)
        self.inputs, self.inner_state, self.highest = move_basis, None, -np.inf

    def __call__(self, vector: Array) -> tuple[float, Array]:
        """Value in nats, and gradient (size,), at a vector (size,)."""
        objective, kernel = self.at(vector)
        with arithmetic():
            evaluation = objective.value_and_gradient(kernel, self.inputs, self.inner_state)
        if evaluation.value >= self.highest - _DIVERGED * self.objective.size():
            self.inner_state = evaluation.inner_state  # the inner loop has not diverged
        self.highest = max(self.highest, evaluation.value)
        if self.prior is not NO_PRIOR:
            evaluation = with_prior(evaluation, self.prior, self.unpack(vector)["kernel"])
        return evaluation.value, self.pack_gradient(evaluation.gradient)

    def on(self, rows: Dataset) -> "VectorFunction":
        """A copy of the function with other rows, in the same units."""
        function = copy(self)
        function.objective, function.inner_state = self.objective.on(rows), None
        function.highest = -np.inf
        return function

    def at(self, vector: Array) -> tuple[Any, Kernel]:
        """The objective and the kernel at a vector (size,)."""
        blocks = self.unpack(vector)
        kernel = kernels.moved(self.kernel, blocks.pop("kernel"))
        return self.objective.at(**blocks), kernel

    def pack(self, **values: Array) -> Array:
        """Vector (size,) of the values of the blocks, or of those given by name."""
        parts = ((b, values.get(b.name, b.value)) for b in self.blocks)
        return self._flat((value - b.centre) / b.scale for b, value in parts)

    def unpack(self, vector: Array) -> dict[str, Array]:
        """Values of all blocks by name, each of its own shape, from a vector (size,)."""
        parts = np.split(vector, np.cumsum([block.value.size for block in self.blocks])[:-1])
        pairs = [(b, np.reshape(part, b.value.shape)) for b, part in zip(self.blocks, parts)]
        return {b.name: part * b.scale + b.centre for b, part in pairs}

    def pack_gradient(self, gradient: dict) -> Array:
        """Gradient (size,) with respect to the vector, from gradients by name of the block."""
        return self._flat(gradient[block.name] * block.scale for block in self.blocks)

    def limits(self) -> Array:
        """Lower and upper limits (size, 2) of the vector, infinite where a block has none."""
        return np.vstack([np.broadcast_to(b.limits, (b.value.size, 2)) for b in self.blocks])

    def _flat(self, arrays: Iterable) -> Array:
        return np.concatenate([np.ravel(array) for array in arrays])


def basis_block(kernel: Kernel, basis: Basis, spread: Array) -> ParameterBlock:
    """The parameters of a basis, such as inducing points, in its units; inputs have this spread."""
    return ParameterBlock("basis", basis.parameters, *basis.units(kernel, spread))


def with_more_noise(kernel: Kernel, more: float) -> Kernel:
    """Kernel with the logarithm of its noise raised, within its bounds."""
    theta = kernel.theta
    for positions in kernels.positions_of(kernel, "noise_level"):
        theta[positions] += more
    return kernel.clone_with_theta(np.clip(theta, *np.reshape(kernel.bounds, (-1, 2)).T))


def with_prior(evaluation: Evaluation, prior: ThetaPrior, theta: Array) -> Evaluation:
    """The `Evaluation` of an objective and a prior together."""
    gradient = evaluation.gradient | {"kernel": evaluation.theta_bar + prior.gradient(theta)}
    return evaluation._replace(value=evaluation.value + prior.log_density(theta), gradient=gradient)


def value_or_minus_inf(
    objective: "Objective", kernel: Kernel, inner_state: object = None, prior: ThetaPrior = NO_PRIOR
) -> float:
    """Value: -inf where it cannot be evaluated, as scikit-learn."""
    both = lambda: objective.value(kernel, inner_state) + prior.log_density(kernel.theta)
    value = if_possible(both, otherwise=-np.inf)
    return value if np.isfinite(value) else -np.inf


def attempt(
    objective: "Objective", kernel: Kernel, inner_state: object = None, prior: ThetaPrior = NO_PRIOR
) -> Evaluation:
    """`Evaluation` with the gradient wrt theta: -inf and zeros where it cannot be evaluated."""
    with suppress(np.linalg.LinAlgError), arithmetic():
        evaluation = objective.value_and_gradient(kernel, inner_state=inner_state)
        if np.isfinite(evaluation.value) and np.isfinite(evaluation.theta_bar).all():
            return with_prior(evaluation, prior, kernel.theta)
    return Evaluation(-np.inf, {"kernel": np.zeros(len(kernel.bounds))}, np.nan, inner_state)


def if_possible(function: Callable, *args: object, otherwise: object = None) -> Any:
    """Result of an optional step, and `otherwise` where its matrices have no factor."""
    with suppress(np.linalg.LinAlgError), arithmetic():
        return function(*args)
    return otherwise


@contextmanager
def arithmetic() -> Iterator[None]:
    """Context in which overflow and division by zero end as `LinAlgError`, or in the numbers."""
    try:
        with np.errstate(all="ignore"):
            yield
    except ArithmeticError as error:
        raise np.linalg.LinAlgError(
            "A hyperparameter of the kernel is too large or too small to compute with. Check the "
            "scale of X and y and the bounds of the hyperparameters."
        ) from error


def split_thetas(theta: ArrayLike, kernels: Sequence[Kernel]) -> tuple[list[Array], bool]:
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


_Objective = TypeVar("_Objective", bound="Objective")


class Conclusion(NamedTuple):
    """Result of an objective at the end of a fit: its value, and the posterior."""

    value: float  # nats, of all rows together
    posterior: Posterior | Any  # of latent inputs, an `InducingPosterior`
    jitter: float  # the largest on a diagonal, in units of its mean
    objective: "Objective"  # for users: its evaluations begin where this one ended


class Objective(ABC):
    """Objective that a fit maximises: a function of the kernel, and of named parameter blocks.

    An objective never changes: `at` makes another one. It may keep its rows and what does not
    depend on the kernel. What an evaluation has found, such as sites, it keeps only where the next
    evaluation may begin there, which changes no result beyond `tol`.
    """

    rows: Dataset
    basis: Any  # `Basis` whose features stand for the rows, or None
    likelihood: Any  # `Likelihood` of the rows, None where the noise is Gaussian
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]  # objectives are dataclasses

    @property
    def inducing_points(self) -> Array | Any:
        """Inducing points (m, d) of the basis, None if it has none."""
        return self.basis.points

    def terms(self, kernel: Kernel) -> RowTerms:
        """`RowTerms` of the rows: how they entered the posterior at a kernel."""
        return RowTerms()

    @abstractmethod
    def size(self) -> float:
        """Number of rows, each counted as often as its weight says, times targets."""

    def blocks(self, kernel: Kernel, move_basis: bool = False) -> list[ParameterBlock]:
        """Blocks to optimise from a kernel on: "kernel" first, and "basis" only if it may move."""
        likelihood = self.likelihood
        units = kernels.units(kernel, self.rows.n_features, self.rows.scale)[:, None]
        limits = np.reshape(kernel.bounds, (-1, 2)) / units
        blocks = [ParameterBlock("kernel", kernel.theta, scale=units[:, 0], limits=limits)]
        if likelihood is not None and len(likelihood.theta):
            blocks.append(ParameterBlock("likelihood", likelihood.theta, limits=likelihood.limits))
        if move_basis and self.basis is not None:
            blocks.append(basis_block(kernel, self.basis, self.rows.scale()))
        return blocks

    def at(self: _Objective, **blocks: Any) -> _Objective:
        """Objective of the same rows with new values of blocks, all but that of the kernel."""
        if "basis" in blocks:
            blocks["basis"] = self.basis.moved(blocks["basis"])
        if "likelihood" in blocks:
            blocks["likelihood"] = self.likelihood.with_theta(blocks["likelihood"])
        return replace(self, **blocks) if blocks else self

    def value(self, kernel: Kernel, inner_state: object = None) -> float:
        """Nats of all rows together; an inner loop begins with what an earlier evaluation kept.

        Raises ``LinAlgError`` if a matrix is not positive definite, even with jitter, as all
        evaluations do. Optimisers step back then.
        """
        return self.conclude(kernel, inner_state).value

    @abstractmethod
    def value_and_gradient(
        self, kernel: Kernel, inputs: bool = False, inner_state: object = None
    ) -> Evaluation:
        """`Evaluation` with a gradient for each block, that of the basis only if `inputs`."""

    @abstractmethod
    def conclude(self, kernel: Kernel, inner_state: object = None) -> Conclusion:
        """`Conclusion` at a kernel; its posterior keeps what predictions need, no other rows."""


class ExactFit(Objective):
    """An objective of few rows, whose fit may have restarts."""

    @abstractmethod
    def constant_log_likelihood(self) -> float:
        """Nats of all rows together of a constant and noise: a model that has learned nothing."""


class SparseFit(Objective):
    """An objective in a basis, such as inducing points, whose rows may be many."""

    bound: Any  # `Bound`, where the noise is Gaussian

    def on(self, rows: Dataset) -> "SparseFit":
        """Objective of other rows, such as a sample, in the same units."""
        return replace(self, rows=rows)

    def noise_and_residual(self, kernel: Kernel) -> tuple[float, float]:
        """Mean noise and residual variance over at most 2000 rows; 1 and 0 with a likelihood."""
        return 1.0, 0.0

    @abstractmethod
    def of_sample(self, kernel: Kernel) -> tuple[Posterior, tuple]:
        """Posterior given rows that stand for all, and what `conclude_from` begins with."""

    @abstractmethod
    def log_densities(self, posterior: Posterior) -> Array:
        """Log densities (n,) of the rows, of several targets their means."""

    def conclude_from(self, kernel: Kernel, sample: tuple) -> Conclusion:
        """`Conclusion` from all rows at a kernel, of which a sample knew as much already."""
        return self.conclude(kernel)


class ObjectiveFactory(ABC):
    """The family of objectives that belongs to the noise of the rows."""

    has_sites: bool = False  # whether rows have a likelihood, and sites in the place of noise ...
    site_method: Any  # ... which a `SiteMethod` finds ...
    inner: Any  # ... in an `Inner` loop
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]  # factories are dataclasses

    def sample(self, rows: Dataset, size: int, random_state: Rng) -> Ints:
        """Indices (k,) of about `size` rows for a small fit, a share of them of each kind."""
        return rows.sample(size, random_state)

    @abstractmethod
    def exact(self, rows: Dataset, options: Options, rough: bool = False) -> ExactFit:
        """Objective whose inducing points are the distinct rows; a rough one starts another fit."""

    @abstractmethod
    def in_basis(self, rows: Dataset, basis: Basis, options: Options) -> SparseFit:
        """Objective in a basis, of rows that may be many and anywhere."""

    def sparse(self, rows: Dataset, Z: Array, options: Options) -> SparseFit:
        """Objective at inducing points (m, d)."""
        return self.in_basis(rows, InducingBasis(Z), options)

    def kinds(self, rows: Dataset) -> AnyArray | None:
        """Kind (n,) of each row, such as its class, all of which a sample has; None: one kind."""
        return None

    def informed_by(self, objective: ExactFit) -> "ObjectiveFactory":
        """Factory whose objectives begin with the likelihood that a small fit found."""
        return self


class SiteMethod(ABC):
    """How the sites of a likelihood are found, one row at a time.

    A row has one site ``(λ1, λ2)`` in each of the k processes: sites are arrays (2, k, n), means
    and variances (k, n), residuals that the basis leaves unexplained (n,), and shares ``v`` (k,).
    """

    likelihood: Any
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]  # methods are dataclasses
    is_lower_bound: bool = False  # whether a step to the new sites cannot lower the objective
    uses_last_site: bool = False  # whether the next site depends on it, beside the marginal
    takes_turns: bool = False  # whether `AlternatingUpdates` find the sites ...
    expectations: Callable  # ... from expected log likelihoods and their derivatives

    @abstractmethod
    def at_site(self, site: Array, residual: Array, weight: Scalars) -> Array:
        """Linear terms and precisions (2, k, n) of rows as the basis sees them."""

    @abstractmethod
    def share(self, mean: Array) -> Array:
        """Share ``v`` of the residual in marginals, from the mean (k,) of ``λ2 r``."""

    @abstractmethod
    def update(self, rows: Observations, mean: Array, h: Array, site: Array, v: Array) -> Any:
        """`NextSites` of some rows, once, given the mean and the variance `h` from the basis."""

    @abstractmethod
    def slopes(self, rows: Observations, mean: Array, variance: Array, site: Array) -> Array:
        """Gradient (p, n) of each row's part wrt p parameters of the likelihood, sites held."""

    @abstractmethod
    def total(self, cores: Cores, value: float, n: float, v: Array) -> float:
        """The objective in nats, from the cores of the processes and the sum over n rows."""

    @abstractmethod
    def surrogate(self, v: Array) -> Any:
        """Bound for Gaussian noise with the same gradient at held sites; its penalties add up."""


class Solver(ABC):
    """How the hyperparameters are found."""

    starts_on_subset: bool = False  # whether hyperparameters of a small exact fit come first
    moves: bool = True  # whether they change at all

    @abstractmethod
    def solve(self, start: "Start") -> Any:
        """`Fit` at the best point that was found.

        Raises ``LinAlgError`` if the objective cannot be evaluated at the start. Later failures are
        steps that are taken back.
        """


class Start(NamedTuple):
    """Start of a search: what is maximised, from which kernel on, and how."""

    objective: Any  # an `Objective`
    kernel: Kernel
    settings: "Settings"
    random_state: Rng
    objectives: ObjectiveFactory | Any = None  # of a `SparseFit`; None: an `ExactFit`
    thorough: "ThoroughSearch | None" = None  # of an `ExactFit` whose evaluation is cheap


class ThoroughSearch(NamedTuple):
    """Kernel and starts of a fit where an evaluation is cheap: it ends at an optimum."""

    kernel: Kernel  # with the bounds within which it ends; those to begin with may be narrower
    starts: tuple = ()  # values of theta from which it begins beside the first


class Settings(NamedTuple):
    """How hyperparameters are looked for.

    A posterior method that looks for them itself keeps to `max_iter`, `tol` and `n_restarts`, calls
    `progress` after every iteration, ends where that or `deadline` says so, and computes as
    `options` say: ``n_jobs`` threads, and ``memory`` bytes. Where ``solver.moves`` is False, as
    with ``optimizer=None``, it keeps the kernel of the job.
    """

    solver: Solver
    n_restarts: int
    max_iter: int
    tol: float
    start_rows: int  # of the small exact fit that comes first
    options: Options
    move_basis: bool = True  # whether inducing points are optimised
    progress: Callable | None = None  # (iteration, value) -> stop?
    deadline: Deadline = Deadline()  # what may be left out after it is left out
    prior: ThetaPrior = NO_PRIOR  # of the hyperparameters of the kernel
    believes_noise: bool = False  # whether an optimum that explains nothing is the last one
    find_periods: bool = True  # whether a periodogram says where free periods begin
