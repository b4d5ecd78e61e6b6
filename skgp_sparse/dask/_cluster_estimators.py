"""The estimators `DaskSparseGPRegressor` and `DaskSparseGPClassifier`.

Their signature and docstring are those of the plain estimators (`described`). Predictions of dask
collections are dask arrays whose blocks a plain estimator computes (`lazy`). `read_partitions`
makes their rows tables on the workers or in the client.
"""

import inspect
import re
from contextlib import ExitStack
from copy import copy
from dataclasses import replace
from functools import wraps
from typing import Any

import dask.array as da
import numpy as np
from dask import delayed
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import validate_data

from skgp_sparse.choices.parameter_checks import can_learn_later
from skgp_sparse.classification import SparseGPClassifier
from skgp_sparse.dask import _distributed_rows
from skgp_sparse.dask._distributed_rows import (
    DaskDataset,
    View,
    aligned,
    blocks_of_inputs,
    known_sizes,
    once,
    resolve_client,
)
from skgp_sparse.data.arrays import ArrayDataset, joined
from skgp_sparse.data.checks import check_classes, is_lazy, within_limits
from skgp_sparse.data.door import encoded
from skgp_sparse.data.moments import is_small
from skgp_sparse.ground.parallel import single_threaded_blas
from skgp_sparse.ground.validation import check_any_weight
from skgp_sparse.regression import SparseGPRegressor

_CLIENT = """client : distributed.Client, default=None
    The client of the cluster that works on dask collections. None means the client that is current
    when `fit` is called. Clones share it. Copies and pickles do not contain it."""


def init_with_client(plain):
    """``__init__`` with the parameters of a plain estimator and `client`."""

    def __init__(self, kernel=None, *, client=None, **parameters):
        plain.__init__(self, kernel, **parameters)
        self.client = client

    signature = inspect.signature(plain.__init__)
    own = inspect.Parameter("client", inspect.Parameter.KEYWORD_ONLY, default=None)
    __init__.__signature__ = signature.replace(parameters=[*signature.parameters.values(), own])
    return __init__


def described(plain):
    """Decorator: the docstring of a class goes on with the sections of the plain estimator.

    A parameter that the plain estimator is given is there on the cluster, too, and described once.

    Its own siblings and examples are in the place of theirs.
    """

    def describe(cls):
        sections = _sections(plain) | _sections(cls)
        sections.pop("Notes", None)
        sections["Parameters"] += f"\n{_CLIENT}"
        sections["Attributes"] += "\nclient_ : distributed.Client\n    The client that `fit` uses."
        texts = (f"{name}\n{'-' * len(name)}\n{text}" for name, text in sections.items() if name)
        cls.__doc__ = "\n\n".join([sections[""], *texts]) + "\n"
        return cls

    return describe


def _sections(cls):
    """The docstring of a class by its headings, "" for what is before the first one."""
    summary, *others = re.split(r"\n\n([A-Z][\w ]*)\n-+\n", inspect.getdoc(cls))
    return {"": summary, **dict(zip(others[::2], others[1::2]))}


_BY_ROW = ("y", "offset")  # arguments of which each block of X has its own
_OF_PAIRS = "A covariance is that of all pairs of rows. Pass some, such as X[:100].compute()."


def lazy(method, probed_by=None):
    """A method of the plain estimator that answers dask collections with dask arrays.

    The estimator travels as one object of the graph, which dask hands from worker to worker.
    Methods whose rows belong together are refused here.

    Parameters
    ----------
    method : function
        ``(self, X, ...)``.
    probed_by : function or None
        A method of the same results that needs nothing but X, to know their shapes; None: itself.
    """
    signature = inspect.signature(method)

    @wraps(method)
    def predict(self, *args, **kwargs):
        given = signature.bind(self, *args, **kwargs).arguments
        del given["self"]
        if not any(map(is_lazy, given.values())):
            return method(self, **given)
        if given.get("return_cov"):
            raise _refusal(self, method, "X", given["X"], _OF_PAIRS)
        return _predict_lazily(self.to_local(), method, probed_by or method, **given)

    return predict


def of_arrays(method, remedy):
    """A method of the plain estimator that is refused to dask collections; `remedy` says why."""
    signature = inspect.signature(method)

    @wraps(method)
    def refuse(self, *args, **kwargs):
        for argument, value in signature.bind(self, *args, **kwargs).arguments.items():
            if is_lazy(value):
                raise _refusal(self, method, argument, value, remedy)
        return method(self, *args, **kwargs)

    return refuse


