"""Inputs of every estimator: the types of their columns, and missing values."""

import numpy as np
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from skgp_sparse.data.checks import (
    FLOATS,
    MISSING_REMEDY,
    about_values,
    check_dimensions,
    check_in_memory,
    check_latitudes,
    check_missing,
    check_numbers,
    check_readable,
    is_frame,
    is_lazy,
    on_numpy,
)
from skgp_sparse.data.columns import FROM_DTYPE, as_table, numbers_only, types_of
from skgp_sparse.data.door import OpenSource, check_query
from skgp_sparse.engine.posteriors_around import (
    PosteriorWithMissingValues,
    missing_entries,
    spread_values,
)
from skgp_sparse.kernels import Missing, parts


class TypedInputs:
    """A mixin of estimators that take data frames and missing values."""

    def _learn_types(self, X, name):
        """Learn the types of the columns of X; on a cluster or in a source, all are numbers."""
        vars(self).pop("categories_", None)
        self._types, chosen = None, self.categorical_features
        if not (is_lazy(X) or isinstance(X, OpenSource)):
            self._types = types_of(as_table(X), chosen, name, warns=True)
        elif not (chosen is None or (isinstance(chosen, str) and chosen == FROM_DTYPE)):
            raise ValueError(
                f"{name}: categorical_features needs an array or a data frame in memory. Encode "
                "the categories before, and pass a kernel with Categorical."
            )
        if self._types is not None and self._types.values:
            self.categories_ = self._types.by_name()

    def _missing_columns(self, X, rows):
        """Whether rows lack values of columns (d,), or None; learns what queries want that do.

        The default kernel answers queries that lack others if it was given a data frame, or rows
        that lack some.
        """
        self._values = None
        if not rows.in_memory:
            return None
        missing = np.isnan(rows.X).any(axis=0)
        if self.kernel is None and not is_lazy(X) and (is_frame(X) or missing.any()):
            self._values = spread_values(rows.X, rows.weight)
        return missing

    def _answered(self, X, **others):
        """Query points, which may lack values, and the view that answers them."""
        values = getattr(self, "_values", None)
        X = self._query(X, values, **others)
        if values is None or not missing_entries(X, values).any():
            return X, self._view
        return X, self._view.with_process(
            lambda process: PosteriorWithMissingValues(process, values)
        )

    @on_numpy
    def _query(self, X, values=None, **others):
        """Query points, which may lack values of columns that have some in `values` (K, d)."""
        name = type(self).__name__
        check_in_memory(name, X=X, **others)
        check_query(X, name)
        check_readable(name, X=X, **others)
        check_dimensions(X, name)
        X = as_table(X)
        types = getattr(self, "_types", None) if hasattr(self, "kernel_") else None
        if types is None:
            check_numbers(X, "X", name)
        knows_missing = hasattr(self, "_fits") and _has_missing(self._fits[0].kernel)
        if types is None and values is None and not knows_missing:
            with about_values(X, name, self._remedy()):
                X = validate_data(self, X, reset=False, dtype=FLOATS)
            self._check_latitudes(X)
            return X
        validate_data(self, X, reset=False, skip_check_array=True)
        if is_frame(X) or types is not None:
            X = (types or numbers_only(X)).encoded(X, name)
        with about_values(X, name, ""):
            X = check_array(X, dtype=FLOATS, ensure_all_finite="allow-nan", input_name="X")
        self._check_missing(X if values is None else np.where(missing_entries(X, values), 0.0, X))
        self._check_latitudes(X)
        return X

    def _check_missing(self, X):
        """Raise if a value is missing in a column that the fitted kernel sees without `Missing`."""
        during = "there were none in the column in fit. Impute them, or fit with such rows."
        what = f"X of {type(self).__name__}"
        check_missing(X, self._fits[0].kernel, self._names(), what, during)

    def _remedy(self):
        """Remedy that errors about missing values name, where fit had none."""
        if self._takes_missing() and hasattr(self, "kernel_"):
            return "There were none in fit. Impute them, or fit with such rows."
        return MISSING_REMEDY

    def _check_latitudes(self, X):
        """Raise at a latitude beyond a pole, where a kernel has places on a sphere."""
        kernel = self._fits[0].kernel if hasattr(self, "kernel_") else self.kernel
        names = getattr(self, "feature_names_in_", None)
        check_latitudes(X, kernel, names, type(self).__name__)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._takes_missing()
        return tags

    def _takes_missing(self):
        """Whether values may be missing: the kernel is the default one, or has a `Missing`."""
        mixes = self.metric not in ("auto", "ard") or self.posterior == "fourier"
        if mixes or not getattr(self.posterior, "takes_missing", True):
            return False
        return self.kernel is None or _has_missing(self.kernel)

    def _names(self):
        """Names of the columns, or their numbers."""
        return getattr(self, "feature_names_in_", range(self.n_features_in_))


def _has_missing(kernel):
    """Whether a kernel has a part that knows what missing values mean."""
    return bool(parts(kernel, Missing))
