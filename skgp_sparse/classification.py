"""`SparseGPClassifier`: the front door of classification."""

from functools import partial

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from skgp_sparse._front import checks, multiclass
from skgp_sparse._front.binary import BinaryProblem, fit_all
from skgp_sparse._front.choices import is_one_vs_one, resolve_method
from skgp_sparse._front.default_kernels import resolve_latent_kernel
from skgp_sparse._front.estimator import (
    SparseGP,
    is_watched,
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
from skgp_sparse._front.training_rows import training_rows
from skgp_sparse._ground.warnings import about
from skgp_sparse.inference.site_objective import Inner, SiteModel

_FLOATS = (np.float64, np.float32)


class SparseGPClassifier(ClassifierMixin, SparseGP):
    r"""Sparse Gaussian process classification, a drop-in for `GaussianProcessClassifier`.

    A latent process ``f`` is summarised by `n_inducing` points ``Z`` and seen through a sigmoid,
    :math:`p(y | f) = s(y f)`. With ``bound="titsias"`` hyperparameters and ``Z`` maximise

    .. math:: \sum_i E_{q(f_i)}[\log p(y_i | f_i)] - \mathrm{KL}[q(u) \,\|\, p(u)];

    the other bounds are named below. An inner loop finds ``q``, over one Gaussian site per row.
    Time is O(n m²) per inner iteration, of which an evaluation takes a few; memory is O(m²) beyond
    the data and a few numbers per row.

    Parameters
    ----------
    kernel : kernel object, default=None
        Any kernel of `sklearn.gaussian_process.kernels` on vectors; a `WhiteKernel` in it is part
        of the latent process. None means ``ConstantKernel() * Matern(nu=2.5)`` with one length
        scale per feature, learned, whose initial values and bounds are taken from the data.
    bound : str, default="titsias_new"
        Training objective: "titsias" (also "vfe"), eq. 20 of [1]_; "titsias_new" (also "artemev"),
        the tighter eq. 23; "gfitc-ep" (also "fitc"), expectation propagation under the FITC prior
        [2]_, which is no bound.
    likelihood : {"probit", "logit"} or Binary, default="probit"
        The sigmoid, by name or as an instance of a class of `skgp_sparse.likelihoods`.
    n_inducing : int or "auto", default="auto"
        Number of inducing points. If it is at least the number of distinct rows, every row becomes
        an inducing point. "auto" does that up to 300 distinct rows and chooses 200 above;
        `n_inducing_` says what was chosen.
    inducing_init : str, array-like or callable, default="k-means"
        Where the inducing points start; see `SparseGPRegressor`.
    optimize_inducing : bool, default=True
        Whether inducing points are optimised. An array with False is used untouched.
    optimizer : "fmin_l_bfgs_b", callable or None, default="fmin_l_bfgs_b"
        As in `GaussianProcessClassifier`. None and callables start at the kernel's own
        hyperparameters and leave the inducing points where `inducing_init` puts them.
    n_restarts_optimizer : int, default=0
        Further starts of the hyperparameters, drawn log-uniformly between their bounds, in the
        small fit that precedes the full one. Of a kernel with periods, every second start draws
        only these.
    max_iter : int, default=1000
        Maximum number of L-BFGS iterations. It is an emergency brake: `tol` ends a fit.
    tol : float, default=1e-3
        The fit ends when ten iterations (five where only hyperparameters are learned) improved
        the bound by less than `tol` nats per row. ``tol=1e-2`` makes a rough fit, ``tol=1e-5`` a
        thorough one. With several classes it is shared by the binary problems that a row takes
        part in. The inner loops close to a thousandth of it, but to at least 1e-6 and at most
        1e-11 of the bound.
    max_iter_predict : int, default=100
        Most inner iterations of an evaluation.
    warm_start : bool, default=False
        Whether `fit` goes on from the hyperparameters of the last one, where the classes and the
        structure of the kernel are the same, and from its inducing points, where `n_inducing` is
        the same and `inducing_init` no array. A cold start is taken where its bound is higher, as
        for rows in other units. Without an optimizer it does nothing.
    multi_class : {"one_vs_rest", "one_vs_one"}, default="one_vs_rest"
        More than two classes: each against the rest, probabilities normalised; or each against each
        other, predictions by votes and probabilities by pairwise coupling [3]_.
    random_state : int, RandomState instance or None, default=None
        Of the start: its rows, its restarts, and the inducing points.
    n_jobs : int, default=None
        Two classes: threads over blocks of rows. More: processes over binary problems, without
        progress; None takes as many threads as BLAS may use, over small problems or, where these
        are large or progress is wanted, over the blocks of one problem after the other.
        Results do not depend on it.
    verbose : int, default=0
        Whether to print the bound, every `verbose` iterations.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted labels.
    n_classes_ : int
        Number of classes.
    kernel_ : kernel object
        The fitted kernel; with more than two classes a `CompoundKernel` of one per binary problem.
    inducing_points_ : ndarray of shape (m, n_features), or list of these
        Inducing points in the units of X; with more than two classes one array per binary problem.
    log_marginal_likelihood_value_ : float
        The bound (mean over binary problems) at `kernel_` and `inducing_points_`.
    n_inducing_ : int, or list of int
        Number of inducing points; with more than two classes one number per binary problem.
    n_iter_ : int
        Iterations of the optimiser; the most of any binary problem.
    jitter_ : float
        Fraction of its mean diagonal that was added to the kernel matrix of the inducing points;
        the largest of any binary problem.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (``n_features_in_``,)
        Names of the features, where X has string names only.

    See Also
    --------
    sklearn.gaussian_process.GaussianProcessClassifier : The exact process, by Laplace's method.
    SparseGPRegressor : The same for real targets.

    References
    ----------
    .. [1] Titsias (2025). "New bounds for sparse variational Gaussian processes." ICML.
    .. [2] Naish-Guzman and Holden (2008). "The generalized FITC approximation." NIPS.
    .. [3] Wu, Lin and Weng (2004). "Probability estimates for multi-class classification by
       pairwise coupling." JMLR.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse import SparseGPClassifier
    >>> rng = np.random.RandomState(0)
    >>> X = rng.uniform(-3, 3, size=(400, 2))
    >>> y = np.where(np.hypot(X[:, 0], X[:, 1]) < 2, "inside", "outside")
    >>> model = SparseGPClassifier(n_inducing=30, random_state=0).fit(X, y)
    >>> model.predict([[0.0, 0.0], [3.0, 3.0]])
    array(['inside', 'outside'], dtype='<U7')
    """

    def __init__(
        self,
        kernel=None,
        *,
        bound="titsias_new",
        likelihood="probit",
        n_inducing="auto",
        inducing_init="k-means",
        optimize_inducing=True,
        optimizer="fmin_l_bfgs_b",
        n_restarts_optimizer=0,
        max_iter=1000,
        tol=1e-3,
        max_iter_predict=100,
        warm_start=False,
        multi_class="one_vs_rest",
        random_state=None,
        n_jobs=None,
        verbose=0,
    ):
        self.kernel = kernel
        self.bound = bound
        self.likelihood = likelihood
        self.n_inducing = n_inducing
        self.inducing_init = inducing_init
        self.optimize_inducing = optimize_inducing
        self.optimizer = optimizer
        self.n_restarts_optimizer = n_restarts_optimizer
        self.max_iter = max_iter
        self.tol = tol
        self.max_iter_predict = max_iter_predict
        self.warm_start = warm_start
        self.multi_class = multi_class
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X, y, sample_weight=None):
        """Fit hyperparameters and inducing points.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training inputs. float32 and float64, memory maps included; tables of more than a
            million numbers are never copied whole, except by ``multi_class="one_vs_one"``.
        y : array-like of shape (n_samples,)
            Labels of at least two classes.
        sample_weight : array-like of shape (n_samples,), default=None
            A row of weight w counts as w copies of it.

        Returns
        -------
        self : SparseGPClassifier
            The fitted estimator.

        Raises
        ------
        ValueError
            If a parameter or the data cannot be used; the message says what to do instead.
        """
        with unchanged_on_failure(self), np.errstate(all="ignore"):  # what comes out is checked
            return self._fit(X, y, sample_weight)

    def predict(self, X):
        """Predict labels.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Query points.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels, from `classes_`.
        """
        X = self._checked(X)
        if self.n_classes_ == 2:
            return self.classes_[(self._view(0).mean(X) > 0).astype(int)]
        positive = self._positive(X)
        if self._one_vs_one:
            return self.classes_[multiclass.votes(positive, self.n_classes_)]
        return self.classes_[np.argmax(positive, axis=1)]

    def predict_proba(self, X):
        """Predict probabilities of the classes, the uncertainty of the latent process included.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Query points.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Probabilities in the order of `classes_`; rows sum to 1.
        """
        positive = self._positive(self._checked(X))
        if self.n_classes_ == 2:
            return np.hstack([1.0 - positive, positive])
        if self._one_vs_one:
            return multiclass.coupled(positive, self.n_classes_)
        return multiclass.normalised(positive)

    def latent_mean_and_variance(self, X):
        """Mean and variance of the latent process, with two classes only.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Query points.

        Returns
        -------
        latent_mean : ndarray of shape (n_samples,)
            Mean; positive where ``classes_[1]`` is the more probable class.
        latent_var : ndarray of shape (n_samples,)
            Variance.

        Raises
        ------
        ValueError
            If there are more than two classes.
        """
        X = self._checked(X)
        if self.n_classes_ > 2:
            raise ValueError(
                "Returning the mean and variance of the latent function f is only supported for "
                f"binary classification, received {self.n_classes_} classes."
            )
        mean, std = self._view(0).mean_and_std(X, latent=False)
        return mean, std**2

    def _checked(self, X):
        check_is_fitted(self)
        return validate_data(self, X, reset=False, dtype=_FLOATS)

    def _positive(self, X):
        """Probability of the positive class of every binary problem (n, problems)."""
        columns = []
        for problem in range(len(self._fits)):
            mean, std = self._view(problem).mean_and_std(X, latent=False)
            columns.append(self._likelihoods[problem].probability(mean, std**2))
        return np.column_stack(columns)

    @with_callbacks
    def _fit(self, X, y, sample_weight):
        name = type(self).__name__
        checks.check_parameters(self, name)
        checks.check_inputs(X, self.kernel, name)
        method = resolve_method(self.bound, self.likelihood, name)
        one_vs_one = is_one_vs_one(self.multi_class, name)
        checks.check_no_none(y)
        X, y = validate_data(self, X, y, dtype=_FLOATS)
        check_classification_targets(y)
        weight = check_sample_weight(sample_weight, X)
        classes, index = checks.check_classes(y, weight, name)
        tasks = multiclass.tasks(len(classes), one_vs_one)
        reporter = IterationReporter(self, X, y, self.max_iter)
        progress = progress_of(self, reporter)
        model = SiteModel(method, Inner.within(self.tol, self.max_iter_predict))
        earlier = self._earlier(classes, one_vs_one, len(tasks))
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        tol = self.tol / (len(classes) - 1 if one_vs_one else len(tasks))  # problems of a row
        names = [task.name(classes) if len(tasks) > 1 else "" for task in tasks]

        def problem(task, name_of_task, before):
            rows, label = task.labels(index)
            part = X if rows is None else X[rows]
            own = weight if weight is None or rows is None else weight[rows]
            table = training_rows(part, label, own, alpha=None, normalize=False, name=name)
            kernel = resolve_latent_kernel(self.kernel, method.likelihood, table)
            checks.check_restarts(self, kernel)
            told = partial(progress, about=name_of_task)
            plan = plan_of(self, part, kernel, told, name, len(table))
            return BinaryProblem(name_of_task, table, kernel, before, plan._replace(tol=tol))

        problems = [problem(*one) for one in zip(tasks, names, earlier)]
        fits = fit_all(problems, model, seed, self.n_jobs, is_watched(self))
        self._warn_at_bounds(names, fits)
        self._store(fits)
        self.classes_, self.n_classes_ = classes, len(classes)
        self._one_vs_one = one_vs_one
        self._likelihoods = [fit.objective.method.likelihood for fit in fits]
        reporter.end()
        return self

    def _warn_at_bounds(self, names, fits):
        if self.optimizer is not None and self.kernel is not None:
            for name, fit in zip(names, fits):
                with about(name):
                    warn_at_bounds(fit.kernel)

    def _earlier(self, classes, one_vs_one, n_problems):
        """Kernels and inducing points to go on from, None where there are none."""
        wanted = self.warm_start and self.optimizer is not None and hasattr(self, "_fits")
        same = wanted and np.array_equal(classes, self.classes_)
        if not same or one_vs_one != self._one_vs_one:
            return [None] * n_problems
        return [(fit.kernel, fit.posterior.features.Z) for fit in self._fits]
