"""Leave-one-out predictions of training rows, hyperparameters held, and conformal intervals.

The score of a training row is ``(y - m)/s``, with the mean m and the standard deviation s that all
other rows give it. A conformal interval has as many standard deviations of its own as the wanted
share of scores has at most (Barber, Candès, Ramdas and Tibshirani 2021, with scores in units of s).
"""

from numbers import Real
from typing import NamedTuple

import numpy as np

from skgp_sparse.data.dataset import Batch
from skgp_sparse.data.moments import Distinct
from skgp_sparse.engine.posterior import LEAVE_ONE_OUT, LeftOut, Posterior, noise_in_blocks
from skgp_sparse.explain.views import centre_and_scale
from skgp_sparse.ground.linalg import log_normal_density
from skgp_sparse.ground.parallel import resolve_n_jobs, single_threaded_blas
from skgp_sparse.ground.validation import BOOLS, require


class LooPrediction(NamedTuple):
    """Predictions of training rows, each given all others; see `SparseGPRegressor.loo_predict`.

    Parameters
    ----------
    mean : ndarray of shape (n_samples,) or (n_samples, n_targets)
        In units of y.
    std : ndarray of shape (n_samples,) or (n_samples, n_targets)
        Standard deviations, the noise included.
    log_density : ndarray of shape (n_samples,) or (n_samples, n_targets)
        Log densities of the targets, in nats.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse import SparseGPRegressor
    >>> X = np.linspace(0, 10, 50)[:, None]
    >>> y = np.sin(X[:, 0])
    >>> y[20] += 1.0
    >>> loo = SparseGPRegressor(random_state=0).fit(X, y).loo_predict()
    >>> int(loo.log_density.argmin())
    20
    """

    mean: np.ndarray
    std: np.ndarray
    log_density: np.ndarray


class RowPredictions(NamedTuple):
    """Leave-one-out predictions of chosen rows, in units of the standardised targets."""

    y: np.ndarray  # (k, p)
    mean: np.ndarray  # (k, p)
    variance: np.ndarray  # (k, 1) the learned noise included
    centre: np.ndarray  # (k, p) what intervals are around, ...
    scale: np.ndarray  # (k, 1) ... and in units of: mean and standard deviation, if these exist
    known: np.ndarray  # (k, 1) noise variance that is known
    log_density: np.ndarray  # (k, p)
    is_density: np.ndarray | float = 1.0  # (k, 1) whether it changes with units


class LeftOutRows(NamedTuple):
    """Moments of latent values of some of the user's numbers, each given all others."""

    chosen: np.ndarray  # (k,) numbers of the rows in the table
    block: Batch  # the rows themselves, with standardised targets
    mean: np.ndarray  # (k, p)
    variance: np.ndarray  # (k,)
    noise: np.ndarray  # (k,) learned, 0 with a likelihood


class KnownRows(NamedTuple):
    """Predictions of training rows that were left out already, by a process alone."""

    posterior: Posterior
    chosen: np.ndarray  # (k,) numbers in the table, sorted
    left: LeftOut
    noise: np.ndarray | None = None  # (k,) that other rows tell, where noise varies


def some_rows(rows, most):
    """Numbers of at most so many rows of a table that have a weight.

    Fewer rows are some of those that more would be.
    """
    chosen = np.flatnonzero(rows.row_weights() > 0)
    if len(chosen) > most:
        chosen = np.sort(np.random.RandomState(0).permutation(chosen)[:most])
    return chosen


def known_rows(fit, chosen, n_jobs):
    """`KnownRows` of chosen rows of a table, or of all that have a weight: as cheap if exact."""
    if fit.posterior.is_exact and fit.used_rows is fit.rows:
        chosen = np.flatnonzero(fit.rows.row_weights() > 0)
    with single_threaded_blas():
        return KnownRows(fit.posterior, chosen, _left_out_of_process(fit, chosen, n_jobs))


