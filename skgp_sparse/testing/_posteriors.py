"""The check of posterior methods, which tries everything that an estimator may ask of one."""

import pickle
import warnings
from functools import partial
from importlib.util import find_spec

import numpy as np
from sklearn.base import clone

from skgp_sparse import kernels
from skgp_sparse._engine.predictions.posterior import Posterior
from skgp_sparse._estimator import fits_of
from skgp_sparse.classification import SparseGPClassifier
from skgp_sparse.posteriors import PosteriorMethod
from skgp_sparse.regression import SparseGPRegressor
from skgp_sparse.sources import Arrays
from skgp_sparse.testing import _require as require

_ROWS, _QUERIES, _DRAWS = 60, 12, 20_000
_REFUSALS = (ValueError, TypeError, AttributeError, NotImplementedError, pickle.PicklingError)


def check_posterior(method):
    """Check that a posterior method meets the requirements of `skgp_sparse.posteriors`.

    The method is fitted to a table of 60 rows. Means, variances, covariances and samples of its
    `Posterior` must belong together, variances must not be negative, and neither blocks of rows,
    threads, types of numbers nor pickles may change a prediction. Then every use of an estimator is
    tried. It must work, or be refused by an error of one or more sentences.

    Parameters
    ----------
    method : PosteriorMethod
        The method to check.

    Returns
    -------
    dict
        By the name of each use, the message by which it was refused; "" where it works.

    Raises
    ------
    AssertionError
        If a requirement is not met. The message says which one.

    Examples
    --------
    >>> from skgp_sparse.posteriors import Neighbors
    >>> from skgp_sparse.testing import check_posterior
    >>> refused = check_posterior(Neighbors(n_neighbors=10))
    >>> refused["leave one out"], bool(refused["sampled functions"])
    ('', True)
    """
    name = type(method).__name__
    require.that(isinstance(method, PosteriorMethod), f"{name} must be a PosteriorMethod.")
    with require.no_error(f"cloning {name}"):
        clone(method)
    X, y = _table()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with require.no_error(f"fitting {name}"):
            model = _regressor(method).fit(X, y)
        posterior = fits_of(model)[0].posterior
        if not method.is_exact_for_few:
            known = method.name or posterior.name
            _equal(model.posterior_, known, f"posterior_ after a fit of {name}")
        check_predictions(posterior, np.unique(X, axis=0)[:_QUERIES] + 0.05)
        _check_weights(method, X, y)
        return {use: _outcome(f"{use} with {name}", act) for use, act in _uses(method, model)}


def check_predictions(posterior, X, *, tolerance=1e-7):
    """Check that the predictions of a `Posterior` belong together.

    Parameters
    ----------
    posterior : Posterior
        The posterior to check.
    X : ndarray of shape (n, d)
        A few distinct rows.
    tolerance : float, default=1e-7
        Tolerance of variances beside covariances, in units of the largest variance.

    Raises
    ------
    AssertionError
        If a requirement of `Posterior` is not met.
    """
    name = type(posterior).__name__
    require.that(isinstance(posterior, Posterior), f"{name} must be a Posterior.")
    require.that(bool(posterior.name), f"{name}.name must not be empty.")
    require.that(posterior.width >= 0 and posterior.n_rows_kept >= 0, f"{name} counts below 0.")
    mean, variance = posterior.mean_and_variance(X)
    covariance = posterior.covariance(X)
    _check_shapes(posterior, X, mean, variance, covariance)
    signal = np.broadcast_to(kernels.diagonal(posterior.kernel, X)[0], len(X))
    signal = signal if variance.ndim == 1 else signal[:, None]
    unit = tolerance * max(variance.max(), signal.max())
    require.that(np.all(variance >= 0.0), f"{name} has a negative variance: {variance.min()}.")
    above = np.all(variance <= signal + unit)
    require.that(above, f"{name} has a variance that is larger than that of its kernel.")
    _close(posterior.mean(X), mean, f"mean of {name}", 1e-12 * np.abs(mean).max())
    diagonal = np.einsum("ii...->i...", covariance)
    _close(diagonal, variance, f"diagonal of the covariance of {name}", unit)
    transposed = covariance.swapaxes(0, 1)
    _close(transposed, covariance, f"transposed covariance of {name}", unit)
    _check_samples(posterior, X, covariance)
    _check_copies(posterior, X)


