"""The estimators `DaskSparseGPRegressor` and `DaskSparseGPClassifier`.

Their signature and docstring are those of the plain estimators (`described`). Predictions of dask
collections are dask arrays whose blocks a plain estimator computes (`lazy`).
"""

import inspect
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from copy import copy
from dataclasses import replace
from functools import partial, wraps
from typing import Any

import dask.array as da
import numpy as np
from dask import delayed
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.validation import validate_data

from skgp_sparse._estimator import SparseGP
from skgp_sparse.classification import SparseGPClassifier
from skgp_sparse.dask import _distributed_rows as distributed_rows
from skgp_sparse.dask._distributed_rows import DaskDataset, known_sizes, once
from skgp_sparse.data.arrays import ArrayDataset, joined
from skgp_sparse.data.checks import RawRows, Rules, check_classes, is_lazy, within_limits
from skgp_sparse.data.columns import ColumnTypes
from skgp_sparse.data.copies import MOST_HASHED, RowHashes, row_weights
from skgp_sparse.data.dataset import Dataset
from skgp_sparse.data.door import encoded
from skgp_sparse.data.moments import is_small
from skgp_sparse.ground.parallel import single_threaded_blas
from skgp_sparse.ground.validation import AnyArray, ArrayLike, Kernel, check_any_weight
from skgp_sparse.regression import SparseGPRegressor

Rows = da.Array | ArrayLike | None
_CLIENT = """
client : distributed.Client, default=None
    The client of the cluster that works on dask collections. None means the client that is current
    when `fit` is called. Clones share it. Copies and pickles do not contain it.

Attributes
----------
client_ : distributed.Client
    The client that `fit` uses."""


def described(cls: "type[OnCluster]") -> Any:
    """Decorator: parameters and attributes are described as those of the plain estimator."""
    plain, own = (str(inspect.getdoc(one)) for one in (cls._plain, cls))
    sections = plain[plain.index("Parameters\n---") : plain.index("See Also\n---")]
    sections = sections.replace("\n\nAttributes\n----------", _CLIENT)
    cls.__doc__ = own.replace("See Also\n---", f"{sections}See Also\n---")
    return cls


def init_with_client(plain: type[SparseGP]) -> Callable[..., None]:
    """``__init__`` with the parameters of a plain estimator and `client`."""

    def __init__(
        self: "OnCluster", kernel: Kernel = None, *, client: object = None, **others: Any
    ) -> None:
        plain.__init__(self, kernel, **others)
        self.client = client

    signature = inspect.signature(plain.__init__)
    own = inspect.Parameter("client", inspect.Parameter.KEYWORD_ONLY, default=None)
    parameters = [*signature.parameters.values(), own]
    vars(__init__)["__signature__"] = signature.replace(parameters=parameters)
    return __init__


def lazy(method: Callable, probed_by: Callable | None = None) -> Callable:
    """A method of the plain estimator that answers dask collections with dask arrays.

    `probed_by` is one of the same results that needs nothing but X, to know their shapes.
    """
    signature = inspect.signature(method)

    @wraps(method)
    def predict(self: "OnCluster", *args: object, **kwargs: object) -> Any:
        given = signature.bind(self, *args, **kwargs).arguments
        del given["self"]
        if not any(map(is_lazy, given.values())):
            return method(self, **given)
        if given.get("return_cov"):
            raise TypeError(
                f"{type(self).__name__}.{method.__name__} computes the covariance of all pairs of "
                "rows, but X is a dask collection. Pass some, such as X[:100].compute()."
            )
        return _lazily(self.to_local(), method, probed_by or method, **given)

    return predict


def _lazily(plain: SparseGP, function: Callable, probed_by: Callable, X: Any, **kwargs: Any) -> Any:
    """Dask arrays of answers, whose blocks are those of X; columns beside X are cut alike."""
    blocks = distributed_rows.blocks_of_inputs(X, f"Dask{type(plain).__name__}.{function.__name__}")
    expected, sizes = getattr(plain, "n_features_in_", X.shape[1]), known_sizes(X)
    if X.shape[1] != expected:
        raise ValueError(f"X must have {expected} columns, as in fit. Got the shape {X.shape}.")
    # each block of X has its own part of these
    whats = [one for one in ("y", "at", "offset") if np.ndim(kwargs.get(one, 0))]
    columns = {
        one: distributed_rows.aligned(kwargs.pop(one), one, X, blocks, sizes) for one in whats
    }
    row = np.vstack(getattr(plain, "inducing_points_", [np.zeros(expected)]))[:1]
    if hasattr(plain, "feature_names_in_"):
        import pandas

        row = pandas.DataFrame(row, columns=plain.feature_names_in_)
    like = [one[:0] for one in _as_tuple(probed_by(plain, row, **kwargs))]  # the answer to no row
    estimator, call = once(plain), delayed(_predicted, pure=False)
    answers = [
        call(estimator, function.__name__, like, block, **kwargs, **dict(zip(columns, values)))
        for block, *values in zip(blocks, *columns.values())
    ]
    arrays = []
    for index, one in enumerate(like):
        shapes = [(size, *one.shape[1:]) for size in sizes or [np.nan] * len(blocks)]
        parts = (da.from_delayed(a[index], shape, meta=one) for a, shape in zip(answers, shapes))
        arrays.append(da.concatenate([*parts], allow_unknown_chunksizes=True))
    return tuple(arrays) if len(arrays) > 1 else arrays[0]