def as_left_out(fit):
    """The fit as its rows were left out, which may be with fewer neighbours."""
    return fit if fit.left_out is None else fit._replace(posterior=fit.left_out.posterior)


def left_out_numbers(fit, most, n_jobs):
    """`LeftOutRows` of at most so many rows of a fit to numbers; equal rows are one."""
    places = some_rows(fit.rows, most)
    with np.errstate(all="ignore"), single_threaded_blas():
        left, noise = _left_out(fit, places, resolve_n_jobs(n_jobs))
    noise = _told_by_others(fit, places, noise)
    return LeftOutRows(places, fit.rows.block(places), left.mean, left.variance, noise)


def _told_by_others(fit, chosen, noise):
    """Noise variance (k,) of rows that they have no say in, as far as it is known."""
    known = fit.left_out
    if known is None or known.noise is None:
        return noise
    place = np.minimum(np.searchsorted(known.chosen, chosen), len(known.chosen) - 1)
    return np.where(known.chosen[place] == chosen, known.noise[place], noise)


def left_out_labels(fits, view, chosen, n_jobs):
    """Probabilities (k, n_classes) of some of the rows of fits to labels, without calibration."""
    columns = [_probabilities(fit, chosen, resolve_n_jobs(n_jobs)) for fit in fits]
    return view.of_classes(np.column_stack(columns))


def calibrated_labels(fits, view, chosen, n_jobs):
    """Probabilities (k, n_classes) of some of the rows of fits to labels, as they are predicted."""
    probabilities = left_out_labels(fits, view, chosen, n_jobs)
    if view.calibration is None:
        return probabilities
    mean = fits[0].mean
    latent = None if mean is None else mean.predictions[in_table(fits[0].rows, chosen)]
    return view.calibration.combined(probabilities, latent)


def in_table(rows, chosen):
    """Numbers of the user's rows in the table of a fit."""
    return chosen if rows.places is None else rows.places[chosen]


def _probabilities(fit, chosen, n_jobs):
    """Probabilities of classes that a problem tells of rows that are left out."""
    known, place = np.unique(in_table(fit.rows, chosen), return_inverse=True)
    with np.errstate(all="ignore"), single_threaded_blas():
        left = _left_out(fit, known, n_jobs)[0]
    moments = (np.squeeze(column.T) for column in left)
    return fit.likelihood.probability(*moments).T[place]


def loo_prediction(fit, parameters, name):
    """The `LooPrediction` of the user's own rows, in their order; raises where it is not known.

    Parameters
    ----------
    fit : Fit
    parameters : SparseGPRegressor
    name : str
        Of the method, for errors.
    """
    rows, n_jobs = _rows_of(fit, name), resolve_n_jobs(parameters.n_jobs)
    found, place = predicted(fit, n_jobs, np.arange(len(rows))), rows.places
    added = 0.0 if fit.mean is None else fit.mean.added()
    units, mean = rows.units, rows.units.inverse(found.mean) + added
    std = np.broadcast_to(units.inverse_std(np.sqrt(found.variance + found.known)), mean.shape)
    with np.errstate(divide="ignore"):  # infinite where targets are constant
        density = units.among_constants(found.log_density) - found.is_density * np.log(units.scale)
    columns = [one if place is None else one[place] for one in (mean, std, density)]
    return LooPrediction(*(column[:, 0] if mean.shape[1] == 1 else column for column in columns))


def loo_probabilities(fits, view, parameters, name):
    """Probabilities (n, n_classes) of the user's own rows, in their order.

    Parameters
    ----------
    fits : list of Fit
        Of all problems.
    view : LabelView
    parameters : SparseGPClassifier
    name : str
        Of the method, for errors.
    """
    if view.n_classes > 2 and view.multi_class == "one_vs_one":
        raise ValueError(
            f"{name} needs problems that have all rows. Got multi_class='one_vs_one'. Set it to "
            "'one_vs_rest' or 'softmax'."
        )
    rows = [_rows_of(fit, name) for fit in fits][0]  # which refuses fits that keep no rows
    of_user = np.arange(len(rows) if rows.places is None else len(rows.places))
    return calibrated_labels(fits, view, of_user, parameters.n_jobs)


