"""Contracts of training: what may be asked of an objective, a model, a method and a solver.

The docstrings list every member that callers use; `tests/engine/test_contracts.py` reads them.

Parameters stand in named blocks, which `Parameters` writes as one flat vector in units in which a
step of one is sensible. `VectorFunction` is an objective as a function of this vector, and
`attempt` an evaluation that may fail. `Settings` says how hyperparameters are looked for.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from skgp_sparse import kernels
from skgp_sparse.data.dataset import Dataset
from skgp_sparse.engine.basis import Basis, Evaluation, InducingBasis, Observations, Options
from skgp_sparse.engine.collapsed_sites import Cores
from skgp_sparse.engine.posterior import Posterior, RowTerms
from skgp_sparse.ground.parallel import Deadline
from skgp_sparse.ground.validation import AnyArray, Array, Ints, Scalars
from skgp_sparse.hyperpriors import NO_PRIOR, ThetaPrior

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


_Objective = TypeVar("_Objective", bound="Objective")


class Conclusion(NamedTuple):
    """Result of an objective at the end of a fit: its value, and the posterior.

    Parameters
    ----------
    value : float
        The objective in nats, of all rows together.
    posterior : Posterior
        What predicts.
    jitter : float
        The largest number that was added to a diagonal, in units of the mean of that diagonal.
    objective : Objective
        The same for users. Its evaluations begin where this one ended.
    """

    value: float
    posterior: Posterior
    jitter: float
    objective: "Objective"


class Objective(ABC):
    """Objective that a fit maximises: a function of the kernel, and of named parameter blocks.

    An objective never changes: `at` makes another one. It may keep its rows and what does not
    depend on the kernel. What an evaluation has found, such as sites, it keeps only where the next
    evaluation may begin there, which changes no result beyond `tol`.

    Attributes
    ----------
    inducing_points : ndarray of shape (m, d) or None
        None: there are none.
    rows : Dataset
        The training rows.
    basis : Basis or None
        Its features stand for the rows; None: there is none.
    likelihood : Likelihood or None
        Likelihood of the rows, None where the noise is Gaussian.
    """

    rows: Dataset
    basis: Any
    likelihood: Any

    @property
    def inducing_points(self) -> Array | None:
        """Inducing points (m, d) of the basis, None if it has none."""
        return self.basis.points

    def terms(self, kernel: Kernel) -> RowTerms:
        """Return how the rows entered the posterior.

        Parameters
        ----------
        kernel : sklearn kernel
            Kernel of the posterior.

        Returns
        -------
        RowTerms
            Gaussian factors of the rows.
        """
        return RowTerms()

    @abstractmethod
    def size(self) -> float:
        """Count rows and targets.

        Returns
        -------
        float
            Number of rows, each counted as often as its weight says, times the number of targets.
            Nats per row are nats over this number.
        """

    def blocks(self, kernel: Kernel, move_basis: bool = False) -> list[ParameterBlock]:
        """Say what can be optimised.

        Parameters
        ----------
        kernel : sklearn kernel
            From which the optimiser starts.
        move_basis : bool
            Whether the basis may move.

        Returns
        -------
        list of ParameterBlock
            The first one is ``"kernel"``; ``"basis"`` is there if it may move.
        """
        blocks, likelihood = [kernel_block(kernel)], self.likelihood
        if likelihood is not None and len(likelihood.theta):
            blocks.append(ParameterBlock("likelihood", likelihood.theta, limits=likelihood.limits))
        if move_basis and self.basis is not None:
            blocks.append(basis_block(kernel, self.basis, self.rows.scale()))
        return blocks

    def at(self: _Objective, **blocks: Any) -> _Objective:
        """Change parameters.

        Parameters
        ----------
        **blocks
            New values of some blocks, by their names, that of the kernel left out.

        Returns
        -------
        Objective
            Another objective of the same rows. This one stays as it is.
        """
        changed: Any = self
        if "basis" in blocks:
            blocks["basis"] = self.basis.moved(blocks["basis"])
        if "likelihood" in blocks:
            blocks["likelihood"] = self.likelihood.with_theta(blocks["likelihood"])
        return replace(changed, **blocks) if blocks else changed

    def value(self, kernel: Kernel, inner_state: object = None) -> float:
        """Evaluate the objective.

        Parameters
        ----------
        kernel : sklearn kernel
            White noise included.
        inner_state : object or None
            What an earlier evaluation remembers, to begin with; an objective without an inner loop
            remembers nothing (None).

        Returns
        -------
        float
            Nats of all rows together.

        Raises
        ------
        LinAlgError
            If a matrix is not positive definite, even with jitter. Optimisers step back then.
        """
        return self.conclude(kernel, inner_state).value

    @abstractmethod
    def value_and_gradient(
        self, kernel: Kernel, inputs: bool = False, inner_state: object = None
    ) -> Evaluation:
        """Evaluate the objective and its gradient.

        Parameters
        ----------
        kernel : sklearn kernel
            White noise included.
        inputs : bool
            Whether the gradient of the basis is wanted.
        inner_state : object or None
            As of `value`.

        Returns
        -------
        Evaluation
            The value, a gradient for each block, and what the next evaluation may begin with.

        Raises
        ------
        LinAlgError
            As `value` does.
        """

    @abstractmethod
    def conclude(self, kernel: Kernel, inner_state: object = None) -> Conclusion:
        """Compute what predicts.

        Parameters
        ----------
        kernel : sklearn kernel
            What the fit has found.
        inner_state : object or None
            As of `value`.

        Returns
        -------
        Conclusion
            Its process keeps what predictions need, and no other rows.

        Raises
        ------
        LinAlgError
            As `value` does.
        """


class ExactFit(Objective):
    """An objective of few rows, whose fit may have restarts."""

    @abstractmethod
    def constant_log_likelihood(self) -> float:
        """Compute the objective of a model that has learned nothing.

        Returns
        -------
        float
            Nats of all rows together, for a constant and noise.
        """


class SparseFit(Objective):
    """An objective in a basis, such as inducing points, whose rows may be many."""

    def on(self, rows: Dataset) -> "SparseFit":
        """Exchange the rows.

        Parameters
        ----------
        rows : Dataset
            Such as a sample, in the same units.

        Returns
        -------
        SparseFit
            The same objective of these rows.
        """
        changed: Any = self
        return replace(changed, rows=rows)

    @abstractmethod
    def noise_and_residual(self, kernel: Kernel) -> tuple[float, float]:
        """Compare the noise with what the basis leaves unexplained.

        Parameters
        ----------
        kernel : sklearn kernel
            White noise included.

        Returns
        -------
        noise, residual : float
            Mean noise variance, and mean residual variance, over at most 2000 rows. They are 1 and
            0 where the noise is that of a likelihood.
        """

    @abstractmethod
    def minibatch_view(self) -> "MinibatchView":
        """Return the objective as minibatches see it.

        Returns
        -------
        MinibatchView
            It keeps what it needs of this objective.
        """


class ObjectiveFactory(ABC):
    """The family of objectives that belongs to the noise of the rows.

    Attributes
    ----------
    has_sites : bool
        Whether rows have a likelihood, and Gaussian sites in the place of noise.
    """

    has_sites: bool = False

    def sample(self, rows: Dataset, size: int, random_state: np.random.RandomState) -> Ints:
        """Draw the rows of the small fit that comes first.

        Parameters
        ----------
        rows : Dataset
            All training rows.
        size : int
            How many are wanted.
        random_state : RandomState
            Generator of the draw.

        Returns
        -------
        ndarray of shape (k,)
            Indices of about `size` rows, a share of them of each kind.
        """
        return rows.sample(size, random_state)

    @abstractmethod
    def exact(self, rows: Dataset, options: Options, rough: bool = False) -> ExactFit:
        """Make the objective of the exact process.

        Parameters
        ----------
        rows : Dataset
            Few rows, which the objective keeps.
        options : Options
            How to compute.
        rough : bool
            Whether a rougher objective is enough, because it only starts another fit.

        Returns
        -------
        ExactFit
            Its inducing points are the distinct rows.
        """

    @abstractmethod
    def in_basis(self, rows: Dataset, basis: Basis, options: Options) -> SparseFit:
        """Make the objective in a basis.

        Parameters
        ----------
        rows : Dataset
            The training rows, which may be many and anywhere.
        basis : Basis
            Such as inducing points.
        options : Options
            How to compute.

        Returns
        -------
        SparseFit
            The objective.
        """

    def sparse(self, rows: Dataset, Z: Array, options: Options) -> SparseFit:
        """Make the objective at inducing points.

        Parameters
        ----------
        rows : Dataset
            The training rows.
        Z : ndarray of shape (m, d)
            Inducing points.
        options : Options
            How to compute.

        Returns
        -------
        SparseFit
            The objective.
        """
        return self.in_basis(rows, InducingBasis(Z), options)

    def kinds(self, rows: Dataset) -> AnyArray | None:
        """Say which kinds of rows there are.

        Parameters
        ----------
        rows : Dataset
            All training rows.

        Returns
        -------
        ndarray of shape (n,) or None
            The number of the kind of each row, such as its class. A sample should have rows of all
            kinds. None: all rows are alike.
        """
        return None

    def informed_by(self, objective: ExactFit) -> "ObjectiveFactory":
        """Go on from a small exact fit.

        Parameters
        ----------
        objective : ExactFit
            The objective at the end of that fit.

        Returns
        -------
        ObjectiveFactory
            The same model, whose objectives begin with the likelihood's parameters found there.
        """
        return self


class Method(ABC):
    """How the sites of a likelihood are found, one row at a time.

    Attributes
    ----------
    likelihood : Likelihood
        Of the rows.
    is_lower_bound : bool
        Whether a step to the new sites cannot lower the objective.
    uses_last_site : bool
        Whether the next site of a row depends on its last one, beside its marginal.
    takes_turns : bool
        Whether `site_loop.AlternatingUpdates` find its sites.
    """

    likelihood: Any
    is_lower_bound: bool = False
    uses_last_site: bool = False
    takes_turns: bool = False

    @abstractmethod
    def at_site(self, site: Array, residual: Array, weight: Scalars) -> Array:
        """Turn sites into what the basis sees.

        Parameters
        ----------
        site : ndarray of shape (2, k, n)
            Natural parameters ``(λ1, λ2)``: a row has one site in each of the k processes.
        residual : ndarray of shape (k, n)
            Variance of the rows that the basis leaves unexplained.
        weight : float or ndarray of shape (n,)
            Weights of the rows.

        Returns
        -------
        ndarray of shape (2, k, n)
            Linear terms and precisions.
        """

    @abstractmethod
    def share(self, mean: Array) -> Array:
        """Say how much of the residual variance is in the marginals.

        Parameters
        ----------
        mean : ndarray of shape (k,)
            Mean of ``λ2 r`` over the rows.

        Returns
        -------
        ndarray of shape (k,)
            The share ``v``, between 0 and 1.
        """

    @abstractmethod
    def update(self, rows: Observations, mean: Array, h: Array, site: Array, v: Array) -> Any:
        """Update the sites of some rows once.

        Parameters
        ----------
        rows : Observations
            Observations, offsets, weights, and what the basis leaves of the rows.
        mean, h : ndarray of shape (k, n)
            Mean and variance that the basis gives the rows.
        site : ndarray of shape (2, k, n)
            Natural parameters ``(λ1, λ2)``. They stay as they are.
        v : ndarray of shape (k,)
            As of `share`.

        Returns
        -------
        SiteUpdate
            The new sites, and what each row adds to the objective.
        """

    @abstractmethod
    def slopes(self, rows: Observations, mean: Array, variance: Array, site: Array) -> Array:
        """Differentiate with respect to the parameters of the likelihood.

        Parameters
        ----------
        rows : Observations
            As of `update`.
        mean, variance : ndarray of shape (k, n)
            Those of the marginals.
        site : ndarray of shape (2, k, n)
            Natural parameters, which are held.

        Returns
        -------
        ndarray of shape (p, n)
            Gradient of what each row adds, for each of the p parameters.
        """

    @abstractmethod
    def total(self, cores: Cores, value: float, n: float, v: Array) -> float:
        """Put the objective together.

        Parameters
        ----------
        cores : Cores
            The (m, m) part of each process.
        value : float
            The sum of what all rows add.
        n : float
            Number of rows, each counted as often as its weight says.
        v : ndarray of shape (k,)
            As of `share`.

        Returns
        -------
        float
            The objective in nats.
        """

    @abstractmethod
    def surrogate(self, v: Array) -> Any:
        """Return a bound for Gaussian noise that stands for the objective.

        Parameters
        ----------
        v : ndarray of shape (k,)
            As of `share`.

        Returns
        -------
        Bound
            It has the same gradient while sites are held, and its penalties just add up over the
            rows.
        """


class MinibatchView(ABC):
    """An objective seen from some of its rows: gradients, and a running posterior of the weights.

    Attributes
    ----------
    total : float
        Number of all rows, each counted as often as its weight says.
    """

    total: float

    @abstractmethod
    def start(self, objective: Objective, kernel: Kernel) -> Any:
        """Begin with some rows.

        Parameters
        ----------
        objective : Objective
            Of rows that stand for all rows.
        kernel : sklearn kernel
            At which the posterior is computed.

        Returns
        -------
        RunningPosterior
            What `step` goes on from.
        """

    @abstractmethod
    def step(
        self, objective: Objective, kernel: Kernel, posterior: Any, share: float, inputs: bool
    ) -> tuple[dict[str, Any], Any]:
        """Learn from a batch.

        Parameters
        ----------
        objective : Objective
            Of the rows of a batch.
        kernel : sklearn kernel
            At which gradients are computed.
        posterior : RunningPosterior
            What `start` or the last step returned. It stays as it is.
        share : float
            Of the batch in the next posterior.
        inputs : bool
            Whether the gradient of the basis is wanted.

        Returns
        -------
        gradients : dict
            By the name of the block, per row.
        posterior : RunningPosterior
            For the next step.
        """

    @abstractmethod
    def log_densities(self, objective: Objective, kernel: Kernel, posterior: Any) -> Array:
        """Judge the posterior.

        Parameters
        ----------
        objective : Objective
            Of held-out rows.
        kernel : sklearn kernel
            White noise included.
        posterior : RunningPosterior
            As of `step`.

        Returns
        -------
        ndarray of shape (n,)
            Log predictive densities of the rows.
        """

    @abstractmethod
    def conclude(self, objective: Objective, kernel: Kernel, posterior: Any) -> Conclusion:
        """Compute what predicts, from all rows.

        Parameters
        ----------
        objective : Objective
            Of all rows.
        kernel : sklearn kernel
            What the steps have found.
        posterior : RunningPosterior
            To begin with.

        Returns
        -------
        Conclusion
            As of `Objective.conclude`.
        """


class Solver(ABC):
    """How the hyperparameters are found.

    Attributes
    ----------
    starts_on_subset : bool
        Whether the hyperparameters of a small exact fit come first.
    moves : bool
        Whether they change at all, so that a warm start is worth a look.
    keeps_sites : bool
        Whether a step may begin at the sites where the last one ended, and all of them are known.
    """

    starts_on_subset: bool = False
    moves: bool = True
    keeps_sites: bool = True

    def check_parameters(self, name: str) -> None:  # noqa: B027
        """Raise unless the parameters can be used.

        Parameters
        ----------
        name : str
            Name of the estimator, for errors.

        Raises
        ------
        ValueError
            If a parameter has another type or value than it should.
        """

    @abstractmethod
    def solve(
        self,
        objective: Objective,
        kernel: Kernel,
        settings: "Settings",
        random_state: np.random.RandomState,
        model: ObjectiveFactory | None = None,
    ) -> Any:
        """Maximise an objective.

        Parameters
        ----------
        objective : ExactFit or SparseFit
            What is maximised. It stays as it is.
        kernel : sklearn kernel
            To start with.
        settings : Settings
            Limits and tolerances of the estimator.
        random_state : RandomState
            Of restarts, samples and batches.
        model : ObjectiveFactory or None
            Of a `SparseFit`; None: the objective is an `ExactFit`.

        Returns
        -------
        Fit
            Kernel, objective and `Posterior` at the best point that was found.

        Raises
        ------
        LinAlgError
            If the objective cannot be evaluated at the start. Later failures are steps that are
            taken back.
        """


class ThoroughSearch(NamedTuple):
    """Kernel and starts of a fit where an evaluation is cheap: it ends at an optimum."""

    kernel: object  # with the bounds within which it ends; those to begin with may be narrower
    starts: tuple = ()  # values of theta from which it begins beside the first


class Settings(NamedTuple):
    """How hyperparameters are looked for."""

    solver: Solver
    n_restarts: int
    max_iter: int
    tol: float
    start_rows: int  # of the small exact fit that comes first
    options: Options
    move_basis: bool = True  # whether inducing points are optimised
    progress: Callable | None = None  # (iteration, value) -> stop?
    thorough: ThoroughSearch | None = None  # where an evaluation is cheap
    deadline: Deadline = Deadline()  # what may be left out after it is left out
    prior: ThetaPrior = NO_PRIOR  # of the hyperparameters of the kernel
    believes_noise: bool = False  # whether an optimum that explains nothing is the last one
    find_periods: bool = True  # whether a periodogram says where free periods begin
