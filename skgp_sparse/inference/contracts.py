"""Contracts: what training may ask of an objective, a model, a method and a solver, and no more.

The docstrings list every member that callers use; `tests/test_architecture.py` reads the callers.
"""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from skgp_sparse._engine.basis import Basis
from skgp_sparse._engine.inducing_basis import InducingBasis
from skgp_sparse._engine.process import Process
from skgp_sparse._engine.table import Table
from skgp_sparse._ground.typing import AnyArray, Array, Ints, Scalars


class Conclusion(NamedTuple):
    """What an objective says at the end of a fit."""

    value: float
    posterior: Process
    jitter: float
    objective: Any  # an `Objective`, the same for users: its evaluations begin where this one ended


class Objective(ABC):
    """What a fit maximises: a function of the kernel, and of parameters in named blocks.

    Attributes
    ----------
    inducing_points : ndarray of shape (m, d) or None
        None: there are none.
    rows : Table
    """

    inducing_points: Array | None
    rows: Table

    @abstractmethod
    def size(self) -> float:
        """Number of rows, each counted as often as its weight says, times targets."""

    @abstractmethod
    def blocks(self, kernel: Kernel, move_basis: bool = False) -> list[Any]:
        """What can be optimised, from this kernel on: a list of `ParameterBlock`.

        The first one is ``"kernel"``; ``"basis"`` is there if it may move.
        """

    @abstractmethod
    def at(self, **blocks: Any) -> "Objective":
        """The same objective with other values of some blocks, the kernel's left out."""

    @abstractmethod
    def value(self, kernel: Kernel, inner_state: Any = None) -> float:
        """The objective at a kernel; may raise ``LinAlgError``.

        `inner_state` is what an earlier evaluation remembers, to begin with; one without an
        inner loop remembers nothing (None).
        """

    @abstractmethod
    def value_and_gradient(
        self, kernel: Kernel, inputs: bool = False, inner_state: Any = None
    ) -> Any:
        """`Evaluation` with a gradient for each block, that of the basis only if `inputs`."""

    @abstractmethod
    def conclude(self, kernel: Kernel, inner_state: Any = None) -> Conclusion:
        """`Conclusion` at a kernel."""


class ExactFit(Objective):
    """An objective of few rows, whose fit may have restarts."""

    @abstractmethod
    def constant_log_likelihood(self) -> float:
        """The objective of a model that has learned nothing."""


class SparseFit(Objective):
    """An objective in a basis, such as inducing points, whose rows may be many.

    Attributes
    ----------
    basis : Basis
    """

    basis: Basis

    @abstractmethod
    def on(self, rows: Table) -> "SparseFit":
        """The same objective of other rows."""

    @abstractmethod
    def noise_and_residual(self, kernel: Kernel) -> tuple[float, float]:
        """Mean noise variance, and mean variance that inducing points leave unexplained.

        They are 1 and 0 where the noise is that of a likelihood.
        """

    @abstractmethod
    def minibatch_view(self) -> "MinibatchView":
        """The `MinibatchView` of the objective."""


class Model(ABC):
    """The family of objectives that belongs to the noise of the rows.

    Attributes
    ----------
    has_sites : bool
        Whether rows have a likelihood, and Gaussian sites in the place of noise.
    """

    has_sites: bool = False

    @abstractmethod
    def sample(self, rows: Table, size: int, random_state: np.random.RandomState) -> Ints:
        """Indices of the rows of the small fit that comes first."""

    @abstractmethod
    def exact(self, rows: Table, options: Any, rough: bool = False) -> ExactFit:
        """`ExactFit` whose inducing points are the distinct rows; `rough` to start from."""

    @abstractmethod
    def in_basis(self, rows: Table, basis: Basis, options: Any) -> SparseFit:
        """`SparseFit` in a `Basis`."""

    def sparse(self, rows: Table, Z: Array, options: Any, kernel: Kernel = None) -> SparseFit:
        """`SparseFit` at inducing points Z, for a fit that begins at a kernel, if it is known."""
        return self.in_basis(rows, InducingBasis(Z), options)

    @abstractmethod
    def kinds(self, rows: Table) -> AnyArray | None:
        """Numbers (n,) of kinds of rows, each of which samples should have; None: all are alike."""

    @abstractmethod
    def informed_by(self, objective: Any) -> "Model":
        """The model that goes on from the parameters of a small exact fit."""