def _rows_of(fit, name):
    """The table of a fit, all rows of which can be left out; raises otherwise."""
    reason = why_unknown(fit)
    if reason is not None:
        raise ValueError(f"{name} {reason}")
    rows = fit.rows
    if np.any(rows.places == -1) or (rows.weight is not None and not rows.weight.all()):
        raise ValueError(
            f"{name} cannot leave out rows of weight zero, which were not in the fit. Fit without "
            "them, and predict these rows."
        )
    return rows


def why_unknown(fit):
    """Why rows cannot be left out of a fit, as part of an error; None: they can."""
    rows = fit.rows
    if rows is None or not rows.in_memory:
        return (
            "needs the training rows, which this estimator does not contain, because it was fitted "
            "on a cluster or from a large source, or loaded from a pickle. Fit it to arrays."
        )
    if rows.X_std is not None:
        return "takes inputs as known, but fit was given X_std. Call fit without it."
    if fit.terms.method is not None and fit.terms.sites is None:
        return (
            "needs the sites of all rows, which solvers of minibatches do not keep. Set solver to "
            "'lbfgs'."
        )
    return fit.posterior.why_not(LEAVE_ONE_OUT)


def predicted(fit, n_jobs, chosen, left=None):
    """`RowPredictions` of some rows of a fit that `why_unknown` has nothing against.

    Parameters
    ----------
    fit : Fit
    n_jobs : int
    chosen : ndarray of shape (k,)
        Their numbers in the table, sorted. Their weights are positive.
    left : LeftOut or None
        What is predicted of them by a fit that does not leave them out.
    """
    with single_threaded_blas():
        left, noise = (
            _left_out(fit, chosen, n_jobs) if left is None else _with_noise(fit, left, chosen)
        )
        if fit.likelihood is not None:
            return _of_responses(left, fit, chosen)
        return _of_numbers(left, noise, fit, chosen)


def _left_out(fit, chosen, n_jobs):
    """`LeftOut` and noise of chosen rows, with another prediction where it has a weight."""
    return _beside_mean(fit, _left_out_of_process(fit, chosen, n_jobs), chosen)


def _beside_mean(fit, left, chosen):
    """`LeftOut` and learned noise variance (k,), with the prediction beside a process."""
    left, noise = _with_noise(fit, left, chosen)
    return (left, noise) if fit.mean is None else fit.mean.beside(left, noise, chosen)


def _with_noise(fit, left, chosen):
    """`LeftOut` and learned noise variance (k,) of the process, which is zero with a likelihood."""
    if fit.likelihood is not None:
        return left, np.zeros(len(chosen))
    return left, noise_in_blocks(fit.posterior, fit.rows.block(chosen).X)


def _left_out_of_process(fit, chosen, n_jobs):
    """`LeftOut` of chosen rows, of which those that the fit knows are not left out again."""
    known = fit.left_out
    if known is None or known.posterior is not fit.posterior:
        return _left_out_now(fit, chosen, n_jobs)
    is_known = np.isin(chosen, known.chosen)
    place = np.searchsorted(known.chosen, chosen[is_known])
    mean, variance = np.empty((len(chosen), fit.rows.n_targets)), np.empty(len(chosen))
    mean[is_known], variance[is_known] = known.left.mean[place], known.left.variance[place]
    if not is_known.all():
        others = _left_out_now(fit, chosen[~is_known], n_jobs)
        mean[~is_known], variance[~is_known] = others.mean, others.variance
    return LeftOut(mean, variance)


