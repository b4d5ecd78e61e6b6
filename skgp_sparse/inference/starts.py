"""Fits of few rows: where they begin, and where they end; periods of kernels.

An evaluation costs little here, so that a fit may begin from several values of theta, and may go on
across plateaus on which a fit of many rows would end.

Restarts draw periods, and a periodogram names some (`candidates`). Of aliases, which evenly spaced
rows cannot tell apart, the longest one that a start has found stays.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import chain

import numpy as np

from skgp_sparse import kernels
from skgp_sparse.data.dataset import Dataset
from skgp_sparse.ground.validation import Array, Kernel, Rng
from skgp_sparse.hyperpriors import ThetaPrior
from skgp_sparse.inference import contracts
from skgp_sparse.inference.contracts import ExactFit, Settings, ThoroughSearch, VectorFunction
from skgp_sparse.inference.optimizers import End, Maximum, climb

_SOME_ROWS = 10_000  # that tell how far apart places on a sphere are
_NEAR, _NEAR_NATS = 0.3, 0.1  # of an end: in logarithms of hyperparameters, and in nats
_RESCUES = 4  # starts after an optimum that explains nothing
_IN_A_BASIN = 0.4  # first step of a kernel with periods; from one on, it left the basin
_NEGLIGIBLE_GAIN = 1e-5  # nats, of all rows, that the last iterations of a run gain ...
_ENOUGH = 0.003  # ... and a whole run, from which the next one follows


def fit_exact(start: contracts.Start) -> tuple:
    """`VectorFunction` and best `Maximum` of few rows over theta, the prior of theta included.

    It starts at the kernel's own theta, at the periods of a periodogram where these are free, at
    the spread of the rows where places are on a sphere, and at `n_restarts` random points. Where
    the own theta explains the targets no better than noise alone, a few starts around it are tried
    before that is believed. With a `ThoroughSearch`, the best start ends at an optimum, and so does
    each of those that follow, unless it comes to where another one has ended or explains nothing.
    Of periods with equal values, the longest wins.
    """
    objective, kernel, settings, random_state, _, search = start
    function, ends = VectorFunction(objective, kernel, prior=settings.prior), list[Maximum]()
    within = VectorFunction(objective, search.kernel, prior=settings.prior) if search else function
    periods = period_places(kernel)
    first = _IN_A_BASIN if periods else 1.0

    def rough(theta: Array) -> Maximum:
        return climb(function, settings, function.pack(kernel=theta), first=first)

    def fine(maximum: Maximum, least: float = -np.inf) -> Maximum:
        if not search or any(_is_over(maximum, end, least) for end in ends):
            return maximum
        ends.append(_finished(within, settings, maximum))
        return ends[-1]

    others = settings.deadline.until(_others(objective, kernel, search))
    best = fine(_best(rough, rough(kernel.theta), others, periods))
    if len(kernel.theta) == 0:
        return within, best
    reached, _ = within.at(best.x)
    of_noise = reached.constant_log_likelihood()
    if not settings.believes_noise and best.value < of_noise:
        near = np.random.RandomState(0).normal(size=(_RESCUES, len(kernel.theta)))
        best = fine(_best(rough, best, settings.deadline.until(kernel.theta + near), periods))
    drawn = settings.deadline.until(_further(objective, kernel, settings, random_state))
    best = _best(lambda theta: fine(rough(theta), of_noise), best, drawn, periods)
    return within, best


def _others(objective: ExactFit, kernel: Kernel, search: ThoroughSearch | None) -> Iterator[Array]:
    """Starts beside the kernel's own: of places on a sphere, and those of a `ThoroughSearch`."""
    rows = objective.rows
    if kernels.parts(kernel, kernels.Sphere):
        some = rows.sampled(rows.sample(_SOME_ROWS, np.random.RandomState(0)))
        theta = kernels.theta_of_spread(kernel, np.asarray(some.stored_inputs(), dtype=np.float64))
        yield from () if theta is None else (theta,)
    yield from search.starts if search else ()


def _best(climb_from: Callable, best: Maximum, thetas: Iterable, periods: list[int]) -> Maximum:
    """The highest `Maximum` of some starts; of equal ones that with the longest periods."""
    for theta in thetas:
        if best.end is End.STOPPED:
            break
        with suppress(np.linalg.LinAlgError):  # of a start that no one asked for by name
            last = climb_from(theta)
            slack = _SAME * max(1.0, abs(best.value)) if periods else 0.0
            is_longer = last.x[periods].sum() > best.x[periods].sum()
            if last.value > best.value + (-slack if is_longer else slack):
                best = last
            if last.end is End.STOPPED:
                best = best._replace(end=End.STOPPED)
    return best