def _check_shapes(posterior, X, mean, variance, covariance):
    name, n, of_processes = type(posterior).__name__, len(X), variance.shape[1:]
    require.that(mean.ndim == 2 and len(mean) == n, f"The mean of {name} must be (n, p).")
    is_right = len(variance) == n and of_processes in ((), mean.shape[1:])
    require.that(is_right, f"The variance of {name} must be (n,) or (n, k).")
    draws = posterior.deviations(X, 3, np.random.RandomState(0))
    for what, found, size in (("covariance", covariance, n), ("deviations", draws, 3)):
        shape = n, size, *of_processes
        require.that(found.shape == shape, f"{what} of {name} is {found.shape}, not {shape}.")


def _check_samples(posterior, X, covariance):
    """Check that samples have the mean 0 and the covariance of the posterior."""
    name, draws = (
        type(posterior).__name__,
        posterior.deviations(X, _DRAWS, np.random.RandomState(0)),
    )
    unit = np.sqrt(covariance.max() / _DRAWS)
    centred = np.all(np.abs(draws.mean(axis=1)) < 6.0 * unit)
    require.that(centred, f"The deviations of {name} have a mean that is not 0.")
    drawn = np.einsum("is...,js...->ij...", draws, draws) / _DRAWS
    atol = 0.06 * covariance.max()
    _close(drawn, covariance, f"covariance of samples of {name}", atol)


def _check_copies(posterior, X):
    """Check that threads, blocks, types of numbers and pickles change nothing."""
    name, whole = type(posterior).__name__, posterior.mean_and_variance(X)
    with require.no_error(f"pickling {name}"):
        copy = pickle.loads(pickle.dumps(posterior))
    single = X.astype(np.float32)
    parts = [posterior.mean_and_variance(X[rows]) for rows in (slice(0, 5), slice(5, None))]
    for k, what in enumerate(("mean", "variance")):
        of_copy, of_threads = copy.mean_and_variance(X)[k], posterior.mean_and_variance(X, 3)[k]
        _equal(of_copy, whole[k], f"{what} of a pickle of {name}")
        _equal(of_threads, whole[k], f"{what} of {name} on three threads")
        joined, atol = np.concatenate([part[k] for part in parts]), 1e-9 * np.abs(whole[k]).max()
        _close(joined, whole[k], f"{what} of {name} in two blocks", max(atol, 1e-9))
    _equal(copy.covariance(X), posterior.covariance(X), f"covariance of a pickle of {name}")
    draws = [one.deviations(X, 2, np.random.RandomState(0)) for one in (copy, posterior)]
    _equal(*draws, f"deviations of a pickle of {name}")
    means = [posterior.mean(rows) for rows in (single, single.astype(float))]
    _equal(*means, f"mean of {name} at float32 rows")


def _check_weights(method, X, y):
    """Check that a weight counts as so many copies, where all rows are used."""
    weight = 1.0 + np.arange(len(X)) % 3
    options = {"optimizer": None, "normalize_y": False}
    weighted = _regressor(method, **options).fit(X, y, sample_weight=weight)
    if fits_of(weighted)[0].given is not None:
        return
    again = np.repeat(np.arange(len(X)), weight.astype(int))
    copies = _regressor(method, **options).fit(X[again], y[again])
    found, expected = (model.predict(X[:5], return_std=True) for model in (weighted, copies))
    for what, one, two in zip(("mean", "standard deviation"), found, expected):
        _close(one, two, f"{what} of {type(method).__name__} with weights", 1e-5)