def _left_out_now(fit, chosen, n_jobs):
    """`LeftOut` of chosen rows; those that the posterior was not given are predicted."""
    posterior, used, given = fit.posterior, fit.used_rows, fit.rows
    if used is given:
        return posterior.leave_one_out(used, chosen, fit.terms, n_jobs)
    block = given.block(chosen)
    place = _places_among(used.everything(), posterior.sees(given).block(chosen))
    known = np.unique(place[place >= 0])
    mean, variance = posterior.mean_and_variance(block.X, n_jobs)
    left = posterior.leave_one_out(used, known, fit.terms, n_jobs)
    of_row = np.searchsorted(known, place[place >= 0])
    mean[place >= 0], variance[place >= 0] = left.mean[of_row], left.variance[of_row]
    return LeftOut(mean, variance)


def _places_among(rows, others):
    """Numbers (k,) of the rows of a `Batch` that equal those of another one, -1 where none does."""
    both = [np.column_stack([one.X, one.y]).astype(np.float64) for one in (rows, others)]
    same, n = Distinct.of(np.vstack(both)), len(rows.X)
    place = same.first[same.index[n:]]
    return np.where(place < n, place, -1)


def _of_numbers(left, noise, fit, chosen):
    block = fit.rows.block(chosen)
    known = np.broadcast_to(block.noise, len(chosen))[:, None]
    variance = np.maximum(left.variance + noise, np.finfo(float).tiny)[:, None]
    density = log_normal_density(block.y, left.mean, np.sqrt(variance + known))
    units = left.mean, np.sqrt(variance)
    return RowPredictions(block.y, left.mean, variance, *units, known, density)


def _of_responses(left, fit, chosen):
    block, likelihood = fit.rows.block(chosen), fit.likelihood
    latent = left.mean[:, 0] + block.offset
    y = block.observed
    density = likelihood.tilted(y, latent, left.variance)[0]
    is_density = likelihood.is_density(y)
    mean, variance = likelihood.response(latent, left.variance)
    units = centre_and_scale(likelihood, latent, left.variance)
    columns = y, mean, variance, *units, np.zeros(len(y)), density, is_density
    return RowPredictions(*(one[:, None] for one in columns))


_METHODS, _SIDES = ("model", "conformal"), ("both", "lower", "upper")
_MOST_ROWS = 5000  # whose scores are kept


class Scores(NamedTuple):
    """Scores of training rows that were left out, and how often each of them counts."""

    values: np.ndarray  # (k, p)
    weight: np.ndarray | None  # (k,); None: once


def scores_of(fit, weight, is_learned, n_jobs):
    """The `Scores` of the rows of a fit, of random ones if they are many; None: unknown.

    Parameters
    ----------
    fit : Fit
    weight : ndarray of shape (n,) or None
        Weights of the user's rows, in their order.
    is_learned : bool
        Whether hyperparameters were learned from them.
    n_jobs : int or None
    """
    if why_unknown(fit) is not None:
        return None
    rows = fit.rows
    chosen = np.arange(len(rows)) if rows.weight is None else np.flatnonzero(rows.weight > 0)
    if len(chosen) > _MOST_ROWS:
        chosen = np.sort(np.random.RandomState(0).permutation(chosen)[:_MOST_ROWS])
    found = predicted(fit, resolve_n_jobs(n_jobs), chosen)
    optimism = _optimism(fit) if is_learned else 1.0
    values = (found.y - found.centre) / found.scale * optimism
    place = np.full(len(rows) + 1, -1)  # of rows of the table, the last one of those without weight
    place[chosen] = np.arange(len(chosen))
    of_row = place[:-1] if rows.places is None else place[rows.places]
    kept = of_row >= 0
    if not np.isfinite(values).all():
        return None
    return Scores(values[of_row[kept]], None if weight is None else weight[kept])