def _refusal(estimator, method, argument, value, remedy):
    return TypeError(
        f"{type(estimator).__name__}.{method.__name__} takes arrays. Got a dask collection "
        f"({type(value).__name__}) as {argument}. {remedy}"
    )


def _predict_lazily(local, method, probed_by, X, **given):
    name = f"Dask{type(local).__name__}.{method.__name__}"
    blocks, sizes = blocks_of_inputs(X, name), known_sizes(X)
    _check_columns(local, X)
    columns = {what: given.pop(what) for what in _BY_ROW if np.ndim(given.get(what))}
    for what, column in columns.items():
        columns[what] = aligned(column, what, X, blocks, sizes)
    like = _probe(local, probed_by, X.shape[1], given)
    estimator, call = once(local), delayed(_predicted, pure=False)
    answers = [
        call(estimator, method.__name__, like, block, **given, **dict(zip(columns, values)))
        for block, *values in zip(blocks, *columns.values())
    ]
    sizes = sizes or [np.nan] * len(blocks)
    if not isinstance(like, tuple):
        return _array(answers, sizes, like)
    return tuple(
        _array([answer[index] for answer in answers], sizes, one) for index, one in enumerate(like)
    )


def _predicted(estimator, method, like, X, **given):
    """Predictions of a plain estimator for a block of rows; `like` for an empty one."""
    with single_threaded_blas():
        return getattr(estimator, method)(X, **given) if len(X) else like


def _probe(local, method, n_features, given):
    """The answer to no row, whose shape and type all answers have."""
    row = np.vstack(getattr(local, "inducing_points_", np.zeros((1, n_features))))[:1]
    if hasattr(local, "feature_names_in_"):
        import pandas

        row = pandas.DataFrame(row, columns=local.feature_names_in_)
    answer = method(local, row, **given)
    return tuple(one[:0] for one in answer) if isinstance(answer, tuple) else answer[:0]


def _check_columns(local, X):
    expected = getattr(local, "n_features_in_", X.shape[1])
    if X.shape[1] != expected:
        raise ValueError(
            f"X must have {expected} columns, as in fit. Got a collection of shape {X.shape}."
        )


def _array(answers, sizes, like):
    blocks = [
        da.from_delayed(answer, (size, *like.shape[1:]), meta=like)
        for answer, size in zip(answers, sizes)
    ]
    return da.concatenate(blocks, allow_unknown_chunksizes=True)


def read_partitions(client, rules, held, X, **columns):
    """All rows of dask collections as a `Dataset`; those of small tables come to the client.

    Parameters
    ----------
    client : Client
    rules : Rules
    held : ExitStack
        Which lets the cluster forget the parts, when it is closed.
    X : dask array or dataframe
    **columns : dask collection, ndarray, number or None
        ``y``, ``sample_weight``, ``offset`` and ``alpha``.
    """
    parts, n, outline = _distributed_rows.load(client, rules, held, X, **columns)
    if is_small(n * outline.n_features):
        rows = joined(parts.each(ArrayDataset.subset, slice(None)))
        check_any_weight(rows.weight is None or rows.weight.any())
        return encoded(rows, rules)
    view = View(rules.units(outline.columns_of_y))
    has = outline.has_weight, outline.has_offset
    rows = DaskDataset.of(parts, outline.n_features, view, *has)
    check_any_weight(any(summary.inputs for summary in rows.summaries))
    if not rules.labels:
        return rows
    labels, weights = map(np.concatenate, zip(*(one.targets for one in rows.summaries)))
    classes = check_classes(labels, weights if rows.weighted else None, rules.name)[0]
    return replace(rows, reading=view._replace(classes=classes))


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

    def _fit(self, given):
        with ExitStack() as self._held:
            try:
                super()._fit(given)
            finally:
                del self._held
            if any(isinstance(fit.used_rows, DaskDataset) for fit in self._fitted.fits):
                self._fitted.fits = [fit._replace(objective=None) for fit in self._fitted.fits]
        return self

    def _read(self, rules, given, types, reset=True):
        X, y, sample_weight, offset, X_std = given
        if not any(map(is_lazy, (X, y, sample_weight, offset))):
            return super()._read(rules, given, types, reset)
        if X_std is not None:
            raise ValueError(
                f"{rules.name}: X_std is available for rows in memory. Pass arrays, such as "
                "X.compute()."
            )
        columns = {"y": y, "sample_weight": sample_weight, "offset": offset}
        alpha = getattr(self, "alpha", None)
        rows = read_partitions(self.client_, rules, self._held, X, **columns, alpha=alpha)
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
