"""The contract of everything that a posterior may be given."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.metadata_routing import UNUSED

from skgp_sparse.posteriors._job import Job
from skgp_sparse.solvers import Fit


class Candidate(NamedTuple):
    """What became of a posterior that was tried, on rows that were held aside.

    Parameters
    ----------
    name : str
        Of the posterior.
    density : float
        Mean log density of the targets, in units of y; of labels, mean log probability.
    rmse : float
        Root mean squared error of the predicted means, in units of y; nan where rows have a
        likelihood.
    seconds : float
        That it took.

    Examples
    --------
    >>> from skgp_sparse.posteriors import Candidate
    >>> Candidate("inducing", density=-0.4, rmse=0.36, seconds=12.0)
    Candidate(name='inducing', density=-0.4, rmse=0.36, seconds=12.0)
    """

    name: str
    density: float
    rmse: float
    seconds: float


class Selection(list):
    """The candidates that a fit has tried, and the plan that led to them.

    Parameters
    ----------
    candidates : iterable of Candidate
        What was tried, in order; nothing where there was nothing to choose by trial.
    plan : str, default=""
        Which posterior was fitted or tried, and why; empty after `partial_fit`.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse import SparseGPRegressor
    >>> X = np.linspace(0, 5, 50)[:, None]
    >>> SparseGPRegressor().fit(X, np.sin(X[:, 0])).selection_
    Selection([], plan='exact: 50 distinct rows are at most 2000')
    """

    def __init__(self, candidates: Iterable[Candidate] = (), plan: str = "") -> None:
        super().__init__(candidates)
        self.plan = plan

    def __repr__(self) -> str:
        return f"Selection({super().__repr__()}, plan={self.plan!r})"


class Strategy(BaseEstimator, ABC):
    """What a posterior is given: the contract of all values of `posterior`.

    A strategy fits a `Job` and returns a `Fit`, whose `posterior` is a `Process`. It holds what
    concerns itself alone as parameters, and never changes. It does not change the job either; the
    process may keep rows of the job, if it says so in `n_rows_kept`.

    Attributes
    ----------
    name : str
        Of the parameter `posterior` of an estimator.
    keeps_rows : bool
        Whether rows that arrive later are kept, as predictions need them.
    has_bound : bool
        Whether a fit depends on `bound`, where not every row is an inducing point.
    width : int or None
        The number of features of a row; None: that of the inducing points that are wanted.
    takes_missing : bool
        Whether values of X may be missing, where the kernel has a part for them.
    learns_metric : bool
        Whether columns may be mixed, where the kernel allows it.
    is_exact_for_few : bool
        Whether the exact process takes its place where few rows are distinct.

    Examples
    --------
    >>> from skgp_sparse.posteriors import InducingPoints, Strategy
    >>> posterior = InducingPoints(n_mean=2000)
    >>> isinstance(posterior, Strategy), posterior.name, posterior.get_params()
    (True, 'inducing', {'n_mean': 2000, 'tight_variance': False})
    """

    name: str = ""
    keeps_rows: bool = False
    has_bound: bool = True
    width: int | None = None
    takes_missing: bool = True
    learns_metric: bool = False
    is_exact_for_few: bool = False
    __metadata_request__fit = {"job": UNUSED, "random_state": UNUSED}  # nothing to route

    @abstractmethod
    def fit(self, job: Job, random_state: np.random.RandomState) -> Fit:
        """Fit a job.

        Parameters
        ----------
        job : Job
            Rows, kernel, model, and how hyperparameters and inducing points are looked for.
        random_state : RandomState
            Of all that is drawn.

        Returns
        -------
        Fit
            Kernel, objective and `Process`.
        """

    def check_parameters(self, name: str) -> None:
        """Raise unless the parameters can be used.

        Parameters
        ----------
        name : str
            Of the estimator, for errors.

        Raises
        ------
        TypeError, ValueError
            If a parameter has another type or value than it should.
        """

    @abstractmethod
    def refuses(self, family: Any) -> str | None:
        """Say why it cannot be fitted to what rows are.

        Parameters
        ----------
        family : Family
            What rows are, and the parameters of the estimator.

        Returns
        -------
        str or None
            What follows "posterior=..." in an error; None if it can.
        """

    def refuses_later_rows(self) -> str | None:
        """Say why it cannot learn from rows that arrive later.

        Returns
        -------
        str or None
            Part of an error; None if it can.
        """
        return f"posterior={self.name!r} takes all rows at once"

    def resume(
        self, job: Job, knowledge: Any, action: Any, random_state: np.random.RandomState
    ) -> tuple[Fit, Any]:
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
            Of all that is drawn.

        Returns
        -------
        fit : Fit
            Kernel, objective and `Process`.
        knowledge : Knowledge
            What the next call may go on from.
        """
        raise NotImplementedError