class Method(ABC):
    """How the sites of a likelihood are found, one row at a time.

    Attributes
    ----------
    likelihood : Likelihood
    is_lower_bound : bool
        Whether a step to the new sites cannot lower the objective.
    uses_last_site : bool
        Whether the next site of a row depends on its last one, beside its marginal.
    takes_turns : bool
        Whether `site_turns.Turns` find its sites.
    """

    likelihood: Any
    is_lower_bound: bool = False
    uses_last_site: bool = False
    takes_turns: bool = False

    @abstractmethod
    def at_site(self, site: Array, residual: Array, weight: Scalars) -> Array:
        """Linear terms and precisions (2, k, n) of rows as the basis sees them, from their sites.

        A row has one site in each of the k processes.
        """

    @abstractmethod
    def share(self, mean: Array) -> Array:
        """Share ``v`` (k,) of the residual variance in the marginals.

        `mean` (k,) is that of ``λ2 r`` over the rows.
        """

    @abstractmethod
    def update(self, rows: Any, mean: Array, h: Array, site: Array, v: Array) -> Any:
        """One update of the sites of some rows, a `SiteUpdate`.

        Parameters
        ----------
        rows : Observations
            Observations, offsets, weights, and what the basis leaves of the rows.
        mean, h : ndarray of shape (k, n)
            Mean and variance that the basis gives the rows.
        site : ndarray of shape (2, k, n)
            Natural parameters ``(λ1, λ2)``.
        v : ndarray of shape (k,)
        """

    @abstractmethod
    def slopes(self, rows: Any, mean: Array, variance: Array, site: Array) -> Array:
        """Gradient (p, n) of what each row adds, wrt the parameters of the likelihood.

        `mean` and `variance` (k, n) are those of the marginals.
        """

    @abstractmethod
    def total(self, cores: Any, value: float, n: float, v: Array) -> float:
        """The objective, from the sum over rows, and how many they are."""

    @abstractmethod
    def surrogate(self, v: Array) -> Any:
        """The `Bound` of a process with this ``v`` that has the same gradient, sites held.

        Its penalties just add up over the rows.
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
    def start(self, objective: Any, kernel: Kernel) -> Any:
        """`RunningPosterior` from the rows of an objective, which stand for all rows."""

    @abstractmethod
    def step(
        self, objective: Any, kernel: Kernel, posterior: Any, share: float, inputs: bool
    ) -> tuple[dict[str, Any], Any]:
        """Gradients by the name of the block, per row, and the next posterior.

        Parameters
        ----------
        objective : Objective
            Of the rows of a batch.
        kernel : sklearn kernel
        posterior : RunningPosterior
        share : float
            Of the batch in the next posterior.
        inputs : bool
            Whether the gradient of the basis is wanted.
        """

    @abstractmethod
    def log_densities(self, objective: Any, kernel: Kernel, posterior: Any) -> Array:
        """Log predictive densities (n,) of the rows of an objective."""

    @abstractmethod
    def conclude(self, objective: Any, kernel: Kernel, posterior: Any) -> Conclusion:
        """`Conclusion` from all rows of an objective, `posterior` to begin with."""


class Solver(ABC):
    """How the hyperparameters are found.

    Attributes
    ----------
    begins_small : bool
        Whether the hyperparameters of a small exact fit come first.
    moves : bool
        Whether they change at all, so that a warm start is worth a look.
    """

    begins_small: bool = False
    moves: bool = True

    @abstractmethod
    def solve(
        self,
        objective: Any,
        kernel: Kernel,
        settings: Any,
        random_state: np.random.RandomState,
        model: Model | None = None,
    ) -> Any:
        """The `Fit` of an objective.

        Parameters
        ----------
        objective : ExactFit or SparseFit
        kernel : sklearn kernel
            To start with.
        settings : Settings
        random_state : RandomState
        model : Model or None
            Of a `SparseFit`; None: the objective is an `ExactFit`.
        """
