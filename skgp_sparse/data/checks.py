"""The one validator of rows, `Rules`, and checks of what is passed with them, by column.

Text, times, missing values, infinity and latitudes that no place on a sphere has are refused.
Errors say what was passed and how to correct it.
"""

from contextlib import contextmanager
from datetime import date, time, timedelta
from decimal import Decimal
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse
from sklearn import config_context
from sklearn.utils import check_array, check_consistent_length, check_X_y
from sklearn.utils.multiclass import check_classification_targets

from skgp_sparse import kernels
from skgp_sparse.data.arrays import ArrayDataset
from skgp_sparse.data.moments import TargetScaler
from skgp_sparse.ground.validation import as_text, check_number, check_sample_weight, require
from skgp_sparse.likelihoods import Censored

MISSING_LATER = -1.0  # code of a missing level where fit had none; unknown levels have lower ones


def is_frame(X):
    """Whether a table is a data frame of pandas or polars, in which every column has a type."""
    return hasattr(X, "iloc") and hasattr(X, "dtypes") or hasattr(X, "get_columns")


def missing_among(values):
    """Which objects (n,) are one of the many missing values."""
    return np.array([is_missing(one) for one in values.tolist()], dtype=bool)


def is_missing(value):
    """Whether an object is one of the many missing values."""
    if isinstance(value, (float, np.generic, date, Decimal)):
        return bool(value != value)
    return value is None or value is np.ma.masked or type(value).__name__ == "NAType"


MISSING_REMEDY = (
    "Missing values need kernel=None, or a kernel with Missing around each part that sees them, "
    "and arrays or data frames with such rows in fit. X_std, a metric, posterior='fourier', "
    "partial_fit, sources and clusters take none. Otherwise, impute them, for example by "
    "sklearn.impute."
)


@contextmanager
def about_values(X, name, remedy):
    """Context in which errors of NaN and infinity in X name a column; missing ones have a remedy.

    Parameters
    ----------
    X : array-like of shape (n, d)
        As the user passed it.
    name : str
        Of the estimator.
    remedy : str
        What is said after the number of missing values.
    """
    try:
        yield
    except ValueError as error:
        text = str(error)
        if text.startswith("Input X contains NaN"):
            label, count = _first(X, np.isnan)
            raise ValueError(
                f"Input X contains NaN: column {label!r} of X of {name} has {count} missing "
                f"values. {remedy}"
            ) from None
        if text.startswith("Input X contains infinity"):
            column = _first(X, np.isinf)[0]
            raise ValueError(
                f"{text} The first is in column {column!r}. Replace it, or remove the row."
            ) from None
        raise


def _first(X, is_one):
    """Name or number of the first column with such a value, and how many there are in it."""
    values = np.asarray(X, dtype=np.float64)
    counts = is_one(values.reshape(len(values), -1)).sum(axis=0)
    j = int(np.argmax(counts > 0))
    return list(X.columns)[j] if is_frame(X) else j, int(counts[j])


def check_missing(X, kernel, names, name, during):
    """Raise if a value is missing in a column that a kernel sees without `Missing`.

    `during`: what the kernel knows from, for the message.
    """
    missing = np.isnan(X)
    if not missing.any():
        return
    refused = kernels.touched(kernel, X.shape[1], but="takes_missing")
    for j in np.flatnonzero(missing.any(axis=0) & refused):
        count = missing[:, j].sum()
        raise ValueError(
            f"Input X contains NaN: column {names[j]!r} of {name} has {count} missing "
            f"values, but {during}"
        )


_HIGHEST = 90.0 + 1e-9  # degrees: a pole may be off by rounding


def check_latitudes(X, kernel, names, name):
    """Raise if a `Sphere` of a kernel sees a latitude beyond a pole; missing ones are no matter.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    kernel : sklearn.gaussian_process.kernels.Kernel or None
        The user's, or one that was fitted.
    names : sequence or None
        Names of the columns, None where they have none.
    name : str
        Of the estimator.
    """
    if kernel is None or not kernels.parts(kernel, kernels.Sphere):
        return
    d = X.shape[1]
    labels = [*range(d)] if names is None or len(names) != d else [*names]
    kernel = kernels.named(kernel, labels if all(isinstance(one, str) for one in labels) else None)
    for sphere, columns in kernels.parts_by_columns(kernel, d, kernels.Sphere):
        if len(columns) == 2:
            _check(X, sphere, columns, labels, name)


def _check(X, sphere, columns, names, name):
    longitude, latitude = columns
    beyond = np.flatnonzero(np.abs(X[:, latitude]) > _HIGHEST)
    if len(beyond):
        value = as_text(float(X[beyond[0], latitude]))
        raise ValueError(
            f"Column {as_text(names[latitude])} of X of {name} is the latitude of {sphere}, in "
            f"degrees from -90 to 90, but it is {value} in row {beyond[0]}. Pass degrees, with the "
            f"longitude first, which is column {as_text(names[longitude])} here. Where they are "
            "the other way round, put Sphere into Columns, such as Columns(Sphere(Matern()), "
            f"[{latitude}, {longitude}])."
        )