def _finished(function: VectorFunction, settings: Settings, maximum: Maximum) -> Maximum:
    """The `Maximum` after runs that forget the curvature, until one gains next to nothing."""
    gain, curvature = np.inf, maximum.curvature
    tol = min(settings.tol, _NEGLIGIBLE_GAIN / function.objective.size())
    while gain > _ENOUGH and maximum.end is End.CONVERGED:
        left = settings.max_iter - maximum.n_iter
        if left <= 0 or settings.deadline.is_over():
            break
        run = climb(function, settings, maximum.x, max_iter=left, tol=tol, curvature=curvature)
        gain, curvature = run.value - maximum.value, None
        end = End.CONVERGED if run.end is End.STUCK else run.end
        maximum = run._replace(n_iter=maximum.n_iter + run.n_iter, end=end)
    return maximum


def _is_over(maximum: Maximum, end: Maximum, least: float) -> bool:
    """Whether a run is where another one has ended, or below the least value that explains."""
    gap = end.value - maximum.value
    is_near = gap < _NEAR_NATS and np.abs(end.x - maximum.x).max(initial=0.0) < _NEAR
    return gap >= 0 and (is_near or maximum.value < least)


def _further(objective: ExactFit, kernel: Kernel, settings: Settings, rng: Rng) -> Iterator[Array]:
    """Starts beside the kernel's own: those of a periodogram, and those that are drawn."""
    if settings.find_periods:
        yield from starts(objective, kernel, settings.prior)
    yield from restarts(kernel, period_limits(kernel, objective.rows), settings.n_restarts, rng)


def restarts(kernel: Kernel, limits: Array, n_restarts: int, random_state: Rng) -> Iterator[Array]:
    """Starts that are drawn, the first ones always the same; half of them vary only periods."""
    places = period_places(kernel)
    for index in range(n_restarts):
        theta = np.asarray(random_state.uniform(*limits.T))
        if places and index % 2 == 0:
            theta = np.where(np.isin(np.arange(len(theta)), places), theta, kernel.theta)
        yield theta


_FEWEST_ROWS = 8  # of different positions, from which a periodogram says something
_FREQUENCIES_PER_PEAK, _MOST_FREQUENCIES = 5, 10_000  # of a periodogram
_ENTRIES_PER_BLOCK = 1 << 18  # entries (rows, frequencies) of a periodogram that are in memory
_PEAKS, _MULTIPLES = 3, np.arange(1, 7)  # highest peaks, and multiples of their periods
_OF_A_SAMPLE = 0.05  # of the gaps of random rows, which tell the gap of the table
_NEAR_OWN = 0.1  # distance in a logarithm that counts as near
_SHORTER = 0.3  # length scale of a wave with many harmonics, in units of the kernel's own
_SAME = 1e-6  # difference of the evidence of aliases, and of a period and the range, relative


# -- periods of kernels: where restarts draw them, and what a periodogram says -------------------
# All of this is for periods along one column.


def lines(kernel: Kernel, rows: Dataset) -> Iterator[tuple[int, Array, float]]:
    """Free periods along a column of a table in memory: their place in theta, it, and their value.

    A column counts whose values are all known, and which are not all equal.
    """
    found = kernels.periods(kernel, rows.n_features) if rows is not None and rows.in_memory else ()
    for (place,), columns, period in found:
        x = np.asarray(rows.stored_inputs()[:, columns[0]], dtype=float)
        if len(columns) == 1 and 0.0 < np.ptp(x) < np.inf:
            yield place, x, period


def period_places(kernel: Kernel) -> list[int]:
    """Indices of the free periods in theta."""
    return [*chain(*kernels.positions_of(kernel, "periodicity"))]


def period_limits(kernel: Kernel, rows: Dataset) -> Array:
    """Bounds (p, 2) to draw from: of periods from two gaps of the rows to their range."""
    bounds = np.reshape(kernel.bounds, (-1, 2)).copy()
    for place, x, _ in lines(kernel, rows):
        narrow = np.clip(np.log([2.0 * _gap(x), np.ptp(x)]), *bounds[place])
        if narrow[0] < narrow[1]:
            bounds[place] = narrow
    return bounds


def _gap(x: Array, share: float = 0.5) -> float:
    """The distance of different positions next to each other, of which a share is shorter."""
    return np.quantile(np.diff(np.unique(x)), share)


