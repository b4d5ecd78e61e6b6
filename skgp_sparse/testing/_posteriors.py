"""Checks of posterior methods and of sources, which are used as an estimator uses them."""

import pickle
import warnings
from itertools import count

import numpy as np
from sklearn.base import clone

from skgp_sparse import kernels
from skgp_sparse._estimator import fits_of
from skgp_sparse.classification import SparseGPClassifier
from skgp_sparse.data.checks import Rules
from skgp_sparse.data.door import as_chunk, survey
from skgp_sparse.engine.posterior import Posterior
from skgp_sparse.posteriors import PosteriorMethod
from skgp_sparse.regression import SparseGPRegressor
from skgp_sparse.sources import Arrays, Chunk, is_source
from skgp_sparse.testing import _functions as require


def check_source(source, pickles=False):
    """Check that an object meets the requirements of `skgp_sparse.sources`.

    All chunks are read in order three times, as in the evaluations of a fit, and then every other
    chunk. They must be the same every time, also after `close`, if the source has this method.
    Those of the first pass must be what `fit` takes: as many rows as `chunk_sizes` says, numbers
    without gaps, and in all chunks the same columns, weights or none, and offsets or none. They
    stay in memory: check a source of few rows.

    Parameters
    ----------
    source : object
        The source to check.
    pickles : bool, default=False
        Whether the source must give the same chunks after it was pickled. A fit does not need it,
        and the pickle of a fitted estimator leaves the source out.

    Raises
    ------
    AssertionError
        If a requirement is not met. The message says which one, and names the chunk.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse.testing import check_source
    >>> class Squares:
    ...     chunk_sizes = [100, 50]
    ...     def chunk(self, k):
    ...         X = np.random.RandomState(k).normal(size=(self.chunk_sizes[k], 2))
    ...         return X, (X**2).sum(axis=1)
    >>> check_source(Squares())
    """
    name = type(source).__name__
    require.that(is_source(source), f"{name} must have the members chunk_sizes and chunk.")
    chunks = _chunks(source)
    rules = Rules(name, None, any(chunk.y.dtype.kind in "OSU" for chunk in chunks))
    members = {"chunk": {**dict(enumerate(chunks)), len(chunks): None}.get}
    members |= {one: getattr(source, one, None) for one in ("chunk_sizes", "feature_names")}
    require.call(f"a fit to {name}", survey, type(name, (), members)(), rules, None)

    def compare(source, when, step=1):
        again, before = _chunks(source, step), chunks[::step]
        counts = f"{len(again)} chunks, expected {len(before)}"
        require.that(len(again) == len(before), f"{name} {when} has {counts}.")
        for k, one, other in zip(count(0, step), again, before):
            for part, values, first in zip(Chunk._fields, one, other):
                sentence = f"{name} {when}: chunk({k}) has another {part} than the first time."
                require.that(np.array_equal(values, first), sentence)

    compare(source, "in a second pass")
    compare(source, "after chunks were left out", step=2)
    for _ in range(2 if callable(getattr(source, "close", None)) else 0):
        require.call(f"{name}.close()", source.close)
    compare(source, "after close")
    if pickles:
        copy = require.call(f"pickling {name}", lambda: pickle.loads(pickle.dumps(source)))
        compare(copy, "from a pickle")


def _chunks(source, step=1):
    """Copies of every step-th chunk, as some sources fill the same array again."""
    sizes, found = source.chunk_sizes, []
    for number in count(0, step) if sizes is None else range(0, len(sizes), step):
        what = f"{type(source).__name__}.chunk({number})"
        chunk = require.call(what, source.chunk, number)
        if chunk is None and sizes is None:
            break
        columns = require.call(what, as_chunk, chunk)
        found.append(Chunk(*(None if one is None else np.array(one) for one in columns)))
    return found


