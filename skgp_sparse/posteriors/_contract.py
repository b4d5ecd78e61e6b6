"""What is fitted (`Job`), and the contract of everything that a posterior may be given."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

from sklearn.base import BaseEstimator

from skgp_sparse._engine.problem import Options
from skgp_sparse._engine.table import Table
from skgp_sparse.inference.contracts import Model, Solver

_SPEED = 2e10  # multiplications and additions per second of a core, for rough estimates


class Points(NamedTuple):
    """Which inducing points are wanted."""

    size: int
    initialise: Callable  # (rows, kernel, random_state) -> Z
    is_auto: bool = False  # whether nobody asked for this size
    are_given: bool = False  # Z comes from the user


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


class Limits(NamedTuple):
    """Numbers of distinct rows up to which every one is an inducing point."""

    exact: int
    with_little_noise: int


class Job(NamedTuple):
    """What is fitted: plain data, which may travel to another thread or process."""

    name: str  # for messages; "" if there is no other job
    rows: Table
    kernel: object  # to start with
    model: Model
    strategy: "Strategy"
    points: Points
    settings: Settings
    limits: Limits
    before: tuple | None = None  # (kernel, Z) of an earlier fit, to go on from
    is_complete: bool = True  # whether there is something to learn

    def are_few(self, most):
        """Whether there are so few distinct rows."""
        return bool(most) and self.rows.distinct(most=most) is not None

    def without_limits(self):
        """The same job for which exact processes are no question."""
        return self._replace(limits=Limits(0, 0))

    def with_settings(self, **changes):
        """The same job with other settings."""
        return self._replace(settings=self.settings._replace(**changes))


class Cost(NamedTuple):
    """A rough estimate of what a fit takes."""

    seconds: float
    bytes: float  # beyond the rows

    @classmethod
    def of(cls, operations, numbers):
        """The cost of so many multiplications and additions, and of so many numbers in memory."""
        return cls(operations / _SPEED, 8.0 * numbers)


class Strategy(BaseEstimator, ABC):
    """What a posterior is given: the contract of all values of `posterior`.

    A strategy fits a `Job` and returns a `Fit`, whose `posterior` is a `Process`. It holds what
    concerns itself alone as parameters, and never changes.

    Attributes
    ----------
    name : str
        Of the parameter `posterior` of an estimator.
    """

    name = ""

    @abstractmethod
    def fit(self, job, random_state):
        """Fit a job.

        Parameters
        ----------
        job : Job
        random_state : RandomState

        Returns
        -------
        Fit
        """

    @abstractmethod
    def cost(self, n, m):
        """The `Cost` of a fit to n distinct rows with one target, roughly.

        m is the number of inducing points, for a strategy that has them.
        """

    def refuses(self, parameters, likelihood, bound):
        """Why it cannot be fitted with these parameters of an estimator; None if it can.

        `likelihood` is None and `bound` a `Bound` where the noise is Gaussian.
        """
        return None

    def refuses_later_rows(self):
        """Why it cannot learn from rows that arrive later; None if it can."""
        return f"posterior={self.name!r} takes all rows at once"

    def resume(self, job, knowledge, action, random_state):
        """Learn from rows that arrive later.

        Parameters
        ----------
        job : Job
            Of the rows as they are now.
        knowledge : Knowledge or None
            What the last call has learned.
        action : Action
            What the rows ask for; see `skgp_sparse.posteriors._moves`.
        random_state : RandomState

        Returns
        -------
        fit : Fit
        knowledge : Knowledge
        """
        raise NotImplementedError
