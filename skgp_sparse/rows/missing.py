"""Missing values and infinity: what is said of them, by column."""

from contextlib import contextmanager
from datetime import date
from decimal import Decimal

import numpy as np

from skgp_sparse import kernels

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
    wrong = np.flatnonzero(missing.any(axis=0) & kernels.bare(kernel, X.shape[1]))
    if len(wrong):
        j = wrong[0]
        count = missing[:, j].sum()
        raise ValueError(
            f"Input X contains NaN: column {names[j]!r} of {name} has {count} missing "
            f"values, but {during}"
        )
