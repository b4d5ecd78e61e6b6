"""Functions drawn from a posterior, each the same function in all calls, and Sobol indices.

By Matheron's rule (Wilson et al. 2020), a sample of the posterior is a sample of the prior that is
corrected at the inducing points. With random Fourier features φ of the kernel, normal weights w,
and a sample v of the weights of the process given the data, in which the inducing points have the
values ``L v`` beside their mean ``Kuu u``,

    f(x) = φ(x) w + k(x, Z) c,        c = u + L⁻ᵀ (v - L⁻¹ φ(Z) w).

Only the prior between the inducing points is approximate. Of the exact process, these are all rows.

Sobol indices of the posterior mean (`sobol_indices`) say how much each column matters.
"""

from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import qmc
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, Product

from skgp_sparse import kernels
from skgp_sparse.data.dataset import row_blocks
from skgp_sparse.engine.basis import FourierBasis, Options
from skgp_sparse.engine.posterior import in_metric
from skgp_sparse.ground.parallel import ordered_map, resolve_n_jobs, single_threaded_blas

_ROWS, _VALUES = 20_000, 512  # rows that tell how columns are distributed, by so many quantiles
_NEIGHBORS = 30  # of a prediction, where there are more: quick, and as good for shares
_SEQUENCES, _POINTS = 8, 1024  # of an estimate, and of each sequence
_MOST_PRODUCTS = 1 << 28  # products of numbers, beyond which samples are quicker
_CANCELLATION_TOLERANCE = 1e-4  # of the variance, up to which sums of large terms are exact enough
_ENTRIES, _FEWEST_TOGETHER = 1 << 17, 16  # of matrices that stay in the cache, and their rows


class SobolIndices(NamedTuple):
    """Indices of every column, and standard errors."""

    first: np.ndarray  # (d,)
    total: np.ndarray  # (d,)
    error: np.ndarray  # (2, d) of both