def _optimism(fit):
    """Factor by which errors of new rows are larger than those of rows that parameters have seen.

    Hyperparameters are not learned again without a row. Squared errors of new rows are larger by
    ``(n + p)/(n - p)`` than those of the n numbers that p parameters were learned from (Akaike
    1969), and scores grow by its root. The parameters are those of the kernel and of the
    likelihood; others, such as inducing points and a metric, are not counted.
    """
    rows, p = fit.used_rows, len(fit.kernel.theta)
    if p and fit.likelihood is not None:
        p += len(fit.likelihood.theta)
    n = rows.total_weight() * rows.n_targets
    return np.sqrt((n + p) / max(n - p, 1.0))


def check_interval(coverage, method, side, name):
    """Raise unless an interval can be what is asked for."""
    is_number = isinstance(coverage, Real) and not isinstance(coverage, BOOLS)
    is_share = is_number and 0.0 < coverage < 1.0
    require(is_share, "coverage", coverage, name, "a float between 0 and 1, both excluded")
    for parameter, value, names in (("method", method, _METHODS), ("side", side, _SIDES)):
        is_right = isinstance(value, str) and value in names
        require(is_right, parameter, value, name, f"one of {names}")


def interval_of_model(view, X, coverage, side, offset):
    """Ends of the intervals of the predictive distribution, each (n,) or (n, p)."""
    tail = 0.5 * (1.0 - coverage) if side == "both" else 1.0 - coverage
    ends = view.quantiles(X, np.array([tail, 1.0 - tail]), offset)
    return _open(ends[..., 0], ends[..., 1], side)


def conformal_interval(view, X, fit, scores, coverage, side, offset, name):
    """Ends of conformal intervals; see `widths` for the parameters. `scores` may be None."""
    if scores is None:
        raise ValueError(f"{name}: {_no_scores(fit)}")
    mean, std = view.centre_and_scale(X, offset)
    below, above = widths(scores, coverage, side, name)
    if mean.ndim == 1:
        below, above = below[..., 0], above[..., 0]
    else:
        below, above = (view.units.among_constants(np.atleast_2d(one)) for one in (below, above))
    lower, upper = _open(mean - below * std, mean + above * std, side)
    return view.within_domain(lower), view.within_domain(upper)


def _open(lower, upper, side):
    if side == "both":
        return lower, upper
    open_end = np.full(lower.shape, np.inf)
    return (lower, open_end) if side == "lower" else (-open_end, upper)


def _no_scores(fit):
    """Why a fit has no `Scores`, as part of an error."""
    reason = why_unknown(fit)
    if reason is None:
        reason = (
            "needs rows that came by fit, not by partial_fit, and standard deviations above 0. Set "
            "method to 'model', or call fit."
        )
    return f"method='conformal' {reason}"


def widths(scores, coverage, side, name):
    """Numbers (p,) of standard deviations below and above the mean.

    Parameters
    ----------
    scores : Scores
    coverage : float
    side : {"both", "lower", "upper"}
    name : str
        Of the method, for errors.
    """
    values = scores.values
    weight = np.ones(len(values)) if scores.weight is None else scores.weight
    if side == "both":
        width = _quantile(np.abs(values), weight, coverage, name)
        return width, width
    nothing = np.zeros(values.shape[1])  # of the end that is open
    if side == "lower":
        return _quantile(-values, weight, coverage, name), nothing
    return nothing, _quantile(values, weight, coverage, name)


def _quantile(values, weight, coverage, name):
    """The smallest scores (p,) that a share of the rows, and of one more, does not exceed."""
    needed = coverage * (weight.sum() + 1.0)
    if needed > weight.sum():
        fewest = int(np.ceil(coverage / (1.0 - coverage)))
        raise ValueError(
            f"{name}: the fit has {weight.sum():g} training rows, but a coverage of {coverage:g} "
            f"needs at least {fewest}. Lower coverage, or set method to 'model'."
        )
    order = np.argsort(values, axis=0)
    total = np.cumsum(weight[order], axis=0)
    first = np.argmax(total >= needed * (1.0 - 1e-12), axis=0)
    sorted_values = np.take_along_axis(values, order, axis=0)
    return np.take_along_axis(sorted_values, first[None], axis=0)[0]
