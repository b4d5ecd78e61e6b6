"""A mean beside the process of a fitted estimator, added or weighted, and a calibration."""

from dataclasses import replace

import numpy as np
from sklearn.base import is_classifier

from skgp_sparse._engine.predictions.missing_values import averaged, missing_entries
from skgp_sparse._ground.plain_text import as_text
from skgp_sparse._ground.validation import is_auto, is_name
from skgp_sparse.explain.weighted_means import Calibration, WeightedMean, of_all_classes
from skgp_sparse.likelihoods import Censored


class FittedMean:
    """A mixin of estimators that have a mean beside their process."""

    _beside: WeightedMean | Calibration | None = None

    def _know_mean(self, beside=None):
        """Keep the mean or the calibration beside the process."""
        self._beside, function = beside, getattr(beside, "function", None)
        self.mean_ = None if function is None else function.as_attribute()
        if hasattr(self, "calibration"):
            self.calibration_ = beside if isinstance(beside, Calibration) else None

    def _residuals(self, rows):
        """Other rows as the process sees them: without a mean that is added to it."""
        if self._beside is None or not self._beside.weights.is_added:
            return rows
        return replace(rows, y=rows.y - self._beside.function.latent(rows.X.astype(float)))

    def _view_of(self, view):
        """The view of fits, with what is predicted beside them."""
        if isinstance(self._beside, Calibration):
            return view._replace(calibration=self._beside)
        return view.with_process(self._at_queries)

    def _at_queries(self, process):
        """The process, with its mean."""
        return self._beside.of(process) if isinstance(self._beside, WeightedMean) else process

    def _mean_part(self, X):
        """The part of the mean at queries (n, d), in units of y or latent; 0 without one."""
        if not isinstance(self._beside, WeightedMean):
            return 0.0
        missing = self._values is not None and missing_entries(X, self._values).any()
        return averaged(self._weighted, X, self._values) if missing else self._weighted(X)

    def _weighted(self, X):
        """Predictions beside the process, times their weights."""
        weight = self._view.of_latent().process.weight(X)
        return self._beside.units.among_constants(weight) * self._beside.function.latent(X)

    def _logits_of_mean(self, X, n_classes):
        """The part of the mean in the logits (n, n_classes) of queries; 0 without one."""
        if isinstance(self._beside, Calibration) and self._beside.weight:
            return self._beside.weight * of_all_classes(self._beside.function.latent(X))
        return np.zeros((len(X), n_classes))

    def _check_mean_of_stream(self):
        """Raise if a mean was chosen, which rows that arrive later do not have."""
        if not (self.mean is None or is_auto(self.mean)):
            raise ValueError(
                f"{type(self).__name__}.partial_fit has no mean={as_text(self.mean)}, which is "
                "fitted to all rows at once. Call fit with all rows, or set mean to None."
            )

    def _check_mean_of_rows(self, rows, is_here):
        """Raise if a mean that was chosen cannot be that of rows; `is_here`: they are an array."""
        mean, name = self.mean, type(self).__name__
        if mean is None or is_auto(mean):
            return
        is_in_kernel = is_name(mean, "linear") and self.kernel is not None
        is_of_labels = is_classifier(self) and self.kernel is not None and not is_in_kernel
        reasons = {
            "an array or a data frame": not is_here,
            "inputs that are known, without X_std": rows.X_std is not None,
            "no offset": getattr(rows, "offset", None) is not None,
            "kernel=None (beside a kernel of yours, it is for numbers)": is_of_labels,
            "targets that are not censored (or be 'linear' beside a kernel)": not is_in_kernel
            and isinstance(self.likelihood, Censored),
        }
        for reason, is_wrong in reasons.items():
            if is_wrong:
                raise ValueError(
                    f"{name}: mean={as_text(mean)} needs {reason}. Change this, or set mean to "
                    "None."
                )
