"""The estimator `SparseGPRegressor`."""

from functools import partial
from numbers import Integral

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.metrics import r2_score
from sklearn.utils import check_array, check_consistent_length, check_random_state, check_X_y
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import validate_data

from skgp_sparse._engine.posterior import Prior
from skgp_sparse._front import certificates, checks, parameter_checks, regression_streams
from skgp_sparse._front.choices import (
    is_of_positive,
    resolve_bound,
    resolve_likelihood,
    resolve_method,
)
from skgp_sparse._front.default_kernels import resolve_kernel, resolve_latent_kernel, users_part
from skgp_sparse._front.estimator import (
    SparseGP,
    progress_of,
    unchanged_on_failure,
    warn_at_bounds,
)
from skgp_sparse._front.plans import plan_of
from skgp_sparse._front.responses import ResponseView
from skgp_sparse._front.sklearn_compat import (
    IterationReporter,
    check_sample_weight,
    with_callbacks,
)
from skgp_sparse._front.source_rows import (
    OpenSource,
    as_passed,
    check_alone,
    check_alpha_of_source,
    check_query,
    chunked_rows,
    moments_of_targets,
    opened,
)
from skgp_sparse._front.surveys import survey
from skgp_sparse._front.targets import TargetView
from skgp_sparse._front.training_rows import observations, training_rows, with_noise_floor
from skgp_sparse._ground.parallel import single_threaded_blas
from skgp_sparse.inference.objectives import GaussianModel
from skgp_sparse.inference.site_loop import Inner
from skgp_sparse.inference.site_objective import SiteModel
from skgp_sparse.inference.training import train
from skgp_sparse.sources import Chunk

