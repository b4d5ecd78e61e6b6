"""The estimators `DaskSparseGPRegressor` and `DaskSparseGPClassifier`."""

from contextlib import ExitStack
from copy import copy
from typing import Any

from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import validate_data

from skgp_sparse.classification import SparseGPClassifier
from skgp_sparse.dask._distributed_rows import DaskDataset
from skgp_sparse.dask._inherited import described, init_with_client
from skgp_sparse.dask._lazy_predictions import lazy, of_arrays
from skgp_sparse.dask._partitions import resolve_client
from skgp_sparse.dask._reader import read_partitions
from skgp_sparse.parameters.parameter_checks import can_learn_later
from skgp_sparse.regression import SparseGPRegressor
from skgp_sparse.rows.checks import is_lazy, within_limits


class OnCluster:
    """Mixin of both estimators: the client of the cluster, and conversion to a plain one."""

    client: Any
    _plain: Any
    _compares_near_rows = False  # they would have to come from all workers

    @property
    def client_(self) -> Any:
        """The client that `fit` uses: `client`, or the one that is current."""
        return resolve_client(self.client, type(self).__name__)

    def to_local(self) -> Any:
        """Make the plain estimator with the same parameters, fitted if this one is.

        Returns
        -------
        SparseGPRegressor or SparseGPClassifier
            An estimator that knows nothing of dask.
        """
        local = self._plain()
        state = {name: one for name, one in vars(self).items() if name not in ("client", "_held")}
        vars(local).update(state)
        return local

    def __sklearn_clone__(self):
        twin = super(OnCluster, copy(self)).__sklearn_clone__()  # the copy has no client
        twin.client = self.client
        return twin

    def __getstate__(self):
        state = super().__getstate__().copy()
        state.pop("_held", None)
        return {**state, "client": None}

    def _fit(self, *args):
        with ExitStack() as self._held:
            try:
                super()._fit(*args)
            finally:
                del self._held
            if any(isinstance(fit.used_rows, DaskDataset) for fit in self._fits):
                self._fits = [fit._replace(objective=None) for fit in self._fits]
        return self

    def _read(self, rules, X, y, sample_weight, offset, reset=True, X_std=None):
        if not any(map(is_lazy, (X, y, sample_weight, offset))):
            return super()._read(rules, X, y, sample_weight, offset, reset, X_std)
        if X_std is not None:
            raise ValueError(
                f"{rules.name}: X_std is available for rows in memory. Pass arrays, such as "
                "X.compute()."
            )
        columns = {"y": y, "sample_weight": sample_weight, "offset": offset}
        alpha = getattr(self, "alpha", None)
        rows = read_partitions(self.client_, rules, self._held, X, **columns, alpha=alpha)
        self._learn_types(X, rules.name)
        names = getattr(X, "_meta", X) if hasattr(X, "columns") else X
        validate_data(self, names, skip_check_array=True)
        return rows


_CHUNKS = "Pass the chunks as arrays, such as X.compute(), or fit all rows at once with fit."
_SAMPLES = "Samples are drawn jointly, not block by block. Pass arrays, such as X.compute()."


