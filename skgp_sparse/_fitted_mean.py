"""A mean beside the process of a fitted estimator: a drift, a weighted mean, a calibration."""

import numpy as np

from skgp_sparse._engine.predictions.missing_values import averaged, missing_entries
from skgp_sparse._engine.predictions.posterior_with_drift import PosteriorWithDrift
from skgp_sparse._ground.plain_text import as_text
from skgp_sparse._ground.validation import is_auto, is_name
from skgp_sparse.explain.weighted_means import Calibration, WeightedMean, of_all_classes
from skgp_sparse.likelihoods import Censored
from skgp_sparse.parameters.mean_functions import LinearMean, MeanFunction, linear_regression


class FittedMean:
    """A mixin of estimators that have a mean beside their process."""

    _drift: LinearMean | MeanFunction | None = None
    _beside: WeightedMean | Calibration | None = None

    def _know_mean(self, drift=None, beside=None):
        """Keep the drift of a process, or the mean or the calibration beside it."""
        self._drift, self._beside = drift, beside
        function = getattr(beside, "function", drift)
        self.mean_ = function.as_attribute() if isinstance(function, MeanFunction) else None
        if hasattr(self, "calibration"):
            self.calibration_ = beside if isinstance(beside, Calibration) else None

    def _know_linear_mean(self, rows, fits, units):
        """Keep the linear function that is the drift of fits to rows."""
        if isinstance(self._drift, LinearMean):
            each = [linear_regression(self._drift, fit.posterior, rows, units) for fit in fits]
            self.mean_ = each[0] if len(each) == 1 else each

    def _n_drift(self):
        """Number of the columns that the process has besides those of X."""
        return 0 if self._drift is None else np.size(self._drift.centre)

    def _with_drift(self, rows):
        """Rows that the mean does not know, with its columns."""
        if self._drift is None:
            return rows
        return rows.with_columns(self._drift.columns(np.asarray(rows.X, np.float64)))

    def _view_of(self, view):
        """The view of fits, with what is predicted beside them."""
        if self._drift is not None or isinstance(self._beside, WeightedMean):
            view = view.with_process(self._at_queries)
        if isinstance(self._beside, Calibration):
            view = view._replace(calibration=self._beside)
        return view

    def _at_queries(self, process):
        """The process as a function of X, beside its mean."""
        if self._drift is not None:
            slope = self._drift.slope(self.n_features_in_)
            process = PosteriorWithDrift(process, self._drift, slope)
        return self._beside.of(process) if isinstance(self._beside, WeightedMean) else process

    def _mean_part(self, X):
        """The part of the mean at queries (n, d), in units of y or latent; 0 without one."""
        if isinstance(self._beside, WeightedMean):
            missing = self._values is not None and missing_entries(X, self._values).any()
            return averaged(self._weighted, X, self._values) if missing else self._weighted(X)
        if isinstance(self._drift, LinearMean):
            return np.reshape(self.mean_.predict(self._drift.filled(X)), (len(X), -1))
        return 0.0 if self._drift is None else self._drift.latent(X)

    def _weighted(self, X):
        """Predictions beside the process, times their weights."""
        weight = self._view.of_latent().process.weight(X)
        return self._beside.units.among_constants(weight) * self._beside.function.latent(X)

    def _logits_of_mean(self, X, n_classes):
        """The part of the mean in the logits (n, n_classes) of queries; 0 without one."""
        if isinstance(self._beside, Calibration) and self._beside.weight:
            return self._beside.weight * of_all_classes(self._beside.function.latent(X))
        if self._drift is None:
            return np.zeros((len(X), n_classes))
        if isinstance(self._drift, MeanFunction):
            return of_all_classes(self._drift.latent(X))
        is_ordinal, of_pairs = self.likelihood == "ordinal", self.multi_class == "one_vs_one"
        if is_ordinal or (n_classes > 2 and of_pairs):
            raise ValueError(
                f"{type(self).__name__}.predict_parts: with likelihood='ordinal' or with pairs of "
                "classes, mean='linear' is no part of the logits of classes. Set likelihood to "
                "'probit', and multi_class to 'one_vs_rest' or 'softmax'."
            )
        each = self.mean_ if isinstance(self.mean_, list) else [self.mean_]
        filled = self._drift.filled(X)
        return of_all_classes(np.column_stack([one.predict(filled) for one in each]))

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
        adds_columns = is_name(mean, "linear") or self.kernel is not None
        reasons = {
            "an array or a data frame": not is_here,
            "inputs that are known, without X_std": rows.X_std is not None,
            "no offset": getattr(rows, "offset", None) is not None,
            "inducing_init to be a name": adds_columns and not isinstance(self.inducing_init, str),
            "targets that are not censored (unless it is 'linear')": not is_name(mean, "linear")
            and isinstance(self.likelihood, Censored),
        }
        for reason, is_wrong in reasons.items():
            if is_wrong:
                raise ValueError(
                    f"{name}: mean={as_text(mean)} needs {reason}. Change this, or set mean to "
                    "None."
                )