def _uses(method, fitted):
    """Pairs of a name and a function, for everything that may be asked."""
    X, y = _table()
    labels, counts = (y > 0).astype(int), np.random.RandomState(0).poisson(np.exp(y))
    fitting = {
        "weights": ({}, y, {"sample_weight": np.ones(len(X))}),
        "several targets": ({}, np.column_stack([y, -y]), {}),
        "known noise": ({"alpha": np.full(len(X), 0.1)}, y, {}),
        "noise that varies": ({"noise": "learned"}, y, {}),
        "a bound": ({"bound": "titsias"}, y, {}),
        "a metric": ({"metric": "full"}, y, {}),
        "a likelihood": ({"likelihood": "poisson"}, counts, {}),
        "uncertain inputs": ({}, y, {"X_std": np.full(X.shape, 0.1)}),
        "minibatches": ({"solver": "stochastic"}, y, {}),
    }
    for use, (options, targets, more) in fitting.items():
        yield use, partial(_fit_and_predict, method, options, X, targets, more)
    yield "labels", partial(_fit_labels, method, X, labels)
    yield "several classes", partial(_fit_labels, method, X, labels + (y > 1))
    yield "missing values", partial(_fit_missing, method, X, y)
    yield "a source", lambda: _regressor(method).fit(Arrays(X, y, chunk_size=25)).predict(X)
    yield "rows that arrive later", lambda: _regressor(method).partial_fit(X, y).predict(X)
    yield "leave one out", partial(_leave_one_out, fitted, X)
    yield "conformal intervals", lambda: fitted.predict_interval(X, 0.8, method="conformal")
    yield "gradients", lambda: fitted.predict(X, return_std=True, return_gradient=True)
    yield "sampled functions", lambda: fitted.sample_functions(2)(X)
    yield "Sobol indices", lambda: fitted.feature_importances_
    yield "evidence bounds", lambda: fitted.evidence_bounds()
    yield "uncertain queries", lambda: fitted.predict(X, return_std=True, X_std=np.ones(X.shape))
    yield "a pickle", lambda: pickle.loads(pickle.dumps(fitted)).predict(X)
    if find_spec("skl2onnx") is not None:
        yield "ONNX", partial(_as_graph, fitted, X)
    if find_spec("distributed") is not None:
        yield "dask", partial(_on_a_cluster, method, X, y)


def _outcome(what, act):
    """The message by which a use was refused, "" where it works; raises where it fails."""
    try:
        act()
    except _REFUSALS as error:
        message = str(error.__cause__ or error)  # that of a method that is not there
        is_in_words = len(message.split()) > 5
        sentence = f"{what} must work, or be refused in words. Got {type(error).__name__}: {error}"
        require.that(is_in_words, sentence)
        return message
    except Exception as error:
        raise AssertionError(f"{what} raised {type(error).__name__}: {error}") from error
    return ""


def _equal(found, expected, what):
    same = np.array_equal(found, expected)
    require.that(same, f"{what} must be {expected!r}. Got {found!r}.")


def _close(found, expected, what, allowed):
    require.close(found, expected, allowed, what, "see Posterior")


def _table():
    rng = np.random.RandomState(0)
    X = rng.uniform(-2, 2, (_ROWS, 2))
    return X, np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.2 * rng.normal(size=_ROWS)


def _regressor(method, **options):
    return SparseGPRegressor(posterior=method, max_iter=5, random_state=0, n_jobs=1, **options)


def _fit_and_predict(method, options, X, y, more):
    mean = _regressor(method, **options).fit(X, y, **more).predict(X)
    _equal(mean.shape, y.shape, f"shape of predictions of {type(method).__name__}")


def _fit_labels(method, X, labels):
    model = SparseGPClassifier(posterior=method, max_iter=5, random_state=0, n_jobs=1)
    total = model.fit(X, labels).predict_proba(X).sum(axis=1)
    _close(total, np.ones(len(X)), f"sum of probabilities of {type(method).__name__}", 1e-8)


def _fit_missing(method, X, y):
    X = X.copy()
    X[:10, 0] = np.nan
    _regressor(method).fit(X, y).predict(X)


def _leave_one_out(fitted, X):
    found = fitted.loo_predict().mean
    _equal(found.shape, (len(X),), "shape of the means of loo_predict")


def _as_graph(fitted, X):
    from skl2onnx import to_onnx

    from skgp_sparse import onnx

    onnx.register()
    to_onnx(fitted, X[:1])


def _on_a_cluster(method, X, y):
    from distributed import Client

    from skgp_sparse.dask import DaskSparseGPRegressor

    options = {"processes": False, "n_workers": 1, "threads_per_worker": 1}
    with Client(dashboard_address=None, **options) as client:
        model = DaskSparseGPRegressor(posterior=method, max_iter=5, random_state=0, client=client)
        model.fit(X, y).predict(X)
