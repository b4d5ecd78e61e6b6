"""Fits of few rows: where they begin, and where they end; periods of kernels.

An evaluation costs little here, so that a fit may begin from several values of theta, and may go on
across plateaus on which a fit of many rows would end.

Restarts draw periods, a periodogram names some (`candidates`), and rows that are evenly spaced
leave aliases of them (`longest_alias`).
"""

from contextlib import suppress
from itertools import chain
from typing import NamedTuple

import numpy as np

from skgp_sparse import kernels
from skgp_sparse.inference.contracts import VectorFunction, value_or_minus_inf
from skgp_sparse.inference.optimizers import STOPPED, STUCK, climb, limit_reached

_SOME_ROWS = 10_000  # that tell how far apart places on a sphere are
_NEAR, _NEAR_NATS = 0.3, 0.1  # of an end: in logarithms of hyperparameters, and in nats
_RESCUES = 4  # starts after an optimum that explains nothing
_IN_A_BASIN = 0.4  # first step of a kernel with periods; from one on, it left the basin
_NEGLIGIBLE_GAIN = 1e-5  # nats, of all rows, that the last iterations of a run gain ...
_ENOUGH = 0.003  # ... and a whole run, from which the next one follows


def fit_exact(objective, kernel, settings, random_state):
    """Maximise the objective of few rows over theta.

    Starts at the kernel's own theta, at the periods of a periodogram where these are free, at the
    spread of the rows where places are on a sphere, and at `n_restarts` points drawn uniformly
    between the bounds; of a kernel with periods, every second one has the kernel's own theta but
    for these. Where the own theta leads to an optimum that explains the targets no better than
    noise alone, a few starts around it are tried before that is believed. With a
    `ThoroughSearch`, it has further starts, of which the best one ends at an optimum, and so does
    each of those that follow, unless it comes to where another one has ended or explains nothing.
    Of periods that rows cannot tell apart, the longest wins.

    Returns
    -------
    function : VectorFunction
    maximum : Maximum
        The best one, the prior of theta included.
    """
    prior, thorough = settings.prior, settings.thorough
    function, ends = VectorFunction(objective, kernel, prior=prior), []
    within = VectorFunction(objective, thorough.kernel, prior=prior) if thorough else function
    first = _IN_A_BASIN if period_places(kernel) else 1.0

    def rough(theta):
        return climb(function, settings, function.parameters.pack(kernel=theta), first=first)

    def fine(maximum, least=-np.inf):
        if not thorough or any(_is_over(maximum, end, least) for end in ends):
            return maximum
        ends.append(_finished(within, settings, maximum))
        return ends[-1]

    others = settings.deadline.until(_others(objective, kernel, thorough))
    best = fine(_best(rough, rough(kernel.theta), others))
    if len(kernel.theta) == 0:
        return within, best
    reached, _ = within.at(best.x)
    of_noise = reached.constant_log_likelihood()
    if not settings.believes_noise and best.value < of_noise:
        near = np.random.RandomState(0).normal(size=(_RESCUES, len(kernel.theta)))
        best = fine(_best(rough, best, settings.deadline.until(kernel.theta + near)))
    drawn = settings.deadline.until(_further(objective, kernel, settings, random_state))
    best = _best(lambda theta: fine(rough(theta), of_noise), best, drawn)
    return within, with_longest(within, best)


def _others(objective, kernel, thorough):
    """Starts beside the kernel's own: of places on a sphere, and those of a `ThoroughSearch`."""
    rows = objective.rows
    if kernels.parts(kernel, kernels.Sphere):
        some = rows.sampled(rows.sample(_SOME_ROWS, np.random.RandomState(0)))
        theta = kernels.theta_of_spread(kernel, np.asarray(some.stored_inputs(), dtype=np.float64))
        yield from () if theta is None else (theta,)
    yield from thorough.starts if thorough else ()


