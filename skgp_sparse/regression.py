"""The estimator `SparseGPRegressor`."""

from __future__ import annotations  # short names of types in help

from collections.abc import Callable
from copy import copy
from numbers import Integral
from typing import Any, Literal, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.gaussian_process.kernels import Kernel
from sklearn.metrics import r2_score
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skgp_sparse._estimator import SparseGP
from skgp_sparse.bounds import Bound
from skgp_sparse.choices.parameter_checks import can_learn_later, check_gaussian, check_quantiles
from skgp_sparse.data import checks
from skgp_sparse.data.checks import is_gaussian
from skgp_sparse.data.door import check_query
from skgp_sparse.engine.functions import SampledFunctions
from skgp_sparse.explain.leave_one_out import (
    LooPrediction,
    check_interval,
    conformal_interval,
    interval_of_model,
    loo_prediction,
)
from skgp_sparse.explain.questions import EvidenceBounds, check_question, evidence_bounds, gradients
from skgp_sparse.explain.views import at_uncertain_inputs, prior_view
from skgp_sparse.ground.validation import (
    AnyArray,
    Array,
    AutoName,
    BoundName,
    InitialiserName,
    LikelihoodName,
    MaybeArray,
    MeanName,
    MetricName,
    Optimizer,
    PosteriorName,
    PriorName,
    RandomStateLike,
    SolverName,
    as_text,
    check_number,
)
from skgp_sparse.hyperpriors import AnyPrior
from skgp_sparse.inference.contracts import Solver
from skgp_sparse.likelihoods import Likelihood, domain_of
from skgp_sparse.posteriors import PosteriorMethod
from skgp_sparse.sources import Source
from skgp_sparse.targets.numbers import GaussianObservations, LikelihoodObservations

_Self = TypeVar("_Self", bound="SparseGPRegressor")


