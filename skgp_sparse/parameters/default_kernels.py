"""The default kernel, in the units of the data and by the types of its columns; its priors.

    numbers                 v k_c,    k_c a Matérn kernel with a length scale for each column
    categories              v k_k,    k_k = Π_j (ρ_j + (1 - ρ_j) [a_j = b_j])
    numbers and categories  v (a + k_c) (b + k_k) = v (a b + b k_c + a k_k + k_c k_k)

Where values of numbers are missing, k_c is that of `Missing`.
"""

import numpy as np
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from skgp_sparse import kernels
from skgp_sparse._engine.data.moments import NO_EFFECT
from skgp_sparse._ground.validation import is_auto
from skgp_sparse.hyperpriors import (
    CorrelationPrior,
    LogNormalLengthScales,
    MissingNoisePrior,
    MissingValuePrior,
)
from skgp_sparse.kernels import Categorical, Columns, Missing
from skgp_sparse.rows.columns import NUMBERS

_LIMITS = 1e-3, 1e4  # of the variance, in units of that of y
_ADDED, _ADDED_LIMITS = 0.5, (1e-3, 1e2)  # a and b above
_OF_MISSING = 0.02  # noise of a missing value, in units of the variance
_LEAST_OF_MISSING = 1e-5  # the same where next to nothing is known: it would take that of all rows
_FEWEST_KNOWN = 30  # values of a column that tell its noise from that of all rows
_ONE_LEVEL_EACH, _FEWEST_IDS = 0.95, 50  # levels per row of a category that names rows, and rows
_CORRELATIONS = 1e-3, 0.9999
_LARGER = 100.0  # limit of the variance with categories: where all ρ are near 1, most is common


def default_signal(rows, y_variance, limits=_LIMITS, is_smooth=False, columns=NUMBERS):
    """The default kernel without noise.

    Parameters
    ----------
    rows : Dataset
    y_variance : float
    limits : tuple of float
        Of the variance, in units of that of y.
    is_smooth : bool
        Whether k_c is an RBF kernel.
    columns : ColumnTable
    """
    scale, codes = rows.scale(NO_EFFECT), columns.codes()
    numbers = np.setdiff1d(np.arange(len(scale)), codes)
    lack_values, numbers = columns.misses(numbers), _with_values(rows, numbers, codes)
    codes = _without_names_of_rows(rows, codes, len(numbers))
    parts = []
    if len(numbers):
        part = of_numbers(scale[numbers], is_smooth)
        parts.append((numbers, Missing(part, noise=_OF_MISSING) if lack_values else part))
    if codes:
        parts.append((codes, of_categories(len(codes))))
    if codes:
        limits = limits[0], _LARGER * limits[1]
    if len(parts) == 1:
        chosen, part = parts[0]
        part = part if len(chosen) == len(scale) else _of_columns(part, chosen, columns)
        return kernels.named(_constant(y_variance, limits) * part, columns.names)
    variance = _constant(y_variance / (1.0 + _ADDED) ** 2, limits)
    first, second = (
        _of_columns(ConstantKernel(_ADDED, _ADDED_LIMITS) + part, chosen, columns)
        for chosen, part in parts
    )
    return kernels.named(variance * first * second, columns.names)


def _of_columns(part, chosen, columns):
    return Columns(part, [columns.label(j) for j in chosen])


def _with_values(rows, numbers, codes):
    """The columns of numbers in which any value is known, unless nothing is left."""
    known = rows.total_weight() > rows.input_moments()[2]
    left = numbers[known[numbers]]
    return left if len(left) or codes else numbers


def _without_names_of_rows(rows, codes, n_numbers):
    """The categories but for those with a level for nearly every row, unless nothing is left.

    What such a category explains is noise of the rows, and no other row has its levels.
    """
    if not (codes and rows.in_memory and rows.total_weight() >= _FEWEST_IDS):
        return codes
    X, most = rows.stored_inputs(), _ONE_LEVEL_EACH * rows.total_weight()
    left = [j for j in codes if len(np.unique(X[:, j])) < most]
    return left if left or n_numbers else codes


def without_unclear_noise(kernel, known):
    """The default kernel, without noise of missing values in columns where few values are known.

    Nearly every row would have this noise, which could not be told from that of the targets.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel expression, of which the caller has the only copy.
    known : ndarray of shape (d,)
        Weights of the rows in which the value of a column is known.
    """
    for part, columns in kernels.parts_by_columns(kernel, len(known), kernels.Missing):
        few = known[columns][part.columns] < _FEWEST_KNOWN
        if few.any():
            limits = np.reshape(part.noise_bounds, (1, 2))
            part.noise_bounds = np.where(few[:, None], _LEAST_OF_MISSING, limits)
            part.noise = np.where(few, _LEAST_OF_MISSING, part.noise)
    return kernel


def of_numbers(scale, is_smooth=False):
    """The kernel of numbers, with a length scale for each column, from their spread."""
    typical = scale * np.sqrt(len(scale))  # makes two typical rows correlate by about exp(-1)
    lengths = np.column_stack([1e-3 * typical, 1e4 * typical])
    if not (np.isfinite(lengths).all() and lengths.min() >= np.finfo(float).tiny):
        raise ValueError(
            "The standard deviation of a column of X is too small or too large for float64. "
            "Rescale X, or pass a kernel."
        )
    return RBF(typical, lengths) if is_smooth else Matern(typical, lengths, nu=2.5)


def of_categories(q):
    """The kernel of q categories, where rows that differ in all of them correlate by exp(-1)."""
    return Categorical(correlation=np.full(q, np.exp(-1.0 / q)), correlation_bounds=_CORRELATIONS)


def _constant(variance, limits):
    return ConstantKernel(variance, (limits[0] * variance, limits[1] * variance))


def resolve_priors(given, rows, few):
    """The priors of hyperparameters that parameters ask for, a list.

    "auto" has them for the default kernel only: of length scales where there are at most `few` rows
    per column, and of categories and missing values in any case.
    """
    prior = given.prior
    of_levels = [CorrelationPrior(), MissingValuePrior(), MissingNoisePrior()]
    with_scales = [*of_levels, LogNormalLengthScales()]
    if is_auto(prior):
        are_few = rows.total_weight() <= few * rows.n_features
        chosen = with_scales if are_few else of_levels
        return chosen if given.kernel is None else []
    if isinstance(prior, str):
        return with_scales
    given = prior if isinstance(prior, (list, tuple)) else [prior]
    return [] if prior is None else [clone(one) for one in given]
