"""How hyperparameters are looked for: the contract of solvers, and the settings of a search."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from skgp_sparse._engine.features.inducing_basis import Options
from skgp_sparse._ground.deadline import Deadline
from skgp_sparse.hyperpriors import NO_PRIOR, ThetaPrior
from skgp_sparse.inference.contracts import Objective, ObjectiveFactory


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
