"""The estimator `BayesianGPLVM`: columns of targets that share latent inputs.

Unlike in an `ObservationModel`, whose rows have inputs, all that is given here are targets, some of
which may be missing. Columns are centred and have one common unit, so that their relative sizes
count.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from numbers import Integral
from typing import Any, Literal, TypeVar, overload

import numpy as np
import numpy.typing as npt
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Kernel, WhiteKernel
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from skgp_sparse import inducing, kernels
from skgp_sparse._estimator import Progress, VersionedPickle, unchanged_on_failure
from skgp_sparse.bounds import Bound
from skgp_sparse.choices.choices import resolve_bound
from skgp_sparse.choices.parameter_checks import check_latent
from skgp_sparse.data import checks
from skgp_sparse.data.arrays import ArrayDataset
from skgp_sparse.engine.basis import InducingBasis, Options
from skgp_sparse.engine.feature_posterior import Normals
from skgp_sparse.engine.normal_inputs import patterns_of
from skgp_sparse.exceptions import warn
from skgp_sparse.ground import validation
from skgp_sparse.ground.linalg import Jitter
from skgp_sparse.ground.parallel import resolve_n_jobs, single_threaded_blas
from skgp_sparse.ground.validation import Array, AutoName, BoundName, MaybeArray, RandomStateLike
from skgp_sparse.inference.contracts import Settings, VectorFunction
from skgp_sparse.inference.latent_queries import LatentModel, locate, principal_components
from skgp_sparse.inference.objectives import LatentObjective
from skgp_sparse.inference.optimizers import End, Maximum, climb
from skgp_sparse.solvers import LBFGS, fit_at, warn_unless_converged
from skgp_sparse.targets.model import deadline_of

_NOISE, _NOISE_BOUNDS = 0.05, (1e-6, 1e3)  # in units of the mean square of the targets
_SCALE_BOUNDS = (1e-3, 1e5)  # of the length scales, where positions have variance 1
_VARIANCES_AND_SLOW = (0.01, 0), (0.1, 100), (1.0, 100)  # of starts, in turns; see `_climb_from`


def _climb_from(
    objective: LatentObjective, kernel: Kernel, settings: Settings, slow: int
) -> tuple[Maximum, LatentObjective, Kernel]:
    """The `Maximum` with its objective and kernel, after slow iterations at first.

    Where the optimiser first takes all parameters in one unit, it takes long to bring ``q`` and the
    inducing points where they belong, and more components stay on.
    """
    function = VectorFunction(objective, kernel, move_basis=True)
    maximum = begun = climb(function, settings, max_iter=min(slow, settings.max_iter), alike=True)
    if begun.end is not End.STOPPED and slow < settings.max_iter:
        maximum = climb(function, settings, begun.x, max_iter=settings.max_iter - slow)
        maximum = maximum._replace(n_iter=begun.n_iter + maximum.n_iter)
    return maximum, *function.at(maximum.x)


def in_order(objective: LatentObjective, kernel: Kernel) -> tuple[LatentObjective, Kernel]:
    """The fit with components sorted by their KL divergence, each with a positive peak."""
    kernel, mean = clone(kernel), objective.inputs.mean
    order = np.argsort(-objective.divergences().sum(axis=0), kind="stable")
    signs = np.where(mean[np.abs(mean).argmax(axis=0), np.arange(mean.shape[1])] < 0, -1.0, 1.0)
    for name, value in kernel.get_params().items():
        of_columns = name.split("__")[-1] in ("length_scale", "length_scale_bounds")
        has_one_each = np.ndim(value) == (2 if name.endswith("bounds") else 1)
        if of_columns and has_one_each and len(value) == len(order):
            kernel.set_params(**{name: np.asarray(value)[order]})
    moved = objective.at(
        basis=(objective.basis.points * signs)[:, order],
        shift=(objective.shift * signs)[:, order],
        log_ratio=objective.log_ratio[:, order],
    )
    return moved, kernel


_JITTER = 1e-6  # as positions move, inducing points may come close to each other
_TOL = 1e-4  # the tolerance of "auto", in nats per entry of X that was observed
_LOOSE = 1e-3  # gradient of a row that has converged well enough not to be worth a warning

_Self = TypeVar("_Self", bound="BayesianGPLVM")


@dataclass(eq=False, repr=False)
class BayesianGPLVM(
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    VersionedPickle,
    validation.CallbackSupportMixin,
    BaseEstimator,
):
    r"""Bayesian Gaussian process latent variable model: nonlinear principal components.

    Every column of X is an unknown function of a few latent components, with Gaussian noise. The
    functions are Gaussian processes with one kernel, and each row has a latent position whose
    prior is N(0, I). The positions are integrated out approximately, with a normal distribution
    ``q`` for each row, and ``m`` inducing points ``Z`` stand for the functions [1]_. The fit
    maximises

    .. math:: \sum_d \log N(x_d; 0, \ldots) - \tfrac12 \sum_{i,d} \log(1 + r_i / \sigma^2)
        - \sum_i \mathrm{KL}[q_i \| N(0, I)],

    a lower bound of the log marginal likelihood, over all of ``q``, ``Z`` and the hyperparameters.
    The second term is that of the tighter bound of [2]_, appendix B.5, where :math:`r_i` is the
    variance that the inducing points leave unexplained. Components that the data do not need can
    switch themselves off: ``q`` returns to the prior. An iteration takes O(n m² d) time for n rows
    and d components, and a fit needs O(n d + m²) memory beyond the data.

    Missing entries are NaN, in `fit` and in `transform`. They are integrated out.

    Parameters
    ----------
    n_components : int, default=2
        The number of latent components.
    kernel : kernel object, default=None
        The kernel of the functions. If None is passed, the kernel ``ConstantKernel() * RBF()`` with
        one length scale for each component is used, whose initial values are computed from the
        data. One `RBF` times constants, plus constants, has a closed form. Every other kernel with
        a derivative rule is integrated numerically, which takes 9 to 128 times as long. A
        `WhiteKernel` in it models the noise.
    bound : str or Bound, default="auto"
        The training objective. It can be "titsias" (also called "vfe"), which is the bound of [1]_,
        "titsias_new", "artemev", "dtc", or an instance of `skgp_sparse.bounds.Bound` that does
        not count residual variance as noise. "auto" is "titsias_new".
    n_inducing : int, default=50
        The number of inducing points. If it is at least the number of rows, every row has one.
    noise_variance : float or "learn", default="learn"
        The variance of the noise, the same in all columns, in units of X².
    n_restarts_optimizer : int, default=2
        The number of further starts of the optimizer. The bound has many optima, and the highest
        one is kept. Every start begins at the principal components, with other inducing points. The
        initial variances of ``q`` are 0.01, 0.1 and 1 in turns, of which large ones often keep
        fewer components.
    max_iter : int, default=3000
        The maximum number of L-BFGS iterations of each start.
    tol : float or "auto", default="auto"
        The tolerance of the stopping criterion. A start ends when six iterations together have
        improved the bound by less than `tol` nats for each entry of X. "auto" is 1e-4.
    time_limit : float, default=None
        Seconds after which no further start begins, and the optimizer stops after the iteration
        that is under way. None means no limit; with one, the result depends on the speed of the
        machine.
    random_state : int, RandomState instance or None, default=None
        Controls the choice of the initial inducing points, and the initial positions beyond the
        rank of X. Pass an int for reproducible results across multiple function calls.
    n_jobs : int, default=None
        The number of threads that process blocks of rows. None means as many threads as BLAS may
        use. The results do not depend on it.
    verbose : int, default=0
        Controls the verbosity. If it is positive, the bound is printed every `verbose` iterations.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        Means of the latent positions of the training rows.
    embedding_std_ : ndarray of shape (n_samples, n_components)
        Standard deviations of these positions.
    relevances_ : ndarray of shape (n_components,)
        What a row says about each component, as the mean divergence of its position from the prior,
        in nats. It is 0 for a component that is switched off. Components are sorted by it, and the
        largest position in absolute value of each component is positive.
    kernel_ : kernel object
        The kernel with optimised hyperparameters, noise included, of the columns of X without their
        means and divided by `scale_`.
    noise_variance_ : float
        The variance of the noise, in units of X².
    inducing_points_ : ndarray of shape (m, n_components)
        The inducing points, in the latent space.
    n_inducing_ : int
        The number of inducing points.
    mean_ : ndarray of shape (n_features,)
        Means of the columns, missing entries left out.
    scale_ : float
        Root mean square of all entries without the means of their columns.
    log_marginal_likelihood_value_ : float
        The value of the bound, for the standardised entries of all rows.
    n_iter_ : int
        The number of iterations of the start that was kept.
    n_features_in_ : int
        Number of features seen during `fit`.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of features seen during `fit`. Defined only when X has feature names that are all
        strings.

    See Also
    --------
    sklearn.decomposition.FactorAnalysis : A linear model with one noise variance for each column.

    Notes
    -----
    ``fit_transform`` is `fit` followed by `transform`. It differs from `embedding_` by what the fit
    lacks to its optimum.

    References
    ----------
    .. [1] Titsias and Lawrence (2010). "Bayesian Gaussian process latent variable model." AISTATS.
    .. [2] Titsias (2025). "New bounds for sparse variational Gaussian processes." ICML.

    Examples
    --------
    A circle in three dimensions has two components, and a missing entry is found again:

    >>> import numpy as np
    >>> from skgp_sparse import BayesianGPLVM
    >>> t = np.linspace(0, 2 * np.pi, 60, endpoint=False)
    >>> X = np.column_stack([np.cos(t), np.sin(t), np.cos(t) + np.sin(t)])
    >>> X += 0.01 * np.random.RandomState(0).normal(size=X.shape)
    >>> model = BayesianGPLVM(n_inducing=15, random_state=0).fit(X)
    >>> position = model.transform([[0.6, 0.8, np.nan]])
    >>> model.inverse_transform(position).round(1)
    array([[0.6, 0.8, 1.4]])
    """

    embedding_: Array = field(init=False)
    embedding_std_: Array = field(init=False)
    relevances_: Array = field(init=False)
    kernel_: Kernel = field(init=False)
    noise_variance_: float = field(init=False)
    inducing_points_: Array = field(init=False)
    n_inducing_: int = field(init=False)
    mean_: Array = field(init=False)
    scale_: float = field(init=False)
    log_marginal_likelihood_value_: float = field(init=False)
    n_iter_: int = field(init=False)
    n_components: int = 2
    kernel: Kernel | None = None
    _: KW_ONLY
    bound: BoundName | Bound = "auto"
    n_inducing: int = 50
    noise_variance: float | Literal["learn"] = "learn"
    n_restarts_optimizer: int = 2
    max_iter: int = 3000
    tol: float | AutoName = "auto"
    time_limit: float | None = None
    random_state: RandomStateLike = None
    n_jobs: int | None = None
    verbose: int = 0

    def fit(self: _Self, X: npt.ArrayLike, y: None = None) -> _Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, in which NaN marks missing entries.
        y : None
            Ignored. It exists for the interface of scikit-learn.

        Returns
        -------
        self : BayesianGPLVM
            The fitted model.

        Raises
        ------
        ValueError
            If a parameter cannot be used, or if a column has no entry.
        """
        with unchanged_on_failure(self), np.errstate(all="ignore"):
            return self._fit(X)

    @overload
    def transform(self, X: npt.ArrayLike, return_std: Literal[False] = ...) -> Array: ...

    @overload
    def transform(self, X: npt.ArrayLike, return_std: Literal[True]) -> tuple[Array, Array]: ...

    def transform(self, X: npt.ArrayLike, return_std: bool = False) -> Any:
        """Find the latent positions of rows, each on its own.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, in which NaN marks missing entries. A row without any entry is at the prior.
        return_std : bool, default=False
            If True, the standard deviations of the positions are returned along with the means.

        Returns
        -------
        positions : ndarray of shape (n_samples, n_components)
            Means of the latent positions.
        std : ndarray of shape (n_samples, n_components)
            Their standard deviations. Only returned when `return_std` is True.
        """
        (mean, variance), *_ = self._locate(X)
        return (mean, np.sqrt(variance)) if return_std else mean

    @overload
    def inverse_transform(
        self, X: npt.ArrayLike, X_std: MaybeArray = ..., return_std: Literal[False] = ...
    ) -> Array: ...

    @overload
    def inverse_transform(
        self, X: npt.ArrayLike, X_std: MaybeArray, return_std: Literal[True]
    ) -> tuple[Array, Array]: ...

    @overload
    def inverse_transform(
        self, X: npt.ArrayLike, X_std: MaybeArray = ..., *, return_std: Literal[True]
    ) -> tuple[Array, Array]: ...

    def inverse_transform(
        self, X: npt.ArrayLike, X_std: MaybeArray = None, return_std: bool = False
    ) -> Any:
        """Predict rows at latent positions.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
            Latent positions, or their means.
        X_std : array-like of shape (n_samples, n_components), default=None
            Standard deviations of the positions. Predictions are expectations over the positions
            then. None means that the positions are known.
        return_std : bool, default=False
            If True, the standard deviations of the entries, noise included, are returned along with
            the means.

        Returns
        -------
        rows : ndarray of shape (n_samples, n_features)
            Means of the entries, in units of the training rows.
        std : ndarray of shape (n_samples, n_features)
            Standard deviations of the entries. Only returned when `return_std` is True.

        Raises
        ------
        ValueError
            If X does not have as many columns as there are components, or `X_std` another shape
            than X, or a negative entry.
        """
        check_is_fitted(self)
        name, shape = f"{type(self).__name__}.inverse_transform", self.embedding_.shape
        given: Array = check_array(X, dtype=np.float64, input_name="X")
        if given.shape[1] != shape[1]:
            raise ValueError(
                f"{name}: X must have a column for each of the {shape[1]} components. Got an array "
                f"of shape {given.shape}."
            )
        std = 0.0 * given if X_std is None else checks.check_std(X_std, given, "X_std", name)
        inputs = Normals(given, std**2)
        with np.errstate(all="ignore"):
            mean, variance = self._model.posterior.predict(inputs, resolve_n_jobs(self.n_jobs))
        mean = self.mean_ + self.scale_ * mean
        if not return_std:
            return mean
        return mean, np.sqrt(self.scale_**2 * variance + self.noise_variance_)

    def score_samples(self, X: npt.ArrayLike) -> Array:
        """Compute a lower bound of the log density of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows. A row with missing entries is judged by the others.

        Returns
        -------
        ndarray of shape (n_samples,)
            Bounds in nats, of densities in units of X.
        """
        _, value, mask = self._locate(X)
        return value - mask.sum(axis=1) * np.log(self.scale_)

    def score(self, X: npt.ArrayLike, y: None = None) -> float:
        """Compute the mean of `score_samples`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : None
            Ignored. It exists for the interface of scikit-learn.

        Returns
        -------
        float
            Mean bound of the log density of a row, in nats.
        """
        return float(np.mean(self.score_samples(X)))

    def sample(self, n_samples: int = 1, random_state: RandomStateLike = 0) -> Array:
        """Draw rows from the fitted model, at positions that are drawn from the prior.

        Parameters
        ----------
        n_samples : int, default=1
            Number of rows.
        random_state : int, RandomState instance or None, default=0
            Determines random number generation. Pass an int for reproducible results across
            multiple function calls.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Rows, with their noise.
        """
        check_is_fitted(self)
        name = f"{type(self).__name__}.sample"
        validation.check_number(n_samples, "n_samples", name, Integral, 1)
        generator = check_random_state(random_state)
        positions = generator.normal(size=(n_samples, self.embedding_.shape[1]))
        mean, std = self.inverse_transform(positions, return_std=True)
        return mean + std * generator.normal(size=mean.shape)

    @validation.with_callbacks
    def _fit(self, X: npt.ArrayLike) -> BayesianGPLVM:
        name = type(self).__name__
        check_latent(self, name)
        bound = resolve_bound(self.bound, name)
        must = "one that does not count residual variance as noise, such as 'titsias_new'"
        validation.require(not np.any(bound.noise_share), "bound", self.bound, name, must)
        rows = self._rows(X, reset=True)
        self.mean_ = np.nanmean(rows, axis=0)
        scale = np.sqrt(np.nanmean((rows - self.mean_) ** 2))
        rounding = 4.0 * np.finfo(float).eps * np.abs(self.mean_).max()
        self.scale_ = float(scale) if scale > rounding else max(rounding, 1.0)
        reporter = validation.IterationReporter(self, X, None, self.max_iter)
        settings = self._settings(Progress(self, reporter), name)
        with single_threaded_blas():
            maximum, *found = self._best(*self._standardised(rows), bound, settings)
            latent, kernel = in_order(*found)
            fit = fit_at(latent, kernel, maximum.n_iter)
        warn_unless_converged(maximum, settings)
        self.embedding_, variance = latent.inputs
        self.embedding_std_ = np.sqrt(variance)
        self.relevances_ = latent.divergences().mean(axis=0)
        self.kernel_, self.n_iter_ = kernel, fit.n_iter
        self.inducing_points_ = latent.inducing_points
        self.n_inducing_ = len(self.inducing_points_)
        self.log_marginal_likelihood_value_ = float(fit.value)
        posterior: Any = fit.posterior
        self._model = LatentModel(bound, posterior, latent.inputs)
        self.noise_variance_ = float(self._model.noise * self.scale_**2)
        reporter.end()
        return self

    def _settings(self, progress: Progress, name: str) -> Settings:
        """How the fit is looked for."""
        memory = get_config()["working_memory"] * 2**20
        return Settings(
            solver=LBFGS(),
            n_restarts=self.n_restarts_optimizer,
            max_iter=self.max_iter,
            tol=_TOL if isinstance(self.tol, str) else self.tol,
            start_rows=0,
            options=Options(Jitter(_JITTER), resolve_n_jobs(self.n_jobs), memory),
            progress=progress,
            deadline=deadline_of(self, name),
        )

    def _initial_kernel(self, length_scale: Array) -> Kernel:
        """The kernel to begin with, its noise included."""
        kernel, noise = self.kernel, self.noise_variance
        if kernel is None:
            kernel = ConstantKernel(1.0) * RBF(length_scale, _SCALE_BOUNDS)
        if kernels.has_noise(kernel):
            return clone(kernel)
        if isinstance(noise, str):
            return clone(kernel) + WhiteKernel(_NOISE, _NOISE_BOUNDS)
        return clone(kernel) + WhiteKernel(noise / self.scale_**2, "fixed")

    def _best(
        self, y: Array, mask: validation.Bools, bound: Bound, settings: Settings
    ) -> tuple[Maximum, LatentObjective, Kernel]:
        """The `Maximum` of the best start from principal components, its objective and kernel."""
        random_state, found = check_random_state(self.random_state), []
        mean, length_scale = principal_components(y, self.n_components, random_state)
        kernel = self._initial_kernel(length_scale)
        patterns, of_column = patterns_of(mask)
        for k in range(settings.n_restarts + 1):
            variance, slow = _VARIANCES_AND_SLOW[k % len(_VARIANCES_AND_SLOW)]
            few = self.n_inducing < len(mean)
            Z = inducing.k_means(mean, self.n_inducing, kernel, random_state) if few else mean
            objective = LatentObjective(
                rows=ArrayDataset(np.empty((len(y), 0)), y),
                bound=bound,
                basis=InducingBasis(Z),
                prior=Normals(np.zeros_like(mean), np.ones_like(mean)),
                shift=mean,
                log_ratio=np.full_like(mean, np.log(variance)),
                patterns=patterns,
                of_column=of_column,
                options=settings.options,
            )
            about = f"start {k + 1}" if settings.n_restarts else ""
            tell = settings.progress and partial(settings.progress, about=about)
            found.append(_climb_from(objective, kernel, settings._replace(progress=tell), slow))
            if found[-1][0].end is End.STOPPED:
                break
        return max(found, key=lambda pair: pair[0].value)

    def _rows(self, X: npt.ArrayLike, reset: bool) -> Array:
        """Rows as an array, in which missing entries are NaN."""
        name = type(self).__name__
        checks.check_readable(name, X=X)
        checks.check_numbers(X, "X", name)
        least = 2 if reset else 1
        options = {"dtype": np.float64, "ensure_all_finite": "allow-nan"}
        rows: Array = validate_data(self, X, reset=reset, ensure_min_samples=least, **options)
        empty = np.flatnonzero(np.isnan(rows).all(axis=0)) if reset else np.zeros(0)
        if len(empty):
            raise ValueError(
                f"{name}: column {empty[0]} of X has no entry that is not NaN. Remove the "
                f"{len(empty)} columns of this kind."
            )
        return rows

    def _standardised(self, rows: Array) -> tuple[Array, validation.Bools]:
        """Entries (n, p) in units of the model, 0 where they are missing, and which there are."""
        mask = ~np.isnan(rows)
        return np.where(mask, (rows - self.mean_) / self.scale_, 0.0), mask

    def _locate(self, X: npt.ArrayLike) -> tuple[Normals, Array, validation.Bools]:
        """Positions of rows, their bounds (n,), and which entries they have."""
        check_is_fitted(self)
        y, mask = self._standardised(self._rows(X, reset=False))
        with single_threaded_blas(), np.errstate(all="ignore"):
            places, value, slope = locate(self._model, y, mask, resolve_n_jobs(self.n_jobs))
        if stuck := np.count_nonzero(~(slope <= _LOOSE)):
            warn(
                f"The positions of {stuck} rows have not converged. Their entries may be far from "
                "those of all training rows. Check these rows.",
                ConvergenceWarning,
            )
        return places, value, mask

    @property
    def _n_features_out(self) -> int:
        return self.embedding_.shape[1]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
