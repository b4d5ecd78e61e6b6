"""The one validator of rows, `Rules`, and checks of what is passed with them, by column.

Text, times, missing values, infinity and latitudes that no place on a sphere has are refused.
Errors say what was passed and how to correct it.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date, time, timedelta
from decimal import Decimal
from numbers import Real
from typing import Any, NamedTuple, TypeGuard

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse
from sklearn import config_context, get_config
from sklearn.gaussian_process.kernels import Kernel
from sklearn.utils import check_array, check_X_y
from sklearn.utils.multiclass import check_classification_targets

from skgp_sparse import kernels
from skgp_sparse.data.arrays import ArrayDataset
from skgp_sparse.data.moments import TargetScaler
from skgp_sparse.ground import validation
from skgp_sparse.ground.validation import AnyArray, Array, Bools, Ints, MaybeArray, Scalars, as_text
from skgp_sparse.likelihoods import Censored

MISSING_LATER = -1.0  # code of a missing level where fit had none; unknown levels have lower ones
FLOATS = (np.float64, np.float32)  # types of X that stay as they are
on_numpy = config_context(array_api_dispatch=False)  # arrays of other libraries are converted


@contextmanager
def naming(what: str) -> Iterator[None]:
    """Context whose errors say what they are about, those of other kinds in a note."""
    try:
        yield
    except (ValueError, TypeError) as error:
        kind = ValueError if isinstance(error, ValueError) else TypeError
        raise kind(f"{what}: {error}") from error
    except Exception as error:
        if hasattr(error, "add_note"):  # from Python 3.11 on
            error.add_note(f"{what} was asked for.")
        raise


def is_frame(X: object) -> TypeGuard[Any]:
    """Whether a table is a data frame of pandas or polars, in which every column has a type."""
    return hasattr(X, "iloc") and hasattr(X, "dtypes") or hasattr(X, "get_columns")


def missing_among(values: AnyArray) -> Bools:
    """Which objects (n,) are one of the many missing values."""
    return np.array([is_missing(one) for one in values.tolist()], dtype=bool)


def is_missing(value: object) -> bool:
    """Whether an object is one of the many missing values."""
    if isinstance(value, (float, np.generic, date, Decimal)):
        return bool(value != value)
    return value is None or value is np.ma.masked or type(value).__name__ == "NAType"


MISSING_REMEDY = (
    "Missing values need kernel=None, or Missing around each part of the kernel that sees them, "
    "and rows of arrays or data frames that miss some in fit. Otherwise, impute them."
)


def check_finite(
    X: Array, names: Sequence | None, name: str, remedy: str, bare: Bools | bool = True
) -> None:
    """Raise at infinity, and at a value missing in a column of which `bare`, (d,), says so."""
    with np.errstate(over="ignore", invalid="ignore"):
        if get_config()["assume_finite"] or np.isfinite(np.sum(X)) or np.isfinite(X).all():
            return
    names = names if names is not None and len(names) == X.shape[1] else range(X.shape[1])
    for what, adjective, wrong in (
        ("infinity", "infinite", np.isinf(X)),
        ("NaN", "missing", np.isnan(X) & bare),
    ):
        if wrong.any():
            j = int(np.argmax(wrong.any(axis=0)))
            remedy = remedy if what == "NaN" else "Replace them, or remove the rows."
            raise ValueError(
                f"Input X contains {what}: column {names[j]!r} of {name} "
                f"has {wrong[:, j].sum()} {adjective} values. {remedy}"
            )


_HIGHEST = 90.0 + 1e-9  # degrees: a pole may be off by rounding


def check_latitudes(X: Array, kernel: Kernel | None, names: Sequence | None, name: str) -> None:
    """Raise if a `Sphere` of a kernel sees a latitude beyond a pole; missing ones are no matter."""
    if kernel is None or not kernels.parts(kernel, kernels.Sphere):
        return
    d = X.shape[1]
    labels = [*range(d)] if names is None or len(names) != d else [*names]
    kernel = kernels.named(kernel, labels if all(isinstance(one, str) for one in labels) else None)
    for sphere, columns in kernels.parts_by_columns(kernel, d, kernels.Sphere):
        beyond = np.flatnonzero(np.abs(X[:, columns[-1]]) > _HIGHEST)
        if len(columns) == 2 and len(beyond):
            longitude, latitude = (as_text(labels[j]) for j in columns)
            value = as_text(float(X[beyond[0], columns[1]]))
            raise ValueError(
                f"Column {latitude} of X of {name} is the latitude of {sphere}, in degrees from "
                f"-90 to 90, but it is {value} in row {beyond[0]}. Pass degrees, the longitude "
                f"first, which is column {longitude} here. Where it is second, use Columns("
                f"Sphere(Matern()), [{columns[1]}, {columns[0]}])."
            )


_TEXT = (str, bytes)
_TIMES = (date, time, timedelta, np.datetime64, np.timedelta64)
_FEW = 100  # rows of an array of one type, to find a column of text that does not spell numbers


def check_dimensions(X: object, name: str) -> None:
    """Raise if X has one dimension, as a row of a data frame has."""
    shape = X.shape if hasattr(X, "shape") else np.asarray(X).shape
    if len(shape) == 1:
        raise ValueError(
            f"Expected 2D array, got 1D array instead: X of {name} is a {type(X).__name__} of "
            f"shape {shape}. Pass X.iloc[[0]] or X[['name']] of a data frame. Reshape your data if "
            "it is an array: X.reshape(1, -1) is one row, and X.reshape(-1, 1) is one column."
        )


def check_numbers(values: object, argument: str, name: str) -> None:
    """Raise if there is text, times that would be read as nanoseconds, or any other object."""
    table = np.asarray(values)
    if table.dtype.kind not in "USmMO":
        return
    some = table[:_FEW] if table.dtype.kind in "USmM" else table
    columns = some.T if table.ndim == 2 else [some.ravel()]
    wrong = ((j, v) for j, one in enumerate(columns) for v in one if isinstance(v, _TEXT + _TIMES))
    j, first = min(wrong, key=lambda pair: spells_number(pair[1]), default=(0, None))
    if first is None:
        check_objects(table, argument, name)
        return
    if table.ndim == 2:
        names = getattr(values, "columns" if is_frame(values) else "column_names", None)
        argument = f"Column {j if names is None else [*names][j]!r} of {argument}"
    if isinstance(first, _TEXT):
        raise ValueError(
            f"{argument} of {name} contains text, first {str(first)!r}, but must be numbers. "
            "Convert it by astype(float), or by an encoder of sklearn.preprocessing. Text in X of "
            "fit is a category in a data frame (set_output(transform='pandas'), or to_pandas()), "
            "or if categorical_features names its column."
        )
    raise ValueError(
        f"{argument} of {name} contains times, first {str(first)!r}, which are numbers only in a "
        "unit. Choose one, such as days: (t - t[0]) / numpy.timedelta64(1, 'D')."
    )


def check_objects(table: AnyArray, argument: str, name: str) -> None:
    """Raise if there is an object in an array, such as an interval, that is no number."""
    for one in table.ravel().tolist() if table.dtype.kind == "O" else ():
        try:
            float(0 if is_missing(one) else one)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"{argument} of {name} contains objects, first {as_text(one)}, but must be numbers "
                f"({error}). Pass a number for each, such as the middle of an interval."
            ) from error


def spells_number(text: object) -> bool:
    """Whether a text is a number, with commas, a currency or a per cent sign perhaps."""
    try:
        float(str(text).strip(" $€£%").replace(",", ""))
    except ValueError:
        return False
    return any(map(str.isdigit, str(text)))


def check_no_missing(y: object) -> None:
    """Raise if a target is missing."""
    values = np.asarray(y) if isinstance(y, (list, tuple)) or hasattr(y, "__array__") else None
    if values is None or values.dtype.kind not in "fO" or 0 in (values.ndim, values.size):
        return
    missing = np.isnan(values) if values.dtype.kind == "f" else missing_among(values.ravel())
    rows = np.flatnonzero(missing.reshape(len(values), -1).any(axis=1))
    if len(rows):
        raise ValueError(
            f"Input y contains NaN in {len(rows)} rows, first in row {rows[0]}. Remove the rows "
            "without a target from X and y, such as by y.notna() of pandas."
        )


class RawRows(NamedTuple):
    """Rows as a user passes them, all arrays or tables of any kind; X may be an `OpenSource`."""

    X: Any
    y: Any = None
    sample_weight: Any = None
    offset: Any = None
    X_std: Any = None  # (n, d) standard deviations of the entries of X


def is_gaussian(likelihood: object) -> bool:
    """Whether the noise is part of the kernel."""
    return isinstance(likelihood, str) and likelihood == "gaussian"


def are_floats(X: object) -> bool:
    """Whether inputs are a table of floats, which needs neither types nor an encoding."""
    return type(X) is np.ndarray and X.dtype in FLOATS and X.ndim == 2


class Rules(NamedTuple):
    """Rules that rows must satisfy: plain data, which may travel to a worker."""

    name: str  # of the estimator, for errors
    kernel: Any
    labels: bool = False
    likelihood: Any = None  # None: Gaussian noise, or labels
    n_targets: int | None = None  # that were announced
    may_miss: bool = False  # values of X may be NaN
    names: Any = None  # of the columns, where X itself does not say them

    @on_numpy
    def check(self, raw: RawRows, alpha: MaybeArray = None, all_rows: bool = False) -> ArrayDataset:
        """The `ArrayDataset` of some rows, or of all of them, or an error."""
        check_readable(self.name, **raw._asdict())
        X, y, sample_weight, offset, X_std = raw
        check_inputs(X, self.kernel, self.name, self.labels)
        has_likelihood = self.likelihood is not None
        if has_likelihood:
            check_one_column(y, self.likelihood, self.name)
        check_no_missing(y)
        if not self.labels:
            check_numbers(y, "y", self.name)
        names = [*X.columns] if is_frame(X) else self.names
        options = {"multi_output": not (self.labels or has_likelihood), "dtype": FLOATS}
        options |= {"y_numeric": not self.labels, "ensure_all_finite": False}
        X, y = check_X_y(X, y, estimator=self.name, **options)
        check_finite(X, names, f"X of {self.name}", MISSING_REMEDY, not self.may_miss)
        check_latitudes(X, self.kernel, names, self.name)
        weight = validation.check_sample_weight(sample_weight, X, all_rows)
        if self.labels:
            if offset is not None:
                raise ValueError(f"{self.name}: a classifier takes no offset. Leave it out.")
            check_classification_targets(y)
            return ArrayDataset(X, y, weight=weight)
        offset = check_offset(offset, X, has_likelihood, self.name)
        if has_likelihood:
            counts = slice(None) if weight is None else weight > 0  # other rows may have any target
            self.likelihood.check(y[counts], self.name)
            y = np.array(y, dtype=np.float64)
            y[counts] = np.clip(y[counts], *self.likelihood.ends)
        y = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
        scaler = self.scaler(y.shape[1:])
        if X_std is not None:
            X_std = check_std(X_std, X, "X_std", self.name)
        noise = check_alpha(alpha, len(X), self.name)
        return ArrayDataset(X, y, noise, weight, scaler, offset=offset, X_std=X_std)

    def scaler(self, columns: tuple[int, ...]) -> TargetScaler:
        """The units of the user for columns of y."""
        p = int(np.prod(columns))
        if self.n_targets not in (None, p):
            raise ValueError(
                "The number of targets seen in `y` is different from the parameter `n_targets`. "
                f"Got {p} != {self.n_targets}. Set it to {p} or None."
            )
        return TargetScaler.none(p)


def is_lazy(value: object) -> bool:
    """Whether a value is a collection of dask, whose numbers are not here."""
    graph = getattr(type(value), "__dask_graph__", None)
    # dask's own need not build a graph; arrays of xarray have one only if they are made of dask's
    is_of_dask = type(value).__module__.startswith("dask")
    return graph is not None and (is_of_dask or graph(value) is not None)


def check_readable(name: str, **data: object) -> None:
    """Raise if an argument of that name is no array in memory, but on a GPU, lazy, or of dask."""
    for what, value in data.items():
        if type(value).__name__ == "LazyFrame":
            raise TypeError(f"{what} of {name} is a LazyFrame of polars. Pass {what}.collect().")
        if is_lazy(value):
            raise TypeError(
                f"{what} is a dask collection ({type(value).__name__}), which {name} would "
                f"have to load as a whole. Pass {what}.compute() if it fits into memory. fit "
                "of DaskSparseGPRegressor or DaskSparseGPClassifier of skgp_sparse.dask takes it."
            )
        if issparse(value):
            raise TypeError(
                f"Sparse data was passed for {what} of {name}. Pass {what}.toarray(), or "
                "set sparse_output=False of OneHotEncoder, sparse_threshold=0 of ColumnTransformer."
            )
        try:
            np.asarray(None if is_frame(value) else value)
        except (TypeError, RuntimeError) as error:
            raise TypeError(
                f"{what} of {name} is a {type(value).__module__}.{type(value).__name__}, which "
                f"cannot become a NumPy array: {error} Pass a copy in main memory."
            ) from error


def check_inputs(X: object, kernel: Kernel | None, name: str, labels: bool = False) -> None:
    """Raise if inputs are no numbers, or what only a structured kernel understands."""
    if not (kernel is None or kernel.requires_vector_input or np.asarray(X).dtype.kind in "biuf"):
        exact = "GaussianProcessClassifier" if labels else "GaussianProcessRegressor"
        raise ValueError(
            f"{name} accepts only numeric arrays of shape (n_samples, n_features), because "
            f"inducing points are vectors. For structured inputs of {as_text(kernel)}, use "
            f"scikit-learn's {exact}, or turn every input into a vector."
        )
    check_dimensions(X, name)
    check_numbers(X, "X", name)


def check_one_column(y: object, likelihood: object, name: str) -> None:
    """Raise if there are several targets, of which a likelihood takes only one."""
    shape = np.asarray(y).shape
    if len(shape) == 2 and shape[1] > 1:
        raise ValueError(
            f"{name}: likelihood={as_text(likelihood)} takes one target, but y has {shape[1]} "
            "columns. Use sklearn.multioutput.MultiOutputRegressor, which fits a model to each."
        )


def within_limits(y: npt.ArrayLike, likelihood: object) -> npt.ArrayLike:
    """Targets of which R² is computed: those beyond a limit of `Censored` are at it."""
    if not isinstance(likelihood, Censored):
        return y
    return np.clip(np.asarray(y, dtype=np.float64), *likelihood.ends)


def check_classes(y: AnyArray, weight: Array | None, name: str) -> tuple[AnyArray, Ints]:
    """Sorted labels and the index of each row's; raises unless at least two have weight."""
    classes, index = np.unique(y, return_inverse=True)
    present = np.unique(index if weight is None else index[weight > 0])
    if len(present) < 2:
        only = classes[present[0]]
        raise ValueError(
            f"{name} requires 2 or more distinct classes; got {len(present)} class (only class "
            f"{only} is present{'' if weight is None else ' with positive sample_weight'})"
        )
    if len(present) < len(classes):
        absent = np.setdiff1d(range(len(classes)), present)[0]
        raise ValueError(
            f"{name}: every row of class {classes[absent]} has sample_weight 0. Remove these rows."
        )
    return classes, index


