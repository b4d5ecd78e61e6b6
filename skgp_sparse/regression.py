"""The estimator `SparseGPRegressor`."""

from __future__ import annotations  # short names of types in help

from copy import copy
from dataclasses import KW_ONLY, dataclass, field
from numbers import Integral
from typing import Any, Literal, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skgp_sparse._estimator import Progress, SparseGP
from skgp_sparse.choices.parameter_checks import can_learn_later, check_gaussian, check_quantiles
from skgp_sparse.data import checks
from skgp_sparse.data.checks import is_gaussian
from skgp_sparse.data.door import check_query
from skgp_sparse.engine.functions import SampledFunctions
from skgp_sparse.explain import leave_one_out
from skgp_sparse.explain.questions import EvidenceBounds, check_question, evidence_bounds, gradients
from skgp_sparse.explain.views import TargetView, at_uncertain_inputs, prior_view
from skgp_sparse.ground import validation
from skgp_sparse.ground.validation import Array, LikelihoodName, MaybeArray, RandomStateLike
from skgp_sparse.likelihoods import Likelihood, domain_of
from skgp_sparse.sources import Source
from skgp_sparse.targets.numbers import GaussianObservations, LikelihoodObservations

_Self = TypeVar("_Self", bound="SparseGPRegressor")


@dataclass(eq=False, repr=False)
class SparseGPRegressor(MultiOutputMixin, RegressorMixin, SparseGP):
    r"""Sparse Gaussian process regression, a drop-in for `GaussianProcessRegressor`.

    The posterior is approximated with ``m`` inducing points ``Z``. The inducing points and the
    hyperparameters of the kernel are optimised together by maximising

    .. math:: \log N(y; 0, Q_{ff} + \mathrm{diag}\,\lambda) - \mathrm{reg},

    where :math:`Q_{ff}` is the Nyström matrix of the kernel at ``Z``. The parameter `bound`
    determines ``λ`` and ``reg``. An iteration takes O(n m²) time, and a fit needs O(m²) memory
    beyond the data.

    The noise is Gaussian by default. With another `likelihood`, the objective is a bound of the
    same kind, with one Gaussian site per row in place of the noise.

    Parameters
    ----------
    kernel : kernel object, default=None
        The covariance function: any kernel of `sklearn.gaussian_process.kernels` on vectors, whose
        `WhiteKernel` is the noise. None means ``ConstantKernel() * Matern(nu=2.5) +
        WhiteKernel()`` with a length scale per feature that begins from the data, and parts for
        categories, missing values and skewed columns.
    bound : str or Bound, default="auto"
        The training objective of inducing points: "titsias" (or "vfe"), "titsias_new" (also
        "auto"), "artemev", "fitc" (or "gfitc-ep"), "pep", "dtc", or an instance of
        `skgp_sparse.bounds.Bound`, whose parameter a grid search sets as ``bound__alpha``. With a
        `likelihood`, "titsias" and "titsias_new" (or "artemev") are the variational bounds of
        [1]_, eq. 20 and 23, "gfitc-ep" is expectation propagation, and "pep" its power version,
        where powers below 0.01 count as 0.
    likelihood : str or Likelihood, default="gaussian"
        The distribution of a target given its latent value ``f``: "gaussian" noise, counts
        ("poisson", "negative_binomial") and positive targets ("gamma") with mean ``exp(f +
        level)``, numbers between 0 and 1 ("beta"), "student_t" noise with outliers, or an instance
        of `skgp_sparse.likelihoods`, such as ``Censored(lower=0.0)``, whose parameters a grid
        search sets as ``likelihood__size``. They are learned unless `optimizer` is a callable or
        None; a `WhiteKernel` is then a part of the latent process, and `alpha` must be None.
    mean : None, "auto", "linear", "boosting" or estimator, default="auto"
        The mean of the process: a constant (None), "linear" (universal kriging: a part of the
        kernel, which goes on beyond the rows), "boosting" (`HistGradientBoostingRegressor`), a
        regressor, whose parameters a grid search sets as ``mean__max_depth``, or "auto": "boosting"
        where it pays, with an `optimizer`, 200 different rows, and neither kernel nor approximation
        named. All but "linear" are added to the process beside a user's kernel; beside the default
        one, they have a weight.
    posterior : str or PosteriorMethod, default="auto"
        What predictions are based on: all rows, factorised ("exact") or by a solve ("rows"),
        "inducing" points, cosines and sines ("fourier"), the rows nearest to each query
        ("neighbors"), or an object of `skgp_sparse.posteriors`, whose parameters a grid search sets
        as ``posterior__n_mean``. "auto" is "exact" for few rows, "inducing" where anything asks for
        these, and otherwise "neighbors", with Gaussian noise beside a global process where no row
        is near ("neighbors+inducing"), or a rival ("exact" up to 5000 rows, then "inducing") that
        predicts rows that are held out with a higher density.
    n_inducing : int or "auto", default="auto"
        The number of inducing points; if it is at least that of the distinct rows, the process is
        exact, and all bounds coincide. "auto" is exact for up to 2000 distinct rows (5500 with
        little noise, 500 for kernels without a derivative rule, 300 with a `likelihood`), and 100
        to 500 for more (200 with a `likelihood`, 2000 with ``posterior="rows"``).
    inducing_init : str, array-like or callable, default="auto"
        Where inducing points begin: at "k-means" centres (also "auto"), at rows that are spread out
        ("k-means++"), at "random" rows, at those with the largest residual variance ("greedy") or
        drawn in proportion to it ("rp-cholesky"), at an array of shape (m, n_features), or where a
        callable ``callable(X, n_inducing, kernel, random_state)`` puts them.
    optimize_inducing : bool, default=True
        Whether inducing points move.
    optimizer : "fmin_l_bfgs_b", callable or None, default="fmin_l_bfgs_b"
        The optimizer of the hyperparameters, specified as in `GaussianProcessRegressor`. A
        callable starts at the initial ones, None keeps them, and both keep inducing points.
    solver : {"auto", "lbfgs", "stochastic"} or Solver, default="auto"
        The rows of "fmin_l_bfgs_b": all in every iteration ("lbfgs"), growing samples of 20 to 320
        rows per inducing point before one pass over all rows ("stochastic"), or as an object of
        `skgp_sparse.solvers` says. "auto" is "stochastic" for more than 400 rows per inducing
        point.
    n_restarts_optimizer : int, default=0
        The number of restarts in the small exact fit that comes first, from hyperparameters that
        are drawn log-uniformly within their bounds. If the kernel has periods, every second restart
        draws only these.
    max_iter : int, default=1000
        The maximum number of L-BFGS iterations, with ``solver="stochastic"`` on each sample.
    metric : {"auto", "ard", "full"}, default="auto"
        How predictions from neighbours mix columns: not at all ("ard"), or by a matrix that is kept
        if rows that are held out gain ("full", for stationary kernels; ``posterior="auto"`` is
        "neighbors" up to 2,000 rows then). "auto" is "full" with Gaussian noise if `kernel` is None
        and there are at most 44 columns.
    prior : {"auto", "scaled"}, None or object, default="auto"
        The prior of hyperparameters, which objectives and `verbose` count, but no log marginal
        likelihood: none (None), ``log(l / std) ~ N(sqrt(2) + log(d) / 2, 3)`` of length scales in d
        columns, but not of periods and spheres ("scaled"), or an object or list of
        `skgp_sparse.hyperpriors`, whose parameters a grid search sets as ``prior__variance``.
        "auto" is "scaled" for the default kernel with Gaussian noise and at most three rows per
        column.
    time_limit : float, default=None
        Seconds after which a fit, or a call of `partial_fit`, looks no further and predicts with
        what was found, after the work that cannot be left out. A callable `optimizer` and the solve
        for all rows are not interrupted.
    tol : float or "auto", default="auto"
        The fit ends when six iterations (five if only hyperparameters are learned) have improved
        the bound by less than `tol` nats per row in total. "auto" is 1e-3, except for exact fits
        with Gaussian noise to at most 600 distinct rows, which end at an optimum.
    categorical_features : array-like of bool, int or str, or None, default="from_dtype"
        The columns that are categories: those of a data frame whose type is category, text, or
        object with other values than numbers and dates ("from_dtype"), none (None), or those of a
        mask, of positions or of names. Levels become codes from 0 on; see `categories_`.
    random_state : int, RandomState instance or None, default=None
        Controls the rows of the first fit, restarts, initial inducing points and samples. Pass an
        int for reproducible results.
    n_jobs : int, default=None
        The number of threads that process blocks of rows; None means as many as BLAS may use. The
        results do not depend on it.
    verbose : int, default=0
        If it is positive, the plan of the fit is printed, and then the bound every `verbose`
        iterations, with ``solver="stochastic"`` passes, seconds, and the log density of rows that
        are held out.
    alpha : float or ndarray of shape (n_samples,), default=None
        Known variance of the noise, in units of y², which several targets share. If None and
        `kernel` has no `WhiteKernel`, one is appended and learned; the default kernel has one in
        any case.
    noise : {"auto", "constant", "learned"}, default="auto"
        Whether the variance of learned Gaussian noise is "constant", or is "learned" by a second
        process, which needs inducing points, an exact posterior or neighbours: `kernel_` then ends
        in a `skgp_sparse.kernels.HeteroscedasticNoise`. "auto" is "learned" with neither kernel
        nor approximation named, from 100 rows on, where rows that are left out gain 3 nats.
    normalize_y : bool, default=True
        Whether targets have mean 0 and variance 1 in the fit, for the likelihoods "gaussian",
        "student_t" and `Censored` (known limits: only scaled). A target that is constant beside
        others is predicted as that constant, and has no influence on the others.
    n_targets : int, default=None
        The number of targets of predictions from the prior distribution, which `fit` checks.

    Attributes
    ----------
    kernel_ : kernel object
        The kernel with the hyperparameters that were found, the noise included. Where `kernel` is
        None, "neighbors" choose the smoothness of its Matérn kernel.
    X_train_ : ndarray of shape (n_samples, n_features)
        Training inputs as they were passed, those of a data frame as numbers and codes. Defined if
        `posterior_` is "exact", "neighbors" or "rows" and the rows were in memory.
    y_train_ : ndarray of shape (n_samples,) or (n_samples, n_targets)
        Training targets of `X_train_`, normalised if `normalize_y` is True.
    inducing_points_ : ndarray of shape (m, n_features)
        The inducing points, in the units of X. Not defined if `posterior_` is "neighbors" or
        "fourier", and `n_inducing_` neither.
    metric_ : ndarray of shape (n_features, n_features) or None
        What the kernel sees is ``X @ metric_.T``, and None means X itself.
    variance_factor_ : float
        The number by which all predicted variances are multiplied, so that rows that were held out
        are most likely. It is 1 unless `posterior_` is "neighbors" or "rows", or "exact" with a
        third as many hyperparameters as rows or more (and 30 different rows).
    mean_ : estimator, list of these, or None
        The fitted mean, for several targets a list. None where there is no mean, where it is a part
        of `kernel_`, and after `partial_fit`.
    posterior_ : {"exact", "inducing", "fourier", "neighbors", "neighbors+inducing", "rows"}
        What predictions are based on. "neighbors+inducing" is a weighted mean of neighbours, whose
        attributes the estimator has, and of a global process of inducing points.
    log_marginal_likelihood_value_ : float
        The value of the bound at `kernel_` and `inducing_points_`, for the normalised targets. With
        "neighbors", it is the leave-one-out log density of random rows, times the number of rows.
    likelihood_ : Likelihood or None
        The likelihood with the parameters that were found, in units of y; None if it is "gaussian".
    n_inducing_ : int
        The number of inducing points. If the model is exact, it is the number of distinct rows.
    n_iter_ : int
        The number of iterations of the optimizer, on all samples together.
    evidence_per_row_ : float
        `log_marginal_likelihood_value_` per row, counted by weight: in nats, and comparable between
        tables.
    fit_seconds_ : float
        Seconds that `fit` took.
    feature_importances_ : ndarray of shape (n_features,)
        Total Sobol indices of the mean: the share of its variance that is lost without a column, if
        columns were independent. It is computed when it is asked for the first time.
    sobol_first_ : ndarray of shape (n_features,)
        First-order Sobol indices: the share of the variance that a column explains alone.
    sobol_error_ : ndarray of shape (2, n_features)
        Standard errors of `sobol_first_` and `feature_importances_`.
    jitter_ : float
        The jitter on the diagonal of the kernel matrix of the inducing points, as a fraction of the
        mean of this diagonal.
    selection_ : Selection
        Tuples ``(name, density, rmse, seconds, n_rows)`` of posteriors that were tried on so
        many held-out rows.
        Its attribute `plan` says why.
    n_samples_seen_ : int or float
        The number of rows that came through `partial_fit`, counted by weight.
    categories_ : dict
        Levels of each category by the name (or the number) of its column: the level at place k has
        the code k. Defined only if there are categories.
    n_features_in_ : int
        Number of features seen during `fit`.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of features seen during `fit`, if all are strings.

    See Also
    --------
    sklearn.gaussian_process.GaussianProcessRegressor : The exact process.

    Notes
    -----
    The estimator keeps a reference to the training data for `log_marginal_likelihood`, of at most a
    million elements the sorted distinct rows instead: the fit then depends neither on the order of
    the rows, nor on whether a row is repeated or has a weight of two. Pickles and copies contain
    the training data if `posterior_` is "exact", "neighbors" or "rows", and after `partial_fit` the
    sample from which it goes on.

    References
    ----------
    .. [1] Titsias (2025). "New bounds for sparse variational Gaussian processes." ICML.
    .. [2] Titsias (2009). "Variational learning of inducing variables in sparse Gaussian
       processes." AISTATS.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse import SparseGPRegressor
    >>> rng = np.random.RandomState(0)
    >>> X = rng.uniform(-3, 3, size=(500, 1))
    >>> y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=500)
    >>> model = SparseGPRegressor(n_inducing=20, random_state=0).fit(X, y)
    >>> mean, std = model.predict([[0.5]], return_std=True)
    >>> print(mean.round(1), std.round(1))
    [0.8] [0.1]

    Counts have a rate, which is predicted, and quantiles, which are whole numbers:

    >>> counts = rng.poisson(np.exp(1.0 + np.sin(2 * X[:, 0])))
    >>> model = SparseGPRegressor(likelihood="poisson", n_inducing=20, random_state=0)
    >>> model.fit(X, counts).predict_quantiles([[0.5]], [0.05, 0.5, 0.95])
    array([[ 3.,  7., 11.]])
    """

    likelihood_: Likelihood | None = field(init=False)
    _: KW_ONLY
    likelihood: LikelihoodName | Likelihood = "gaussian"
    alpha: MaybeArray = None
    noise: Literal["auto", "constant", "learned"] = "auto"
    normalize_y: bool = True
    n_targets: int | None = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        if not is_gaussian(self.likelihood):
            tags.target_tags.multi_output = False
            tags.target_tags.positive_only = domain_of(self.likelihood).is_never_negative
        return tags

    def fit(
        self: _Self,
        X: ArrayLike | Source,
        y: MaybeArray = None,
        sample_weight: MaybeArray = None,
        offset: MaybeArray = None,
        X_std: MaybeArray = None,
    ) -> _Self:
        """Fit hyperparameters, inducing points and the parameters of the likelihood.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or source
            Training inputs: numbers, which may be a memory map, or a data frame, whose columns may
            be categories, times and text, too. An array with more than a million elements is never
            copied as a whole. A source, see `skgp_sparse.sources`, gives all rows with their
            targets, weights and offsets.
        y : array-like of shape (n_samples,) or (n_samples, n_targets), default=None
            Target values. Several targets share the kernel and the noise, which must be Gaussian.
            It is None only if X is a source.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights. With the default kernel, only their ratios matter. With a `likelihood`,
            whole numbers count rows where repeated inputs have several targets. With a kernel of
            yours, a row with weight w counts as w rows.
        offset : float or array-like of shape (n_samples,), default=None
            Known offset of the latent value of each row. For counts, it is the logarithm of the
            exposure: the time, area or population in which the events were counted. It is not
            available for ``likelihood="gaussian"``.
        X_std : array-like of shape (n_samples, n_features), default=None
            Known standard deviations of the errors of X, in units of X. The true input of each row
            is then learned as a normal distribution, and `kernel` None means an `RBF` kernel in the
            place of the `Matern` kernel, whose expectations have no closed form. The noise must be
            Gaussian, `posterior` "auto" or "inducing", which then has 100 inducing points unless
            `n_inducing` says otherwise, and the rows must be in memory. An iteration takes
            O(n m² d) time. A scaler that precedes this estimator does not scale `X_std`.

        Returns
        -------
        self : SparseGPRegressor
            The fitted estimator.

        Raises
        ------
        ValueError
            If a parameter or the data are invalid. The message says how to correct them.
        """
        return self._fit(checks.RawRows(X, y, sample_weight, offset, X_std))

    @available_if(can_learn_later)
    def partial_fit(
        self: _Self,
        X: ArrayLike,
        y: MaybeArray = None,
        sample_weight: MaybeArray = None,
        classes: MaybeArray = None,
        offset: MaybeArray = None,
    ) -> _Self:
        """Learn from rows that arrive later, in chunks.

        The first call is a fit of its rows. Later calls add theirs. Hyperparameters and inducing
        points move by a few iterations on a sample of at most 100,000 of the rows that came,
        whenever the rows have doubled. Between two moves, the rows of every call are learned
        exactly. After a move, earlier rows count by the sample, which holds all of them as long as
        it can. As long as no more than `n_inducing` distinct rows have come, all of them are
        inducing points. Nothing is forgotten: where the function changes, fit again on recent rows,
        or pass a `sample_weight` that grows from call to call.

        If `optimizer` is None, hyperparameters and inducing points stay, all rows count, and chunks
        in any order equal one fit if `kernel` and `inducing_init` (an array) are given, and not
        both `alpha` and `normalize_y`: the scale of y is then that of the first call. With another
        `likelihood`, this holds for up to 20,000 rows. For more, a sample of so many stands for all
        of them.

        After `fit`, calls go on from its result. Moves use L-BFGS on the sample, whatever `solver`
        is. Callbacks are not told of the progress. The posterior is given inducing points: the
        method does not exist with another `posterior` than "auto" and "inducing", nor with
        ``metric="full"``, `n_mean` or `tight_variance`.

        An array `alpha` has the known noise of the rows of this call, in all calls or in none:
        ``model.set_params(alpha=noise).partial_fit(X, y)``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs of type float32 or float64.
        y : array-like of shape (n_samples,) or (n_samples, n_targets), default=None
            Target values, of as many targets in every call. They must be passed.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights, with the default kernel relative to the mean of all weights so far.
            Whole numbers count rows of a `likelihood`.
        classes : None
            Not used. It exists for loops over estimators of both kinds.
        offset : float or array-like of shape (n_samples,), default=None
            Known offset of the latent value of each row, as in `fit`.

        Returns
        -------
        self : SparseGPRegressor
            The fitted estimator. Its attribute `n_samples_seen_` is the number of rows that came,
            counted by weight.

        Raises
        ------
        ValueError
            If a parameter or the data are invalid, if a parameter has changed on which the sums of
            earlier rows depend, or if the rows of an earlier `fit` are not in memory, because it
            was on a cluster or from a large source, or the estimator was loaded from a pickle
            that does not contain them.
        TypeError
            If X is a source of rows, or an argument is a dask collection. Pass their chunks or
            partitions one by one.
        """
        return self._learn(checks.RawRows(X, y, sample_weight, offset))

    @overload
    def predict(self, X: ArrayLike, *, latent: bool = ..., offset: MaybeArray = ...) -> Array: ...

    @overload
    def predict(self, X: ArrayLike, *flags: Any, **options: Any) -> Array | tuple[Array, ...]: ...

    def predict(
        self,
        X: ArrayLike,
        return_std: bool = False,
        return_cov: bool = False,
        latent: bool = False,
        offset: MaybeArray = None,
        X_std: MaybeArray = None,
        return_gradient: bool = False,
    ) -> Any:
        """Predict with the posterior, or with the prior if the model is not fitted.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Query points where the GP is evaluated.
        return_std : bool, default=False
            If True, the standard deviation of the predictive distribution at the query points is
            returned along with the mean, in units of y.
        return_cov : bool, default=False
            If True, the covariance of the joint predictive distribution at the query points is
            returned along with the mean, in units of y². With a `likelihood` other than
            "gaussian", it is available for ``latent=True`` only.
        latent : bool, default=False
            If True, the standard deviation and the covariance do not include the noise of the
            kernel's `WhiteKernel`. They never include known noise (`alpha`). With a `likelihood`
            other than "gaussian", the mean, the standard deviation and the covariance are those of
            the latent value on the link scale: of the logarithm of the mean of y, or for Student-t
            and censored targets of y without its noise and its limits. They include the
            `WhiteKernel`, which is part of the process.
        offset : float or array-like of shape (n_samples,), default=None
            Known offset of the latent value of each row, as in `fit`. None is 0.
        X_std : array-like of shape (n_samples, n_features), default=None
            Known standard deviations of the errors of X. Mean and standard deviation are then those
            of predictions at inputs that are distributed as ``N(X, X_std²)``. It is available if
            `posterior_` is "inducing" and the noise is Gaussian. After a fit to rows with the same
            errors and without `X_std`, the errors would count twice.
        return_gradient : bool, default=False
            If True, the gradients of the mean and, with `return_std`, of the standard deviation
            with respect to X are returned, too. They are known unless `posterior_` is "rows" or
            has `n_mean` or `tight_variance`, or the mean is neither a constant nor one of trees,
            and with a `likelihood` other than "gaussian" for ``latent=True`` only. If `posterior_`
            is "neighbors", the neighbours of each row of X are held: predictions jump where others
            become the nearest ones. With respect to categories and missing values, they are 0.

        Returns
        -------
        y_mean : ndarray of shape (n_samples,) or (n_samples, n_targets)
            Mean of the predictive distribution at the query points.
        y_std : ndarray of shape (n_samples,) or (n_samples, n_targets)
            Standard deviation of the predictive distribution at the query points. Only returned
            when `return_std` is True.
        y_cov : ndarray of shape (n_samples, n_samples) or (n_samples, n_samples, n_targets)
            Covariance of the joint predictive distribution at the query points. Only returned when
            `return_cov` is True.
        mean_gradient : ndarray of shape (n_samples, n_features)
            Gradients of `y_mean`, or with a row for each target, (n_samples, n_targets,
            n_features). Only returned when `return_gradient` is True.
        std_gradient : ndarray of the same shape
            Gradients of `y_std`. Only returned when `return_gradient` and `return_std` are True.

        Raises
        ------
        RuntimeError
            If both `return_std` and `return_cov` are True.
        ValueError
            If the covariance of responses that are not Gaussian is requested, or if there is
            `X_std` or a gradient where it is not available.
        """
        name = f"{type(self).__name__}.predict"
        if return_gradient:
            check_question(self, return_cov, latent, (offset, X_std), name)
            queries, view = self._answered(X)
            mean, std, slope, slope_of_std = gradients(view, queries, latent, name)
            return (mean, std, slope, slope_of_std) if return_std else (mean, slope)
        if return_std and return_cov:
            raise RuntimeError("At most one of return_std or return_cov can be requested.")
        queries, view, offset = self._question(X, offset)
        if X_std is not None and return_cov:
            raise ValueError(f"{name}: X_std and return_cov cannot be combined. Use return_std.")
        if X_std is not None:
            expected = at_uncertain_inputs(view, queries, X_std, latent, name)
            return expected if return_std else expected[0]
        if return_cov and not (latent or isinstance(view, TargetView)):
            raise ValueError(
                "return_cov=True is available for likelihood="
                f"{validation.as_text(self.likelihood)} only with latent=True. Set it, or use "
                "sample_y for joint distributions of the response."
            )
        if return_cov:
            return view.mean(queries, latent, offset), view.covariance(queries, latent)
        if return_std:
            return view.mean_and_std(queries, latent, offset)
        return view.mean(queries, latent, offset)

    def predict_quantiles(
        self, X: ArrayLike, quantiles: ArrayLike = (0.025, 0.5, 0.975), offset: MaybeArray = None
    ) -> Array:
        """Predict quantiles of the target, including its noise.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Query points where the GP is evaluated.
        quantiles : float or array-like of shape (k,), default=(0.025, 0.5, 0.975)
            Probabilities between 0 and 1. The default is the median and the limits of an interval
            that contains a target with a probability of 95 %.
        offset : float or array-like of shape (n_samples,), default=None
            Known offset of the latent value of each row, as in `fit`. None is 0.

        Returns
        -------
        ndarray of shape (n_samples, k) or (n_samples, n_targets, k)
            Quantiles in units of y. The last dimension is missing if `quantiles` is a number. For
            counts, they are whole numbers: the smallest number that a count does not exceed with
            at least this probability.

        Raises
        ------
        ValueError
            If a probability is not between 0 and 1.
        """
        q = check_quantiles(quantiles, f"{type(self).__name__}.predict_quantiles")
        X, view, offset = self._question(X, offset)
        values = view.quantiles(X, np.atleast_1d(q), offset)
        return values[..., 0] if q.ndim == 0 else values

    def predict_cdf(self, X: ArrayLike, at: ArrayLike, offset: MaybeArray = None) -> Array:
        r"""Predict the probability that a target is at most a number, including its noise.

        With the distribution function F of the noise or the likelihood, it is
        :math:`P(y \le a) = \int F(a|f)\,q(f)\,df`, which is :math:`\Phi((a - m)/s)` for Gaussian
        noise and the mean and standard deviation of `predict`. A target is above a with the
        probability ``1 - predict_cdf(X, a)``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Query points.
        at : float or array-like of shape (n_samples,) or (n_samples, n_targets)
            The number, or one for each row and target, in units of y.
        offset : float or array-like of shape (n_samples,), default=None
            Known offset of the latent value of each row, as in `fit`. None is 0.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_targets)
            Probabilities between 0 and 1. For counts and limits, they include that of `at` itself.

        Raises
        ------
        ValueError
            If `at` is not finite, or has another shape.
        NotImplementedError
            If a likelihood of your own has no distribution function; see `Likelihood.cdf`.

        Examples
        --------
        >>> import numpy as np
        >>> from skgp_sparse import SparseGPRegressor
        >>> rng = np.random.RandomState(0)
        >>> X = rng.uniform(0, 10, size=(200, 1))
        >>> y = np.sin(X[:, 0]) + 0.2 * rng.normal(size=200)
        >>> model = SparseGPRegressor().fit(X, y)
        >>> (1 - model.predict_cdf([[0.0], [1.5], [4.5]], 0.8)).round(1)  # y is above 0.8
        array([0. , 0.8, 0. ])
        """
        queries, view, known = self._question(X, offset)
        p, name = len(view.scaler.scale), f"{type(self).__name__}.predict_cdf"
        limits = np.full((len(queries), p), at) if np.ndim(at) == 0 else at
        return view.cdf(queries, checks.check_truth(limits, queries, p, name, "at"), known)

    def predict_interval(
        self,
        X: ArrayLike,
        coverage: float = 0.9,
        method: Literal["model", "conformal"] = "model",
        side: Literal["both", "lower", "upper"] = "both",
        offset: MaybeArray = None,
    ) -> tuple[Array, Array]:
        r"""Predict intervals that contain a target with a given probability.

        Intervals of ``method="model"`` are those of the predictive distribution, as of
        `predict_quantiles`: right if the model is. Those of ``method="conformal"`` have the mean
        and as many standard deviations below and above it as the wanted share of training rows
        would have needed, each predicted from all others [1]_. They are narrow and wide where the
        model's are. For exchangeable rows, they contain a new target with at least this probability
        up to the influence of a single row on the fit. As the hyperparameters have seen all rows,
        there is no guarantee for small tables: intervals are wider by a factor of
        :math:`\sqrt{(n + p)/(n - p)}` for p parameters of kernel and likelihood (0.6 n at most)
        and n rows, which makes up for it on average [2]_. Where `variance_factor_` comes from fits
        without a third of the rows each, these fits predict the rows.

        `fit` keeps the scores of all rows, or of 5,000 random ones, also in pickles.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Query points.
        coverage : float, default=0.9
            The probability, between 0 and 1.
        method : {"model", "conformal"}, default="model"
            Where intervals come from.
        side : {"both", "lower", "upper"}, default="both"
            Which ends the coverage limits. With "lower" and "upper", a target is above or below
            this end with the given probability; the other end is the largest or least target.
        offset : float or array-like of shape (n_samples,), default=None
            Known offset of the latent value of each row, as in `fit`. None is 0.

        Returns
        -------
        lower, upper : ndarray of shape (n_samples,) or (n_samples, n_targets)
            Ends of the intervals, in units of y.

        Raises
        ------
        ValueError
            If a parameter is none of those above, or, with "conformal", there are too few rows for
            the coverage, standard deviations of 0, or training rows that are not known one
            by one: those of clusters, large sources and `partial_fit`.

        References
        ----------
        .. [1] Barber, Candès, Ramdas and Tibshirani (2021). "Predictive inference with the
           jackknife+." Annals of Statistics 49.
        .. [2] Akaike (1969). "Fitting autoregressive models for prediction." Annals of the
           Institute of Statistical Mathematics 21.

        Examples
        --------
        >>> import numpy as np
        >>> from skgp_sparse import SparseGPRegressor
        >>> rng = np.random.RandomState(0)
        >>> X = rng.uniform(0, 10, size=(400, 1))
        >>> y = np.sin(X[:, 0]) + 0.2 * rng.standard_t(3, size=400)
        >>> model = SparseGPRegressor().fit(X[:200], y[:200])
        >>> lower, upper = model.predict_interval(X[200:], coverage=0.8, method="conformal")
        >>> bool(0.74 < np.mean((lower <= y[200:]) & (y[200:] <= upper)) < 0.86)
        True
        """
        name = f"{type(self).__name__}.predict_interval"
        leave_one_out.check_interval(coverage, method, side, name)
        queries, view, known = self._question(X, offset)
        width = None
        if method == "conformal":
            check_is_fitted(self, "kernel_")
            fit, scores = self._fitted.fits[0], self._fitted.scores_of_rows(self.n_jobs)
            width = leave_one_out.width_of(fit, scores, coverage, side, name)
        return leave_one_out.interval(view, queries, known, coverage, side, width)

    def log_predictive_density(
        self, X: ArrayLike, y: ArrayLike, offset: MaybeArray = None
    ) -> Array:
        r"""Compute the log predictive density of targets, :math:`\log \int p(y|f)\,q(f)\,df`.

        Larger values are better. For counts and targets at a limit, it is the logarithm of a
        probability. It does not include known noise (`alpha`), which belongs to the training rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Query points where the GP is evaluated.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            True target values.
        offset : float or array-like of shape (n_samples,), default=None
            Known offset of the latent value of each row, as in `fit`. None is 0.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_targets)
            Log densities in nats, one for each target.

        Raises
        ------
        ValueError
            If a target is outside the domain of the likelihood, or if a predicted standard
            deviation is 0, unless it is that of a constant beside other targets: its log density
            is infinite there, and minus infinity elsewhere.
        """
        X, view, offset = self._question(X, offset)
        return view.log_density(X, view.truth(y, X, type(self).__name__), offset)

    def sample_y(
        self,
        X: ArrayLike,
        n_samples: int = 1,
        random_state: RandomStateLike = 0,
        latent: bool = False,
        offset: MaybeArray = None,
    ) -> Array:
        """Draw samples of the targets, including their noise.

        Samples at up to 4096 rows are drawn from the joint distribution. For more rows, the part
        that the inducing points explain is drawn jointly, and the remaining part is drawn
        independently for each row. The marginal distribution of every row is then exact, and the
        memory is O(n_samples) per row. If `posterior_` is "neighbors" or "rows", samples of more
        rows are independent: given all training rows, the process is correlated over short
        distances only.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Query points where the GP is evaluated.
        n_samples : int, default=1
            Number of samples drawn from the Gaussian process per query point.
        random_state : int, RandomState instance or None, default=0
            Determines random number generation to randomly draw samples. Pass an int for
            reproducible results across multiple function calls.
        latent : bool, default=False
            If True, the samples do not include the noise: they are samples of the process itself,
            with a `likelihood` other than "gaussian" on the link scale.
        offset : float or array-like of shape (n_rows,), default=None
            Known offset of the latent value of each row, as in `fit`. None is 0.

        Returns
        -------
        ndarray of shape (n_rows, n_samples) or (n_rows, n_targets, n_samples)
            Samples drawn from the Gaussian process at the query points, in units of y.
        """
        X, view, offset = self._question(X, offset)
        name = f"{type(self).__name__}.sample_y"
        validation.check_number(n_samples, "n_samples", name, Integral, low=1)
        return view.sample(X, n_samples, check_random_state(random_state), latent, offset)

    def sample_functions(
        self, n_functions: int = 1, random_state: RandomStateLike = 0, n_frequencies: int = 1024
    ) -> SampledFunctions:
        """Draw functions from the posterior, each the same function in all calls.

        `sample_y` draws values at given inputs, in O(n³) time for n of them. A sampled function is
        evaluated anywhere, later, again, and with its gradient, in O(m) time per input for m
        inducing points. Samples of the prior are sums of cosines; what the training rows say of
        them is exact (Wilson et al. 2020, eq. 13).

        Parameters
        ----------
        n_functions : int, default=1
            Number of functions.
        random_state : int, RandomState instance or None, default=0
            Determines the functions.
        n_frequencies : int, default=1024
            Number of random frequencies, which all functions share. With more of them, samples of
            the prior are closer to the Gaussian process.

        Returns
        -------
        SampledFunctions
            ``functions(X)`` has the shape (n_samples, n_functions), or (n_samples, n_targets,
            n_functions) with several targets, in units of y and without noise. With another
            `likelihood`, they are those of the latent value on the link scale, as of ``predict(X,
            latent=True)``, without its `WhiteKernel`. ``functions[i]`` is one of them, and
            ``functions.gradient(X)`` returns gradients with respect to X, whose last dimension is
            that of the features. With the same random state, the first functions are the same,
            however many there are.

        Raises
        ------
        ValueError
            If `posterior_` is not "exact" or "inducing", or if frequencies of the kernel cannot be
            drawn. They can for sums, products and powers of `RBF`, `Matern`, `RationalQuadratic`,
            `ConstantKernel` and `WhiteKernel`, on chosen columns, too. They cannot where the
            default kernel sees skewed columns by their logarithms, categories or missing values.

        References
        ----------
        .. [1] Wilson, Borovitskiy, Terenin, Mostowsky, Deisenroth (2020). "Efficiently sampling
           functions from Gaussian process posteriors." ICML.

        Examples
        --------
        >>> import numpy as np
        >>> from skgp_sparse import SparseGPRegressor
        >>> X = np.linspace(0, 6, 30)[:, None]
        >>> model = SparseGPRegressor(random_state=0).fit(X, np.sin(X[:, 0]))
        >>> functions = model.sample_functions(5)
        >>> functions([[1.0], [2.0]]).shape, functions.gradient([[1.0], [2.0]]).shape
        ((2, 5), (2, 5, 1))
        >>> bool(np.isclose(functions[3]([[1.0]])[0], functions([[1.0]])[0, 3]))
        True
        """
        check_is_fitted(self, "kernel_")
        name = f"{type(self).__name__}.sample_functions"
        validation.check_number(n_functions, "n_functions", name, Integral, low=1)
        validation.check_number(n_frequencies, "n_frequencies", name, Integral, low=1)
        view, state = self._fitted.view.of_latent(), check_random_state(random_state)
        check = copy(self)._query  # whatever is fitted later
        return view.functions(n_functions, n_frequencies, state, check, name)

    def score(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: MaybeArray = None,
        offset: MaybeArray = None,
    ) -> float:
        """Compute the coefficient of determination R² of the predicted means.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Test inputs.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            True target values.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights.
        offset : float or array-like of shape (n_samples,), default=None
            Known offset of the latent value of each row, as in `fit`. None is 0.

        Returns
        -------
        float
            R² of ``predict(X, offset=offset)``.
        """
        checks.check_numbers(y, "y", f"{type(self).__name__}.score")
        y = checks.within_limits(y, self.likelihood)
        return r2_score(y, self.predict(X, offset=offset), sample_weight=sample_weight)

    def predict_parts(self, X: ArrayLike) -> tuple[Array, Array]:
        """Predict the part of the mean, and that of the process.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Query points.

        Returns
        -------
        mean, process : ndarray of shape (n_samples,) or (n_samples, n_targets)
            Parts that sum to ``predict(X, latent=True)``, which is ``predict(X)`` with Gaussian
            noise. The first one is zero where `mean_` is None.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.gaussian_process.kernels import RBF
        >>> from sklearn.linear_model import LinearRegression
        >>> from skgp_sparse import SparseGPRegressor
        >>> X = np.linspace(0, 10, 50)[:, None]
        >>> y = 2 * X[:, 0] + np.sin(3 * X[:, 0])
        >>> model = SparseGPRegressor(RBF(), mean=LinearRegression(), random_state=0)
        >>> model = model.fit(X, y)
        >>> mean, process = model.predict_parts(X)
        >>> bool(np.allclose(mean + process, model.predict(X)))
        True
        """
        X, view = self._answered(X)
        predicted = view.mean(X, latent=True)
        shape = len(predicted), len(view.scaler.scale)
        mean = np.array(np.broadcast_to(self._fitted.mean_part(X), shape)).reshape(predicted.shape)
        return mean, predicted - mean

    def noise_std(self, X: ArrayLike) -> Array:
        """Standard deviation of the noise that the fit has learned.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_targets)
            In units of y. Known noise (`alpha`) is not part of it.

        Raises
        ------
        ValueError
            If the likelihood is not "gaussian", whose noise is no number beside the mean.

        Examples
        --------
        Noise that grows from left to right:

        >>> import numpy as np
        >>> from skgp_sparse import SparseGPRegressor
        >>> rng = np.random.RandomState(0)
        >>> X = rng.uniform(0, 4, size=(400, 1))
        >>> y = np.sin(2 * X[:, 0]) + 0.1 * (1 + X[:, 0]) * rng.normal(size=400)
        >>> model = SparseGPRegressor(random_state=0).fit(X, y)
        >>> model.noise_std([[0.5], [2.0], [3.2]]).round(1)
        array([0.2, 0.3, 0.4])
        """
        check_is_fitted(self, "kernel_")
        name = f"{type(self).__name__}.noise_std"
        check_gaussian(self.likelihood, name, "Use predict(X, return_std=True) or sample_y.")
        X, view = self._answered(X)
        return view.noise_std(X)

    @property
    def X_train_(self) -> validation.AnyArray:
        """Training inputs as they were passed, where the posterior holds all rows."""
        return self._training_rows("X_train_").as_passed()[0]

    @property
    def y_train_(self) -> Array:
        """Normalised training targets in the order of `X_train_`, or what a mean leaves of them."""
        rows = self._training_rows("y_train_")
        y = rows.scaler.with_constants().forward(rows.as_passed()[1])
        return y[:, 0] if y.shape[1] == 1 else y

    def loo_predict(self) -> leave_one_out.LooPrediction:
        """Predict every training row from all others, without another fit.

        The hyperparameters and the inducing points are those of all rows. They have seen the row,
        so that with few rows, and many hyperparameters, the truth is a little worse. How exact the
        rest is depends on the posterior:

        - "exact": as fits without the row, to rounding, at the same hyperparameters and noise.
        - "inducing" and "fourier": the row is taken out of the posterior of the weights. For all
          bounds, this is what the same inducing points say without it.
        - "neighbors" and "rows": the nearest others predict the row.
        - With a `likelihood`: the cavity of the row, at the sites of the others with the row.

        Returns
        -------
        LooPrediction
            A named tuple of arrays of shape (n_samples,) or (n_samples, n_targets), in the order of
            the rows of `fit`: `mean` and `std` of the targets in units of y, the noise and `alpha`
            included, and `log_density` of the targets in nats. A row is left out with its copies
            and all of its weight; where weights count rows, one of these is left out.

        Raises
        ------
        ValueError
            If the rows of `fit` are not in memory, have the weight zero or errors `X_std`, or if
            the posterior has means and variances of different inducing points (`n_mean`,
            `tight_variance`).

        References
        ----------
        .. [1] Sundararajan and Keerthi (2001). "Predictive approaches for choosing hyperparameters
           in Gaussian processes." Neural Computation 13.

        Examples
        --------
        >>> import numpy as np
        >>> from skgp_sparse import SparseGPRegressor
        >>> X = np.linspace(0, 10, 60)[:, None]
        >>> y = np.sin(X[:, 0]) + 0.1 * np.cos(40 * X[:, 0])
        >>> y[30] = 3.0
        >>> loo = SparseGPRegressor().fit(X, y).loo_predict()
        >>> int(np.argmin(loo.log_density))
        30
        """
        check_is_fitted(self, "kernel_")
        with np.errstate(all="ignore"):
            name = f"{type(self).__name__}.loo_predict"
            fit, blend = self._fitted.fits[0], self._fitted.blend
            return leave_one_out.loo_prediction(fit, blend and blend.weights, self.n_jobs, name)

    def evidence_bounds(
        self, X: MaybeArray = None, y: MaybeArray = None, sample_weight: MaybeArray = None
    ) -> EvidenceBounds:
        r"""Bound the exact log marginal likelihood at the fitted hyperparameters on both sides.

        The bounds say how much of the evidence the inducing points lose at most, and whether more
        of them could help: no choice of inducing points gets beyond `upper`. This takes a solve of
        all rows by conjugate gradients, which is O(n²) time per iteration, and O(n m) memory.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), default=None
            Inputs of the rows whose evidence is bounded. If None, they are the rows of `fit`.
        y : array-like of shape (n_samples,) or (n_samples, n_targets), default=None
            Targets of X.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights of X.

        Returns
        -------
        EvidenceBounds
            A named tuple of numbers, of all rows together and of the normalised targets, in nats:

            - `own`: the collapsed bound at `inducing_points_`, as `log_marginal_likelihood`
              returns it (of X, without the other points of `n_mean`); minus infinity if `bound` is
              no lower bound ("fitc", "pep", "dtc").
            - `upper`: upper bound with the log-determinant of the inducing points [1]_, and the
              quadratic term of all rows.
            - `gap_per_row`: the difference of the two, per row and target.

        Raises
        ------
        ValueError
            If the likelihood is not Gaussian, if the rows of `fit` are not in memory, or if X is
            given without y.
        TypeError
            If X is a source of rows.

        References
        ----------
        .. [1] Titsias (2014). "Variational inference for Gaussian and determinantal point
           processes." Workshop on Advances in Variational Inference, NIPS.

        Examples
        --------
        >>> import numpy as np
        >>> from skgp_sparse import SparseGPRegressor
        >>> X = np.linspace(0, 10, 400)[:, None]
        >>> y = np.sin(3 * X[:, 0]) + 0.1 * np.cos(40 * X[:, 0])
        >>> bounds = SparseGPRegressor(n_inducing=30, random_state=0).fit(X, y).evidence_bounds()
        >>> bounds.own <= bounds.upper
        True
        """
        check_is_fitted(self, "kernel_")
        check_query(X, type(self).__name__)
        name, others = f"{type(self).__name__}.evidence_bounds", None
        check_gaussian(self.likelihood, name, "Judge the fit by log_predictive_density.")
        if (X is None) != (y is None) or (X is None and sample_weight is not None):
            raise ValueError(
                f"{name} needs both X and y, or neither X, y nor sample_weight. Pass all or none."
            )
        with np.errstate(all="ignore"):
            if X is not None:
                rules = self._observations().rules
                given = checks.RawRows(X, y, sample_weight)
                others = self._read(rules, given, self._fitted.types, reset=False)
                self._check_missing(others.X)
                checks.check_columns(others.y, len(self._fitted.scaler.scale), name)
                others = self._fitted.residuals(others).in_one_form().in_units(self._fitted.scaler)
            return evidence_bounds(self._fitted.fits[0], self, others, Progress(self, None), name)

    def __getstate__(self) -> dict:
        if self._fitted is not None:
            self._fitted.scores_of_rows(self.n_jobs)  # pickles have no rows that could tell
        return super().__getstate__()

    def _training_rows(self, attribute: str) -> Any:
        """The table of the training rows, for an attribute that needs them."""
        reason = "it is not fitted. Call fit"
        if hasattr(self, "kernel_"):
            fit = self._fitted.fits[0]
            if fit.posterior.holds_rows and fit.rows is not None and fit.rows.in_memory:
                return fit.rows
            reason = (
                f"its posterior_ is {self.posterior_!r}, which keeps none of the rows, or they "
                "came from a cluster or a large source. Set posterior to 'exact', 'neighbors' or "
                "'rows', and fit arrays"
            )
        raise AttributeError(f"This {type(self).__name__} has no {attribute}: {reason}.")

    def _observations(self) -> GaussianObservations | LikelihoodObservations:
        kind = GaussianObservations if is_gaussian(self.likelihood) else LikelihoodObservations
        return kind(self, type(self).__name__)

    def _question(self, X: object, offset: MaybeArray) -> tuple[Any, Any, Any]:
        """Query points, the fitted process or the prior in the units of y, and offsets."""
        name = type(self).__name__
        if hasattr(self, "kernel_"):
            at, view = self._answered(X, offset=offset)
        else:
            at, view = self._query(X, offset=offset), prior_view(self, name)
        offset = checks.check_offset(offset, at, not isinstance(view, TargetView), name)
        return at, view, offset