_TEXT = (str, bytes)
_TIMES = (date, time, timedelta, np.datetime64, np.timedelta64)


def check_dimensions(X, name):
    """Raise if X has one dimension, as a row of a data frame has."""
    shape = X.shape if hasattr(X, "shape") else np.asarray(X).shape
    if len(shape) == 1:
        raise ValueError(
            f"Expected 2D array, got 1D array instead: X of {name} is a {type(X).__name__} of "
            f"shape {shape}. Pass X.iloc[[0]] for a row of a data frame, not X.iloc[0], and "
            "X[['name']] for a column. Reshape your data if it is an array: X.reshape(1, -1) is "
            "one row, and X.reshape(-1, 1) is one column."
        )


def check_numbers(values, argument, name):
    """Raise if there is text, or times that would be read as nanoseconds."""
    table = np.asarray(values)
    if table.dtype.kind not in "USmMO":
        return
    some = table[:1] if table.dtype.kind in "USmM" else table
    first = next((one for one in some.ravel() if isinstance(one, _TEXT + _TIMES)), None)
    if first is None:
        return
    if table.ndim == 2:
        j, first = _first_column(table)
        argument = f"Column {_label(values, j)!r} of {argument}"
    if isinstance(first, _TEXT):
        raise ValueError(
            f"{argument} of {name} contains text, first {str(first)!r}, but must be numbers. "
            "Convert it before, by astype(float) if the text spells numbers, or by an encoder of "
            "sklearn.preprocessing. Text in X of fit is a category if X is a data frame (of a "
            "ColumnTransformer by set_output(transform='pandas'), of a table of pyarrow by "
            "to_pandas()), or if categorical_features names its column."
        )
    raise ValueError(
        f"{argument} of {name} contains times, first {str(first)!r}, which are numbers only in a "
        "unit. Choose one, such as days: (t - t[0]) / numpy.timedelta64(1, 'D')."
    )


def _first_column(table):
    """Number of the first column with text or times, and the first of these in it.

    In an array of text, numbers are text, too: columns in which all values spell numbers come last.
    """
    found = [
        (j, one)
        for j, column in enumerate(table.T)
        if (one := next((v for v in column if isinstance(v, _TEXT + _TIMES)), None)) is not None
    ]
    return min(found, key=lambda pair: _spells_numbers(table[:, pair[0]]))


def _spells_numbers(column):
    try:
        column.astype(str).astype(float)
    except ValueError:
        return False
    return True


def _label(X, j):
    """The name of a column or, where there are none, its number."""
    names = X.columns if is_frame(X) else getattr(X, "column_names", None)
    return j if names is None else [*names][j]


def check_no_missing(y):
    """Raise if a target is missing."""
    values = np.asarray(y) if isinstance(y, (list, tuple)) or hasattr(y, "__array__") else None
    if values is None or values.ndim == 0 or not values.size or values.dtype.kind not in "fO":
        return
    table = values.reshape(len(values), -1)
    rows, columns = np.nonzero(_is_missing(table))
    if len(rows):
        what = "None" if table[rows[0], columns[0]] is None else "NaN"
        raise ValueError(
            f"Input y contains {what} in {len({*rows})} rows, first in row {rows[0]}"
            f"{_of_column(y, columns[0])}. Remove the rows without a target from X and y, such as "
            "by y.notna() of pandas."
        )


def _is_missing(table):
    """Whether targets (n, p) are missing."""
    if table.dtype.kind == "f":
        return np.isnan(table)
    return np.array([is_missing(one) for one in table.ravel()]).reshape(table.shape)


def _of_column(y, j):
    """Words that name a column of targets, empty where it has no name."""
    name = [*y.columns][j] if hasattr(y, "columns") else getattr(y, "name", "")
    return f" of column {name!r}" if name not in ("", None) else ""


FLOATS = (np.float64, np.float32)  # types of X that stay as they are
on_numpy = config_context(array_api_dispatch=False)  # arrays of other libraries are converted


class Given(NamedTuple):
    """Rows as a user passes them, all arrays or tables of any kind; X may be an `OpenSource`."""

    X: Any
    y: Any = None
    sample_weight: Any = None
    offset: Any = None
    X_std: Any = None  # (n, d) standard deviations of the entries of X


def is_gaussian(likelihood):
    """Whether the noise is part of the kernel."""
    return isinstance(likelihood, str) and likelihood == "gaussian"