def check_offset(offset: MaybeArray, X: Array, is_taken: bool, name: str) -> Array | None:
    """Known offsets of the rows as an array (n,), None where there are none."""
    if offset is None:
        return None
    if not is_taken:
        raise ValueError(
            f"{name}: offset is not available for likelihood='gaussian'. Subtract it from y before "
            "fit, and add it after predict."
        )
    if np.asarray(offset).dtype.kind not in "biuf":
        raise ValueError(f"{name}: offset must be numbers. Got {as_text(offset)} instead.")
    offset = np.full(len(X), offset) if np.ndim(offset) == 0 else offset
    known: Array = check_array(offset, ensure_2d=False, dtype=np.float64, input_name="offset")
    _check_rows(known.shape == (len(X),), known, X, "offset", name)
    return known


def _check_rows(is_right: bool, values: Array, X: Array, what: str, name: str) -> None:
    """Raise if what may be an array does not have an entry for each row of X."""
    if not is_right:
        must = "an array" if what == "y" else "a number or an array"
        raise ValueError(
            f"{name}: {what} must be {must} with one number for each of the {len(X)} rows of X. "
            f"Got an array of shape {values.shape}."
        )


def check_std(std: npt.ArrayLike, X: Array, argument: str, name: str) -> Array:
    """Standard deviations of the entries of X, as an array of its shape."""
    given: Array = np.atleast_1d(std)
    given = check_array(given, dtype=np.float64, ensure_2d=False, input_name=argument)
    must = f"standard deviations, which are not negative, of the shape of X, {X.shape}"
    is_right = given.shape == X.shape and given.min(initial=0.0) >= 0
    validation.require(is_right, argument, given, name, must)
    return given