@described(SparseGPRegressor)
class DaskSparseGPRegressor(OnCluster, SparseGPRegressor):
    """Sparse Gaussian process regression on a cluster of dask.

    The same model as `SparseGPRegressor`, with the same result. `fit` takes dask arrays and
    dataframes, whose partitions stay on the workers, and predictions for dask collections are lazy
    dask arrays. NumPy arrays are treated as `SparseGPRegressor` does. Tables with up to a million
    numbers in X are fitted in the client. Weights and offsets of all rows are in the memory of the
    client. Where the likelihood is not Gaussian, so are some 50 numbers of every row with
    ``solver="lbfgs"`` or expectation propagation. `partial_fit` takes arrays only.

    See Also
    --------
    skgp_sparse.SparseGPRegressor : The plain estimator, which describes all methods.
    DaskSparseGPClassifier : Classification on a cluster of dask.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from distributed import Client
    >>> from skgp_sparse.dask import DaskSparseGPRegressor
    >>> rng = np.random.RandomState(0)
    >>> X = rng.uniform(-3, 3, size=(400, 1))
    >>> y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=400)
    >>> client = Client(processes=False, dashboard_address=None)
    >>> X, y = da.from_array(X, chunks=(100, 1)), da.from_array(y, chunks=100)
    >>> model = DaskSparseGPRegressor(n_inducing=10, random_state=0, client=client).fit(X, y)
    >>> model.predict(X)
    dask.array<concatenate, shape=(400,), dtype=float64, chunksize=(100,), chunktype=numpy.ndarray>
    >>> model.to_local().predict([[0.0]]).round(1) + 0.0
    array([0.])
    >>> client.close()
    """

    _plain = SparseGPRegressor
    __init__ = init_with_client(SparseGPRegressor)

    partial_fit = available_if(can_learn_later)(of_arrays(SparseGPRegressor.partial_fit, _CHUNKS))
    predict = lazy(SparseGPRegressor.predict)
    predict_quantiles = lazy(SparseGPRegressor.predict_quantiles)
    log_predictive_density = lazy(
        SparseGPRegressor.log_predictive_density, SparseGPRegressor.predict
    )
    evidence_bounds = of_arrays(SparseGPRegressor.evidence_bounds, _CHUNKS)
    sample_y = of_arrays(SparseGPRegressor.sample_y, _SAMPLES)

    def score(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> float:
        """Compute the coefficient of determination R² of the predicted means.

        Parameters
        ----------
        X : dask collection or array-like of shape (n_samples, n_features)
            Test inputs.
        y : dask collection or array-like of shape (n_samples,) or (n_samples, n_targets)
            True target values.
        sample_weight : dask collection or array-like of shape (n_samples,), default=None
            Sample weights.
        offset : float, dask collection or array-like of shape (n_samples,), default=None
            Known offset of the latent value of each row, as in `fit`. None is 0.

        Returns
        -------
        float
            R² of ``predict(X, offset=offset)``, computed at once.
        """
        y, predicted, weight = _computed(self, y, self.predict(X, offset=offset), sample_weight)
        y = within_limits(y, self.likelihood)
        return r2_score(y, predicted, sample_weight=weight)


@described(SparseGPClassifier)
class DaskSparseGPClassifier(OnCluster, SparseGPClassifier):
    """Sparse Gaussian process classification on a cluster of dask.

    The same model as `SparseGPClassifier`, with the same result. `fit` takes dask arrays and
    dataframes, whose partitions stay on the workers, and predictions for dask collections are lazy
    dask arrays. NumPy arrays are treated as `SparseGPClassifier` does. Tables with up to a million
    numbers in X are fitted in the client. Weights of all rows, and a byte or two for each label,
    are in the memory of the client, and with ``solver="lbfgs"`` or expectation propagation some 50
    numbers of every row. Binary problems are fitted one after the other, each of them by all
    workers, whatever `n_jobs`. `partial_fit` takes arrays only.

    See Also
    --------
    skgp_sparse.SparseGPClassifier : The plain estimator, which describes all methods.
    DaskSparseGPRegressor : Regression on a cluster of dask.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from distributed import Client
    >>> from skgp_sparse.dask import DaskSparseGPClassifier
    >>> X = np.random.RandomState(0).uniform(-3, 3, size=(400, 2))
    >>> y = np.where(np.hypot(X[:, 0], X[:, 1]) < 2, "inside", "outside")
    >>> client = Client(processes=False, dashboard_address=None)
    >>> X, y = da.from_array(X, chunks=(100, 2)), da.from_array(y, chunks=100)
    >>> model = DaskSparseGPClassifier(n_inducing=30, random_state=0, client=client).fit(X, y)
    >>> model.predict([[0.0, 0.0], [3.0, 3.0]])
    array(['inside', 'outside'], dtype='<U7')
    >>> client.close()
    """

    _plain = SparseGPClassifier
    __init__ = init_with_client(SparseGPClassifier)

    partial_fit = available_if(can_learn_later)(of_arrays(SparseGPClassifier.partial_fit, _CHUNKS))
    predict = lazy(SparseGPClassifier.predict)
    predict_proba = lazy(SparseGPClassifier.predict_proba)
    latent_mean_and_variance = lazy(SparseGPClassifier.latent_mean_and_variance)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Compute the accuracy of the predicted labels.

        Parameters
        ----------
        X : dask collection or array-like of shape (n_samples, n_features)
            Test inputs.
        y : dask collection or array-like of shape (n_samples,)
            True labels.
        sample_weight : dask collection or array-like of shape (n_samples,), default=None
            Sample weights.

        Returns
        -------
        float
            Accuracy of ``predict(X)``, computed at once.
        """
        y, predicted, weight = _computed(self, y, self.predict(X), sample_weight)
        return accuracy_score(y, predicted, sample_weight=weight)


def _computed(estimator, *values):
    """Values in memory; the cluster computes those that are lazy."""
    if not any(map(is_lazy, values)):
        return values
    return estimator.client_.gather(estimator.client_.compute(list(values)))
