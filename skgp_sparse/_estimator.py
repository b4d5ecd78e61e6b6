"""The base of all estimators: fits, streams, queries, fitted attributes, failing without a trace.

`fit` reads rows, makes jobs of them, takes the steps that their plans name before and after the
search, and stores the results; `partial_fit` reads rows and updates a stream. What rows are is up
to the `ObservationModel` of the estimator, and what a fit has learned is its `Fitted`.
"""

from __future__ import annotations  # short names of types in help

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from time import monotonic
from typing import Any, Literal, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.gaussian_process.kernels import CompoundKernel, Kernel
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from skgp_sparse._fitted import Fitted
from skgp_sparse._version import __version__
from skgp_sparse.bounds import Bound
from skgp_sparse.choices.parameter_checks import check_parameters, parameters_of
from skgp_sparse.choices.plan import is_chosen
from skgp_sparse.data import checks
from skgp_sparse.data.checks import RawRows, Rules
from skgp_sparse.data.columns import FROM_DTYPE, NUMBER, ColumnTypes, as_table, order_of, types_of
from skgp_sparse.data.dataset import Dataset
from skgp_sparse.data.door import OpenSource, check_query, opened, read, read_chunk
from skgp_sparse.data.moments import TargetScaler
from skgp_sparse.engine.posteriors_around import missing_entries, spread_values
from skgp_sparse.explain.leave_one_out import why_no_rows
from skgp_sparse.ground import validation
from skgp_sparse.ground.parallel import single_threaded_blas
from skgp_sparse.ground.validation import Array, CallbackSupportMixin, MaybeArray, as_text, is_name
from skgp_sparse.hyperpriors import AnyPrior
from skgp_sparse.inference.contracts import Solver, split_thetas
from skgp_sparse.kernels import Missing, parts, touched
from skgp_sparse.likelihoods import Censored, Likelihood
from skgp_sparse.methods.contract import Fits
from skgp_sparse.posteriors import PosteriorMethod
from skgp_sparse.targets.model import ObservationModel, fit_problems, one_or_all
from skgp_sparse.targets.streams import StreamState, advance, new_stream, stream_of


class Progress:
    """Prints how an optimiser proceeds, and tells callbacks, any of which stops all runs."""

    def __init__(self, estimator: BaseEstimator, reporter: validation.IterationReporter | None):
        self.name, self.verbose = type(estimator).__name__, int(estimator.verbose)
        self.reporter, self.asked_to_stop = reporter, False

    def __call__(
        self, k: int, value: float = 0.0, about: str = "", note: str = "", quantity: str = "bound"
    ) -> bool:
        """Tell of the k-th iteration, by its value or a note; return whether to stop."""
        if self.verbose and k % self.verbose == 0:
            where = f"{about}, iteration" if about else "iteration"
            print(f"[{self.name}] {where} {k}: {note or f'{quantity} {value:.6g}'}")
        if self.reporter is not None and self.reporter.report(k, about):
            self.asked_to_stop = True
        return self.asked_to_stop

    def tell(self, text: str) -> None:
        """Print a sentence, where something is printed."""
        if self.verbose:
            print(f"[{self.name}] {text}")


_KEPT = "kernel bound likelihood mean alpha normalize_y multi_class categorical_features".split()
# parameters on which sums and sites of earlier rows depend
_OF_VERSION = "skgp_sparse_version"  # in pickles


@contextmanager
def unchanged_on_failure(estimator: object) -> Iterator[None]:
    """Whatever interrupts a fit, the estimator is as it was before."""
    before = vars(estimator).copy()
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise


class VersionedPickle:
    """A mixin: pickles name the version of the package, and another version refuses them."""

    def __getstate__(self) -> dict:
        return {**super().__getstate__(), _OF_VERSION: __version__}  # type: ignore[dict-item]

    def __setstate__(self, state: dict) -> None:
        version = state.get(_OF_VERSION, "before 0.1.0")
        if version != __version__:
            raise ValueError(
                f"This pickle of {type(self).__name__} was made by skgp_sparse {version}, and this "
                f"is {__version__}, whose fitted estimators may be different. Install the version "
                "that made it, or fit again."
            )
        super().__setstate__({key: one for key, one in state.items() if key != _OF_VERSION})  # type: ignore[misc]


def kept_parameters(estimator: object) -> dict[str, str]:
    """Parameters that may not change before `partial_fit` goes on, as text."""
    given = parameters_of(estimator)
    known = {name: given[name] for name in (*_KEPT, "class_weight") if name in given}
    return {name: "an array" if np.ndim(one) else repr(one) for name, one in known.items()}


@dataclass(eq=False, repr=False)
class ParametersOfEstimators:
    """Parameters of every estimator, stored as they are given."""

    kernel: Kernel | None = None
    _: KW_ONLY
    bound: validation.BoundName | Bound = "auto"
    likelihood: str | Likelihood = "gaussian"
    mean: Literal["auto", "linear", "boosting"] | Any | None = "auto"
    posterior: validation.PosteriorName | PosteriorMethod = "auto"
    n_inducing: int | validation.AutoName = "auto"
    inducing_init: validation.InitialiserName | ArrayLike | Callable[..., Any] = "auto"
    optimize_inducing: bool = True
    optimizer: validation.Optimizer = "fmin_l_bfgs_b"
    solver: Literal["auto", "lbfgs", "stochastic"] | Solver = "auto"
    n_restarts_optimizer: int = 0
    max_iter: int = 1000
    metric: Literal["auto", "ard", "full"] = "auto"
    prior: Literal["auto", "scaled"] | AnyPrior | list[AnyPrior] | None = "auto"
    time_limit: float | None = None
    tol: float | validation.AutoName = "auto"
    categorical_features: ArrayLike | None = "from_dtype"
    random_state: validation.RandomStateLike = None
    n_jobs: int | None = None
    verbose: int = 0


_NAMES = "feature_importances_", "sobol_first_", "sobol_error_"
_OWNERS = {  # modules of objects that a parameter may be, whose parameters can be set
    "kernel": "sklearn.gaussian_process.kernels",
    **{name: f"skgp_sparse.{name}s" for name in ("bound", "likelihood", "posterior", "solver")},
    "prior": "skgp_sparse.hyperpriors",
}


_Self = TypeVar("_Self", bound="SparseGP")