def _predicted(estimator: SparseGP, name: str, like: list, X: Sequence, **kwargs: object) -> Any:
    """Predictions of a plain estimator for a block of rows; `like` for an empty one."""
    with single_threaded_blas():
        return _as_tuple(getattr(estimator, name)(X, **kwargs)) if len(X) else like


def _as_tuple(answer: AnyArray | tuple) -> tuple[AnyArray, ...]:
    return answer if isinstance(answer, tuple) else (answer,)


class OnCluster(SparseGP):
    """Mixin of both estimators: the client of the cluster, and conversion to a plain one."""

    client: Any
    _plain: Any
    _compares_near_rows = False  # they would have to come from all workers

    @property
    def client_(self) -> Any:
        """The client that `fit` uses: `client`, or the one that is current."""
        return distributed_rows.resolve_client(self.client, type(self).__name__)

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

    def __sklearn_clone__(self) -> Any:
        twin = super(OnCluster, copy(self)).__sklearn_clone__()  # the copy has no client
        twin.client = self.client
        return twin

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        return {key: one for key, one in state.items() if key != "_held"} | {"client": None}

    def _fit(self, raw: RawRows) -> Any:
        with ExitStack() as self._held:
            try:
                super()._fit(raw)
            finally:
                del self._held
            if any(isinstance(fit.used_rows, DaskDataset) for fit in self._fitted.fits):
                self._fitted.fits = [fit.with_fit(objective=None) for fit in self._fitted.fits]
        return self

    def _read(self, rules: Rules, raw: RawRows, types: ColumnTypes | None, reset: bool) -> Dataset:
        X, y, sample_weight, offset, X_std = raw
        if not (reset and any(map(is_lazy, (X, y, sample_weight, offset)))):
            return super()._read(rules, raw, types, reset)
        if X_std is not None:
            raise ValueError(
                f"{rules.name}: X_std is available for rows in memory. Pass arrays, such as "
                "X.compute()."
            )
        columns = {"y": y, "sample_weight": sample_weight, "offset": offset}
        columns["alpha"] = getattr(self, "alpha", None)
        client = self.client_
        parts, n, outline = distributed_rows.load(client, rules, self._held, X, **columns)
        names = getattr(X, "_meta", X) if hasattr(X, "columns") else X
        validate_data(self, names, skip_check_array=True)
        if is_small(n * outline.n_features):  # the rows come to the client
            few = joined(distributed_rows.ask_each(client, parts, ArrayDataset.subset, slice(None)))
            check_any_weight(few.row_weights().any())
            return encoded(few, rules)
        has_weight, has_offset = outline.weight is not None, outline.offset is not None
        scaler, d = rules.scaler(outline.y.shape[1:]), outline.n_features
        rows = DaskDataset(client, parts, d, [], scaler, has_weight, has_offset).summarised()
        check_any_weight(any(summary.inputs for summary in rows.summaries))
        if rules.labels:
            labels, weights = map(np.concatenate, zip(*(one.targets for one in rows.summaries)))
            classes = check_classes(labels, weights if has_weight else None, rules.name)[0]
            rows = replace(rows, labels=classes)
        asked = rows.parts if rules.kernel is None and n <= MOST_HASHED else []
        found = RowHashes.joined(distributed_rows.ask_each(client, asked, RowHashes.of))
        indices = None if found is None or rows.labels is None else found.indices(rows.labels)
        return rows.with_weights(row_weights(rules, found, rows.weight, indices), self._held)


@described
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

    predict = lazy(_plain.predict)
    predict_quantiles = lazy(_plain.predict_quantiles)
    predict_cdf = lazy(_plain.predict_cdf, partial(_plain.predict_cdf, at=0.0))
    log_predictive_density = lazy(_plain.log_predictive_density, _plain.predict)

    def score(self, X: Rows, y: Rows, sample_weight: Rows = None, offset: Rows = None) -> float:
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


@described
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

    predict = lazy(_plain.predict)
    predict_proba = lazy(_plain.predict_proba)
    latent_mean_and_variance = lazy(_plain.latent_mean_and_variance)

    def score(self, X: Rows, y: Rows, sample_weight: Rows = None) -> float:
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


def _computed(estimator: OnCluster, *values: object) -> Any:
    """Values in memory; the cluster computes those that are lazy."""
    if not any(map(is_lazy, values)):
        return values
    return estimator.client_.gather(estimator.client_.compute(list(values)))