def are_floats(X):
    """Whether inputs are a table of floats, which needs neither types nor an encoding."""
    return type(X) is np.ndarray and X.dtype in FLOATS and X.ndim == 2


class Rules(NamedTuple):
    """Rules that rows must satisfy: plain data, which may travel to a worker."""

    name: str  # of the estimator, for errors
    kernel: object
    labels: bool = False
    likelihood: object = None  # None: Gaussian noise, or labels
    n_targets: int | None = None  # that were announced
    may_miss: bool = False  # values of X may be NaN
    names: object = None  # of the columns, where X itself does not say them

    @on_numpy
    def check(self, given, alpha=None, all_rows=False):
        """The `ArrayDataset` of some rows, or of all of them, or an error."""
        X, y, sample_weight, offset, X_std = given
        check_readable(self.name, X=X, y=y, sample_weight=sample_weight, offset=offset)
        check_inputs(X, self.kernel, self.name, self.labels)
        has_likelihood = self.likelihood is not None
        if has_likelihood:
            check_one_column(y, self.likelihood, self.name)
        several = not (self.labels or has_likelihood)
        check_no_missing(y)
        if not self.labels:
            check_numbers(y, "y", self.name)
        options = {"multi_output": several, "y_numeric": not self.labels, "dtype": FLOATS}
        finite = "allow-nan" if self.may_miss else True
        names = [*X.columns] if is_frame(X) else self.names
        with about_values(X, self.name, MISSING_REMEDY):
            X, y = check_X_y(X, y, estimator=self.name, ensure_all_finite=finite, **options)
        check_latitudes(X, self.kernel, names, self.name)
        weight = check_sample_weight(sample_weight, X, all_rows)
        if self.labels:
            if offset is not None:
                raise ValueError(f"{self.name}: a classifier takes no offset. Leave it out.")
            check_classification_targets(y)
            return ArrayDataset(X, y, weight=weight)
        offset = check_offset(offset, X, has_likelihood, self.name)
        y = self._targets(y, slice(None) if weight is None else weight > 0)
        units = self.units(y.shape[1:])
        if X_std is not None:
            X_std = check_std(X_std, X, "X_std", self.name)
        noise = check_alpha(alpha, len(X), self.name)
        return ArrayDataset(X, y, noise, weight, units, offset=offset, X_std=X_std)

    def _targets(self, y, counts):
        """Targets (n, p) as the likelihood takes them; those that do not count may be anything."""
        if self.likelihood is not None:
            self.likelihood.check(y[counts], self.name)
            y = np.array(y, dtype=np.float64)
            y[counts] = np.clip(y[counts], *self.likelihood.ends)
        return np.asarray(y, dtype=np.float64).reshape(len(y), -1)

    def units(self, columns):
        """The units of the user for columns of y."""
        p = int(np.prod(columns))
        if self.n_targets not in (None, p):
            raise ValueError(
                "The number of targets seen in `y` is different from the parameter `n_targets`. "
                f"Got {p} != {self.n_targets}."
            )
        return TargetScaler.none(p)


def is_lazy(value):
    """Whether a value is a collection of dask, whose numbers are not here.

    Arrays of xarray have a graph only if they are made of dask's; dask's own need not build it.
    """
    kind = type(value)
    if not hasattr(kind, "__dask_graph__"):
        return False
    return kind.__module__.startswith("dask") or value.__dask_graph__() is not None


def check_in_memory(name, **data):
    """Raise if an argument of that name is a collection of dask, which would be loaded whole."""
    for argument, value in data.items():
        if type(value).__name__ == "LazyFrame":
            raise TypeError(
                f"{argument} of {name} is a LazyFrame of polars. Pass {argument}.collect()."
            )
        if is_lazy(value):
            raise TypeError(
                f"{argument} is a dask collection ({type(value).__name__}), which {name} would "
                "have to load as a whole. Use DaskSparseGPRegressor or DaskSparseGPClassifier of "
                "skgp_sparse.dask, which work where the partitions are, or pass "
                f"{argument}.compute() if it fits into memory."
            )


def check_readable(name, **data):
    """Raise if an argument of that name is an array that NumPy cannot read, as on a GPU."""
    for argument, value in data.items():
        if is_frame(value):
            continue
        try:
            np.asarray(value)
        except (TypeError, RuntimeError) as error:
            kind = f"{type(value).__module__}.{type(value).__name__}"
            raise TypeError(
                f"{argument} of {name} is a {kind}, which cannot become a NumPy array: {error} "
                "Pass a copy in main memory, as a NumPy array."
            ) from error