_FLOATS = (np.float64, np.float32)


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
        so that the features need not be scaled.
    bound : str or Bound, default="titsias_new"
        The training objective. It can be "titsias" (also called "vfe"), "titsias_new", "artemev",
        "fitc" (also called "gfitc-ep"), "pep", "dtc", or an instance of
        `skgp_sparse.bounds.Bound` such as ``PEP(alpha=0.3)``. A grid search can set the parameter
        of such an instance as ``bound__alpha``. With a `likelihood` other than "gaussian",
        "titsias" and "titsias_new" (also called "artemev") are the variational bounds of [1]_,
        eq. 20 and 23, "gfitc-ep" is expectation propagation, and "pep" is power expectation
        propagation, where powers below 0.01 count as 0, which is "titsias". Other bounds are not
        available then, and "student_t" has the variational bounds only.
    likelihood : str or Likelihood, default="gaussian"
        The distribution of a target given its latent value ``f``:

        - "gaussian": normal noise, which is part of the kernel.
        - "poisson": counts with mean ``exp(f + level)``.
        - "negative_binomial": counts with the same mean and a larger variance.
        - "gamma": positive targets with the same mean, such as times and amounts.
        - "student_t": noise with heavy tails, for targets with outliers.

        Instances of `skgp_sparse.likelihoods.Poisson`, `NegativeBinomial`, `Gamma` and `StudentT`
        have initial values and bounds of the parameters, in units of y, such as
        ``NegativeBinomial(size=10.0, size_bounds="fixed")``. The parameters are learned together
        with the hyperparameters of the kernel. A callable `optimizer`, or None, keeps them at
        their initial values. A grid search can set them as ``likelihood__size``. With a likelihood
        other than "gaussian", a `WhiteKernel` in `kernel` is part of the latent process, the
        default kernel has none, and `alpha` must be None.
    posterior : {"auto", "inducing", "rows"}, default="auto"
        What the posterior is given:

        - "inducing": inducing points. A prediction takes O(m) time per query, and O(m²) with its
          standard deviation.
        - "rows": all rows, as in the exact process. Hyperparameters come from an exact fit of 3000
          rows. The mean comes from a solve by preconditioned conjugate gradients. Its relative
          residual is at most ``10 * tol``, 0.05, and the standard deviation of the noise in units
          of that of the targets, of which less than 0.002 counts as 0.002. Variances are those
          given 500 rows that are spread over the table and the 100 rows nearest to the query, which
          can only be too large, times a factor that is calibrated on a tenth of the rows, and 1000
          at most, before the solve sees them. A fit takes O(n²) time per iteration of the solve,
          and a prediction O(n) time per query.
        - "auto": "rows" where inducing points would lose much, up to 100,000 rows in memory, if
          neither `n_inducing`, `n_mean`, `solver` nor inducing points are given: at the
          hyperparameters of a first fit to 500 rows, the variance that 500 inducing points leave
          unexplained is more than ten times that of the noise (up to 6000 rows, more than a tenth
          of it), and is so again at the hyperparameters of the fit to 3000 rows. "inducing"
          otherwise, and for other likelihoods, for kernels without a derivative rule, and if
          `optimizer` is a callable or None.

        Where `n_inducing` makes every row an inducing point, the process is exact in any case.
    n_inducing : int or "auto", default="auto"
        The number of inducing points. If it is at least the number of distinct rows, every row
        becomes an inducing point and the model is exact. "auto" uses the exact process for up to
        2000 distinct rows, and 500 inducing points for more rows. The limit is 5500 distinct rows
        if a first fit finds little noise, and 500 for kernels without a derivative rule. Below
        the limit, the exact process is the better model and takes about the same time. With a
        `likelihood` other than "gaussian", the limit is 300 distinct rows, and more rows have 200
        inducing points. The attribute `n_inducing_` holds the number that was chosen. With
        ``posterior="rows"``, the inducing points are random rows that speed up the solve, 2000 of
        them by default.
    n_mean : int, default=None
        The number of inducing points of the mean, those of the covariance included. The others
        are random rows, which are added when hyperparameters and inducing points are learned. With
        more of them, the mean comes closer to that of the exact process, for O(n n_mean²) time, and
        the model stays smaller than all rows. None means those of the covariance only. It is
        available for the bounds "titsias", "titsias_new", "artemev" and "dtc".
    inducing_init : str, array-like or callable, default="k-means"
        The method to initialise the inducing points:

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
        `WhiteKernel` is appended and its variance is learned. Several targets share `alpha` and
        are then scaled by the same factor.
    optimizer : "fmin_l_bfgs_b", callable or None, default="fmin_l_bfgs_b"
        The optimizer of the hyperparameters, specified as in `GaussianProcessRegressor`. A
        callable starts at the initial hyperparameters of the kernel, and with None these are kept
        fixed. In both cases the inducing points of `inducing_init` are not optimised.
    solver : {"auto", "lbfgs", "stochastic"}, default="auto"
        The rows with which "fmin_l_bfgs_b" learns hyperparameters and inducing points:

        - "lbfgs": all rows in every iteration.
        - "stochastic": growing random samples of the rows, with 20, 80, 160 and 320 rows per
          inducing point as far as there are so many. The posterior is then computed from all
          rows. The time of the fit hardly grows with the number of rows. With at most 160 rows
          per inducing point, this is "lbfgs".
        - "auto": "stochastic" for more than 400 rows per inducing point, "lbfgs" otherwise.
    batch_size : int or "auto", default="auto"
        The number of rows of a minibatch. With a number, ``solver="stochastic"`` continues after
        the samples with cycles of minibatches, as long as they improve the density of rows that
        are held aside. This took more time than it was worth on every data set that was tried, so
        that "auto" means no minibatches.
    n_restarts_optimizer : int, default=0
        The number of restarts of the optimizer for finding the kernel's hyperparameters, in the
        small exact fit that precedes the sparse fit. The initial hyperparameters of each restart
        are sampled log-uniformly from within their bounds. If the kernel has periods, every second
        restart samples only the periods.
    max_iter : int, default=1000
        The maximum number of L-BFGS iterations, with ``solver="stochastic"`` on each sample. A
        fit normally ends earlier, by the criterion of `tol`. Ten minibatches count as one
        iteration.
    tol : float, default=1e-3
        The tolerance of the stopping criterion. The fit ends when ten iterations (five if only
        hyperparameters are learned) have improved the bound by less than `tol` nats per row in
        total. ``tol=1e-2`` gives a faster and less accurate fit, and ``tol=1e-5`` gives a more
        accurate one.
    normalize_y : bool, default=True
        Whether to normalise the targets `y` by removing the mean and scaling to unit variance. The
        normalisation is reversed before predictions are returned. It is used for the likelihoods
        "gaussian" and "student_t" only.
    n_targets : int, default=None
        The number of dimensions of the target values. It is used to decide the number of outputs
        when predicting from the prior distribution, and `fit` checks it.
    random_state : int, RandomState instance or None, default=None
        Controls the randomness of the initialisation: the choice of the rows for the first fit,
        the restarts of the optimizer, the initial inducing points, and the samples of
        ``solver="stochastic"``. Pass an int for reproducible results across multiple function
        calls.
    n_jobs : int, default=None
        The number of threads that process blocks of rows. None means as many threads as BLAS may
        use. The results do not depend on it.
    verbose : int, default=0
        Controls the verbosity. If it is positive, the bound is printed every `verbose` iterations.
        With ``solver="stochastic"``, it is the number of passes over the rows, the seconds, and the
        log density of rows that are held aside.

    Attributes
    ----------
    kernel_ : kernel object
        The kernel used for prediction, including the noise. Its structure is that of the kernel
        passed as parameter, but with optimised hyperparameters. If `posterior_` is "rows",
        predicted variances have a calibrated factor in addition.
    inducing_points_ : ndarray of shape (m, n_features)
        The inducing points, in the units of X.
    posterior_ : {"exact", "inducing", "rows"}
        What the posterior is given: all rows exactly, inducing points, or all rows by a solve.
    log_marginal_likelihood_value_ : float
        The value of the bound at `kernel_` and `inducing_points_`, for the normalised targets.
    likelihood_ : Likelihood or None
        The likelihood with the parameters that were found, in units of y. It is None for
        ``likelihood="gaussian"``, where the noise is part of `kernel_`.
    n_inducing_ : int
        The number of inducing points. If the model is exact, it is the number of distinct rows.
    n_iter_ : int
        The number of iterations of the optimizer, on all samples together.
    jitter_ : float
        The jitter that was added to the diagonal of the kernel matrix of the inducing points, as a
        fraction of the mean of this diagonal.
    n_samples_seen_ : int or float
        The number of rows that came through `partial_fit`, counted by weight. Defined only after
        `partial_fit`.
    n_features_in_ : int
        Number of features seen during `fit`.
    feature_names_in_ : ndarray of shape (``n_features_in_``,)
        Names of features seen during `fit`. Defined only when X has feature names that are all
        strings.

    See Also
    --------
    sklearn.gaussian_process.GaussianProcessRegressor : The exact process.

    Notes
    -----
    The estimator keeps a reference to the training data for `log_marginal_likelihood`. If X has at
    most a million elements, it keeps the sorted distinct rows instead. The fit then depends
    neither on the order of the rows, nor on whether a row is repeated or weighted. Pickles do not
    contain the training data, with two exceptions: if `posterior_` is "rows", they contain X, its
    noise variances and a weight per row and target, from which y can be computed; and after
    `partial_fit` they contain the sample from which it goes on. The fit of ``posterior="rows"``
    copies X.

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

    def __init__(
        self,
        kernel=None,
        *,
        bound="titsias_new",
        likelihood="gaussian",
        posterior="auto",
        n_inducing="auto",
        n_mean=None,
        inducing_init="k-means",
        optimize_inducing=True,
        alpha=None,
        optimizer="fmin_l_bfgs_b",
        solver="auto",
        batch_size="auto",
        n_restarts_optimizer=0,
        max_iter=1000,
        tol=1e-3,
        normalize_y=True,
        n_targets=None,
        random_state=None,
        n_jobs=None,
        verbose=0,
    ):
        self.kernel = kernel
        self.bound = bound
        self.likelihood = likelihood
        self.posterior = posterior
        self.n_inducing = n_inducing
        self.n_mean = n_mean
        self.inducing_init = inducing_init
        self.optimize_inducing = optimize_inducing
        self.alpha = alpha
        self.optimizer = optimizer
        self.solver = solver
        self.batch_size = batch_size
        self.n_restarts_optimizer = n_restarts_optimizer
        self.max_iter = max_iter
        self.tol = tol
        self.normalize_y = normalize_y
        self.n_targets = n_targets
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        if not (isinstance(self.likelihood, str) and self.likelihood == "gaussian"):
            tags.target_tags.multi_output = False
            tags.target_tags.positive_only = is_of_positive(self.likelihood)
        return tags

    def fit(self, X, y=None, sample_weight=None, offset=None):
        """Fit hyperparameters, inducing points and the parameters of the likelihood.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or source
            Training inputs of type float32 or float64, which may be a memory map. If X has more
            than a million elements, it is never copied as a whole. A source, see
            `skgp_sparse.sources`, gives all rows with their targets, weights and offsets.
        y : array-like of shape (n_samples,) or (n_samples, n_targets), default=None
            Target values. Several targets share the kernel and the noise, which must be Gaussian.
            It is None only if X is a source.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights. A row with weight w counts as w copies of it.
        offset : float or array-like of shape (n_samples,), default=None
            Known offset of the latent value of each row. For counts, it is the logarithm of the
            exposure: the time, area or population in which the events were counted. It is not
            available for ``likelihood="gaussian"``.

        Returns
        -------
        self : SparseGPRegressor
            The fitted estimator.

        Raises
        ------
        ValueError
            If a parameter or the data are invalid. The message says how to correct them.
        """
        # NumPy need not warn: the results are checked
        with unchanged_on_failure(self), opened(X) as X, np.errstate(all="ignore"):
            return self._fit(X, y, sample_weight, offset)

    @available_if(regression_streams.can_learn_later)
    def partial_fit(self, X, y=None, sample_weight=None, classes=None, offset=None):
        """Learn from rows that arrive later, in chunks.

        The first call is a fit of its rows. Later calls add theirs. Hyperparameters and inducing
        points move by a few iterations on a sample of at most 100,000 of the rows that came,
        whenever the rows have doubled, or new rows are predicted clearly worse than those before
        them. In the second case, the rows before may count less from then on. Between two moves,
        the rows of every call are learned exactly. After a move, earlier rows count by the sample,
        which holds all of them as long as it can. As long as no more than `n_inducing` distinct
        rows have come, all of them are inducing points.

        If `optimizer` is None, hyperparameters and inducing points stay, all rows count, and chunks
        in any order equal one fit if `kernel` and `inducing_init` (an array) are given, and not
        both `alpha` and `normalize_y`: the scale of y is then that of the first call. With another
        `likelihood`, this holds for up to 20,000 rows. For more, the approximation of the
        likelihood of earlier rows stays as it is, and that of the newest 5,000 follows.

        After `fit`, calls go on from its result. Moves use L-BFGS on the sample, whatever `solver`
        is, and with another `likelihood` the first call does, too. Callbacks are not told of the
        progress. The posterior is given inducing points: the method does not exist with
        ``posterior="rows"`` or with `n_mean`.

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
            If a parameter or the data are invalid, if `alpha` is an array, if a parameter has
            changed on which the sums of earlier rows depend, or if the rows of an earlier `fit`
            are not in memory, because it was on a cluster or from a large source, or the estimator
            was loaded from a pickle after it.
        TypeError
            If X is a source of rows, or an argument is a dask collection. Pass their chunks or
            partitions one by one.
        """
        with unchanged_on_failure(self), np.errstate(all="ignore"):  # the results are checked
            return regression_streams.partial_fit(self, X, y, sample_weight, offset)

    def predict(self, X, return_std=False, return_cov=False, latent=False, offset=None):
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
            of y without its noise. They include the `WhiteKernel`, which is part of the process.
        offset : float or array-like of shape (n_samples,), default=None
            Known offset of the latent value of each row, as in `fit`. None is 0.

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

        Raises
        ------
        RuntimeError
            If both `return_std` and `return_cov` are True.
        ValueError
            If the covariance of responses that are not Gaussian is requested.
        """
        if return_std and return_cov:
            raise RuntimeError("At most one of return_std or return_cov can be requested.")
        X, view, offset = self._query(X, offset)
        if return_cov and isinstance(view, ResponseView) and not latent:
            raise ValueError(
                f"return_cov=True is available for likelihood={self.likelihood!r} only with "
                "latent=True. For joint distributions of the response, use sample_y."
            )
        if return_cov:
            return view.mean(X, latent, offset), view.covariance(X, latent)
        if return_std:
            return view.mean_and_std(X, latent, offset)
        return view.mean(X, latent, offset)

    def predict_quantiles(self, X, quantiles=(0.025, 0.5, 0.975), offset=None):
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
        q = parameter_checks.check_quantiles(quantiles, f"{type(self).__name__}.predict_quantiles")
        X, view, offset = self._query(X, offset)
        found = view.quantiles(X, np.atleast_1d(q), offset)
        return found[..., 0] if q.ndim == 0 else found

    def log_predictive_density(self, X, y, offset=None):
        r"""Compute the log predictive density of targets, :math:`\log \int p(y|f)\,q(f)\,df`.

        Larger values are better. For counts, it is the logarithm of a probability. It does not
        include known noise (`alpha`), which belongs to the training rows.

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
            deviation is 0.
        """
        checks.check_in_memory(type(self).__name__, y=y)
        X, view, offset = self._query(X, offset)
        y = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
        check_consistent_length(X, y)
        y = checks.check_columns(y, len(view.y_scale), type(self).__name__)
        if isinstance(view, ResponseView):
            view.likelihood.check(y, type(self).__name__)
        return view.log_density(X, y, offset)

    def sample_y(self, X, n_samples=1, random_state=0, latent=False, offset=None):
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
        X, view, offset = self._query(X, offset)
        name = f"{type(self).__name__}.sample_y"
        parameter_checks.check_number(n_samples, "n_samples", name, Integral, low=1)
        return view.sample(X, n_samples, check_random_state(random_state), latent, offset)

    def evidence_bounds(self, X=None, y=None, sample_weight=None):
        r"""Bound the exact log marginal likelihood at the fitted hyperparameters on both sides.

        The bounds say how much of the evidence the inducing points lose, and whether more of them
        would help: no choice of inducing points gets beyond `upper`, and the exact process gets at
        least to the largest of the lower bounds. They take a solve of all rows by conjugate
        gradients, which is O(n²) time per iteration, and O(n m) memory.

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
            - `conjugate_gradients`: lower bound [1]_ with the log-determinant of [2]_,
              :math:`\log|Q+D| + \sum_i \log(1 + r_i/\sigma_i^2)`, and the quadratic term from
              conjugate gradients.
            - `nearest_neighbours`: lower bound with the log-determinant of the chain rule, in
              which every row is conditioned on up to 600 of those before it.
            - `upper`: upper bound with the log-determinant of the inducing points [3]_.
            - `gap_per_row`: the difference of `upper` and the largest lower bound, per row and
              target.

        Raises
        ------
        ValueError
            If the likelihood is not Gaussian, if the rows of `fit` are not in memory, or if X is
            given without y.

        References
        ----------
        .. [1] Artemev, Burt and van der Wilk (2021). "Tighter bounds on the log marginal likelihood
           of Gaussian process regression using conjugate gradients." ICML.
        .. [2] Titsias (2025). "New bounds for sparse variational Gaussian processes." ICML.
           Appendix B.4.
        .. [3] Titsias (2014). "Variational inference for Gaussian and determinantal point
           processes." Workshop on Advances in Variational Inference, NIPS.

        Examples
        --------
        >>> import numpy as np
        >>> from skgp_sparse import SparseGPRegressor
        >>> X = np.linspace(0, 10, 400)[:, None]
        >>> y = np.sin(3 * X[:, 0]) + 0.1 * np.cos(40 * X[:, 0])
        >>> found = SparseGPRegressor(n_inducing=30, random_state=0).fit(X, y).evidence_bounds()
        >>> found.own <= found.conjugate_gradients <= found.upper
        True
        """
        with np.errstate(all="ignore"):
            return certificates.evidence_bounds(self, X, y, sample_weight)

    def score(self, X, y, sample_weight=None, offset=None):
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
        return r2_score(y, self.predict(X, offset=offset), sample_weight=sample_weight)

    def _query(self, X, offset):
        """Query points, the fitted process or the prior in the units of y, and offsets."""
        checks.check_in_memory(type(self).__name__, X=X, offset=offset)
        check_query(X, type(self).__name__)
        X = validate_data(self, X, reset=False, dtype=_FLOATS)
        view = self._view()
        likelihood = view.likelihood if isinstance(view, ResponseView) else None
        return X, view, checks.check_offset(offset, X, likelihood, type(self).__name__)

    def _view(self):
        """The fitted process, or the prior, in the units of y."""
        if hasattr(self, "kernel_"):
            latent, likelihood = super()._view(), self._likelihood
            y_mean, y_scale = self._y_train_mean, self._y_train_std
            one_column = self._one_column
        else:
            parameter_checks.check_kernel(self.kernel, type(self).__name__)
            likelihood = resolve_likelihood(self.likelihood, type(self).__name__)
            kernel = ConstantKernel() * RBF() if self.kernel is None else self.kernel
            p = self.n_targets or 1
            if likelihood is not None:
                checks.check_one_column(np.empty((1, p)), self.likelihood, type(self).__name__)
            y_mean, y_scale, one_column = np.zeros(p), np.ones(p), p == 1
            latent = TargetView(Prior(kernel, p), 0, np.zeros(1), np.ones(1), True, self.n_jobs)
        if likelihood is None:
            return latent._replace(y_mean=y_mean, y_scale=y_scale, one_column=one_column)
        return ResponseView(latent, likelihood, y_mean, y_scale)

    @with_callbacks
    def _fit(self, X, y, sample_weight, offset):
        name = type(self).__name__
        parameter_checks.check_parameters(self, name)
        likelihood = resolve_likelihood(self.likelihood, name)
        rows = self._training_rows(X, y, sample_weight, offset, likelihood, name)
        if likelihood is None:
            rows, kernel, model = self._with_gaussian_noise(rows, name)
        else:
            kernel, model = self._with_likelihood(likelihood, rows, name)
        parameter_checks.check_posterior(self, likelihood, rows, name)
        parameter_checks.check_restarts(self, kernel)
        reporter = IterationReporter(self, as_passed(X), y, self.max_iter)
        progress = progress_of(self, reporter)
        n_labels = None if likelihood is None else len(rows)
        posterior = "inducing" if n_labels else self.posterior
        plan = plan_of(self, rows, kernel, progress, name, n_labels, posterior, self.n_mean or 0)
        with single_threaded_blas():
            fit = train(rows, kernel, model, plan, check_random_state(self.random_state))
        fitted_part = users_part(fit.kernel, self.kernel)
        if self.optimizer is not None and fitted_part is not None:
            warn_at_bounds(fitted_part)
        self._store([fit])
        self._likelihood = None if likelihood is None else fit.objective.method.likelihood
        self.posterior_ = fit.posterior.kind
        self._y_train_mean, self._y_train_std = rows.y_mean, rows.y_scale
        self.likelihood_ = None if likelihood is None else self._in_units_of_y(self._likelihood)
        self._one_column = rows.n_targets == 1
        reporter.end()
        return self

    def _training_rows(
        self, X, y, sample_weight, offset, likelihood, name, one_form=True, new=True
    ):
        """The table of the user's rows, all of which are valid."""
        checks.check_in_memory(name, X=X, y=y, sample_weight=sample_weight, offset=offset)
        if isinstance(X, OpenSource):
            check_alone(name, y=y, sample_weight=sample_weight, offset=offset)
            return self._rows_of_source(X, likelihood, name)
        validate = partial(validate_data, self, reset=new)
        check = partial(self._valid, validate, likelihood, name)
        X, y, weight, offset = check(Chunk(X, y, sample_weight, offset))
        normalize = self._normalizes(likelihood)
        return training_rows(
            X,
            y,
            weight,
            alpha=self.alpha,
            normalize=normalize,
            name=name,
            offset=offset,
            one_form=one_form,
        )

    def _rows_of_source(self, source, likelihood, name):
        """The same of chunks, those of a small source taken together."""
        check_alpha_of_source(self.alpha, name)
        if likelihood is not None:
            parameter_checks.check_response(self, np.zeros(1), name)
        validate = partial(check_X_y, estimator=self)
        check = partial(self._valid, validate, likelihood, name, all_rows=False)
        found = survey(source.source, check, moments_of_targets, name)
        if found.arrays is not None:
            rows = self._training_rows(*found.arrays, likelihood, name)
        else:
            normalize = self._normalizes(likelihood)
            rows = chunked_rows(source, found, alpha=self.alpha, normalize=normalize, name=name)
        found.describe(self)
        return rows

    def _valid(self, validate, likelihood, name, rows, all_rows=True):
        """Some rows, or all, as arrays that are valid."""
        X, y, weight, offset = rows
        checks.check_inputs(X, self.kernel, name)
        checks.check_no_none(y)
        if likelihood is not None:
            parameter_checks.check_response(self, y, name)
        is_gaussian = likelihood is None
        X, y = validate(X, y, multi_output=is_gaussian, y_numeric=True, dtype=_FLOATS)
        checks.check_n_targets(self.n_targets, 1 if y.ndim == 1 else y.shape[1])
        weight = check_sample_weight(weight, X, all_rows)
        offset = checks.check_offset(offset, X, likelihood, name)
        if not is_gaussian:
            likelihood.check(y if weight is None else y[weight > 0], name)
        return Chunk(X, y, weight, offset)

    def _normalizes(self, likelihood):
        return self.normalize_y and (likelihood is None or likelihood.standardises)

    def _with_gaussian_noise(self, rows, name):
        """Rows, kernel and model where the noise is Gaussian, and part of the kernel."""
        bound = resolve_bound(self.bound, name)
        parameter_checks.check_mean_basis(self, bound, None, name)
        kernel = resolve_kernel(self.kernel, self.alpha, rows)
        return with_noise_floor(rows, kernel), kernel, GaussianModel(bound)

    def _with_likelihood(self, likelihood, rows, name):
        """Kernel and model of any other likelihood, whose parameters start from the data."""
        parameter_checks.check_mean_basis(self, None, likelihood, name)
        likelihood = likelihood.rescaled(rows.y_mean[0], rows.y_scale[0])
        likelihood = likelihood.started(*observations(rows))
        method = resolve_method(self.bound, likelihood, name)
        parameter_checks.check_minibatches(self, method, name)
        kernel = resolve_latent_kernel(self.kernel, likelihood, rows)
        return kernel, SiteModel(method, Inner.within(self.tol))

    def _in_units_of_y(self, likelihood):
        mean, scale = self._y_train_mean[0], self._y_train_std[0]
        return likelihood.rescaled(-mean / scale, 1.0 / scale)