class SparseGP(ParametersOfEstimators, VersionedPickle, CallbackSupportMixin, BaseEstimator):
    """Base class of the estimators; a subclass says what its rows are (`_observations`)."""

    kernel_: Kernel
    inducing_points_: Array
    n_inducing_: int
    posterior_: str
    metric_: Array | None
    variance_factor_: float
    log_marginal_likelihood_value_: float
    evidence_per_row_: float
    fit_seconds_: float
    n_iter_: int
    jitter_: float
    _fitted: Any = None  # a `Fitted` once there is something to know
    _compares_near_rows = True  # where a fit explains no more than a constant

    def _fit(self, raw: RawRows) -> Any:
        # NumPy need not warn: the results are checked
        name = type(self).__name__
        with unchanged_on_failure(self), opened(raw, name) as raw, np.errstate(all="ignore"):
            start = monotonic()
            self._fit_rows(raw)
            self.fit_seconds_ = monotonic() - start
        return self

    @validation.with_callbacks
    def _fit_rows(self, raw: RawRows) -> None:
        observations, rows, known = self._observed(raw)
        X = raw.X.source if isinstance(raw.X, OpenSource) else raw.X
        reporter = validation.IterationReporter(self, X, raw.y, self.max_iter)
        observations.progress = Progress(self, reporter)
        found = fit_problems(observations, rows, check_random_state(self.random_state))
        known |= {"blend": found.blend, "rows": rows, "scores": found.scores}
        self._store(observations, found.fits, found.scaler, **known)
        reporter.end()

    def _observed(self, raw: RawRows) -> tuple[ObservationModel, Dataset, dict]:
        """The observation model of a call of `fit`, its rows, and what is learned of inputs."""
        check_parameters(self, type(self).__name__)
        observations = self._observations()
        types = self._types_of(raw.X, observations.name)
        rows = self._read(observations.rules, raw, types, reset=True)
        observations.missing = missing = np.isnan(rows.X).any(axis=0) if rows.in_memory else None
        observations.order = order_of(raw.y) if observations.rules.labels else None
        observations.are_passed = not (checks.is_lazy(raw.X) or isinstance(raw.X, OpenSource))
        observations.compares_near_rows = self._compares_near_rows
        self._check_mean_of_rows(observations, rows)
        values = None
        may_miss = missing is not None and (checks.is_frame(raw.X) or missing.any())
        # the default kernel answers queries that lack other values than rows did
        if self.kernel is None and may_miss and not checks.is_lazy(raw.X):
            values = spread_values(rows.X, rows.weight)
        return observations, rows, {"types": types, "values": values}

    def _learn(self, raw: RawRows, **announced: object) -> Any:
        """Learn from rows that arrive later; `announced` is handed to the observations."""
        with unchanged_on_failure(self), np.errstate(all="ignore"):
            check_parameters(self, type(self).__name__)
            self._check_kept()
            if is_chosen(self.mean):
                raise ValueError(
                    f"{type(self).__name__}.partial_fit has no mean={as_text(self.mean)}, which is "
                    "fitted to all rows at once. Call fit with all rows, or set mean to None."
                )
            observations = self._observations(**announced)
            observations.progress = Progress(self, None)
            stream, fitted = self._stream_so_far(observations), self._fitted
            types = None if stream is None else fitted.types
            chunk = read_chunk(self, observations.rules, raw, stream is None, types)
            part = observations.accept(chunk, stream and stream.reservoir.columns[1])
            if stream is None:
                stream = new_stream(observations, part, check_random_state(self.random_state))
            with single_threaded_blas():
                stream, fits = advance(observations, stream, part)
            self.__dict__.pop("categories_", None)
            self._store(observations, fits, stream.scaler, stream=stream)
            self.__dict__.pop("fit_seconds_", None)
            self.n_iter_ = max(stream.n_iter, 1)
            total = float(stream.reservoir.total)
            self.n_samples_seen_ = int(total) if total.is_integer() else total
        return self

    def _read(self, rules: Rules, raw: RawRows, types: ColumnTypes | None, reset: bool) -> Any:
        """All rows, as a `Dataset` in the units of the user."""
        rules = rules._replace(may_miss=raw.X_std is None and self._takes_missing())
        return read(self, rules, raw, types, reset)

    def set_params(self: _Self, **params: object) -> _Self:
        """Set parameters, those of nested objects as ``bound__alpha``.

        Parameters
        ----------
        **params : dict
            Values by name.

        Returns
        -------
        self : estimator
            This estimator.

        Raises
        ------
        ValueError
            If there is no such parameter, or the object that should have it is a string or None.
        """
        for key in params:
            owner, _, part = key.partition("__")
            value = params.get(owner, getattr(self, owner, None))
            if part and (value is None or isinstance(value, str)) and hasattr(self, owner):
                raise ValueError(
                    f"{key!r} of {type(self).__name__} cannot be set, because {owner} is "
                    f"{as_text(value)} and has no parameters. First set {owner} to an object of "
                    f"{_OWNERS.get(owner, 'scikit-learn')} that has a parameter {part!r}."
                )
        return super().set_params(**params)

    @overload
    def log_marginal_likelihood(
        self, theta: MaybeArray = ..., eval_gradient: Literal[False] = ..., clone_kernel: bool = ...
    ) -> float: ...

    @overload
    def log_marginal_likelihood(
        self, theta: MaybeArray, eval_gradient: Literal[True], clone_kernel: bool = ...
    ) -> tuple[float, Array]: ...

    def log_marginal_likelihood(
        self, theta: MaybeArray = None, eval_gradient: bool = False, clone_kernel: bool = True
    ) -> Any:
        """Evaluate the bound on the log marginal likelihood at the fitted inducing points.

        A classifier with more than two classes has several binary problems, unless it is a softmax.
        In this case, the value is the mean over these problems.

        Parameters
        ----------
        theta : array-like of shape (n_kernel_params,), default=None
            Log hyperparameters at which the bound is evaluated. With several binary problems,
            theta holds either the hyperparameters of one kernel, which all problems share, or those
            of all kernels, as ``kernel_.theta`` does. If None, the bound at the fitted
            hyperparameters is returned.
        eval_gradient : bool, default=False
            If True, the gradient of the bound with respect to theta is returned additionally.
        clone_kernel : bool, default=True
            If True, `kernel_` is not changed. If False, its theta is set to `theta`.

        Returns
        -------
        value : float
            Value of the bound. It is -inf if a kernel matrix at theta cannot be factorised or if
            a number overflows.
        gradient : ndarray of shape (n_kernel_params,), if `eval_gradient`
            Gradient of the bound with respect to theta. It is zero for a problem whose value is
            -inf.

        Raises
        ------
        ValueError
            If `eval_gradient` is True and theta is None, if theta has a wrong length, or if the
            estimator does not contain the training rows, because it was fitted on a cluster, or
            loaded from a pickle and inducing points stand for its rows.
        """
        check_is_fitted(self, "kernel_")
        if theta is None:
            if eval_gradient:
                raise ValueError("Gradient can only be evaluated for theta!=None")
            return self.log_marginal_likelihood_value_
        if self._fitted.fits[0].objective is None:
            raise ValueError(
                f"The bound of this {type(self).__name__} cannot be evaluated at another theta: it "
                "does not contain the training rows, as it was fitted on a cluster or loaded from "
                "a pickle (or copied), or its posterior has no bound. Call fit again, or use "
                "log_marginal_likelihood_value_."
            )
        fitted = [fit.kernel for fit in self._fitted.fits]
        parts, shared = split_thetas(theta, fitted)
        with np.errstate(all="ignore"):
            kernels = [kernel.clone_with_theta(part) for kernel, part in zip(fitted, parts)]
            if not clone_kernel:
                for kernel, part in zip(getattr(self.kernel_, "kernels", [self.kernel_]), parts):
                    kernel.theta = part
            return self._fitted.mean_value(kernels, eval_gradient, shared)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "kernel_")

    def _check_mean_of_rows(self, observations: ObservationModel, rows: Dataset) -> None:
        """Raise if a mean that was chosen cannot be that of rows."""
        mean, name = self.mean, type(self).__name__
        if not is_chosen(mean):
            return
        is_in_kernel = is_name(mean, "linear")
        if is_in_kernel and len(observations.columns().codes()) == rows.n_features:
            raise ValueError(
                f"{name}: mean='linear' is linear in columns of numbers, and all columns of X are "
                "categories. Set mean to None."
            )
        is_of_labels = is_classifier(self) and self.kernel is not None and not is_in_kernel
        reasons = {
            "an array or a data frame": not observations.are_passed,
            "inputs that are known, without X_std": rows.X_std is not None,
            "no offset": getattr(rows, "offset", None) is not None,
            "kernel=None (beside a kernel of yours, it is for numbers)": is_of_labels,
            "targets that are not censored (or be 'linear')": not is_in_kernel
            and isinstance(self.likelihood, Censored),
        }
        for reason, is_wrong in reasons.items():
            if is_wrong:
                raise ValueError(
                    f"{name}: mean={as_text(mean)} needs {reason}. Change this, or set mean to "
                    "None."
                )

    @property
    def feature_importances_(self) -> Array:
        """Total Sobol indices of the mean (d,)."""
        return self._relevance("feature_importances_").total

    @property
    def sobol_first_(self) -> Array:
        """First-order Sobol indices of the mean (d,)."""
        return self._relevance("sobol_first_").first

    @property
    def sobol_error_(self) -> Array:
        """Standard errors (2, d) of both."""
        return self._relevance("sobol_error_").error

    def _relevance(self, name: str) -> Any:
        """The `SobolIndices`, which are computed when they are asked for the first time."""
        check_is_fitted(self, "kernel_")
        if (found := self._fitted.relevance(self.n_jobs)) is None:
            raise AttributeError(
                f"{type(self).__name__}.{name} needs training rows in memory. Fit arrays."
            )
        return found

    def __dir__(self) -> list[str]:
        """Names, without those of Sobol indices that are not known: a repr reads them all."""
        unknown = _NAMES if self._fitted is None or self._fitted.sobol is None else ()
        names = set(object.__dir__(self)) - set(unknown)
        return [name for name in names if hasattr(self, name)]  # as scikit-learn has it

    def _store(
        self, observations: ObservationModel, fits: Fits, scaler: TargetScaler, **state: Any
    ) -> None:
        """Set the fitted attributes; of several problems they are lists, means and maxima."""
        kernels = [clone(fit.kernel) for fit in fits]  # clone_kernel=False changes them
        self.kernel_ = kernels[0] if len(kernels) == 1 else CompoundKernel(kernels)
        for former in ("inducing_points_", "n_inducing_", "ordinal_classes_", "n_samples_seen_"):
            self.__dict__.pop(former, None)
        self.log_marginal_likelihood_value_ = float(np.mean([one.fit.value for one in fits]))
        of_rows = [one.fit.value / one.used_rows.total_weight() for one in fits]
        self.evidence_per_row_ = float(np.mean(of_rows))
        self.n_iter_ = max(one.fit.n_iter for one in fits)
        self.jitter_ = max(one.fit.jitter for one in fits)
        self.__dict__.update(observations.attributes(fits, scaler))
        blend = state.get("blend")
        function = getattr(blend, "function", None)
        self.mean_ = one_or_all([None] if function is None else [*function.estimators])
        if hasattr(self, "calibration"):
            self.calibration_ = blend
        kept, view = kept_parameters(self), observations.view(fits, scaler)
        state |= {"is_learned": observations.moves(), "class_weight": observations.class_weight}
        self._fitted = Fitted(fits, scaler, view, kept=kept, **state)

    def _types_of(self, X: object, name: str) -> ColumnTypes | None:
        """`ColumnTypes` of X, None where all are numbers, as on a cluster and in a source."""
        self.__dict__.pop("categories_", None)
        chosen = self.categorical_features
        if not (checks.is_lazy(X) or isinstance(X, OpenSource)):
            types = types_of(as_table(X), chosen, name, warns=True)
            if types is not None and types.values:
                self.categories_ = types.by_name()
            return types
        if not (chosen is None or is_name(chosen, FROM_DTYPE)):
            raise ValueError(
                f"{name}: categorical_features needs an array or a data frame in memory. Encode "
                "the categories before, and pass a kernel with Categorical."
            )
        return None

    def _answered(self, X: object, **others: object) -> tuple:
        """Query points, which may lack values, and the view that answers them."""
        check_is_fitted(self, "kernel_")
        X = self._query(X, **others)
        return X, self._fitted.answering(X).each(lambda part: part._replace(n_jobs=self.n_jobs))

    @checks.on_numpy
    def _query(self, X: Any, **others: object) -> Array:
        """Query points, which may lack values of columns for which the fit knows some."""
        name, fitted = type(self).__name__, self._fitted
        types, values = (None, None) if fitted is None else (fitted.types, fitted.values)
        checks.check_readable(name, **others)
        if not checks.are_floats(X):
            check_query(X, name)
            checks.check_readable(name, X=X)
            checks.check_dimensions(X, name)
            X = as_table(X)
            if types is None:
                checks.check_numbers(X, "X", name)
        knows_missing = fitted is not None and _has_missing(fitted.kernel)
        if types is None and values is None and not knows_missing:
            remedy = checks.MISSING_REMEDY
            if self._takes_missing() and hasattr(self, "kernel_"):
                remedy = "There were none in fit. Impute them, or fit with such rows."
            names = [*X.columns] if checks.is_frame(X) else getattr(self, "feature_names_in_", None)
            X = validate_data(self, X, reset=False, dtype=checks.FLOATS, ensure_all_finite=False)
            checks.check_finite(X, names, f"X of {name}", remedy)
        else:
            validate_data(self, X, reset=False, skip_check_array=True)
            if checks.is_frame(X) or types is not None:
                X = (types or ColumnTypes([*X.columns], [NUMBER] * X.shape[1])).encoded(X, name)
            X = check_array(X, dtype=checks.FLOATS, ensure_all_finite=False, input_name="X")
            lacks = False if values is None else missing_entries(X, values)
            self._check_missing(np.where(lacks, 0.0, X))
        kernel, names = self.kernel, getattr(self, "feature_names_in_", None)
        checks.check_latitudes(X, kernel if fitted is None else fitted.kernel, names, name)
        return X

    def _check_missing(self, X: Array) -> None:
        """Raise if a value is missing in a column that the fitted kernel sees without `Missing`."""
        remedy = "There were none in the column in fit. Impute them, or fit with such rows."
        names = getattr(self, "feature_names_in_", range(self.n_features_in_))
        seen = touched(self._fitted.kernel, X.shape[1], but="takes_missing")
        checks.check_finite(X, names, f"X of {type(self).__name__}", remedy, seen)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._takes_missing()
        return tags

    def _takes_missing(self) -> bool:
        """Whether values may be missing: the kernel is the default one, or has a `Missing`."""
        mixes = self.metric == "full" or self.posterior == "fourier"
        if mixes or not getattr(self.posterior, "takes_missing", True):
            return False
        return self.kernel is None or _has_missing(self.kernel)

    def _stream_so_far(self, observations: ObservationModel) -> StreamState | None:
        """State of the stream of rows before this call; None if there were no rows."""
        if self._fitted is None or self._fitted.stream is not None:
            return self._fitted and self._fitted.stream
        if (reason := why_no_rows(self._fitted.fits[0])) is not None:
            raise ValueError(f"{type(self).__name__}.partial_fit {reason}")
        random_state = check_random_state(self.random_state)
        return stream_of(observations, self._fitted.fits, self.n_iter_, random_state)

    def _check_kept(self) -> None:
        """Raise if a parameter has changed on which what was kept of earlier rows depends."""
        before = {} if self._fitted is None else self._fitted.kept
        for parameter, now in kept_parameters(self).items():
            if now != before.get(parameter, now):
                raise ValueError(
                    f"{type(self).__name__}.partial_fit goes on from rows that were seen with "
                    f"{parameter}={before[parameter]}, but {parameter} is {now} now. Set it back, "
                    "or call fit with all rows to begin anew."
                )


def fits_of(estimator: BaseEstimator) -> Fits:
    """A `FittedJob` for each problem of a fitted estimator."""
    return estimator._fitted.fits


def fitted_view(estimator: BaseEstimator) -> Any:
    """The view of a fitted estimator, for rooms that write predictions in another language."""
    check_is_fitted(estimator, "kernel_")
    if estimator._fitted.types is not None:
        raise ValueError(
            f"This {type(estimator).__name__} was fitted to a table with categories or times, "
            "which a graph does not encode. Fit it to numbers."
        )
    return estimator._fitted.view


def _has_missing(kernel: Kernel) -> bool:
    """Whether a kernel has a part that knows what missing values mean."""
    return bool(parts(kernel, Missing))
