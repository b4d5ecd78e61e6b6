"""How much each column matters, as fitted attributes."""

from sklearn.utils.validation import check_is_fitted

from skgp_sparse._engine.predictions.sobol import quantiles_of_columns, sobol_indices
from skgp_sparse._ground.typing import Array

_NAMES = "feature_importances_", "sobol_first_", "sobol_error_"


class Relevance:
    """A mixin: Sobol indices of the mean, which are computed when they are asked for."""

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

    def _relevance(self, name):
        """The `SobolIndices`, which are computed when they are asked for the first time."""
        check_is_fitted(self, "kernel_")
        if self._quantiles is None:
            raise AttributeError(
                f"{type(self).__name__}.{name} needs training rows in memory. Fit arrays."
            )
        if self._sobol is None:
            processes = [self._at_queries(fit.posterior) for fit in self._fits]
            self._sobol = sobol_indices(processes, self._quantiles, self.n_jobs)
        return self._sobol

    def __dir__(self):
        """Names, without those of Sobol indices that are not known: a repr reads them all."""
        unknown = _NAMES if vars(self).get("_sobol") is None else ()
        names = set(object.__dir__(self)) - set(unknown)
        return [name for name in names if hasattr(self, name)]  # as scikit-learn has it

    def _see_columns(self, fits):
        """Keep what tells how columns are distributed; indices of an earlier fit are forgotten."""
        self._quantiles = quantiles_of_columns([fit.rows for fit in fits])
        self._sobol = None