def _best(climb_from, best, thetas):
    """The highest `Maximum`: the best one so far, or one from other starts; ends if told to."""
    for theta in thetas:
        if best.message == STOPPED:
            break
        with suppress(np.linalg.LinAlgError):  # of a start that no one asked for by name
            last = climb_from(theta)
            best = max(best, last, key=lambda maximum: maximum.value)
            if last.message == STOPPED:
                best = best._replace(message=STOPPED)
    return best


def _finished(function, settings, maximum):
    """The `Maximum` after further runs, until one gains next to nothing.

    All but the first run forget the curvature, so that they take a long step at first.
    """
    gain, curvature = np.inf, maximum.curvature
    tol = min(settings.tol, _NEGLIGIBLE_GAIN / function.objective.size())
    while gain > _ENOUGH and maximum.converged and maximum.message != STOPPED:
        left = settings.max_iter - maximum.n_iter
        if left <= 0 or settings.deadline.is_over():
            break
        run = climb(function, settings, maximum.x, max_iter=left, tol=tol, curvature=curvature)
        gain, curvature = run.value - maximum.value, None
        n_iter, converged = maximum.n_iter + run.n_iter, run.converged or run.message == STUCK
        message = run.message if converged else limit_reached(settings.max_iter)  # of the whole fit
        maximum = run._replace(n_iter=n_iter, converged=converged, message=message)
    return maximum


def _is_over(maximum, end, least):
    """Whether a run need not go on: it is where another one has ended, or explains nothing.

    `least`: the value from which it explains something.
    """
    gap = end.value - maximum.value
    is_near = gap < _NEAR_NATS and np.abs(end.x - maximum.x).max(initial=0.0) < _NEAR
    return gap >= 0 and (is_near or maximum.value < least)


def _further(objective, kernel, settings, random_state):
    """Starts beside the kernel's own: those of a periodogram, and those that are drawn."""
    if settings.find_periods:
        yield from starts(objective, kernel, settings.prior)
    limits = period_limits(kernel, objective.rows)
    yield from restarts(kernel, limits, settings.n_restarts, random_state)


def restarts(kernel, limits, n_restarts, random_state):
    """Starts that are drawn; with periods, every second one has the kernel's other values.

    They are the same for fewer restarts, so that more of them never harm.
    """
    places = period_places(kernel)
    for index, theta in enumerate(drawn_starts(limits, n_restarts, random_state)):
        if places and index % 2 == 0:
            theta = np.where(np.isin(np.arange(len(theta)), places), theta, kernel.theta)
        yield theta


def drawn_starts(limits, n_restarts, random_state):
    """Random starts of theta, uniform between its bounds: log-uniform hyperparameters."""
    for _ in range(n_restarts):
        yield random_state.uniform(*limits.T)


_FINEST = 0.01  # of the smallest gap: spacings of which gaps may be multiples
_SAME_GAP = 1e-6  # of the spacing, by which a gap may miss a multiple of it
_FEWEST_ROWS = 8  # of different positions, from which a periodogram says something
_FREQUENCIES_PER_PEAK, _MOST_FREQUENCIES = 5, 10_000  # of a periodogram
_ENTRIES_PER_BLOCK = 1 << 18  # entries (rows, frequencies) of a periodogram that are in memory
_PEAKS, _MULTIPLES = 3, np.arange(1, 7)  # highest peaks, and multiples of their periods
_SHORTER = 0.3  # length scale of a wave with many harmonics, in units of the kernel's own
_ALIAS_TOLERANCE = 1e-6  # by which the evidence of an alias may be lower, relative to its size


# -- periods of kernels: where restarts draw them, what a periodogram says, their aliases ----------
# All of this is for rows on a line, with one column.


class Line(NamedTuple):
    """Different positions of rows on a line, sorted, and what they are apart."""

    x: np.ndarray  # (k,)
    gap: float  # the median
    spacing: float | None  # of which all gaps are multiples; None: there is none

    @property
    def span(self):
        """From the first position to the last one."""
        return self.x[-1] - self.x[0]


