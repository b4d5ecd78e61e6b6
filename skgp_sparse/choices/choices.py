"""Names become objects: bounds, likelihoods, kernels in the units of the data, initialisers.

`default_signal` is the default kernel, by the types of columns, and `with_linear_mean` the mean
"linear", which is a part of any kernel.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.gaussian_process import kernels as sklearn_kernels
from sklearn.gaussian_process.kernels import ConstantKernel, Kernel, WhiteKernel
from sklearn.utils import check_array

from skgp_sparse import bounds, hyperpriors, inducing, kernels, likelihoods
from skgp_sparse.data.checks import check_finite
from skgp_sparse.data.columns import ColumnTable
from skgp_sparse.data.dataset import Dataset
from skgp_sparse.data.moments import or_one
from skgp_sparse.engine.exact import linear_residual
from skgp_sparse.ground.linalg import NO_EFFECT, count_varying
from skgp_sparse.ground.validation import Array, Ints, Rng, as_text, is_auto, is_name, require
from skgp_sparse.inference.contracts import ThoroughSearch
from skgp_sparse.inference.site_objective import ExpectationPropagation, Variational
from skgp_sparse.kernels import Categorical, Columns, Missing
from skgp_sparse.likelihoods import Likelihood
from skgp_sparse.methods.contract import Points

_ADDED = 0.5  # a and b of `default_signal`
_SOME_ROWS = 2000  # that tell what a linear mean leaves
_OF_MISSING = 0.02  # noise of a missing value, in units of the variance
_LEAST_OF_MISSING = 1e-5  # the same where next to nothing is known: it would take that of all rows


def default_signal(
    rows: Dataset, y_variance: float, is_smooth: bool, columns: ColumnTable, limits: tuple
) -> Kernel:
    """The default kernel without noise, in the units of the data, by the types of columns.

    With a Matérn kernel k_c (an RBF if `is_smooth`; `Missing` where values are missing):

        numbers                 v k_c
        categories              v k_k,    k_k = Π_j (ρ_j + (1 - ρ_j) [a_j = b_j])
        numbers and categories  v (a + k_c) (b + k_k) = v (a b + b k_c + a k_k + k_c k_k)
    """
    scale, codes = rows.scale(NO_EFFECT), columns.codes()
    numbers = np.setdiff1d(np.arange(len(scale)), codes)
    lack_values = columns.misses(numbers)
    known = numbers[rows.total_weight() > rows.input_moments()[2][numbers]]  # which have a value
    numbers = known if len(known) or codes else numbers
    codes = _without_names_of_rows(rows, codes, len(numbers))
    parts: list[tuple[Any, Kernel]] = []
    if len(numbers):
        part = of_numbers(scale[numbers], is_smooth)
        parts.append((numbers, Missing(part, noise=_OF_MISSING) if lack_values else part))
    if codes:
        q = len(codes)  # rows that differ in all of them correlate by exp(-1)
        of_codes = Categorical(np.full(q, np.exp(-1.0 / q)), correlation_bounds=(1e-3, 0.9999))
        parts.append((codes, of_codes))
        limits = limits[0], 100.0 * limits[1]  # where all ρ are near 1, most of it is common
    if len(parts) == 1:
        chosen, part = parts[0]
        variance = _constant(y_variance, limits)
        if len(chosen) == len(scale):
            return variance * part
        return kernels.named(variance * _of_columns(part, chosen, columns), columns.names)
    variance = _constant(y_variance / (1.0 + _ADDED) ** 2, limits)
    first, second = (
        _of_columns(ConstantKernel(_ADDED, (1e-3, 1e2)) + part, chosen, columns)
        for chosen, part in parts
    )
    return kernels.named(variance * first * second, columns.names)


def _of_columns(part: Kernel, chosen: Ints, columns: ColumnTable) -> Kernel:
    return Columns(part, [columns.label(j) for j in chosen])


def _without_names_of_rows(rows: Dataset, codes: list[int], n_numbers: int) -> list[int]:
    """The categories but for those that name nearly every row, unless nothing is left."""
    if not (codes and rows.in_memory and rows.total_weight() >= 50):
        return codes
    X, most = rows.stored_inputs(), 0.95 * rows.total_weight()
    left = [j for j in codes if len(np.unique(X[:, j])) < most]
    return left if left or n_numbers else codes


def without_unclear_noise(kernel: Kernel, weight: Array) -> Kernel:
    """The kernel, changed: no noise of missing values where few are known (`weight` (d,))."""
    for part, columns in kernels.parts_by_columns(kernel, len(weight), kernels.Missing):
        few = weight[columns][np.asarray(part.columns, int)] < 30  # to tell it from other noise
        if few.any():
            ends = np.where(few[:, None], _LEAST_OF_MISSING, np.reshape(part.noise_bounds, (1, 2)))
            part.set_params(noise_bounds=ends, noise=np.where(few, _LEAST_OF_MISSING, part.noise))
    return kernel


def of_numbers(scale: Array, is_smooth: bool = False) -> Kernel:
    """The kernel of numbers, with a length scale for each column, from their spread."""
    typical = scale * np.sqrt(count_varying(scale))  # two typical rows correlate by about exp(-1)
    lengths = np.column_stack([1e-3 * typical, 1e4 * typical])
    if not (np.isfinite(lengths).all() and lengths.min() >= np.finfo(float).tiny):
        raise ValueError(
            "The standard deviation of a column of X is too small or too large for float64. "
            "Rescale X, or pass a kernel."
        )
    if is_smooth:
        return sklearn_kernels.RBF(typical, lengths)
    return sklearn_kernels.Matern(typical, lengths, nu=2.5)


def _constant(variance: float, limits: tuple[float, float]) -> Kernel:
    return ConstantKernel(variance, (limits[0] * variance, limits[1] * variance))


def resolve_priors(parameters: BaseEstimator, rows: Dataset, few: int) -> list[Any]:
    """The priors that parameters ask for, a list; of length scales with `few` rows per column."""
    prior = parameters.prior
    if prior is None or (is_auto(prior) and parameters.kernel is not None):
        return []
    if not isinstance(prior, str):
        return [clone(one) for one in (prior if isinstance(prior, (list, tuple)) else [prior])]
    chosen = [hyperpriors.CorrelationPrior(), hyperpriors.MissingValuePrior()]
    chosen.append(hyperpriors.MissingNoisePrior())
    if not is_auto(prior) or rows.total_weight() <= few * count_varying(rows.scale(NO_EFFECT)):
        chosen.append(hyperpriors.LogNormalLengthScales())
    return chosen


class StandardisedColumns(kernels.Columns):
    """A kernel on chosen columns in units of `spread` from `centre`; missing values are 0."""

    takes_missing = True

    def __init__(
        self,
        kernel: Kernel,
        columns: list[int | str],
        numbers: dict[str, int] | None = None,
        centre: Array | float = 0.0,
        spread: Array | float = 1.0,
    ) -> None:
        super().__init__(kernel, columns, numbers)
        self.centre, self.spread = centre, spread

    def transform(self, X: Array) -> Array:
        """Return the chosen columns of points (..., d), standardised."""
        return np.nan_to_num((super().transform(X) - self.centre) / self.spread)

    def pull(self, X: Array, bar: Array) -> Array:
        """Return the gradient with respect to all columns, 0 of missing values."""
        return np.where(np.isnan(X), 0.0, super().pull(X, bar / self.spread))


def with_linear_mean(kernel: Kernel, unit: float, rows: Dataset, table: ColumnTable) -> Kernel:
    """The kernel, with a linear function of the numbers where that is its mean.

    In ``f(x) = g(x) + β_0 + β' h(x)``, with ``β ~ N(0, B I)`` and standardised numbers h, a large B
    has the predictions of universal kriging (Rasmussen and Williams 2006, section 2.7).
    """
    if not table.has_linear_mean:
        return kernel
    chosen = np.setdiff1d(np.arange(rows.n_features), table.codes())
    mean, spread, _ = rows.input_moments()
    # B is wide
    linear = ConstantKernel(1000.0 * unit, "fixed") * sklearn_kernels.DotProduct(1.0, "fixed")
    labels, spread = [table.label(j) for j in chosen], or_one(spread[chosen])
    part = StandardisedColumns(linear, labels, centre=mean[chosen], spread=spread)
    return kernel + kernels.named(part, table.names)


def _share_beside(own: Kernel | None, rows: Dataset, columns: ColumnTable) -> float:
    """The share of the variance of some targets that a linear mean leaves to a default kernel."""
    if own is not None or not columns.has_linear_mean:
        return 1.0
    some = rows.some(_SOME_ROWS).everything()
    X, y = np.delete(some.X, columns.codes(), axis=1), some.y / or_one(np.abs(some.y).max())
    free, total = len(X) - X.shape[1] - 1, np.var(y, axis=0).sum()
    if free <= 0 or total == 0.0:
        return 1.0
    return float(np.clip(np.sum(linear_residual(X, y) ** 2) / (free * total), 1e-10, 1.0))


BOUNDS = {  # classes of the Gaussian objective
    "auto": bounds.TitsiasNew,
    "titsias": bounds.Titsias,
    "vfe": bounds.Titsias,
    "titsias_new": bounds.TitsiasNew,
    "artemev": bounds.Artemev,
    "fitc": bounds.FITC,
    "gfitc-ep": bounds.FITC,  # EP is exact for a Gaussian likelihood
    "pep": bounds.PEP,
    "dtc": bounds.DTC,
}
_SPHERICAL = bounds.TitsiasNew, bounds.Artemev  # bounds that are spherical with a likelihood
_PROPAGATION = bounds.FITC, bounds.PEP  # these are expectation propagation there


def resolved(
    choice: object, by_name: Mapping[str, type], kind: type, parameter: str, name: str, must: str
) -> Any:
    """The object of a name, or a clone of one of that kind; raises at anything else."""
    if is_name(choice, *by_name):
        return by_name[choice]()
    require(isinstance(choice, kind), parameter, choice, name, must)
    return clone(choice)


def resolve_bound(bound: bounds.Bound | str, name: str) -> bounds.Bound:
    """The bound object of a string or an instance."""
    must = f"one of {sorted(BOUNDS)} or an instance of skgp_sparse.bounds.Bound"
    found = resolved(bound, BOUNDS, bounds.Bound, "bound", name, must)
    found.check_parameters(name)
    return found


def resolve_method(
    bound: bounds.Bound | str, likelihood: Likelihood, name: str
) -> Variational | ExpectationPropagation:
    """How to find the sites of a likelihood, from the bound or its name."""
    offered = sorted(BOUNDS.keys() - {"dtc"})
    is_bound = isinstance(bound, bounds.Bound) or is_name(bound, *BOUNDS)
    require(is_bound, "bound", bound, name, f"one of {offered}")
    resolved = resolve_bound(bound, name)
    kind, power = type(resolved), getattr(resolved, "alpha", 1.0)
    if kind is bounds.DTC or kind not in BOUNDS.values():
        raise ValueError(
            f"bound={as_text(bound)} is defined for Gaussian noise only. With other likelihoods, "
            f"the 'bound' parameter of {name} must be one of {offered}, or a PEP()."
        )
    # a power below costs digits and iterations, and the answer is that of power 0
    if kind not in _PROPAGATION or power < 0.01:
        return Variational(likelihood, spherical=kind in _SPHERICAL)
    if likelihood.n_latent > 1:
        reason = "needs a likelihood of one latent value per row, and softmax has one per class"
    elif not likelihood.is_log_concave:
        reason = (
            f"needs a log-concave likelihood. {type(likelihood).__name__} is not log-concave: if a "
            "row is an outlier, its latent value may have two modes, and its moments mislead"
        )
    else:
        return ExpectationPropagation(likelihood, power=power)
    raise ValueError(
        f"{name}: bound={as_text(bound)} is expectation propagation, which {reason}. Use "
        "bound='titsias_new' or bound='titsias'."
    )


def resolve_sigmoid(likelihood: Likelihood | str, name: str) -> Likelihood:
    """The likelihood of labels of a name or an instance."""
    by_name = likelihoods.OF_LABELS
    must = f"one of {sorted(by_name)} or an instance of skgp_sparse.likelihoods.Binary"
    return resolved(likelihood, by_name, likelihoods.Binary, "likelihood", name, must)


def resolve_likelihood(likelihood: Likelihood | str, name: str) -> Likelihood:
    """The likelihood of numbers of a name or an instance."""
    if is_name(likelihood, *likelihoods.BY_NAME):
        return likelihoods.BY_NAME[likelihood]()
    is_of_numbers = isinstance(likelihood, likelihoods.Likelihood)
    is_of_numbers &= not isinstance(likelihood, (likelihoods.Binary, likelihoods.Ordinal))
    must = (
        f"one of {['gaussian', *likelihoods.BY_NAME]} or an object (no class) of a subclass "
        "of likelihoods.Likelihood that is not for labels (Gaussian noise is part of the kernel)"
    )
    require(is_of_numbers, "likelihood", likelihood, name, must)
    assert isinstance(likelihood, Likelihood)
    likelihoods.check_parameters(likelihood, name)
    return clone(likelihood)


def resolve_kernel(own: Kernel | None, alpha: object, rows: Dataset, table: ColumnTable) -> Kernel:
    """A clone of the kernel, or the default one, with the noise that is to be learned."""
    y_variance = rows.target_variance()
    B, y_variance = y_variance, y_variance * _share_beside(own, rows, table)
    if own is None:  # whose expectations have a closed form where inputs have errors
        signal = default_signal(rows, y_variance, rows.X_std is not None, table, (1e-3, 1e4))
    else:
        signal = clone(own)
    signal = with_linear_mean(signal, B, rows, table)
    signal = _informed(signal, rows, table, is_default=own is None)
    if (alpha is not None and own is not None) or kernels.has_noise(signal):
        return signal
    return signal + WhiteKernel(0.1 * y_variance, (1e-6 * y_variance, 1e3 * y_variance))


def thorough_search(
    kernel: Kernel, parameters: BaseEstimator, rows: Dataset, columns: ColumnTable
) -> ThoroughSearch:
    """`ThoroughSearch` from a kernel of `resolve_kernel`: with less noise, if it was appended."""
    chosen = parameters.kernel
    if chosen is not None and (parameters.alpha is not None or kernels.has_noise(chosen)):
        return ThoroughSearch(kernel)
    y_variance = rows.target_variance() * _share_beside(chosen, rows, columns)
    high = kernel.k2.noise_level_bounds[1]
    quiet = kernel.k1 + WhiteKernel(1e-3 * y_variance, (1e-10 * y_variance, high))
    return ThoroughSearch(quiet, (quiet.theta,))


def resolve_latent_kernel(
    own: Kernel | None, likelihood: Likelihood, rows: Dataset, columns: ColumnTable, spread: float
) -> Kernel:
    """A clone of the kernel of a process that a likelihood follows, or that of such a spread."""
    if own is None:
        share = _share_beside(own, rows, columns) if likelihood.standardises else 1.0
        signal = default_signal(rows, share * spread**2, False, columns, likelihood.latent_variance)
    else:
        signal = clone(own)
    signal = with_linear_mean(signal, spread**2, rows, columns)
    return _informed(signal, rows, columns, is_default=own is None)


def _informed(kernel: Kernel, rows: Dataset, columns: ColumnTable, is_default: bool) -> Kernel:
    """The kernel, whose parts know where values are missing; raises if it is for other columns."""
    if kernels.parts(kernel, kernels.Missing):
        mean, spread, missing = rows.input_moments()
        kernel = kernels.with_missing(kernel, rows.n_features, missing > 0, mean, or_one(spread))
        if is_default:
            kernel = without_unclear_noise(kernel, rows.total_weight() - missing)
    if not is_default:
        _check_codes(kernel, rows, columns)
    probe = rows.block(slice(0, 1)).X
    kernels.evaluate(kernel, probe, probe)  # length scales for other columns are refused here
    return kernel


def _check_codes(kernel: Kernel, rows: Dataset, columns: ColumnTable) -> None:
    """Raise if the codes of a category are no whole numbers, where rows are in memory."""
    for part, column in kernels.categories(kernel, rows.n_features) if rows.in_memory else ():
        values = rows.stored_inputs()[:, column]
        wrong = values[(values != np.rint(values)) | (np.abs(values) >= 2.0**53)]
        if len(wrong):
            raise ValueError(
                f"A {type(part).__name__} kernel sees column {columns.label(column)!r}, whose "
                "values are not codes: the first one that is no whole number below 2**53 is "
                f"{wrong[0]:g}. Choose another column, or encode it by OrdinalEncoder."
            )


def with_noise_floor(rows: Dataset, kernel: Kernel) -> Dataset:
    """The rows with known noise above what the arithmetic needs, where no noise is learned."""
    return rows if kernels.has_noise(kernel) else replace(rows, least_noise=1e-12)


def resolve_inducing(init: object, n_inducing: int, n_features: int, name: str) -> Points:
    """`Points` of an initialiser, a number of them or the user's own."""
    chosen: Any = "k-means" if is_auto(init) else init
    is_known = is_name(chosen, *inducing.BY_NAME)
    are_given = not (isinstance(chosen, str) or callable(chosen)) and np.ndim(chosen) > 0
    names = sorted(["auto", *inducing.BY_NAME])
    must = f"one of {names}, an array of shape (m, n_features) or a callable"
    require(is_known or callable(chosen) or are_given, "inducing_init", chosen, name, must)
    given = _check_inducing(chosen, n_features, name) if are_given else None

    def initialise(
        rows: Dataset, kernel: Kernel, random_state: Rng, n_inducing: int = n_inducing
    ) -> Array:
        if is_known:
            few = rows.sampled(rows.sample(max(10_000, 10 * n_inducing), random_state))
            choose, X = inducing.BY_NAME[chosen], few.everything().X
            return choose(X, n_inducing, kernel, random_state, sample_weight=few.weight)
        Z = given
        if Z is None:
            Z = chosen(rows.inputs(), n_inducing, kernel, random_state)
            Z = _check_inducing(Z, rows.n_features, name)
        remedy = "The kernel takes none. Impute them."  # unless it has `Missing`
        seen = kernels.touched(kernel, Z.shape[1], but="takes_missing")
        check_finite(Z, None, f"inducing_init of {name}", remedy, seen)
        return Z

    return Points(n_inducing, initialise, are_given=are_given)


def _check_inducing(Z: Array, n_features: int, name: str) -> Array:
    """Inducing points (m, d) of a user as a float64 copy; raises unless they have d columns."""
    shape = f"(m, {n_features})"
    require(np.ndim(Z) == 2, "inducing_init", Z, name, f"or return an array of shape {shape}")
    options = {"dtype": float, "copy": True, "ensure_all_finite": "allow-nan"}
    Z = check_array(Z, **options, input_name="inducing_init")
    if Z.shape[1] != n_features:
        raise ValueError(
            f"The 'inducing_init' parameter of {name} has {Z.shape[1]} columns, but X has "
            f"{n_features} features. Give every point a value of each feature."
        )
    return Z