_ROWS, _DRAWS = 60, 20_000
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
    require.call(f"cloning {name}", clone, method)
    rng = np.random.RandomState(0)
    X = rng.uniform(-2, 2, (_ROWS, 2))
    y = np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.2 * rng.normal(size=_ROWS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = require.call(f"fitting {name}", _model(method).fit, X, y)
        fit = fits_of(model)[0]
        right = method.is_exact_for_few or model.posterior_ == (method.name or fit.posterior.name)
        require.that(right, f"posterior_ is {model.posterior_!r} after a fit of {name}.")
        check_predictions(fit.posterior, X[:12] + 0.05)
        if fit.given is None:  # all rows are used, so that a weight counts as so many copies
            weight, plain = 1 + np.arange(_ROWS) % 3, {"optimizer": None, "normalize_y": False}
            copies = np.repeat(X, weight, axis=0), np.repeat(y, weight)
            fits = (_model(method, **plain).fit(*rows) for rows in ((X, y, weight), copies))
            moments = (one.predict(X[:5], return_std=True) for one in fits)
            require.close(*moments, 1e-5, f"predictions of {name} with weights")
        uses = _uses(method, model, X, y).items()
        return {use: _outcome(f"{use} with {name}", act) for use, act in uses}


def check_predictions(posterior, X):
    """Check that the predictions of a `Posterior` belong together.

    Parameters
    ----------
    posterior : Posterior
        The posterior to check.
    X : ndarray of shape (n, d)
        A few distinct rows.

    Raises
    ------
    AssertionError
        If a requirement of `Posterior` is not met.
    """
    name, n = type(posterior).__name__, len(X)
    require.that(isinstance(posterior, Posterior), f"{name} must be a Posterior.")
    require.that(bool(posterior.name), f"{name}.name must not be empty.")
    require.that(posterior.width >= 0 and posterior.n_rows_kept >= 0, f"{name} counts below 0.")
    mean, variance, covariance, draws = whole = _predictions(posterior, X)
    require.that(mean.ndim == 2 and len(mean) == n, f"The mean of {name} must be (n, p).")
    is_right = variance.shape in ((n,), mean.shape)
    require.that(is_right, f"The variance of {name} must be (n,) or (n, k).")
    signal = np.broadcast_to(kernels.diagonal(posterior.kernel, X)[0], n)
    unit = 1e-7 * max(variance.max(), signal.max())
    require.that(np.all(variance >= 0.0), f"{name} has a negative variance: {variance.min()}.")
    above = np.all(variance.T <= signal + unit)
    require.that(above, f"{name} has a variance that is larger than that of its kernel.")

    drawn = np.einsum("is...,js...->ij...", draws, draws) / _DRAWS
    far, single = 6.0 * np.sqrt(covariance.max() / _DRAWS), X.astype(np.float32)
    copy = require.call(f"pickling {name}", lambda: pickle.loads(pickle.dumps(posterior)))
    blocks = zip(*map(posterior.mean_and_variance, (X[: n // 2], X[n // 2 :])))
    for what, found, expected, allowed in (
        ("mean", posterior.mean(X), mean, 1e-12 * np.abs(mean).max()),
        ("diagonal of the covariance", np.einsum("ii...->i...", covariance), variance, unit),
        ("transposed covariance", covariance.swapaxes(0, 1), covariance, unit),
        ("mean of samples", draws.mean(axis=1), np.zeros(variance.shape), far),
        ("covariance of samples", drawn, covariance, 0.06 * covariance.max()),
        ("mean at float32 rows", posterior.mean(single), posterior.mean(single.astype(float)), 0),
        *_same("two blocks", map(np.concatenate, blocks), whole, 1e-9),
        *_same("three threads", posterior.mean_and_variance(X, 3), whole, 0.0),
        *_same("a pickle", _predictions(copy, X), whole, 0.0),
    ):
        require.close(found, expected, allowed, f"{what} of {name}")


def _predictions(posterior, X):
    """Moments, the covariance, and the same random draws every time."""
    draws = posterior.deviations(X, _DRAWS, np.random.RandomState(0))
    return *posterior.mean_and_variance(X), posterior.covariance(X), draws


def _same(when, found, expected, share):
    """Pairs of predictions that should be the same, with what they may differ by."""
    parts = "mean", "variance", "covariance", "deviations"
    for part, one, other in zip(parts, found, expected):
        yield f"{part} by {when}", one, other, share * max(np.abs(other).max(), 1.0)


def _uses(method, fitted, X, y):
    """Pairs of a name and a function, for everything that may be asked."""

    def fit(y=y, X=X, model=SparseGPRegressor, rows=(), **options):
        shape = _model(method, model, **options).fit(X, y, **dict(rows)).predict(X).shape
        require.that(shape == y.shape, f"predictions have the shape {shape}.")

    labels, counts = (y > 0).astype(int), np.random.RandomState(0).poisson(np.exp(y))
    gaps = np.where((np.arange(_ROWS) < 10)[:, None] & [True, False], np.nan, X)
    ones = np.ones(X.shape)
    return {
        "weights": lambda: fit(rows={"sample_weight": ones[:, 0]}),
        "several targets": lambda: fit(np.column_stack([y, -y])),
        "known noise": lambda: fit(alpha=np.full(_ROWS, 0.1)),
        "noise that varies": lambda: fit(noise="learned"),
        "a bound": lambda: fit(bound="titsias"),
        "a metric": lambda: fit(metric="full"),
        "a likelihood": lambda: fit(counts, likelihood="poisson"),
        "uncertain inputs": lambda: fit(rows={"X_std": 0.1 * ones}),
        "minibatches": lambda: fit(solver="stochastic"),
        "labels": lambda: fit(labels, model=SparseGPClassifier),
        "several classes": lambda: fit(labels + (y > 1), model=SparseGPClassifier),
        "missing values": lambda: fit(X=gaps),
        "a source": lambda: _model(method).fit(Arrays(X, y, chunk_size=25)).predict(X),
        "rows that arrive later": lambda: _model(method).partial_fit(X, y).predict(X),
        "leave one out": lambda: fitted.loo_predict().mean,
        "conformal intervals": lambda: fitted.predict_interval(X, 0.8, method="conformal"),
        "gradients": lambda: fitted.predict(X, return_std=True, return_gradient=True),
        "sampled functions": lambda: fitted.sample_functions(2)(X),
        "Sobol indices": lambda: fitted.feature_importances_,
        "evidence bounds": lambda: fitted.evidence_bounds(),
        "uncertain queries": lambda: fitted.predict(X, return_std=True, X_std=ones),
        "a pickle": lambda: pickle.loads(pickle.dumps(fitted)).predict(X),
    }


def _outcome(what, act):
    """The message by which a use was refused, "" where it works; raises where it fails."""
    try:
        act()
        return ""
    except Exception as error:
        message = str(error.__cause__ or error)  # that of a method that is not there
        got = f"Got {type(error).__name__}: {error}"
        in_words = isinstance(error, _REFUSALS) and len(message.split()) > 5
        require.that(in_words, f"{what} must work, or be refused in words. {got}")
        return message


def _model(method, model=SparseGPRegressor, **options):
    return model(posterior=method, max_iter=5, random_state=0, n_jobs=1, **options)