def line_of(rows):
    """The `Line` of a table in memory; None if its inputs are no numbers on a line."""
    if rows is None or not rows.in_memory or rows.n_features != 1:
        return None
    x = np.unique(np.asarray(rows.stored_inputs(), dtype=float))
    if len(x) < 2 or not np.isfinite(x).all():
        return None
    return Line(x, float(np.median(np.diff(x))), _spacing(x))


def _spacing(x):
    """The largest spacing of which all gaps are multiples, by Euclid's algorithm."""
    gaps = np.diff(x)
    spacing, finest = gaps.min(), _FINEST * gaps.min()
    while spacing > finest:
        counts = np.rint(gaps / spacing)
        rest = np.abs(gaps - counts * spacing)
        if rest.max() <= _SAME_GAP * spacing:
            return float(gaps.sum() / counts.sum())
        spacing = rest[rest > _SAME_GAP * spacing].min()
    return None


def period_places(kernel):
    """Indices of the free periods in theta."""
    return [*chain(*kernels.positions_of(kernel, "periodicity"))]


def period_limits(kernel, rows):
    """Bounds (len(theta), 2) to draw from: periods from two gaps of the rows to their range.

    A period keeps its bounds where these exclude all of that.
    """
    bounds, found = np.reshape(kernel.bounds, (-1, 2)).copy(), period_places(kernel)
    line = line_of(rows) if found else None
    for place in found if line else ():
        narrow = np.clip(np.log([2.0 * line.gap, line.span]), *bounds[place])
        if narrow[0] < narrow[1]:
            bounds[place] = narrow
    return bounds


def starts(objective, kernel, prior):
    """Values of theta with the periods of a periodogram: none where no period is free.

    Periods take the values of the highest evidence, one by one, at the kernel's own length scale of
    the wave and at a shorter one, as harmonics explain most where it is long. If the shorter one is
    better, there are two starts.
    """
    line = line_of(objective.rows) if period_places(kernel) else None
    if line is None or len(line.x) < _FEWEST_ROWS:
        return []
    periods, best = np.log(candidates(objective.rows, line)), kernel
    for place, length in _places_with_lengths(kernel):
        thetas = [*_tried(best, place, periods, length)]
        tried = [kernel.clone_with_theta(theta) for theta in thetas]
        values = [value_or_minus_inf(objective, one, False, prior=prior) for one in tried]
        best = tried[int(np.argmax(values))] if tried else best
    if best is kernel:
        return []
    are_periods = np.isin(np.arange(len(kernel.theta)), period_places(kernel))
    own = np.where(are_periods, best.theta, kernel.theta)
    return np.unique([own, best.theta], axis=0)


def _places_with_lengths(kernel):
    """Places of the free periods in theta, each with that of its length scale, None if fixed."""
    free = [one for one in kernel.hyperparameters if not one.fixed]
    names = [one.name for one in free for _ in range(one.n_elements)]
    lengths = (names[k].removesuffix("periodicity") + "length_scale" for k in period_places(kernel))
    lengths = (names.index(name) if name in names else None for name in lengths)
    return [*zip(period_places(kernel), lengths)]


def _tried(kernel, place, periods, length):
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


def candidates(rows, line):
    """Periods of the highest peaks of a periodogram, and multiples of them within the range."""
    frequencies = _frequencies(line)
    if len(frequencies) == 0:
        return np.zeros(0)
    power = np.r_[-np.inf, _power(rows, frequencies), -np.inf]
    peaks = np.flatnonzero((power[1:-1] > power[:-2]) & (power[1:-1] >= power[2:]))
    highest = peaks[np.argsort(-power[1:-1][peaks], kind="stable")[:_PEAKS]]
    periods = np.unique(np.multiply.outer(_MULTIPLES, 1.0 / frequencies[highest]))
    return periods[periods <= line.span * (1.0 + _SAME_GAP)]