def quantiles_of_columns(tables):
    """Quantiles (k, d) of every column of the inputs of tables; None where these are not known.

    They are values of rows, so that codes and missing values are among them as often as in rows.
    """
    if any(rows is None or not rows.in_memory for rows in tables):
        return None
    parts = [_some_of(rows, max(_ROWS // len(tables), 1)) for rows in tables]
    X, weight = map(np.concatenate, zip(*parts))
    order, levels = np.argsort(X, axis=0), (np.arange(_VALUES) + 0.5) / _VALUES
    quantiles = np.empty((_VALUES, X.shape[1]))
    for j, places in enumerate(order.T):
        total = np.cumsum(weight[places])
        quantiles[:, j] = X[places[np.searchsorted(total, levels * total[-1])], j]
    return quantiles


def _some_of(rows, size):
    """Inputs (k, d) as users know them, and weights (k,)."""
    X, weight = rows.inputs(), rows.row_weights()
    if rows.places is not None:  # equal rows have a weight together
        copies = np.bincount(rows.places + 1, minlength=len(rows) + 1)[1:]
        weight = np.where(rows.places < 0, 0.0, (weight / copies)[rows.places])
    some = np.random.RandomState(0).permutation(len(X))[:size]
    return np.asarray(X[some], float), weight[some]


def sobol_indices(processes, quantiles, n_jobs):
    """`SobolIndices` of the means of processes, weighted by their variances.

    With columns that are independent, and distributed as those of the training rows, the
    first-order index of column j is the share of the variance that it explains alone, and the total
    index the share that is lost without it:

        S_j = Var E[f | x_j] / Var f,        T_j = E Var[f | all others] / Var f.

    Of products of kernels of one column, both are sums over pairs of inducing points. Otherwise
    they are estimated by evaluations of f at points of a Sobol sequence (Saltelli et al. 2010;
    Jansen 1999).

    Parameters
    ----------
    processes : list of Posterior
    quantiles : ndarray of shape (k, d)
    n_jobs : int or None
    """
    with single_threaded_blas(), np.errstate(all="ignore"):
        closed = [_in_closed_form(process, quantiles) for process in processes]
        if all(one is not None for one in closed):
            first, total, variance = np.sum(closed, axis=0)
            return _indices(first[None], total[None], variance[None], error=0.0)
        threads, quick = (
            resolve_n_jobs(n_jobs),
            [process.with_fewer_neighbors(_NEIGHBORS) for process in processes],
        )
        found = [_sampled(quick, quantiles, seed, threads) for seed in range(_SEQUENCES)]
    return _indices(*(np.array(one) for one in zip(*found)))


def _indices(first, total, variance, error=None):
    """`SobolIndices` from variances (r, d), (r, d) and (r, d) of r sequences."""
    whole = variance.mean(axis=0)
    if not np.isfinite(whole).all():
        raise ValueError(
            "The variance of the mean over the rows is not finite, so that there are no Sobol "
            "indices. The values of X are too large for the kernel. Rescale X."
        )
    if not whole.any():
        nothing = np.zeros(first.shape[1])
        return SobolIndices(nothing, nothing, np.zeros((2, len(nothing))))
    both = np.stack([first, total]) / whole
    mean = np.maximum(both.mean(axis=1), 0.0)
    if error is None:  # of ratios: what a sequence says beyond its own variance
        apart = np.stack([first, total]) - mean[:, None] * variance
        error = np.std(apart / whole, axis=1, ddof=1) / np.sqrt(len(first))
    return SobolIndices(*mean, np.broadcast_to(error, mean.shape))


def _in_closed_form(process, values):
    """Variances (d,) explained by each column, lost without it, and of all: summed over targets.

    None where the mean is no sum of products, or a sum of large terms that cancel.
    """
    if process.points is None:
        return None
    factors = column_factors(process.kernel, values.shape[1])
    (Z, u), means, products = process.points, [], []
    if factors is None or np.isnan(Z).any():
        return None
    if Z.shape[1] != len(factors) or (len(factors) * len(Z)) ** 2 > _MOST_PRODUCTS:
        return None
    for j, parts in enumerate(factors):
        K = np.ones((len(values), len(Z)))
        for part in parts:
            K *= kernels.evaluate(part, values[:, [j]].copy(), Z[:, [j]].copy())
        means.append(K.mean(axis=0))
        products.append(K.T @ K / len(values))
    square = np.sum((np.prod(means, axis=0) @ u) ** 2)

    def explained(chosen):
        if not chosen:
            return 0.0
        others = [mean for k, mean in enumerate(means) if k not in chosen]
        weighted = u * np.reshape(np.prod(others, axis=0), (-1, 1))
        matrix = np.prod([products[k] for k in chosen], axis=0)
        return np.sum(weighted * (matrix @ weighted)) - square

    columns = range(len(means))
    variance = explained([*columns])
    terms = np.sum(np.abs(u) * (np.abs(np.prod(products, axis=0)) @ np.abs(u)))
    if not np.finfo(float).eps * terms < _CANCELLATION_TOLERANCE * variance:
        return None if terms > 0 else np.zeros((3, len(means)))
    first = [explained([j]) for j in columns]
    total = [variance - explained([k for k in columns if k != j]) for j in columns]
    return np.array([first, total, np.full(len(means), variance)])


def _sampled(processes, columns, seed, threads):
    """Variances as of `_in_closed_form`, by a Sobol sequence; `columns` (k, d) are sorted."""
    d = columns.shape[1]
    points = qmc.Sobol(2 * d, seed=seed).random(_POINTS)
    places = np.minimum((points * len(columns)).astype(int), len(columns) - 1)
    A, B = (columns[half, np.arange(d)] for half in (places[:, :d], places[:, d:]))
    f_A, f_B = (_side_by_side(p.mean(X, threads) for p in processes) for X in (A, B))
    centre = 0.5 * (f_A.mean(axis=0) + f_B.mean(axis=0))
    variance = 0.5 * np.sum((f_A - centre) ** 2 + (f_B - centre) ** 2) / _POINTS
    f = np.concatenate([_replaced(p, A, B, threads) for p in processes], axis=2)  # (d, n, p)
    first = np.sum((f_B - centre) * (f - f_A), axis=(1, 2)) / _POINTS
    total = 0.5 * np.sum((f - f_A) ** 2, axis=(1, 2)) / _POINTS
    return first, total, np.full(d, variance)


def _side_by_side(parts):
    return np.concatenate([*parts], axis=1)


def _replaced(process, A, B, threads):
    """Means (d, n, p) of rows A in which column j, for each of d, is that of B."""
    if process.points is None:
        return np.stack([process.mean(_mixed(A, B, j), threads) for j in range(A.shape[1])])
    Z, u = process.points
    size = max(_FEWEST_TOGETHER, _ENTRIES // max(len(Z), 1))
    blocks = np.array_split(np.arange(len(A)), -(-len(A) // size))

    def means(rows):
        replace = kernels.replacing(process.kernel, A[rows], Z)
        return np.stack([_times(replace(j, B[rows, j]), u, len(rows)) for j in range(A.shape[1])])

    return np.concatenate([*ordered_map(means, blocks, threads)], axis=1)


def _mixed(A, B, j):
    mixed = A.copy()
    mixed[:, j] = B[:, j]
    return mixed


def _times(K, u, n):
    """``K u`` (n, p), where K is a number if all of its entries are equal."""
    return K @ u if np.ndim(K) else np.broadcast_to(K * u.sum(axis=0), (n, u.shape[1]))


def column_factors(kernel, d):
    """Return the factors of a kernel by column, if it is a product of kernels of one column each.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel expression. Noise that is added to it has no say.
    d : int
        Number of input columns.

    Returns
    -------
    list of list of Kernel, or None
        For each column the kernels, each of this column alone, whose product over all columns is
        the kernel. None if it is no such product.
    """
    kernel = kernels.without_noise(kernel)
    if d == 1:
        return [[kernel]]
    if type(kernel) is ConstantKernel:
        return [[kernel], *([] for _ in range(d - 1))]
    if type(kernel) is RBF:
        return [[RBF(scale)] for scale in np.broadcast_to(kernel.length_scale, d)]
    if type(kernel) is Product:
        first, second = column_factors(kernel.k1, d), column_factors(kernel.k2, d)
        if first is None or second is None:
            return None
        return [one + other for one, other in zip(first, second)]
    if type(kernel) is kernels.Columns:
        chosen = kernel.chosen(d)
        inside = column_factors(kernel.kernel, len(chosen))
        if inside is None:
            return None
        found = [[] for _ in range(d)]
        for j, factors in zip(chosen, inside):
            found[j] = found[j] + factors
        return found
    return None


_POWER = 10.0  # of uniform draws, of which small ones are high frequencies
_LARGER = 0.5  # normal draws, for each column by its square root


class SharedMean(NamedTuple):
    """The mean that all functions of a target share, and the factor of their deviations from it."""

    posterior: Any  # a `PosteriorWithMean`
    scale: np.ndarray | float = 1.0  # (p,) of targets
    target: np.ndarray | None = None  # (c,) of each function, -1 for one of a constant

    def __call__(self, X):
        """Means (n, c) and factors (n, 1) of deviations."""
        mean, factor = self.posterior.mean_and_factor(X)
        return self._of_functions(mean[:, :, None])[:, :, 0], factor[:, None]

    def slopes(self, X):
        """Derivatives (n, c, d) and (n, 1, d) of means and factors."""
        mean, factor = self.posterior.slopes_of_mean_and_factor(X)
        return self._of_functions(mean), factor[:, None]

    def in_units(self, units, k):
        """Share the mean of k functions of each target, in units of y."""
        varies = units.scale > 0
        target = np.where(varies, np.cumsum(varies) - 1, -1)
        return self._replace(scale=units.scale[varies], target=np.repeat(target, k))

    def _of_functions(self, values):
        scaled = values * np.reshape(self.scale, (-1, 1))
        return np.concatenate([scaled, np.zeros_like(scaled[:, :1])], axis=1)[:, self.target]


class SampledFunctions:
    """Functions of the inputs, drawn from the posterior of the latent process, in units of y.

    Call it with inputs, as in ``functions(X)``, to evaluate all functions at once. ``functions[i]``
    is one of them, and ``len(functions)`` is their number.

    Parameters
    ----------
    harmonics : Harmonics
        Features φ.
    weights : ndarray of shape (n_components, c)
        The weights w of all functions, in units of y.
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel of the process.
    Z : ndarray of shape (m, d)
        Inducing points, or training rows.
    coefficients : ndarray of shape (m, c)
        Of ``k(x, Z)``, in units of y.
    shape : tuple
        That of values of one row: ``(k,)``, or ``(n_targets, k)``.

    Attributes
    ----------
    mean : ndarray of shape (c,)
        What is added to the functions, in units of y.
    metric : ndarray of shape (r, d) or None
        Where inputs are seen as ``W x``.
    check : callable
        Makes numbers of inputs as users have them, or raises.
    shared : SharedMean or None
        A mean that all functions of a target share; the functions are deviations from it.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse import SparseGPRegressor
    >>> X = np.linspace(0, 10, 50)[:, None]
    >>> model = SparseGPRegressor(random_state=0).fit(X, np.sin(X[:, 0]))
    >>> functions = model.sample_functions(3, random_state=0)
    >>> len(functions), functions(X).shape, functions[0](X).shape
    (3, (50, 3), (50,))
    """

    is_one = False  # of several

    def __init__(self, harmonics, weights, kernel, Z, coefficients, shape):
        self.harmonics, self.weights = harmonics, weights
        self.kernel, self.Z, self.coefficients = kernel, Z, coefficients
        self.mean, self.metric, self.shape = np.zeros(weights.shape[1]), None, shape
        self.check, self.shared = np.asarray, None

    def __repr__(self):
        return f"<SampledFunctions, whose values of one row have the shape {self.shape}>"

    def __call__(self, X):
        """Return the values of all functions.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, k) or (n_samples, n_targets, k)
        """
        given = self.check(X)
        X = self._in_metric(given)
        values = np.empty((len(X), len(self.mean)))

        def fill(block):
            K = kernels.evaluate(self.kernel, X[block], self.Z)
            np.matmul(self.harmonics.raw(X[block]), self.weights, out=values[block])
            values[block] += K @ self.coefficients

        blocks = row_blocks(len(X), len(self.weights) + len(self.Z))
        n_jobs = resolve_n_jobs(None)
        with single_threaded_blas():
            for _ in ordered_map(fill, blocks, n_jobs):
                pass
        if self.shared is not None:
            mean, factor = self.shared(given)
            values = factor * values + mean
        values += self.mean
        return values.reshape(len(X), *self.shape)

    def gradient(self, X):
        """Return the gradients of all functions with respect to the inputs.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Where the gradients are wanted.

        Returns
        -------
        ndarray of shape (n_samples, k, n_features) or (n_samples, n_targets, k, n_features)
            In units of y and of the columns.

        Raises
        ------
        ValueError
            If the functions share the prediction of another model that has an unknown gradient.
        """
        if self.shared is not None and not self.shared.posterior.is_flat:
            raise ValueError(
                "Sampled functions beside this mean have no gradient, as that of the mean is not "
                "known. Set mean to None, or to trees."
            )
        given = self.check(X)
        X = self._in_metric(given)
        slopes = np.empty((len(X), len(self.mean), X.shape[1]))
        for one, coefficients in enumerate(self.coefficients.T):
            pull = kernels.linearize(self.kernel, self.Z, X)[1]
            G = np.repeat(coefficients[:, None], len(X), axis=1)
            of_prior = self.harmonics.slopes(X, self.weights[:, one])
            slopes[:, one] = of_prior + pull(G, True)[1]
        slopes = slopes if self.metric is None else slopes @ self.metric
        if self.shared is not None:
            slopes = self._beside_mean(given, slopes)
        return slopes.reshape(len(X), *self.shape, slopes.shape[2])

    def __len__(self):
        if self.is_one:
            raise TypeError("This is one sampled function, which has no length. Draw several.")
        return self.shape[-1]

    def __getitem__(self, index):
        if self.is_one:
            raise TypeError("This is one sampled function. Call it with inputs.")
        chosen = np.arange(len(self.mean)).reshape(self.shape)[..., index]
        places = chosen.ravel()
        found = copy(self)
        found.weights, found.coefficients = self.weights[:, places], self.coefficients[:, places]
        found.mean, found.shape = self.mean[places], chosen.shape
        found.shared = self.shared and self.shared._replace(target=self.shared.target[places])
        found.is_one = np.ndim(index) == 0 and not isinstance(index, slice)
        return found

    def _beside_mean(self, X, slopes):
        """Gradients (n, c, d), from those of deviations from the mean."""
        mean, factor = self.shared(X)
        mean_slope, factor_slope = self.shared.slopes(X)
        deviations = (self(X).reshape(mean.shape) - self.mean - mean) / factor
        return mean_slope + factor[:, :, None] * slopes + deviations[:, :, None] * factor_slope

    def _in_metric(self, X):
        return in_metric(self.metric, X)


def drawn(posterior, k, n_frequencies, random_state):
    """`SampledFunctions` of a posterior, in units of its targets.

    Parameters
    ----------
    posterior : FeaturePosterior
        Posterior whose features are those of points.
    k : int
        Number of functions.
    n_frequencies : int
    random_state : RandomState
    """
    Z, u = posterior.points
    p = u.shape[1]
    of_prior, of_data = (np.random.RandomState(random_state.randint(2**31)) for _ in range(2))
    with single_threaded_blas():
        harmonics = _harmonics(posterior.kernel, n_frequencies, Z[0], random_state)
        weights = _by_target(of_prior.normal(size=(k * p, harmonics.size)).T, p)
        features, v = posterior.weights_of_samples(k * p, of_data)
        v = _by_target(v, p)
        prior = features.whiten((harmonics.raw(Z) @ weights).T).T
        change = features.weights(v - prior)
        coefficients = np.repeat(u, k, axis=1) + change
    shape = (k,) if p == 1 else (p, k)
    return SampledFunctions(harmonics, weights, posterior.kernel, Z, coefficients, shape)


def in_metric_of(drawn, metric):
    """Sampled functions of ``x``, where those that were drawn are functions of ``W x``."""
    found = copy(drawn)
    found.metric = metric
    return found


def in_weighted_mean(drawn, u, shared):
    """Sampled functions whose mean, with the coefficients u (m, p), is another one.

    Parameters
    ----------
    drawn : SampledFunctions
        In units of standardised targets.
    u : ndarray of shape (m, p)
    shared : SharedMean
    """
    k, found = drawn.shape[-1], copy(drawn)
    found.coefficients = drawn.coefficients - np.repeat(u, k, axis=1)
    found.shared = shared._replace(target=np.repeat(np.arange(u.shape[1]), k))
    return found


def in_units(drawn, units, check):
    """The `SampledFunctions` in units of y (p,), those of constant targets among them."""
    k = drawn.shape[-1]

    def scaled(weights):
        of_all = units.among_constants(weights.reshape(len(weights), -1, k))
        return (of_all * units.scale[:, None]).reshape(len(weights), -1)

    found, p = copy(drawn), len(units.mean)
    found.weights, found.coefficients = scaled(drawn.weights), scaled(drawn.coefficients)
    found.mean, found.shape = np.repeat(units.mean, k), (k,) if p == 1 else (p, k)
    found.check, found.shared = check, drawn.shared and drawn.shared.in_units(units, k)
    return found


def _by_target(draws, p):
    """Draws (m, p k), all functions of a target together, from those that go on with k."""
    m = len(draws)
    return draws.reshape(m, -1, p).transpose(0, 2, 1).reshape(m, -1)


def _harmonics(kernel, n_frequencies, origin, random_state):
    """Features of a kernel, of which half have high frequencies.

    Between the data, high frequencies are what is not known, and few draws are among them. Half of
    the draws are from a distribution with more of them, and the squares of all amplitudes are
    ratios of the two densities (importance sampling with a mixture).
    """
    basis = FourierBasis.drawn(kernel, n_frequencies, origin, random_state)
    normal, levels, weights = basis.normal.copy(), basis.levels.copy(), []
    for term, rows in basis.terms(kernel):
        is_high = np.arange(rows.stop - rows.start) % 2 == 1
        log_ratio = np.zeros(len(is_high))  # of the densities of high draws and of plain ones
        for j, factor in enumerate(term.factors):
            e, u = normal[rows, j], levels[rows, j]
            if type(factor.kernel) is Matern and factor.kernel.nu < np.inf:
                u[is_high] = np.maximum(u[is_high] ** _POWER, np.finfo(float).tiny)
                log_ratio += (1.0 / _POWER - 1.0) * np.log(u) - np.log(_POWER)
            else:
                own = factor.columns(e.shape[1])
                scale = 1.0 + _LARGER / np.sqrt(len(own))
                e[is_high] *= scale
                squares = np.sum(e[:, own] ** 2, axis=1)
                log_ratio += 0.5 * squares * (1.0 - scale**-2) - len(own) * np.log(scale)
        weights.append(2.0 / (1.0 + np.exp(log_ratio)))
        weights[-1] /= weights[-1].mean()
    harmonics = replace(basis, normal=normal, levels=levels).at(kernel, Options())
    amplitudes = harmonics.amplitudes * np.sqrt(np.concatenate(weights))
    return replace(harmonics, amplitudes=amplitudes)
