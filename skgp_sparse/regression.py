"""The estimator `SparseGPRegressor`."""

from numbers import Integral

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from skgp_sparse._engine.posterior import Prior
from skgp_sparse._front import checks
from skgp_sparse._front.choices import resolve_bound
from skgp_sparse._front.default_kernels import resolve_kernel, users_part
from skgp_sparse._front.estimator import (
    SparseGP,
    progress_of,
    unchanged_on_failure,
    warn_at_bounds,
)
from skgp_sparse._front.plans import plan_of
from skgp_sparse._front.sklearn_compat import (
    IterationReporter,
    check_sample_weight,
    with_callbacks,
)
from skgp_sparse._front.targets import TargetView
from skgp_sparse._front.training_rows import training_rows, with_noise_floor
from skgp_sparse._ground.parallel import single_threaded_blas
from skgp_sparse.inference.objectives import GaussianModel
from skgp_sparse.inference.training import train

_FLOATS = (np.float64, np.float32)


class SparseGPRegressor(MultiOutputMixin, RegressorMixin, SparseGP):
    r"""Sparse Gaussian process regression, a drop-in for `GaussianProcessRegressor`.

    The posterior is approximated with ``m`` inducing points ``Z``. The inducing points and the
    hyperparameters of the kernel are optimised together by maximising

    .. math:: \log N(y; 0, Q_{ff} + \mathrm{diag}\,\lambda) - \mathrm{reg},

    where :math:`Q_{ff}` is the Nyström matrix of the kernel at ``Z``. The parameter `bound`
    determines ``λ`` and ``reg``. An iteration takes O(n m²) time, and a fit needs O(m²) memory
    beyond the data.

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
        of such an instance as ``bound__alpha``.
    n_inducing : int or "auto", default="auto"
        The number of inducing points. If it is at least the number of distinct rows, every row
        becomes an inducing point and the model is exact. "auto" uses the exact process for up to
        2000 distinct rows, and 500 inducing points for more rows. The limit is 5500 distinct rows
        if a first fit finds little noise, and 500 for kernels without a derivative rule. Below
        the limit, the exact process is the better model and takes about the same time. The
        attribute `n_inducing_` holds the number that was chosen.
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
    n_restarts_optimizer : int, default=0
        The number of restarts of the optimizer for finding the kernel's hyperparameters, in the
        small exact fit that precedes the sparse fit. The initial hyperparameters of each restart
        are sampled log-uniformly from within their bounds. If the kernel has periods, every second
        restart samples only the periods.
    max_iter : int, default=1000
        The maximum number of L-BFGS iterations. A fit normally ends earlier, by the criterion of
        `tol`.
    tol : float, default=1e-3
        The tolerance of the stopping criterion. The fit ends when ten iterations (five if only
        hyperparameters are learned) have improved the bound by less than `tol` nats per row in
        total. ``tol=1e-2`` gives a faster and less accurate fit, and ``tol=1e-5`` gives a more
        accurate one.
    normalize_y : bool, default=True
        Whether to normalise the targets `y` by removing the mean and scaling to unit variance. The
        normalisation is reversed before predictions are returned.
    n_targets : int, default=None
        The number of dimensions of the target values. It is used to decide the number of outputs
        when predicting from the prior distribution, and `fit` checks it.
    random_state : int, RandomState instance or None, default=None
        Controls the randomness of the initialisation: the choice of the rows for the first fit,
        the restarts of the optimizer, and the initial inducing points. Pass an int for
        reproducible results across multiple function calls.
    n_jobs : int, default=None
        The number of threads that process blocks of rows. None means as many threads as BLAS may
        use. The results do not depend on it.
    verbose : int, default=0
        Controls the verbosity. If it is positive, the bound is printed every `verbose` iterations.

    Attributes
    ----------
    kernel_ : kernel object
        The kernel used for prediction, including the noise. Its structure is that of the kernel
        passed as parameter, but with optimised hyperparameters.
    inducing_points_ : ndarray of shape (m, n_features)
        The inducing points, in the units of X.
    log_marginal_likelihood_value_ : float
        The value of the bound at `kernel_` and `inducing_points_`, for the normalised targets.
    n_inducing_ : int
        The number of inducing points. If the model is exact, it is the number of distinct rows.
    n_iter_ : int
        The number of iterations of the optimizer.
    jitter_ : float
        The jitter that was added to the diagonal of the kernel matrix of the inducing points, as a
        fraction of the mean of this diagonal.
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
    contain the training data.

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
    """

    def __init__(
        self,
        kernel=None,
        *,
        bound="titsias_new",
        n_inducing="auto",
        inducing_init="k-means",
        optimize_inducing=True,
        alpha=None,
        optimizer="fmin_l_bfgs_b",
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
        self.n_inducing = n_inducing
        self.inducing_init = inducing_init
        self.optimize_inducing = optimize_inducing
        self.alpha = alpha
        self.optimizer = optimizer
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
        return tags

    def fit(self, X, y, sample_weight=None):
        """Fit hyperparameters and inducing points.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training inputs of type float32 or float64, which may be a memory map. If X has more
            than a million elements, it is never copied as a whole.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Target values. Several targets share the kernel and the noise.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights. A row with weight w counts as w copies of it.

        Returns
        -------
        self : SparseGPRegressor
            The fitted estimator.

        Raises
        ------
        ValueError
            If a parameter or the data are invalid. The message says how to correct them.
        """
        with unchanged_on_failure(self), np.errstate(all="ignore"):  # the results are checked
            return self._fit(X, y, sample_weight)

    def predict(self, X, return_std=False, return_cov=False, latent=False):
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
            returned along with the mean, in units of y².
        latent : bool, default=False
            If True, the standard deviation and the covariance do not include the noise of the
            kernel's `WhiteKernel`. They never include known noise (`alpha`).

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
        """
        if return_std and return_cov:
            raise RuntimeError("At most one of return_std or return_cov can be requested.")
        X = validate_data(self, X, reset=False, dtype=_FLOATS)
        view = self._view()
        if return_cov:
            return view.mean(X), view.covariance(X, latent)
        if return_std:
            return view.mean_and_std(X, latent)
        return view.mean(X)

    def sample_y(self, X, n_samples=1, random_state=0, latent=False):
        """Draw samples of the targets, including the noise of the kernel's `WhiteKernel`.

        Samples at up to 4096 rows are drawn from the joint distribution. For more rows, the part
        that the inducing points explain is drawn jointly, and the remaining part is drawn
        independently for each row. The marginal distribution of every row is then exact, and the
        memory is O(n_samples) per row.

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
            If True, the samples do not include the noise: they are samples of the process itself.

        Returns
        -------
        ndarray of shape (n_rows, n_samples) or (n_rows, n_targets, n_samples)
            Samples drawn from the Gaussian process at the query points, in units of y.
        """
        X = validate_data(self, X, reset=False, dtype=_FLOATS)
        name = f"{type(self).__name__}.sample_y"
        checks.check_number(n_samples, "n_samples", name, Integral, low=1)
        return self._view().sample(X, n_samples, check_random_state(random_state), latent)

    def _view(self):
        """The fitted process, or the prior, in the units of y."""
        if hasattr(self, "kernel_"):
            y_mean, y_scale = self._y_train_mean, self._y_train_std
            return (
                super()
                ._view()
                ._replace(y_mean=y_mean, y_scale=y_scale, one_column=self._one_column)
            )
        checks.check_kernel(self.kernel, type(self).__name__)
        kernel = ConstantKernel() * RBF() if self.kernel is None else self.kernel
        p = self.n_targets or 1
        return TargetView(Prior(kernel, p), 0, np.zeros(p), np.ones(p), p == 1, self.n_jobs)

    @with_callbacks
    def _fit(self, X, y, sample_weight):
        name = type(self).__name__
        checks.check_parameters(self, name)
        checks.check_inputs(X, self.kernel, name)
        bound = resolve_bound(self.bound, name)
        checks.check_no_none(y)
        X, y = validate_data(self, X, y, multi_output=True, y_numeric=True, dtype=_FLOATS)
        checks.check_n_targets(self.n_targets, 1 if y.ndim == 1 else y.shape[1])
        weight = check_sample_weight(sample_weight, X)
        rows = training_rows(X, y, weight, alpha=self.alpha, normalize=self.normalize_y, name=name)
        kernel = resolve_kernel(self.kernel, self.alpha, rows)
        rows = with_noise_floor(rows, kernel)
        checks.check_restarts(self, kernel)
        reporter = IterationReporter(self, X, y, self.max_iter)
        plan = plan_of(self, X, kernel, progress_of(self, reporter), name)
        with single_threaded_blas():
            fit = train(
                rows, kernel, GaussianModel(bound), plan, check_random_state(self.random_state)
            )
        fitted_part = users_part(fit.kernel, self.kernel)
        if self.optimizer is not None and fitted_part is not None:
            warn_at_bounds(fitted_part)
        self._store([fit])
        self._y_train_mean, self._y_train_std = rows.y_mean, rows.y_scale
        self._one_column = rows.n_targets == 1
        reporter.end()
        return self