class SparseGPRegressor(MultiOutputMixin, RegressorMixin, SparseGP):
    r"""Sparse Gaussian process regression, a drop-in for `GaussianProcessRegressor`.

    The posterior is approximated with ``m`` inducing points ``Z``. The inducing points and the
    hyperparameters of the kernel are optimised together by maximising

    .. math:: \log N(y; 0, Q_{ff} + \mathrm{diag}\,\lambda) - \mathrm{reg},

    where :math:`Q_{ff}` is the Nyström matrix of the kernel at ``Z``. The parameter `bound`
    determines ``λ`` and ``reg``. An iteration takes O(n m²) time, and a fit needs O(m²) memory
    beyond the data.

    The noise is Gaussian by default. With another `likelihood`, for counts, positive targets or
    targets with outliers, the objective is a bound of the same kind, with one Gaussian site per
    row in place of the noise. An inner iteration computes the sites in every evaluation of the
    objective. A fit then needs a few numbers per row in addition.

    Parameters
    ----------
    kernel : kernel object, default=None
        The kernel specifying the covariance function of the GP. It can be any kernel of
        `sklearn.gaussian_process.kernels` that is defined on vectors. A `WhiteKernel` in it models
        the noise. If None is passed, the kernel
        ``ConstantKernel() * Matern(nu=2.5) + WhiteKernel()`` with one length scale per feature is
        used as default. Its initial hyperparameters and their bounds are computed from the data,
        so that the features need not be scaled. With categories, it is
        ``ConstantKernel() * Columns(c + Matern()) * Columns(c + Categorical())``. Where values are
        missing, the part of the numbers is `Missing`, and skewed columns may be on a `LogScale`.
    bound : str or Bound, default="auto"
        The training objective of inducing points. It can be "titsias" (also called "vfe"),
        "titsias_new", "artemev", "fitc" (also called "gfitc-ep"), "pep", "dtc",
        or an instance of `skgp_sparse.bounds.Bound` such as ``PEP(alpha=0.3)``. A grid search can
        set the parameter of such an instance as ``bound__alpha``. "auto" is "titsias_new". Any
        other value asks for inducing points; see `posterior`. With a `likelihood` other than
        "gaussian", "titsias" and "titsias_new" (also called "artemev") are the variational bounds
        of [1]_, eq. 20 and 23, "gfitc-ep" is expectation propagation, and "pep" is power
        expectation propagation, where powers below 0.01 count as 0, which is "titsias". Other
        bounds are not available then, and "student_t" and "beta" have the variational bounds only.
    likelihood : str or Likelihood, default="gaussian"
        The distribution of a target given its latent value ``f``:

        - "gaussian": normal noise, which is part of the kernel.
        - "poisson": counts with mean ``exp(f + level)``.
        - "negative_binomial": counts with the same mean and a larger variance.
        - "gamma": positive targets with the same mean, such as times and amounts.
        - "beta": numbers between 0 and 1, both excluded, with mean ``s(f + level)``, where ``s`` is
          the logistic sigmoid.
        - "student_t": noise with heavy tails, for targets with outliers.

        Instances of `skgp_sparse.likelihoods.Poisson`, `NegativeBinomial`, `Gamma`, `Beta` and
        `StudentT` have initial values and bounds of the parameters, in units of y, such as
        ``NegativeBinomial(size=10.0, size_bounds="fixed")``. ``Censored(lower=0.0)`` has normal
        noise of numbers that are observed up to a limit. The parameters are learned together with
        the hyperparameters of the kernel. A callable `optimizer`, or None, keeps them at their
        initial values. A grid search can set them as
        ``likelihood__size``. With a likelihood other than "gaussian", a `WhiteKernel` in `kernel`
        is part of the latent process, the default kernel has none, and `alpha` must be None.
    mean : None, "auto", "linear", "boosting" or estimator, default="auto"
        The mean of the process, which other columns or another model tell:

        - None: a constant.
        - "linear": a linear function of the numbers in X. With a user's kernel, it is a part of
          the kernel: generalised least squares, whose uncertainty is part of the predicted
          variance (universal kriging). With the default one, it is a `LinearRegression`, or a
          `TweedieRegressor` where a likelihood has a logarithmic link.
        - "boosting": `HistGradientBoostingRegressor`, with categories and missing values as
          it takes them.
        - Any regressor of scikit-learn, such as ``RandomForestRegressor()``. It is fitted to the
          numbers and codes of X. A grid search sets its parameters as ``mean__max_depth``.
        - "auto": "boosting" where it improves predictions of rows that are left out. The
          default kernel, at least 200 different rows in memory, and an `optimizer` are needed,
          otherwise it is None. It is also None where an approximation is named, which is then
          fitted alone: where `bound`, `n_inducing`, `inducing_init` or `posterior` is not "auto".

        Training rows have predictions of three fits, each without a third of the rows; queries
        have those of a fit to all rows. With a user's kernel, the process is that of the residuals
        of the training rows, and the mean is added to it (regression kriging); with a likelihood,
        predictions of the mean are offsets. The default kernel sees all columns, as the mean
        does: the prediction is a weighted mean of both, whose weights follow the variance of the
        process, as rows that are left out tell; see the guide.
    posterior : str or PosteriorMethod, default="auto"
        What the posterior is given, as a name or as an object of `skgp_sparse.posteriors`, such as
        ``InducingPoints(n_mean=2000)``, whose parameters a grid search sets as
        ``posterior__n_mean``:

        - "inducing": inducing points; see `InducingPoints`. A prediction takes O(m) time per query,
          and O(m²) with its standard deviation.
        - "exact": all rows, exactly; see `Exact`. A fit takes O(n³) time, and a prediction O(n).
        - "rows": all rows by a solve, with hyperparameters of 3000 rows and calibrated variances;
          see `IterativeExact`. A fit takes O(n²) time per iteration of the solve, and a prediction
          O(n) time per query.
        - "fourier": cosines and sines at random frequencies from the spectral density of the
          kernel, which has to be stationary; see `FourierFeatures`. A prediction takes O(m) time
          per query for m features, and O(m²) with its standard deviation.
        - "neighbors": for every query, the training rows that are nearest to it, in a metric that
          is learned from rows which are left out; see `Neighbors`. The time of a fit hardly grows
          with the number of rows, and a prediction takes O(k³) time for k neighbours, 50 to 200.
        - "auto": "exact" for few rows; see `n_inducing`. Otherwise "neighbors" or a rival,
          whichever predicts rows that are held out with the higher density. The rival is "exact"
          for up to 5000 rows, with hyperparameters of fewer rows, and "inducing" for more. It is
          "inducing" if `bound`, `n_inducing`, `inducing_init` or `solver` is not "auto", for
          kernels without a derivative rule, for rows of large sources and clusters, and if
          `optimizer` is a callable or None. With another likelihood than "gaussian", it is also
          "inducing" for 300 to 2000 distinct rows.

        Where `n_inducing` makes every row an inducing point, the process is exact in any case, and
        all bounds coincide, unless `posterior` is "fourier", which has features in any case. All
        bounds coincide for these, too, and `n_inducing` and `inducing_init` must be "auto". With
        "rows" and "neighbors", `bound` must be "auto".
    n_inducing : int or "auto", default="auto"
        The number of inducing points. If it is at least the number of distinct rows, every row
        becomes an inducing point and the model is exact. "auto" uses the exact process for up to
        2000 distinct rows, and 100 to 500 inducing points for more rows: as few as leave a residual
        variance that is negligible beside the noise of a first fit. The limit is 5500 distinct rows
        if a first fit finds little noise, and 500 for kernels without a derivative rule. Below
        the limit, the exact process is the better model and takes about the same time. With a
        `likelihood` other than "gaussian", the limit is 300 distinct rows, and more rows have 200
        inducing points. The attribute `n_inducing_` holds the number that was chosen. With
        ``posterior="rows"``, the inducing points are random rows that speed up the solve, 2000 of
        them by default.
    inducing_init : str, array-like or callable, default="auto"
        The method to initialise the inducing points. "auto" is "k-means". Any other value asks for
        inducing points; see `posterior`.

        - "k-means": centres of k-means clusters, seeded by "rp-cholesky".
        - "k-means++": rows that are spread out by k-means++ seeding.
        - "random": random rows.
        - "greedy": the rows with the largest residual variance, one after the other.
        - "rp-cholesky": rows drawn with probability proportional to their residual variance. It
          is neither better nor worse than "k-means" on every data set.
        - An array of shape (m, n_features) with the inducing points themselves.
        - A callable ``callable(X, n_inducing, kernel, random_state)`` that returns such an array.
    optimize_inducing : bool, default=True
        Whether to optimise the inducing points. If False, the points of `inducing_init` are used
        unchanged.
    alpha : float or ndarray of shape (n_samples,), default=None
        Known variance of the noise, in units of y². If None and `kernel` has no `WhiteKernel`, a
        `WhiteKernel` is appended and its variance is learned. The default kernel has one in any
        case. Several targets share `alpha` and
        are then scaled by the same factor.
    noise : {"auto", "constant", "learned"}, default="auto"
        Whether the variance of learned Gaussian noise varies with the inputs.

        - "constant": it is the same everywhere.
        - "learned": it is ``s exp(f(x))``, where f is the mean of a second process. That process
          follows the logarithms of squared errors of rows that are left out. The fit then goes on
          from where it ended, with s among the hyperparameters. `kernel_` ends in a
          `skgp_sparse.kernels.HeteroscedasticNoise` in the place of the `WhiteKernel`.
        - "auto": "learned" for the default kernel, from 100 rows on, where rows that are left out
          of both processes are more likely by 3 nats. Otherwise "constant", and always for rows
          that are not in memory or come by `partial_fit`, and where an approximation is named,
          as for `mean`.

        Noise that varies needs ``likelihood="gaussian"`` and inducing points, an exact posterior or
        neighbours.
    optimizer : "fmin_l_bfgs_b", callable or None, default="fmin_l_bfgs_b"
        The optimizer of the hyperparameters, specified as in `GaussianProcessRegressor`. A
        callable starts at the initial hyperparameters of the kernel, and with None these are kept
        fixed. In both cases the inducing points of `inducing_init` are not optimised.
    solver : {"auto", "lbfgs", "stochastic"} or Solver, default="auto"
        The rows with which "fmin_l_bfgs_b" learns hyperparameters and inducing points, as a name or
        as an object of `skgp_sparse.solvers`, such as ``Minibatches(batch_size=512)``, whose
        parameters a grid search sets as ``solver__batch_size``:

        - "lbfgs": all rows in every iteration.
        - "stochastic": growing random samples of the rows, with 20, 80, 160 and 320 rows per
          inducing point as far as there are so many. The posterior is then computed from all
          rows. The time of the fit hardly grows with the number of rows. With at most 160 rows
          per inducing point, this is "lbfgs".
        - "auto": "stochastic" for more than 400 rows per inducing point, "lbfgs" otherwise.
    n_restarts_optimizer : int, default=0
        The number of restarts of the optimizer for finding the kernel's hyperparameters, in the
        small exact fit that precedes the sparse fit. The initial hyperparameters of each restart
        are sampled log-uniformly from within their bounds. If the kernel has periods, every second
        restart samples only the periods. If X has one column, periods are sampled from twice the
        median spacing of the rows to their range.
    max_iter : int, default=1000
        The maximum number of L-BFGS iterations, with ``solver="stochastic"`` on each sample. A
        fit normally ends earlier, by the criterion of `tol`. Ten minibatches count as one
        iteration.
    metric : {"auto", "ard", "full"}, default="auto"
        How predictions from neighbours mix columns: their covariance is `kernel_` of
        ``X @ metric_.T``.

        - "ard": not at all; the length scales of the kernel say how much each column matters.
        - "full": by a matrix (d, d), which is kept if rows that are held out are predicted better.
          The kernel must be stationary; ``posterior="auto"`` is "neighbors" up to 2,000 rows then.
        - "auto": "full" with Gaussian noise if `kernel` is None and there are at most 44 columns,
          "ard" otherwise.
    prior : {"auto", "scaled"}, None or object, default="auto"
        The prior of hyperparameters, which every objective counts once beside all rows. What
        `log_marginal_likelihood` and `log_marginal_likelihood_value_` tell is without it. Noise and
        amplitude have none.

        - None: none, so that a fit maximises the objective of the rows alone.
        - "scaled": length scales have a log-normal prior with a location that grows with the number
          of columns d, ``log(l / std) ~ N(sqrt(2) + log(d) / 2, 3)``, where std is that of the
          column. Correlations of several categories have ``CorrelationPrior()``, neutral values
          of missing ones ``MissingValuePrior()``, and their noise ``MissingNoisePrior()``.
        - An object of `skgp_sparse.hyperpriors`, such as ``LogNormalLengthScales(variance=1.0)``,
          whose parameters a grid search sets as ``prior__variance``, or a list of such objects.
        - "auto": "scaled" if `kernel` is None, `likelihood` is "gaussian" and there are at most
          three rows per column, where intervals of fits without it are much too narrow. None
          otherwise: with more rows, some tables gain and some lose. Targets that are a sum of
          columns, which want length scales without end, lose most. Without a kernel, categories
          and missing values have the priors above in any case.

        It acts on the length scales of kernels on chosen columns, too, but not on those of periodic
        kernels and of `Sphere`. The values that `verbose` prints are with it.
    time_limit : float, default=None
        Seconds after which a fit, or a call of `partial_fit`, looks no further: the optimiser stops
        after the iteration that is under way, no restart and no larger sample begins, and the
        posterior is computed with what was found. This may take longer than the limit, as a fit
        begins and ends with work that cannot be left out. There is no warning, but `verbose` says
        it. A callable `optimizer` and the solve for all rows are not interrupted. None means no
        limit; with one, the result depends on the speed of the machine.
    tol : float or "auto", default="auto"
        The tolerance of the stopping criterion. The fit ends when ten iterations (five if only
        hyperparameters are learned) have improved the bound by less than `tol` nats per row in
        total. ``tol=1e-2`` gives a faster and less accurate fit, and ``tol=1e-5`` gives a more
        accurate one. "auto" is 1e-3, except where an evaluation is cheap: an exact fit with
        Gaussian noise to at most 600 distinct rows, and each of its restarts, ends at an optimum,
        to about 0.01 nats of the log marginal likelihood of all rows. If the noise is appended to
        the kernel, such a fit also begins with little noise, and its noise may vanish.
    normalize_y : bool, default=True
        Whether to normalise the targets `y` by removing the mean and scaling to unit variance. The
        normalisation is reversed before predictions are returned. It is used for the likelihoods
        "gaussian", "student_t" and `Censored` only; outliers hardly change their mean and scale,
        and with known limits, y is only scaled. A
        target that is constant beside others is predicted as that constant, with the standard
        deviation 0, and has no influence on the others. If all rows are one or two different ones
        with equal targets, hyperparameters stay, and y is in units of its size.
    n_targets : int, default=None
        The number of dimensions of the target values. It is used to decide the number of outputs
        when predicting from the prior distribution, and `fit` checks it.
    categorical_features : array-like of bool, int or str, or None, default="from_dtype"
        The columns that are categories, spelled as those of histogram gradient boosting:

        - "from_dtype": columns of a data frame whose type is category, text, or object, unless all
          their values are numbers or dates. An array has none.
        - None: none.
        - A mask, or numbers or names of columns.

        Their levels become codes from 0 on, which are what the kernel and `inducing_points_` have;
        see `categories_`. A missing value is a level of its own. A level that `fit` has not seen
        differs from all others. Columns of times become days since 1970, and durations days. A list
        of int has positions of columns.
    random_state : int, RandomState instance or None, default=None
        Controls the randomness of the initialisation: the choice of the rows for the first fit,
        the restarts of the optimizer, the initial inducing points, and the samples of
        ``solver="stochastic"``. Pass an int for reproducible results across multiple function
        calls.
    n_jobs : int, default=None
        The number of threads that process blocks of rows. None means as many threads as BLAS may
        use. The results do not depend on it.
    verbose : int, default=0
        Controls the verbosity. If it is positive, which posterior is fitted or tried is printed
        first, and why, and then the bound every `verbose` iterations. With ``solver="stochastic"``,
        it is the number of passes over the rows, the seconds, and the log density of rows that are
        held out.

    Attributes
    ----------
    kernel_ : kernel object
        The kernel used for prediction, including the noise. Its structure is that of the kernel
        passed as parameter, but with optimised hyperparameters. Where `kernel` is None,
        "neighbors" choose the smoothness of the Matérn kernel. Predicted variances have the factor
        `variance_factor_` in addition.
    X_train_ : ndarray of shape (n_samples, n_features)
        Training inputs as they were passed, those of a data frame as numbers and codes. Defined
        only if `posterior_` is "exact", "neighbors" or "rows", and the rows did not come from a
        cluster or a large source.
    y_train_ : ndarray of shape (n_samples,) or (n_samples, n_targets)
        Training targets of `X_train_`, normalised if `normalize_y` is True: the numbers to which
        `log_marginal_likelihood_value_` refers. Defined where `X_train_` is.
    inducing_points_ : ndarray of shape (m, n_features)
        The inducing points, in the units of X.
        Not defined if `posterior_` is "neighbors" or "fourier", and `n_inducing_` neither.
    metric_ : ndarray of shape (n_features, n_features) or None
        What the kernel sees is ``X @ metric_.T``, and None means X itself.
    variance_factor_ : float
        The number by which all predicted variances are multiplied, so that rows that were held
        out are most likely. It is 1 if `posterior_` is "exact", "inducing" or "fourier", or
        `optimizer` is None.
    mean_ : estimator, list of these, or None
        The fitted mean, for several targets a list. "linear" is a pipeline, with a regression
        as the last step. None where there is no mean, where it is a part of `kernel_` ("linear"
        with a user's kernel), and after `partial_fit`.
    posterior_ : {"exact", "inducing", "fourier", "neighbors", "rows"}
        What the posterior is given: all rows exactly, inducing points, random features, the rows
        nearest to each query, or all rows by a solve.
    log_marginal_likelihood_value_ : float
        The value of the bound at `kernel_` and `inducing_points_`, for the normalised targets. If
        `posterior_` is "fourier", it is the log marginal likelihood of the linear model. If
        `posterior_` is "neighbors", it is the leave-one-out log density of random rows, times the
        number of all rows.
    likelihood_ : Likelihood or None
        The likelihood with the parameters that were found, in units of y. It is None for
        ``likelihood="gaussian"``, where the noise is part of `kernel_`.
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
        Total Sobol indices of the posterior mean: the share of its variance that is lost without a
        column, where columns are independent and distributed as in the training rows. With several
        means, their variances are added, of standardised targets. It is computed when it is asked
        for the first time, and stored.
    sobol_first_ : ndarray of shape (n_features,)
        First-order Sobol indices: the share of the variance that a column explains alone.
    sobol_error_ : ndarray of shape (2, n_features)
        Standard errors of `sobol_first_` and `feature_importances_`.
    jitter_ : float
        The jitter that was added to the diagonal of the kernel matrix of the inducing points, as a
        fraction of the mean of this diagonal.
    selection_ : Selection
        What was tried on held-out rows, in order: a tuple ``(name, density, rmse,
        seconds)`` for each posterior. It is empty where there was nothing to choose by trial. Its
        attribute `plan` says which posterior was fitted or tried, and why.
    n_samples_seen_ : int or float
        The number of rows that came through `partial_fit`, counted by weight. Defined only after
        `partial_fit`.
    categories_ : dict
        Levels of each category by the name of its column, or by its number in an array: the level
        at place k has the code k. Defined only if there are categories.
    n_features_in_ : int
        Number of features seen during `fit`.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of features seen during `fit`. Defined only when X has feature names that are all
        strings.

    See Also
    --------
    sklearn.gaussian_process.GaussianProcessRegressor : The exact process.

    Notes
    -----
    The estimator keeps a reference to the training data for `log_marginal_likelihood`. If X has at
    most a million elements, it keeps a copy and the sorted distinct rows instead. The fit then
    depends neither on the order of the rows, nor on whether a row is repeated or weighted. Pickles
    and copies contain the training data, X and y, if `posterior_` is "exact", "neighbors" or
    "rows", but not those of a cluster or of a large source (with "neighbors", they contain the
    source). Otherwise inducing points stand for the rows, and pickles contain none, except after
    `partial_fit`: the sample from which it goes on. The fit of ``posterior="rows"`` copies X.

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

    likelihood_: Likelihood | None

    def __init__(
        self,
        kernel: Kernel | None = None,
        *,
        bound: BoundName | Bound = "auto",
        likelihood: LikelihoodName | Likelihood = "gaussian",
        mean: MeanName | Any | None = "auto",
        posterior: PosteriorName | PosteriorMethod = "auto",
        n_inducing: int | AutoName = "auto",
        inducing_init: InitialiserName | ArrayLike | Callable[..., Any] = "auto",
        optimize_inducing: bool = True,
        alpha: MaybeArray = None,
        noise: Literal["auto", "constant", "learned"] = "auto",
        optimizer: Optimizer = "fmin_l_bfgs_b",
        solver: SolverName | Solver = "auto",
        n_restarts_optimizer: int = 0,
        max_iter: int = 1000,
        metric: MetricName = "auto",
        prior: PriorName | AnyPrior | list[AnyPrior] | None = "auto",
        time_limit: float | None = None,
        tol: float | AutoName = "auto",
        normalize_y: bool = True,
        n_targets: int | None = None,
        categorical_features: ArrayLike | None = "from_dtype",
        random_state: RandomStateLike = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.bound = bound
        self.likelihood = likelihood
        self.mean = mean
        self.posterior = posterior
        self.n_inducing = n_inducing
        self.inducing_init = inducing_init
        self.optimize_inducing = optimize_inducing
        self.alpha = alpha
        self.noise = noise
        self.optimizer = optimizer
        self.solver = solver
        self.n_restarts_optimizer = n_restarts_optimizer
        self.max_iter = max_iter
        self.metric = metric
        self.prior = prior
        self.time_limit = time_limit
        self.tol = tol
        self.normalize_y = normalize_y
        self.n_targets = n_targets
        self.categorical_features = categorical_features
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

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
            Sample weights. A row with weight w counts as w copies of it.
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
        return self._fit(checks.Given(X, y, sample_weight, offset, X_std))

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
        method does not exist with ``posterior="exact"``, ``posterior="rows"``, `n_mean` or
        `tight_variance`.

        An array `alpha` has the known noise of the rows of this call, in all calls or in none:
        ``model.set_params(alpha=noise).partial_fit(X, y)``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs of type float32 or float64.
        y : array-like of shape (n_samples,) or (n_samples, n_targets), default=None
            Target values, of as many targets in every call. They must be passed.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights. A row with weight w counts as w copies of it.
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
        return self._learn(checks.Given(X, y, sample_weight, offset))

    @overload
    def predict(self, X: ArrayLike, *, latent: bool = ..., offset: MaybeArray = ...) -> Array: ...

    @overload
    def predict(self, X: ArrayLike, *flags: Any, **known: Any) -> Array | tuple[Array, ...]: ...

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
            with respect to X are returned, too. They are known unless `posterior_` is "rows", and
            with a `likelihood` other than "gaussian" for ``latent=True`` only. If `posterior_` is
            "neighbors", the neighbours of each row of X are held: predictions jump where others
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
        if return_gradient:
            return self._with_gradients(X, return_std, return_cov, latent, offset, X_std)
        if return_std and return_cov:
            raise RuntimeError("At most one of return_std or return_cov can be requested.")
        X, view, offset = self._question(X, offset)
        if X_std is not None:
            name = f"{type(self).__name__}.predict"
            expected = at_uncertain_inputs(view, X, X_std, latent, return_cov, name)
            return expected if return_std else expected[0]
        if return_cov and not (latent or view.has_covariance):
            raise ValueError(
                f"return_cov=True is available for likelihood={as_text(self.likelihood)} only with "
                "latent=True. Set it, or use sample_y for joint distributions of the response."
            )
        if return_cov:
            return view.mean(X, latent, offset), view.covariance(X, latent)
        if return_std:
            return view.mean_and_std(X, latent, offset)
        return view.mean(X, latent, offset)

    def predict_quantiles(
        self,
        X: ArrayLike,
        quantiles: ArrayLike = (0.025, 0.5, 0.975),
        offset: MaybeArray = None,
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
        :math:`\sqrt{(n + p)/(n - p)}` for p parameters of kernel and likelihood and n rows, which
        makes up for it on average where n is much larger than p [2]_.

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
            Which ends are finite. With "lower" and "upper", a target is above or below the end with
            the given probability.
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
            the coverage, intervals in y, or training rows that are not known one
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
        check_interval(coverage, method, side, name)
        X, view, offset = self._question(X, offset)
        if method == "model":
            return interval_of_model(view, X, coverage, side, offset)
        check_is_fitted(self, "kernel_")
        given = self._fitted.fits[0], self._scores(), coverage, side, offset
        return conformal_interval(view, X, *given, name)

    def log_predictive_density(
        self, X: ArrayLike, y: ArrayLike, offset: MaybeArray = None
    ) -> Array:
        r"""Compute the log predictive density of targets, :math:`\log \int p(y|f)\,q(f)\,df`.

        Larger values are better. For counts and intervals, it is the logarithm of a probability. It
        does not include known noise (`alpha`), which belongs to the training rows.

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
        checks.check_in_memory(type(self).__name__, y=y)
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
        memory is O(n_samples) per row. If `posterior_` is "rows", samples of more rows are
        independent: given all training rows, the process is correlated over short distances only.

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
        check_number(n_samples, "n_samples", f"{type(self).__name__}.sample_y", Integral, low=1)
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
        check_number(n_functions, "n_functions", name, Integral, low=1)
        check_number(n_frequencies, "n_frequencies", name, Integral, low=1)
        given = n_functions, n_frequencies, check_random_state(random_state), copy(self)._query
        return self._fitted.view.of_latent().functions(*given, name)  # whatever is fitted later

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
        check_is_fitted(self, "kernel_")
        X, view, _ = self._question(X, None)
        predicted = view.mean(X, latent=True)
        shape = len(predicted), len(view.units.scale)
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
    def X_train_(self) -> AnyArray:
        """Training inputs as they were passed, where the posterior holds all rows."""
        return self._training_rows("X_train_").as_passed()[0]

    @property
    def y_train_(self) -> Array:
        """Normalised training targets in the order of `X_train_`, or what a mean leaves of them."""
        rows = self._training_rows("y_train_")
        y = rows.as_passed()[1]
        y = rows.units.with_constants().forward(y)
        return y[:, 0] if y.shape[1] == 1 else y

    def loo_predict(self) -> LooPrediction:
        """Predict every training row from all others, without another fit.

        The hyperparameters and the inducing points are those of all rows. They have seen the row,
        so that with few rows, and many hyperparameters, the truth is a little worse. How exact the
        rest is depends on the posterior:

        - "exact": as fits without the row, to rounding.
        - "inducing" and "fourier": the row is taken out of the posterior of the weights. For all
          bounds, this is what the same inducing points say without it.
        - "neighbors" and "rows": the nearest others predict the row.
        - With a `likelihood`: the cavity of the row, at the sites of the others with the row.

        Returns
        -------
        LooPrediction
            A named tuple of arrays of shape (n_samples,) or (n_samples, n_targets), in the order of
            the rows of `fit`: `mean` and `std` of the targets in units of y, the noise and `alpha`
            included, and `log_density` of the targets in nats. Of a row with a weight above one,
            one copy is left out, and others stay.

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
            return loo_prediction(self._fitted.fits[0], self, name)

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
                given = checks.Given(X, y, sample_weight)
                others = self._read(rules, given, self._fitted.types, reset=False)
                self._check_missing(others.X)
                others = self._fitted.residuals(others)
            return evidence_bounds(self._fitted.fits[0], self, others, self._fitted.units, name)

    def __getstate__(self):
        if self._fitted is not None:
            self._scores()  # pickles have no rows that could tell
        return super().__getstate__()

    def _scores(self):
        """The `Scores` for conformal intervals, None where there are none."""
        return self._fitted.scores_of_rows(self.n_jobs)

    def _training_rows(self, attribute):
        """The table of the training rows, for an attribute that needs them."""
        reason = "it is not fitted. Call fit"
        if hasattr(self, "kernel_"):
            fit = self._fitted.fits[0]
            reason = (
                f"its posterior_ is {self.posterior_!r}, which keeps none of the rows. Set "
                "posterior='exact' or 'rows' if all rows should be kept"
            )
            if fit.posterior.holds_rows:
                reason = "its rows came from a cluster or a large source. Fit arrays to have them"
                if fit.rows is not None and fit.rows.in_memory:
                    return fit.rows
        raise AttributeError(f"This {type(self).__name__} has no {attribute}: {reason}.")

    def _observations(self):
        kind = GaussianObservations if is_gaussian(self.likelihood) else LikelihoodObservations
        return kind(self, type(self).__name__)

    def _with_gradients(self, X, return_std, return_cov, latent, *known):
        """Mean, standard deviation if it is wanted, and their gradients."""
        check_is_fitted(self, "kernel_")
        name = f"{type(self).__name__}.predict"
        check_question(self, return_cov, latent, known, name)
        X, view, _ = self._question(X, None)
        mean, std, mean_slope, std_slope = gradients(view, X, latent, self, name)
        return (mean, std, mean_slope, std_slope) if return_std else (mean, mean_slope)

    def _question(self, X, offset):
        """Query points, the fitted process or the prior in the units of y, and offsets."""
        name = type(self).__name__
        if hasattr(self, "kernel_"):
            X, view = self._answered(X, offset=offset)
        else:
            X, view = self._query(X, offset=offset), prior_view(self, name)
        offset = checks.check_offset(offset, X, view.takes_offset, name)
        return X, view.on_threads(self.n_jobs), offset