def check_inputs(X, kernel, name, labels=False):
    """Raise if inputs are sparse, no numbers, or what only a structured kernel understands."""
    if issparse(X):
        raise TypeError(
            f"Sparse data was passed for X, but {name} requires dense data. Use X.toarray(), or "
            "set sparse_output=False if X is the output of a OneHotEncoder."
        )
    if not (kernel is None or kernel.requires_vector_input or np.asarray(X).dtype.kind in "biuf"):
        exact = "GaussianProcessClassifier" if labels else "GaussianProcessRegressor"
        raise ValueError(
            f"{name} accepts only numeric arrays of shape (n_samples, n_features), because "
            f"inducing points are vectors. For structured inputs of {as_text(kernel)}, use "
            f"scikit-learn's {exact}, or turn every input into a vector, for example by "
            "CountVectorizer(analyzer='char')."
        )
    check_dimensions(X, name)
    check_numbers(X, "X", name)


def check_one_column(y, likelihood, name):
    """Raise if there are several targets, of which a likelihood takes only one."""
    shape = np.asarray(y).shape
    if len(shape) == 2 and shape[1] > 1:
        raise ValueError(
            f"{name}: likelihood={as_text(likelihood)} takes one target, but y has {shape[1]} "
            "columns. Use sklearn.multioutput.MultiOutputRegressor, which fits a model to each."
        )


def within_limits(y, likelihood):
    """Targets of which R² is computed: those beyond a limit of `Censored` are at it."""
    if not isinstance(likelihood, Censored):
        return y
    return np.clip(np.asarray(y, dtype=np.float64), *likelihood.ends)


def check_classes(y, weight, name):
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


def check_offset(offset, X, is_taken, name):
    """Known offsets of the rows as an array (n,), None where there are none."""
    if offset is None:
        return None
    if not is_taken:
        raise ValueError(
            f"{name}: offset is not available for likelihood='gaussian', where it would only be "
            "added to the prediction. Subtract it from y before fit, and add it after predict."
        )
    return _of_rows("offset", offset, X, name)


def _of_rows(argument, values, X, name):
    """A number for each row."""
    if np.asarray(values).dtype.kind not in "biuf":
        raise ValueError(f"{name}: {argument} must be numbers. Got {as_text(values)} instead.")
    values = np.full(len(X), values) if np.ndim(values) == 0 else values
    values = check_array(values, ensure_2d=False, dtype=np.float64, input_name=argument)
    if values.shape != (len(X),):
        raise ValueError(
            f"{name}: {argument} must be a number or an array with one number for each of the "
            f"{len(X)} rows of X. Got an array of shape {values.shape}."
        )
    return values


def check_std(std, X, argument, name):
    """Standard deviations of the entries of X, as an array of its shape."""
    std = check_array(np.atleast_1d(std), dtype=np.float64, ensure_2d=False, input_name=argument)
    if std.shape != X.shape:
        raise ValueError(
            f"{name}: {argument} must have a standard deviation for each entry of X, which has the "
            f"shape {X.shape}. Got an array of shape {std.shape}."
        )
    must = "standard deviations, which are not negative"
    require(std.min(initial=0.0) >= 0, argument, std.min(initial=0.0), name, must)
    return std


@on_numpy
def check_truth(y, X, p, name):
    """Targets (n,) or (n, p) of the rows of X, as many as a model has; raises otherwise."""
    check_readable(name, y=y)
    check_numbers(y, "y", name)
    y = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
    check_consistent_length(X, y)
    return check_columns(y, p, name)


def check_columns(y, p, name):
    """Targets (n,) or (n, p), as many as a model has; raises otherwise."""
    if (y.ndim == 1 and p == 1) or (y.ndim == 2 and y.shape[1] == p):
        return y[:, 0] if p == 1 and y.ndim == 2 else y
    raise ValueError(
        f"{name} was fitted to {p} target{'s' if p > 1 else ''}, so that y must have as many "
        f"columns. Got an array of shape {y.shape}."
    )


def check_alpha(alpha, n, name):
    """Known noise variance as a float or an array (n,); 0 where there is none."""
    if alpha is None:
        return 0.0
    if np.ndim(alpha) == 0:
        check_number(alpha, "alpha", name, Real, low=0)
        return float(alpha)
    options = {"ensure_2d": False, "ensure_min_samples": 0, "dtype": float}
    alpha = check_array(alpha, input_name="alpha", **options)
    if alpha.shape == (1,) and n != 1:  # one row of many stays an array, as the others
        return check_alpha(float(alpha[0]), n, name)
    if alpha.shape != (n,):
        raise ValueError(
            "alpha must be a scalar or an array with same number of entries as y. "
            f"({alpha.shape[0] if alpha.ndim == 1 else alpha.shape} != {n}). Set it to the noise "
            "of the rows of this call, by set_params(alpha=noise). Cross-validation passes some "
            "of the rows, but the whole array alpha: see the loop in docs/recipes.md."
        )
    must = "noise variances, which are not negative"
    require(alpha.min(initial=0.0) >= 0, "alpha", alpha.min(initial=0.0), name, must)
    return alpha
