"""The contract of everything that a posterior may be given."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.gaussian_process.kernels import Kernel
from sklearn.utils.metadata_routing import UNUSED

from skgp_sparse._ground.validation import as_text, is_auto
from skgp_sparse.bounds import Bound
from skgp_sparse.posteriors._job import Action, Job, WarmStart
from skgp_sparse.solvers import Fit, starts_on_subset


class Candidate(NamedTuple):
    """Candidate posterior that was tried, with its scores on held-out rows.

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


class Request(NamedTuple):
    """Choices of the user of an estimator, as far as the choice of a posterior depends on them.

    Parameters
    ----------
    posterior : PosteriorMethod
        Posterior method that was chosen; `Auto` leaves the choice to the plan.
    kernel : sklearn kernel or None
        Kernel that was passed, None for the default one.
    likelihood : str or Likelihood
        Likelihood that was passed.
    has_sites : bool
        Whether rows have a likelihood that is not Gaussian.
    n_latent : int
        Number of latent values of a row.
    bound : str or Bound
        Bound that was passed.
    resolved_bound : Bound or None
        Bound that this stands for, None where rows have sites.
    n_inducing : int or None
        Number of inducing points, None where nobody asked for one.
    inducing_init : str, callable or ndarray
        Initial inducing points that were asked for.
    solver : str or Solver
        Solver that was passed.
    optimizer : str, callable or None
        Optimizer that was passed.
    metric : int or str
        Metric that was passed.
    """

    posterior: "PosteriorMethod"
    kernel: Kernel | None = None
    likelihood: Any = "gaussian"
    has_sites: bool = False
    n_latent: int = 1
    bound: Any = "auto"
    resolved_bound: Bound | None = None
    n_inducing: int | None = None
    inducing_init: Any = "auto"
    solver: Any = "auto"
    optimizer: Any = "fmin_l_bfgs_b"
    metric: int | str = "auto"

    @property
    def points_are_given(self) -> bool:
        """Whether the inducing points are an array of the user."""
        return not (isinstance(self.inducing_init, str) or callable(self.inducing_init))

    @property
    def asks_for_points(self) -> bool:
        """Whether any parameter was chosen that is one of inducing points."""
        given = self.bound, self.inducing_init, self.solver
        return self.n_inducing is not None or not all(is_auto(one) for one in given)

    @property
    def starts_on_subset(self) -> bool:
        """Whether the solver begins with a small exact fit."""
        return starts_on_subset(self.solver, self.optimizer)


class PosteriorMethod(BaseEstimator, ABC):
    """Method that computes a posterior: the contract of all values of `posterior`.

    A posterior method fits a `Job` and returns a `Fit`, whose `posterior` is a `Posterior`. It
    holds what concerns itself alone as parameters, and never changes. It does not change the job
    either; the posterior may keep rows of the job, if it says so in `n_rows_kept`.

    Attributes
    ----------
    name : str
        Name that users see as `posterior_`; "" if it is that of the posterior.
    uses_bound : bool
        Whether a fit depends on `bound`; where it does not, a bound that was chosen is refused.
    takes_learned_noise : bool
        Whether the variance of the noise may vary with the inputs.
    takes_missing : bool
        Whether values of X may be missing, where the kernel has a part for them.
    learns_metric : bool
        Whether columns may be mixed, where the kernel allows it.
    is_exact_for_few : bool
        Whether the exact process takes its place where few rows are distinct.
    exact_rows : int or None
        Number of distinct rows up to which it does; None: as the plan has it.
    width : int or None
        Number of features of a row; None: that of the inducing points that are wanted.
    remedy : str
        What a user may do to have what the method does not take.

    Examples
    --------
    >>> from skgp_sparse import SparseGPRegressor
    >>> from skgp_sparse.posteriors import Exact, PosteriorMethod
    >>> class SubsetOfData(PosteriorMethod):
    ...     name = "subset"
    ...
    ...     def __init__(self, n_rows=200):
    ...         self.n_rows = n_rows
    ...
    ...     def fit(self, job, random_state):
    ...         few = job.rows.sampled(job.rows.sample(self.n_rows, random_state))
    ...         return Exact().fit(job._replace(rows=few), random_state)
    >>> X = [[0.0], [1.0], [2.0], [3.0]]
    >>> SparseGPRegressor(posterior=SubsetOfData(3)).fit(X, [0.0, 1.0, 0.0, 1.0]).posterior_
    'subset'
    """

    name: str = ""
    uses_bound: bool = False
    takes_learned_noise: bool = False
    takes_missing: bool = True
    learns_metric: bool = False
    is_exact_for_few: bool = False
    exact_rows: int | None = None
    width: int | None = None
    remedy: str = "Set posterior to 'exact', 'inducing' or 'neighbors'."
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
            Kernel, objective and `Posterior`.
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

    def with_points(self, n_inducing: int) -> "PosteriorMethod":
        """Return the method that is fitted where there are so many inducing points.

        Parameters
        ----------
        n_inducing : int
            Number of inducing points.

        Returns
        -------
        PosteriorMethod
            By default, the method itself.
        """
        return self

    def refuses(self, request: Request) -> str | None:
        """Say why it cannot be fitted to what rows are; by default, it can.

        Parameters
        ----------
        request : Request
            What the user of the estimator chose.

        Returns
        -------
        str or None
            What follows "posterior=..." in an error; None if it can.
        """
        return None

    def refuses_later_rows(self) -> str | None:
        """Say why it cannot learn from rows that arrive later.

        Returns
        -------
        str or None
            Part of an error; None if it can.
        """
        return f"posterior={self.name!r} takes all rows at once"

    def resume(
        self,
        job: Job,
        warm_start: WarmStart | None,
        action: Action,
        random_state: np.random.RandomState,
    ) -> tuple[Fit, WarmStart]:
        """Learn from rows that arrive later.

        Parameters
        ----------
        job : Job
            Of the rows as they are now.
        warm_start : WarmStart or None
            What the last call has learned.
        action : Action
            What the rows ask for; see `skgp_sparse.posteriors._job`.
        random_state : RandomState
            Of all that is drawn.

        Returns
        -------
        fit : Fit
            Kernel, objective and `Posterior`.
        warm_start : WarmStart
            What the next call may go on from.
        """
        raise NotImplementedError


@contextmanager
def errors_named(method: PosteriorMethod) -> Iterator[None]:
    """Context in which errors of a user's method name it, with its parameters.

    Parameters
    ----------
    method : PosteriorMethod
        What is fitted. Errors of methods of this package are their own.
    """
    given = getattr(method, "posterior_method", method)  # the one inside, of `InLearnedMetric`
    try:
        yield
    except Exception as error:
        text, *others = error.args or ("",)
        if not type(given).__module__.startswith("skgp_sparse.") and isinstance(text, str):
            error.args = (f"posterior={as_text(given)}: {text or 'its fit failed.'}", *others)
        raise
