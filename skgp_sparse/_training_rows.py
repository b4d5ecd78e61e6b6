"""Attributes and methods of a fitted regressor that concern its training rows."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skgp_sparse._ground.typing import AnyArray, Array, MaybeArray
from skgp_sparse.explain.evidence_bounds import EvidenceBounds, evidence_bounds
from skgp_sparse.explain.intervals import scores_of
from skgp_sparse.explain.leave_one_out import LooPrediction, loo_prediction
from skgp_sparse.parameters.parameter_checks import check_gaussian
from skgp_sparse.rows.door import check_query


class TrainingRows:
    """A mixin: training rows as attributes, left out one by one, and bounds of their evidence."""

    @property
    def X_train_(self) -> AnyArray:
        """Training inputs as they were passed, where the posterior holds all rows."""
        return self._training_rows("X_train_").as_passed()[0]

    @property
    def y_train_(self) -> Array:
        """Normalised training targets in the order of `X_train_`, or what a mean leaves of them."""
        rows = self._training_rows("y_train_")
        y = rows.as_passed()[1]
        y = rows.units.with_constants().forward(y)
        return y[:, 0] if y.shape[1] == 1 else y

    def loo_predict(self) -> LooPrediction:
        """Predict every training row from all others, without another fit.

        The hyperparameters and the inducing points are those of all rows. They have seen the row,
        so that with few rows, and many hyperparameters, the truth is a little worse. How exact the
        rest is depends on the posterior:

        - "exact": as fits without the row, to rounding.
        - "inducing" and "fourier": the row is taken out of the posterior of the weights. For all
          bounds, this is what the same inducing points say without it.
        - "neighbors": the nearest others predict the row.
        - "rows": means from the diagonal of an inverse matrix, which is estimated by the 100 rows
          that are nearest to each.
        - With a `likelihood`: the cavity of the row, at the sites of the others with the row.

        Returns
        -------
        LooPrediction
            A named tuple of arrays of shape (n_samples,) or (n_samples, n_targets), in the order of
            the rows of `fit`: `mean` and `std` of the targets in units of y, the noise and `alpha`
            included, and `log_density` of the targets in nats. Of a row with a weight above one,
            one copy is left out, and others stay.

        Raises
        ------
        ValueError
            If the rows of `fit` are not in memory, have the weight zero or errors `X_std`, or if
            the posterior has means and variances of different inducing points (`n_mean`,
            `tight_variance`).

        References
        ----------
        .. [1] Sundararajan and Keerthi (2001). "Predictive approaches for choosing hyperparameters
           in Gaussian processes." Neural Computation 13.

        Examples
        --------
        >>> import numpy as np
        >>> from skgp_sparse import SparseGPRegressor
        >>> X = np.linspace(0, 10, 60)[:, None]
        >>> y = np.sin(X[:, 0]) + 0.1 * np.cos(40 * X[:, 0])
        >>> y[30] = 3.0
        >>> loo = SparseGPRegressor().fit(X, y).loo_predict()
        >>> int(np.argmin(loo.log_density))
        30
        """
        check_is_fitted(self, "kernel_")
        with np.errstate(all="ignore"):
            name = f"{type(self).__name__}.loo_predict"
            return loo_prediction(self._fits[0], self, name)

    def evidence_bounds(
        self, X: MaybeArray = None, y: MaybeArray = None, sample_weight: MaybeArray = None
    ) -> EvidenceBounds:
        r"""Bound the exact log marginal likelihood at the fitted hyperparameters on both sides.

        The bounds say how much of the evidence the inducing points lose at most, and whether more
        of them could help: no choice of inducing points gets beyond `upper`. This takes a solve of
        all rows by conjugate gradients, which is O(n²) time per iteration, and O(n m) memory.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), default=None
            Inputs of the rows whose evidence is bounded. If None, they are the rows of `fit`.
        y : array-like of shape (n_samples,) or (n_samples, n_targets), default=None
            Targets of X.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights of X.

        Returns
        -------
        EvidenceBounds
            A named tuple of numbers, of all rows together and of the normalised targets, in nats:

            - `own`: the collapsed bound at `inducing_points_`, as `log_marginal_likelihood`
              returns it (of X, without the other points of `n_mean`); minus infinity if `bound` is
              no lower bound ("fitc", "pep", "dtc").
            - `upper`: upper bound with the log-determinant of the inducing points [1]_, and the
              quadratic term of all rows.
            - `gap_per_row`: the difference of the two, per row and target.

        Raises
        ------
        ValueError
            If the likelihood is not Gaussian, if the rows of `fit` are not in memory, or if X is
            given without y.
        TypeError
            If X is a source of rows.

        References
        ----------
        .. [1] Titsias (2014). "Variational inference for Gaussian and determinantal point
           processes." Workshop on Advances in Variational Inference, NIPS.

        Examples
        --------
        >>> import numpy as np
        >>> from skgp_sparse import SparseGPRegressor
        >>> X = np.linspace(0, 10, 400)[:, None]
        >>> y = np.sin(3 * X[:, 0]) + 0.1 * np.cos(40 * X[:, 0])
        >>> bounds = SparseGPRegressor(n_inducing=30, random_state=0).fit(X, y).evidence_bounds()
        >>> bounds.own <= bounds.upper
        True
        """
        check_is_fitted(self, "kernel_")
        check_query(X, type(self).__name__)
        name, others = f"{type(self).__name__}.evidence_bounds", None
        check_gaussian(self.likelihood, name, "Judge the fit by log_predictive_density.")
        if (X is None) != (y is None) or (X is None and sample_weight is not None):
            raise ValueError(
                f"{name} needs both X and y, or neither X, y nor sample_weight. Pass all or none."
            )
        with np.errstate(all="ignore"):
            if X is not None:
                rules = self._family().rules
                others = self._read(rules, X, y, sample_weight, None, reset=False)
                self._check_missing(others.X)
                others = self._residuals(others)
            return evidence_bounds(self._fits[0], self, others, self._units, name)

    def __getstate__(self):
        if hasattr(self, "_fits"):
            self._scores_of_rows()  # pickles have no rows that could tell
        return super().__getstate__()

    def _scores_of_rows(self):
        """The `Scores` for conformal intervals, computed when they are first asked for.

        None where there are none.
        """
        if self._scored_rows is not None:
            self._scores = scores_of(self._fits[0], self._scored_rows, self.n_jobs)
            self._scored_rows = None
        return self._scores

    def _training_rows(self, attribute):
        """The table of the training rows, for an attribute that needs them."""
        reason = "it is not fitted. Call fit"
        if hasattr(self, "kernel_"):
            fit = self._fits[0]
            reason = (
                f"its posterior_ is {self.posterior_!r}, which keeps none of the rows. Set "
                "posterior='exact' or 'rows' if all rows should be kept"
            )
            if fit.posterior.holds_rows:
                reason = "its rows came from a cluster or a large source. Fit arrays to have them"
                if fit.rows is not None and fit.rows.in_memory:
                    return fit.rows
        raise AttributeError(f"This {type(self).__name__} has no {attribute}: {reason}.")