def _frequencies(line):
    """From one wave over the range to one over two gaps."""
    step = 1.0 / (_FREQUENCIES_PER_PEAK * line.span)
    highest = min(0.5 / line.gap, _MOST_FREQUENCIES * step)
    return np.arange(1.0 / line.span, highest, step)


def _power(rows, frequencies):
    """How much of the targets without their trend a wave of each frequency explains.

    It is that of Lomb and Scargle; several targets are seen along what they have most in common.
    """
    from scipy.signal import lombscargle  # an import that takes .2 s

    x, y = rows.stored_inputs()[:, 0].astype(float), rows.targets()
    x = x - x.min()
    centred = x - x.mean()
    y = y - y.mean(axis=0)
    y = y - np.outer(centred, centred @ y / (centred @ centred))
    common = np.linalg.svd(y, full_matrices=False)[0][:, 0]
    size = max(1, _ENTRIES_PER_BLOCK // len(x))
    blocks = np.split(2.0 * np.pi * frequencies, range(size, len(frequencies), size))
    power = np.concatenate([lombscargle(x, common, block) for block in blocks])
    return np.nan_to_num(power)  # of a wave that is 0 at all rows


def with_longest(function, maximum):
    """The `Maximum` at the longest periods that the rows cannot tell from those that it has.

    These are aliases and, where waves are so rough that rows only repeat, multiples of the period.

    Parameters
    ----------
    function : VectorFunction
    maximum : Maximum
    """
    found = period_places(function.kernel)
    line = line_of(function.objective.rows) if found else None
    if line is None or line.spacing is None:
        return maximum
    for place in found:
        maximum = _with_longest(function, maximum, place, line)
    return maximum


def _with_longest(function, maximum, place, line):
    """`Maximum` at the longest value of one period that leaves covariance and evidence equal."""
    blocks = function.parameters.unpack(maximum.x)
    theta, most = blocks["kernel"], np.reshape(function.kernel.bounds, (-1, 2))[place, 1]
    kernel = function.kernel.clone_with_theta(theta)
    multiples = np.exp(theta[place]) * _MULTIPLES
    periods = [longest_alias(one, line.spacing, np.exp(most)) for one in multiples]
    for period in np.minimum(np.log(np.unique(periods)[::-1]), most):
        if period <= theta[place] + _SAME_GAP:
            break
        other = theta.copy()
        other[place] = period
        if not _is_same(kernel, kernel.clone_with_theta(other), line.x):
            continue
        x = function.parameters.pack(**blocks | {"kernel": other})
        at = function.at(x)
        value = value_or_minus_inf(*at, False, function.inner_state, function.prior)
        if value >= maximum.value - _ALIAS_TOLERANCE * max(1.0, abs(maximum.value)):
            return maximum._replace(x=x, value=value)
    return maximum


def _is_same(kernel, other, x):
    """Whether two kernels have the same covariances of the first row with all others."""
    ours, theirs = (one(x[:1, None], x[:, None]) for one in (kernel, other))
    return np.allclose(ours, theirs, rtol=0.0, atol=_ALIAS_TOLERANCE * np.ptp(ours))


def longest_alias(period, spacing, most):
    """The longest period of at most `most` with the same values on multiples of a spacing.

    On rows that are multiples of a spacing h apart, a period P and its aliases have one evidence:

        1 / P' = |m / h ± 1 / P|,    m = 0, 1, 2, ...,

    as ``sin²(π k h / P)`` is the same for all whole numbers k. The longest of them says most of
    what is between two rows.

    It is the period itself where its aliases are longer than that, or shorter.
    """
    frequency, unit = 1.0 / period, 1.0 / spacing
    frequency = abs(frequency - np.rint(frequency / unit) * unit)
    multiples = unit * (np.floor(1.0 / (most * unit)) + np.arange(3))
    frequencies = np.abs(np.add.outer(multiples, [-frequency, frequency])).ravel()
    frequencies = frequencies[frequencies * most >= 1.0]
    return max(period, 1.0 / frequencies.min()) if len(frequencies) else period