@on_numpy
def check_truth(y: npt.ArrayLike, X: Array, p: int, name: str, what: str = "y") -> Array:
    """Targets (n,) or (n, p) of the rows of X, as many as a model has; raises otherwise."""
    check_readable(name, **{what: y})
    check_numbers(y, what, name)
    targets = check_array(y, ensure_2d=False, dtype=np.float64, input_name=what)
    _check_rows(len(targets) == len(X), targets, X, what, name)
    return check_columns(targets, p, name, what)


def check_columns(y: Array, p: int, name: str, what: str = "y") -> Array:
    """Targets (n,) or (n, p), as many as a model has; raises otherwise."""
    if (y.ndim == 1 and p == 1) or (y.ndim == 2 and y.shape[1] == p):
        return y[:, 0] if p == 1 and y.ndim == 2 else y
    raise ValueError(
        f"{name} was fitted to {p} target{'s' if p > 1 else ''}, so that {what} must have as many "
        f"columns. Got an array of shape {y.shape}."
    )


def check_alpha(alpha: MaybeArray, n: int, name: str) -> Scalars:
    """Known noise variance as a float or an array (n,); 0 where there is none."""
    if alpha is None:
        return 0.0
    if np.ndim(alpha) == 0:
        validation.check_number(alpha, "alpha", name, Real, low=0)
        return float(np.asarray(alpha))
    options = {"ensure_2d": False, "ensure_min_samples": 0, "dtype": float}
    noise = check_array(alpha, input_name="alpha", **options)
    if noise.shape == (1,) and n != 1:  # one row of many stays an array, as the others
        return check_alpha(float(noise[0]), n, name)
    if noise.shape != (n,):
        raise ValueError(
            "alpha must be a scalar or an array with same number of entries as y. "
            f"({noise.shape[0] if noise.ndim == 1 else noise.shape} != {n}). Set it to the noise "
            "of the rows of this call. Cross-validation does not: see docs/recipes.md."
        )
    must = "noise variances, which are not negative"
    validation.require(noise.min(initial=0.0) >= 0, "alpha", noise.min(initial=0.0), name, must)
    return noise
