"""`SparseGPRegressor`: the front door of regression."""

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

    The process is summarised by `n_inducing` points ``Z``, chosen and then optimised together with
    the kernel's hyperparameters by maximising

    .. math:: \log N(y; 0, Q_{ff} + \mathrm{diag}\,\lambda) - \mathrm{reg},

    with :math:`Q_{ff}` the Nyström matrix of the kernel at ``Z``; `bound` says what ``λ`` and
    ``reg`` are. Time is O(n m²) per iteration, memory O(m²) beyond the data.

    Parameters
    ----------
    kernel : kernel object, default=None
        Any kernel of `sklearn.gaussian_process.kernels` on vectors. A `WhiteKernel` in it is the
        noise. None means ``ConstantKernel() * Matern(nu=2.5) + WhiteKernel()`` with one length
        scale per feature, whose initial values and bounds are taken from the data, so that
        unscaled tables work.
    bound : str or Bound, default="titsias_new"
        Training objective: "titsias" (also "vfe"), "titsias_new", "artemev", "fitc" (also
        "gfitc-ep"), "pep", "dtc", or an instance such as ``PEP(alpha=0.3)``, which a grid search
        reaches as ``bound__alpha``.
    n_inducing : int or "auto", default="auto"
        Number of inducing points. If it is at least the number of distinct rows, the model is
        exact. "auto" is the exact process up to 2000 distinct rows (5500 where a first fit finds
        little noise, 500 for kernels without a derivative rule), where it is the better model in
        about the same time, and 500 above; `n_inducing_` says what was chosen.
    inducing_init : str, array-like or callable, default="k-means"
        Where the inducing points start: "k-means" (clusters, seeded by "rp-cholesky"), "k-means++"
        (spread rows), "random", "greedy" (rows of largest residual variance), "rp-cholesky" (rows
        drawn with probability proportional to their residual variance, neither better nor
        worse than clusters on every table), an array of shape (m, n_features), or
        ``callable(X, n_inducing, kernel, random_state)``.
    optimize_inducing : bool, default=True
        Whether inducing points are optimised. An array with False is used untouched.
    alpha : float or ndarray of shape (n_samples,), default=None
        Known noise variance, in units of y². None: if `kernel` has no `WhiteKernel`, one is
        appended and learned. With several targets it is shared, and so is their scaling.
    optimizer : "fmin_l_bfgs_b", callable or None, default="fmin_l_bfgs_b"
        As in `GaussianProcessRegressor`. None and callables start at the kernel's own
        hyperparameters and leave the inducing points where `inducing_init` puts them.
    n_restarts_optimizer : int, default=0
        Further starts of the hyperparameters, drawn log-uniformly between their bounds, in the
        small exact fit that precedes the sparse one. Of a kernel with periods, every second start
        draws only these.
    max_iter : int, default=1000
        Maximum number of L-BFGS iterations. It is an emergency brake: `tol` ends a fit.
    tol : float, default=1e-3
        The fit ends when ten iterations (five where only hyperparameters are learned) improved
        the bound by less than `tol` nats per row. ``tol=1e-2`` makes a rough fit, ``tol=1e-5`` a
        thorough one.
    normalize_y : bool, default=True
        Whether targets are centred and scaled to unit variance; undone in predictions.
    n_targets : int, default=None
        Number of targets of prior predictions; checked in `fit`.
    random_state : int, RandomState instance or None, default=None
        Of the start: its rows, its restarts, and the inducing points.
    n_jobs : int, default=None
        Threads over blocks of rows. None: as many as BLAS may use. Results do not depend on it.
    verbose : int, default=0
        Whether to print the bound, every `verbose` iterations.

    Attributes
    ----------
    kernel_ : kernel object
        The kernel with its fitted hyperparameters, noise included.
    inducing_points_ : ndarray of shape (m, n_features)
        Inducing points, in the units of X.
    log_marginal_likelihood_value_ : float
        The bound at `kernel_` and `inducing_points_`, for targets as normalised.
    n_inducing_ : int
        Number of inducing points: that of the distinct rows where the model is exact.
    n_iter_ : int
        Iterations of the optimiser.
    jitter_ : float
        Fraction of its mean diagonal that was added to the kernel matrix of the inducing points.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (``n_features_in_``,)
        Names of the features, where X has string names only.

    See Also
    --------
    sklearn.gaussian_process.GaussianProcessRegressor : The exact process.

    Notes
    -----
    The training rows are kept by reference for `log_marginal_likelihood`; pickles leave them out.
    Of small tables (at most a million numbers in X) the sorted distinct rows are kept instead: the
    fit then depends neither on the order of the rows, nor on whether a row is repeated or weighted.

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
            Training inputs. float32 and float64, memory maps included; tables of more than a
            million numbers are never copied whole.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets; several targets share kernel and noise.
        sample_weight : array-like of shape (n_samples,), default=None
            A row of weight w counts as w copies of it.

        Returns
        -------
        self : SparseGPRegressor
            The fitted estimator.

        Raises
        ------
        ValueError
            If a parameter or the data cannot be used; the message says what to do instead.
        """
        with unchanged_on_failure(self), np.errstate(all="ignore"):  # what comes out is checked
            return self._fit(X, y, sample_weight)

    def predict(self, X, return_std=False, return_cov=False, latent=False):
        """Predict with the posterior, or with the prior where the model is not fitted.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Query points.
        return_std : bool, default=False
            Whether to return standard deviations too, in units of y.
        return_cov : bool, default=False
            Whether to return the joint covariance too, in units of y².
        latent : bool, default=False
            Whether to leave the noise of the kernel's `WhiteKernel` out of std and cov. Known
            noise (`alpha`) is never in them.

        Returns
        -------
        y_mean : ndarray of shape (n_samples,) or (n_samples, n_targets)
            Mean of the predictive distribution.
        y_std : ndarray of shape (n_samples,) or (n_samples, n_targets)
            Its standard deviation, if `return_std`.
        y_cov : ndarray of shape (n_samples, n_samples) or (n_samples, n_samples, n_targets)
            Its covariance over the rows, if `return_cov`.

        Raises
        ------
        RuntimeError
            If both `return_std` and `return_cov` are asked for.
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
        """Draw samples of the targets, noise of the kernel's `WhiteKernel` included.

        Up to 4096 rows are drawn jointly. For more, samples are joint through the inducing points,
        and what those leave unexplained is drawn independently per row: every margin is exact, and
        memory stays O(n_samples) per row.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Query points.
        n_samples : int, default=1
            Number of samples per query point.
        random_state : int, RandomState instance or None, default=0
            Source of the samples.
        latent : bool, default=False
            Whether to leave the noise out: samples of the process itself, as of smooth curves.

        Returns
        -------
        ndarray of shape (n_rows, n_samples) or (n_rows, n_targets, n_samples)
            Samples, in units of y.
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
