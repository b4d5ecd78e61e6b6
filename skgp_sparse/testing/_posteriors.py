"""Checks of posterior methods, and of what they predict."""

import pickle
import warnings
from collections.abc import Callable, Mapping

import numpy as np
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from skgp_sparse import kernels
from skgp_sparse._estimator import SparseGP, fits_of
from skgp_sparse.classification import SparseGPClassifier
from skgp_sparse.ground.validation import AnyArray, Array, MaybeArray
from skgp_sparse.posteriors import Posterior, PosteriorMethod
from skgp_sparse.regression import SparseGPRegressor
from skgp_sparse.sources import Stream

from ._comparisons import call, close, pickled, that

_ROWS_OF_FITS, _DRAWS = 60, 20_000
_REFUSALS = (ValueError, TypeError, AttributeError, NotImplementedError, pickle.PicklingError)


def check_posterior(method: PosteriorMethod) -> dict[str, str]:
    """Check that a posterior method meets the requirements of `skgp_sparse.posteriors`.

    The method is fitted to a table of 60 rows. Means, variances, covariances and samples of its
    `Posterior` must belong together, variances must not be negative, and neither blocks of rows,
    types of numbers nor pickles may change a prediction. Then uses of an estimator are tried. Each
    must work, or be refused by an error of one or more sentences. Weights and known noise that are
    not refused must change predictions, and with ``optimizer=None`` the kernel must stay as it is,
    unless predictions do not depend on the rows at all.

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
    name, rng = type(method).__name__, np.random.RandomState(0)
    that(isinstance(method, PosteriorMethod), f"{name} must be a PosteriorMethod.")
    kernel = RBF() + WhiteKernel(0.1)
    X = rng.uniform(-2, 2, (_ROWS_OF_FITS, 2))
    y = np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.2 * rng.normal(size=_ROWS_OF_FITS)

    def held(X: Array, y: Array, weight: MaybeArray = None, alpha: MaybeArray = None) -> Array:
        """Mean and standard deviation at 0 after a fit that learns no hyperparameters."""
        options = {"kernel": kernel, "alpha": alpha, "optimizer": None, "normalize_y": False}
        model = _model(method, **options).fit(X, y, weight)
        wrong = f"{method!r} must keep job.kernel with optimizer=None (solver.moves is False)."
        that(np.array_equal(model.kernel_.theta, kernel.theta), wrong)
        return np.stack(model.predict(np.zeros((1, 2)), return_std=True))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = call(f"fitting {name}", _model(method).fit, X, y)
        fit = fits_of(model)[0]
        check_predictions(fit.posterior, X[:12] + 0.05)
        uses = _uses(method, model, X, y).items()
        refused = {use: _outcome(f"{use} with {name}", act) for use, act in uses}
        if np.ptp(model.predict(X)) > 0.0:  # the posterior depends on rows
            plain, weight = held(X, y), 1 + np.arange(len(y)) % 3
            for use, given in ("known noise", (None, weight)), ("weights", (weight,)):
                found = None if refused[use] else held(X, y, *given)
                wrong = f"{name} ignores {use}: use weight and noise of job.rows.block(rows)."
                that(found is None or not np.allclose(found, plain), wrong)
            if fit.all_rows is None and found is not None:  # a weight counts as so many copies
                copies = held(np.repeat(X, weight, axis=0), np.repeat(y, weight))
                close(found, copies, 1e-5, f"predictions of {name} with weights")
        return refused


def check_predictions(posterior: Posterior, X: Array) -> None:
    """Check that the predictions of a `Posterior` at a few distinct rows (n, d) belong together."""
    name, n = type(posterior).__name__, len(X)
    mean, variance = posterior.mean_and_variance(X)
    draws = posterior.deviations(X, _DRAWS, np.random.RandomState(0))
    covariance = posterior.covariance(X)
    signal = np.broadcast_to(kernels.diagonal(posterior.kernel, X)[0], n)
    unit = 1e-7 * max(variance.max(), signal.max())
    that(np.all(variance >= 0.0), f"{name} has a negative variance: {variance.min()}.")
    above = np.all(variance.T <= signal + unit)
    that(above, f"{name} has a variance that is larger than that of its kernel.")
    drawn = np.einsum("is...,js...->ij...", draws, draws) / _DRAWS
    far, single = 6.0 * np.sqrt(covariance.max() / _DRAWS), X.astype(np.float32)
    copy = call(f"pickling {name}", pickled, posterior).mean_and_variance(X)
    blocks = zip(*map(posterior.mean_and_variance, (X[: n // 2], X[n // 2 :])))
    for what, found, expected, allowed in (
        ("mean", posterior.mean(X), mean, 1e-12 * np.abs(mean).max()),
        ("diagonal of the covariance", np.einsum("ii...->i...", covariance), variance, unit),
        ("transposed covariance", covariance.swapaxes(0, 1), covariance, unit),
        ("mean of samples", draws.mean(axis=1), np.zeros(variance.shape), far),
        ("covariance of samples", drawn, covariance, 0.06 * covariance.max()),
        ("mean at float32 rows", posterior.mean(single), posterior.mean(single.astype(float)), 0),
    ):
        close(found, expected, allowed, f"{what} of {name}")
    for when, found in (("two blocks", map(np.concatenate, blocks)), ("a pickle", copy)):
        for part, one, other in zip(("mean", "variance"), found, (mean, variance)):
            close(one, other, 1e-9 * max(np.abs(other).max(), 1.0), f"{part} by {when} of {name}")


def _uses(method: PosteriorMethod, fitted: SparseGP, X: Array, y: Array) -> dict[str, Callable]:
    """Pairs of a name and a function, for everything that may be asked."""

    def fit(y: AnyArray = y, X: Array = X, rows: Mapping = {}, **options: object) -> None:
        _model(method, **options).fit(X, y, **rows).predict(X)

    labels, counts = (y > 0).astype(int), np.random.RandomState(0).poisson(np.exp(y))
    gaps = np.where((np.arange(_ROWS_OF_FITS) < 10)[:, None] & [True, False], np.nan, X)
    ones = np.ones(X.shape)
    return {
        "weights": lambda: fit(rows={"sample_weight": ones[:, 0]}),
        "several targets": lambda: fit(np.column_stack([y, -y])),
        "known noise": lambda: fit(alpha=np.full(_ROWS_OF_FITS, 0.1)),
        "a likelihood": lambda: fit(counts, likelihood="poisson"),
        "uncertain inputs": lambda: fit(rows={"X_std": 0.1 * ones}),
        "labels": lambda: _model(method, SparseGPClassifier).fit(X, labels).predict(X),
        "missing values": lambda: fit(X=gaps),
        "a source": lambda: _model(method).fit(Stream(lambda: iter([(X, y)]))).predict(X),
        "rows that arrive later": lambda: _model(method).partial_fit(X, y).predict(X),
        "leave one out": lambda: fitted.loo_predict().mean,
        "gradients": lambda: fitted.predict(X, return_std=True, return_gradient=True),
        "sampled functions": lambda: fitted.sample_functions(2)(X),
        "uncertain queries": lambda: fitted.predict(X, return_std=True, X_std=ones),
        "a pickle": lambda: pickled(fitted).predict(X),
    }


def _outcome(what: str, act: Callable) -> str:
    """The message by which a use was refused, "" where it works; raises where it fails."""
    try:
        act()
        return ""
    except Exception as error:
        message = str(error.__cause__ or error)  # that of a method that is not there
        in_words = isinstance(error, _REFUSALS) and len(message.split()) > 5
        got = f"Got {type(error).__name__}: {error}"
        that(in_words, f"{what} must work, or be refused in words. {got}")
        return message


def _model(method: PosteriorMethod, kind: type = SparseGPRegressor, /, **more: object) -> SparseGP:
    return kind(posterior=method, max_iter=5, random_state=0, n_jobs=1, **more)