def starts(objective: ExactFit, kernel: Kernel, prior: ThetaPrior) -> Array:
    """Values of theta with the periods of a periodogram: none where no period is free.

    Periods take the values of the highest evidence, one by one, at the kernel's own length scale of
    the wave and at a shorter one, as harmonics explain most where it is long. Another start has the
    likeliest periods near the kernel's own.
    """
    best, near = (_likeliest(objective, kernel, prior, most) for most in (np.inf, _NEAR_OWN))
    are_periods = np.isin(np.arange(len(kernel.theta)), period_places(kernel))
    periods = [np.where(are_periods, one.theta, kernel.theta) for one in (best, near)]
    found = np.unique([*periods, best.theta], axis=0)
    rows = objective.rows
    moves = np.abs(found - kernel.theta) / kernels.units(kernel, rows.n_features, rows.scale)
    return found[moves.max(axis=1, initial=0.0) > _IN_A_BASIN]


def _likeliest(objective: ExactFit, kernel: Kernel, prior: ThetaPrior, most: float) -> Kernel:
    """The kernel with the likeliest periods, of which no logarithm moves further than this."""
    best = kernel
    free = [one for one in kernel.hyperparameters if not one.fixed]
    names = [one.name for one in free for _ in range(one.n_elements)]  # of entries of theta
    for place, x, own in lines(kernel, objective.rows):
        periods = np.log(candidates(objective.rows, x, own))
        periods = periods[np.abs(periods - np.log(own)) < most]
        of_wave = names[place].removesuffix("periodicity") + "length_scale"
        length = names.index(of_wave) if of_wave in names else None
        tried = [kernel.clone_with_theta(theta) for theta in _tried(best, place, periods, length)]
        values = [contracts.value_or_minus_inf(objective, one, prior=prior) for one in tried]
        if tried:  # of equal values the last one is that of the longest period
            least = np.max(values) - _SAME * max(1.0, abs(np.max(values)))
            best = tried[np.flatnonzero(values >= least)[-1]]
    return best


def _tried(kernel: Kernel, place: int, periods: Array, length: int | None) -> Iterator[Array]:
    """Theta with each of some periods within the bounds, and the same with a shorter wave."""
    low, high = np.reshape(kernel.bounds, (-1, 2)).T
    for period in periods[(low[place] <= periods) & (periods <= high[place])]:
        theta = kernel.theta
        theta[place] = period
        yield theta
        if length is not None:
            shorter = theta.copy()
            shorter[length] = max(theta[length] + np.log(_SHORTER), low[length])
            yield shorter


def candidates(rows: Dataset, x: Array, own: float) -> Array:
    """Periods of the highest peaks of a periodogram, and multiples of them within the range.

    One more peak is the highest that is near a period of its own.
    """
    span, step = np.ptp(x), 1.0 / (_FREQUENCIES_PER_PEAK * np.ptp(x))
    most = min(0.5 / _gap(x, _OF_A_SAMPLE), _MOST_FREQUENCIES * step)
    frequencies = np.arange(1.0 / span, most, step)  # from one wave to one over two gaps
    if len(frequencies) == 0 or len(np.unique(x)) < _FEWEST_ROWS:
        return np.zeros(0)
    power = np.r_[-np.inf, _power(rows, x - x.min(), frequencies), -np.inf]
    peaks = np.flatnonzero((power[1:-1] > power[:-2]) & (power[1:-1] >= power[2:]))
    peaks = peaks[np.argsort(-power[1:-1][peaks], kind="stable")]
    near = peaks[np.abs(frequencies[peaks] * own - 1.0) < _NEAR_OWN]
    highest = np.r_[peaks[:_PEAKS], near[:1]]
    periods = np.unique(np.multiply.outer(_MULTIPLES, 1.0 / frequencies[highest]))
    return periods[periods <= span * (1.0 + _SAME)]


def _power(rows: Dataset, x: Array, frequencies: Array) -> Array:
    """Power (k,) of Lomb and Scargle of targets without trend, of several what is common."""
    from scipy.signal import lombscargle  # an import that takes .2 s

    y, centred = rows.targets(), x - x.mean()
    y = y - y.mean(axis=0)
    y = y - np.outer(centred, centred @ y / (centred @ centred))
    common = np.linalg.svd(y, full_matrices=False)[0][:, 0]
    size = max(1, _ENTRIES_PER_BLOCK // len(x))
    blocks = np.split(2.0 * np.pi * frequencies, range(size, len(frequencies), size))
    power = np.concatenate([lombscargle(x, common, block) for block in blocks])
    return np.nan_to_num(power)  # of a wave that is 0 at all rows
