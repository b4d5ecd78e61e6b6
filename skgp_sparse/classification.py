"""The estimator `SparseGPClassifier`."""

from functools import partial

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils import check_random_state, check_X_y
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from skgp_sparse._front import checks, class_streams, multiclass, parameter_checks
from skgp_sparse._front.choices import resolve_method, resolve_sigmoid, resolve_strategy
from skgp_sparse._front.class_problems import ClassProblem, fit_all
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
from skgp_sparse._front.source_rows import (
    OpenSource,
    as_passed,
    check_alone,
    check_query,
    labelled_chunks,
    labels_and_weights,
    opened,
)
from skgp_sparse._front.surveys import survey
from skgp_sparse._front.training_rows import Labelled
from skgp_sparse._ground.warnings import about
from skgp_sparse.inference.site_loop import Inner
from skgp_sparse.inference.site_objective import SiteModel
from skgp_sparse.likelihoods import Softmax
from skgp_sparse.sources import Chunk

_FLOATS = (np.float64, np.float32)


class SparseGPClassifier(ClassifierMixin, SparseGP):
    r"""Sparse Gaussian process classification, a drop-in for `GaussianProcessClassifier`.

    A latent process ``f`` determines the probabilities of the labels ``y = ±1`` through a sigmoid,
    :math:`p(y | f) = s(y f)`. The posterior of ``f`` is approximated with ``m`` inducing points
    ``Z``. With ``bound="titsias"``, the hyperparameters and ``Z`` maximise

    .. math:: \sum_i E_{q(f_i)}[\log p(y_i | f_i)] - \mathrm{KL}[q(u) \,\|\, p(u)].

    The parameter `bound` selects other objectives. With more than two classes, there are several
    binary problems of this kind, or with ``multi_class="softmax"`` one process for each class. In
    every evaluation of the objective, an inner iteration computes ``q``, which has one Gaussian
    site per row. An inner iteration takes O(n m²) time, and an evaluation needs a few of them. A
    fit needs O(m²) memory beyond the data and a few numbers per row.

    Parameters
    ----------
    kernel : kernel object, default=None
        The kernel specifying the covariance function of the GP. It can be any kernel of
        `sklearn.gaussian_process.kernels` that is defined on vectors. A `WhiteKernel` in it is
        part of the latent process. If None is passed, the kernel
        ``ConstantKernel() * Matern(nu=2.5)`` with one length scale per feature is used as default.
        Its hyperparameters are learned. Their initial values and bounds are computed from the
        data.
    bound : str or Bound, default="titsias_new"
        The training objective:

        - "titsias" (also called "vfe"): the variational bound of [1]_, eq. 20.
        - "titsias_new" (also called "artemev"): the tighter variational bound of [1]_, eq. 23.
        - "gfitc-ep" (also called "fitc"): expectation propagation under the FITC prior [2]_. This
          objective is not a bound.
        - "pep", or an instance such as ``PEP(alpha=0.3)``: power expectation propagation, between
          "titsias" (power 0, also for powers below 0.01) and "gfitc-ep" (power 1).

        With ``multi_class="softmax"``, only the first two are available.
    likelihood : {"probit", "logit"} or Binary, default="probit"
        The sigmoid, as a name or as an instance of a class of `skgp_sparse.likelihoods`. It is not
        used with more than two classes and ``multi_class="softmax"``.
    n_inducing : int or "auto", default="auto"
        The number of inducing points. If it is at least the number of distinct rows, every row
        becomes an inducing point. "auto" makes every row an inducing point for up to 300 distinct
        rows, and uses 200 inducing points for more rows. The attribute `n_inducing_` holds the
        number that was chosen.
    inducing_init : str, array-like or callable, default="k-means"
        The method to initialise the inducing points. See `SparseGPRegressor` for the options.
    optimize_inducing : bool, default=True
        Whether to optimise the inducing points. If False, the points of `inducing_init` are used
        unchanged.
    optimizer : "fmin_l_bfgs_b", callable or None, default="fmin_l_bfgs_b"
        The optimizer of the hyperparameters, specified as in `GaussianProcessClassifier`. A
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
        small fit that precedes the full fit. The initial hyperparameters of each restart are
        sampled log-uniformly from within their bounds. If the kernel has periods, every second
        restart samples only the periods.
    max_iter : int, default=1000
        The maximum number of L-BFGS iterations, with ``solver="stochastic"`` on each sample. A
        fit normally ends earlier, by the criterion of `tol`. Ten minibatches count as one
        iteration.
    tol : float, default=1e-3
        The tolerance of the stopping criterion. The fit ends when ten iterations (five if only
        hyperparameters are learned) have improved the bound by less than `tol` nats per row in
        total. ``tol=1e-2`` gives a faster and less accurate fit, and ``tol=1e-5`` gives a more
        accurate one. `tol` is divided among the binary problems that a row takes part in. The
        relative tolerance of the inner iterations is a thousandth of `tol`,
        but at least 1e-11 and at most 1e-6.
    max_iter_predict : int, default=100
        The maximum number of inner iterations in an evaluation of the bound.
    warm_start : bool, default=False
        If True, `fit` starts at the hyperparameters of the previous fit, provided that the classes
        and the structure of the kernel are the same. It also starts at the inducing points of the
        previous fit, provided that `n_inducing` is the same and `inducing_init` is not an array.
        If a cold start has a higher bound, for example because the units of X have changed, `fit`
        uses the cold start. If `optimizer` is None, `warm_start` has no effect.
    multi_class : {"one_vs_rest", "one_vs_one", "softmax"}, default="one_vs_rest"
        Specifies how problems with more than two classes are handled. With "one_vs_rest", one
        binary problem is fitted for each class, which is trained to separate this class from the
        rest, and the probabilities are normalised. With "one_vs_one", one binary problem is fitted
        for each pair of classes. Labels are then predicted by voting, and probabilities by
        pairwise coupling [3]_. With "softmax", one model is fitted to all classes: each class has
        a latent process, and the processes share the kernel and the inducing points.
    random_state : int, RandomState instance or None, default=None
        Controls the randomness of the initialisation: the choice of the rows for the first fit,
        the restarts of the optimizer, the initial inducing points, and the samples of
        ``solver="stochastic"``. Pass an int for reproducible results across multiple function
        calls.
    n_jobs : int, default=None
        With one problem (two classes, or a softmax), the number of threads that process blocks of
        rows. With several binary problems, the number of processes that fit them; progress is then
        not reported. None means as many threads as BLAS may use, which fit several binary problems
        in parallel. If the problems are large or progress is reported, the problems are fitted one
        after the other, and the threads process the blocks of rows of each. The results do not
        depend on `n_jobs`.
    verbose : int, default=0
        Controls the verbosity. If it is positive, the bound is printed every `verbose` iterations.
        With ``solver="stochastic"``, it is the number of passes over the rows, the seconds, and the
        log density of rows that are held aside.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Unique class labels, sorted.
    n_classes_ : int
        The number of classes in the training data.
    kernel_ : kernel object
        The kernel used for prediction, with optimised hyperparameters. With several binary
        problems, it is a `CompoundKernel` that contains one kernel per problem. With a softmax, it
        is the kernel that all classes share.
    inducing_points_ : ndarray of shape (m, n_features), or list of these
        The inducing points, in the units of X. With several binary problems, it is a list of one
        array per problem. With a softmax, all classes share them.
    log_marginal_likelihood_value_ : float
        The value of the bound at `kernel_` and `inducing_points_`. With several binary problems,
        it is the mean over the problems. With a softmax, it is the bound of the joint model.
    n_inducing_ : int, or list of int
        The number of inducing points. With several binary problems, it is a list of one number
        per problem.
    n_iter_ : int
        The number of iterations of the optimizer, on all samples together. With several binary
        problems, it is the maximum over the problems.
    jitter_ : float
        The jitter that was added to the diagonal of the kernel matrix of the inducing points, as a
        fraction of the mean of this diagonal. With several binary problems, it is the maximum over
        the problems.
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
    sklearn.gaussian_process.GaussianProcessClassifier : The exact process, by Laplace's method.
    SparseGPRegressor : Sparse Gaussian process regression.

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
        solver="auto",
        batch_size="auto",
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
        self.solver = solver
        self.batch_size = batch_size
        self.n_restarts_optimizer = n_restarts_optimizer
        self.max_iter = max_iter
        self.tol = tol
        self.max_iter_predict = max_iter_predict
        self.warm_start = warm_start
        self.multi_class = multi_class
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X, y=None, sample_weight=None):
        """Fit hyperparameters and inducing points.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or source
            Training inputs of type float32 or float64, which may be a memory map. If X has more
            than a million elements, it is never copied as a whole, except by
            ``multi_class="one_vs_one"``. A source, see `skgp_sparse.sources`, gives all rows with
            their labels and weights.
        y : array-like of shape (n_samples,), default=None
            Class labels of at least two classes. It is None only if X is a source.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights. A row with weight w counts as w copies of it.

        Returns
        -------
        self : SparseGPClassifier
            The fitted estimator.

        Raises
        ------
        ValueError
            If a parameter or the data are invalid. The message says how to correct them.
        """
        # NumPy need not warn: the results are checked
        with unchanged_on_failure(self), opened(X) as X, np.errstate(all="ignore"):
            return self._fit(X, y, sample_weight)

    def partial_fit(self, X, y=None, sample_weight=None, classes=None):
        """Learn from rows that arrive later, in chunks.

        The first call is a fit of its rows. Later calls add theirs. Hyperparameters and inducing
        points move by a few iterations on a sample of at most 100,000 of the rows that came,
        whenever the rows have doubled, or new labels are predicted clearly worse than those before
        them. In the second case, the rows before may count less from then on. As long as no more
        than `n_inducing` distinct rows have come, all of them are inducing points.

        Up to 20,000 rows are inferred together in every call. For more, the approximation of the
        likelihood of earlier rows stays as it is, and that of the newest 5,000 follows. If
        `optimizer` is None, hyperparameters and inducing points stay, and chunks of up to 20,000
        rows in any order equal one fit if `kernel` and `inducing_init` (an array) are given.

        After `fit`, calls go on from its result. All calls use L-BFGS on the sample, whatever
        `solver` is. Callbacks are not told of the progress.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs of type float32 or float64.
        y : array-like of shape (n_samples,), default=None
            Class labels, all of which are in `classes`. They must be passed.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights. A row with weight w counts as w copies of it.
        classes : array-like of shape (n_classes,), default=None
            All labels that may come. They must be passed in the first call and may be left out in
            later ones. Nothing is learned from the labels of a problem before there are two.

        Returns
        -------
        self : SparseGPClassifier
            The fitted estimator. Its attribute `n_samples_seen_` is the number of rows that came,
            counted by weight.

        Raises
        ------
        ValueError
            If a parameter or the data are invalid, if `classes` is missing in the first call or has
            changed, if a label is not in it, if a parameter has changed on which earlier results
            depend, or if the rows of an earlier `fit` are not in memory, because it was on a
            cluster or from a large source, or the estimator was loaded from a pickle after it.
        TypeError
            If X is a source of rows, or an argument is a dask collection. Pass their chunks or
            partitions one by one.
        """
        with unchanged_on_failure(self), np.errstate(all="ignore"):  # the results are checked
            return class_streams.partial_fit(self, X, y, sample_weight, classes)

    def predict(self, X):
        """Predict class labels.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Query points where the GP is evaluated.

        Returns
        -------
        ndarray of shape (n_samples,)
            Predicted labels, which are values of `classes_`.
        """
        X = self._checked(X)
        if self.n_classes_ == 2:
            return self.classes_[(self._view(0).mean(X) > 0).astype(int)]
        found = self._probabilities(X)
        if self._strategy == "one_vs_one":
            return self.classes_[multiclass.votes(found, self.n_classes_)]
        return self.classes_[np.argmax(found, axis=1)]

    def predict_proba(self, X):
        """Predict class probabilities, including the uncertainty of the latent process.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Query points where the GP is evaluated.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Probabilities of the classes, in the order of `classes_`. Each row sums to 1.
        """
        return self._probabilities_of_classes(self._checked(X))

    def latent_mean_and_variance(self, X):
        """Compute the mean and variance of the latent process, or of those of a softmax.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Query points where the GP is evaluated.

        Returns
        -------
        latent_mean : ndarray of shape (n_samples,) or (n_samples, n_classes)
            Mean of the latent process. It is positive where ``classes_[1]`` is the more probable
            class. For more than two classes and ``multi_class="softmax"``, it has one column for
            each class.
        latent_var : ndarray of shape (n_samples,) or (n_samples, n_classes)
            Variance of the latent process.

        Raises
        ------
        ValueError
            If there are more than two classes and `multi_class` is not "softmax".
        """
        X = self._checked(X)
        if self._strategy == "softmax":
            return self._view(0).moments(X)
        if self.n_classes_ > 2:
            raise ValueError(
                "Returning the mean and variance of the latent function f is only supported for "
                f"binary classification, received {self.n_classes_} classes. With "
                "multi_class='softmax', it is supported for any number of classes."
            )
        mean, std = self._view(0).mean_and_std(X, latent=False)
        return mean, std**2

    def _checked(self, X):
        check_is_fitted(self)
        checks.check_in_memory(type(self).__name__, X=X)
        check_query(X, type(self).__name__)
        return validate_data(self, X, reset=False, dtype=_FLOATS)

    def _probabilities_of_classes(self, X):
        """Of all classes (n, n_classes)."""
        found = self._probabilities(X)
        if self.n_classes_ == 2:
            return np.hstack([1.0 - found, found])
        if self._strategy == "one_vs_one":
            return multiclass.coupled(found, self.n_classes_)
        return found if self._strategy == "softmax" else multiclass.normalised(found)

    def _probabilities(self, X):
        """Of the classes (n, n_classes) by softmax, otherwise of the positive class (n, problems).

        The latter has one column for each binary problem.
        """
        if self._strategy == "softmax":
            mean, variance = self._view(0).moments(X)
            return self._likelihoods[0].probability(mean.T, variance.T).T
        columns = []
        for problem in range(len(self._fits)):
            mean, std = self._view(problem).mean_and_std(X, latent=False)
            columns.append(self._likelihoods[problem].probability(mean, std**2))
        return np.column_stack(columns)

    @with_callbacks
    def _fit(self, X, y, sample_weight):
        name = type(self).__name__
        parameter_checks.check_parameters(self, name)
        sigmoid = resolve_sigmoid(self.likelihood, name)
        rows = self._training_rows(X, y, sample_weight, name)
        classes = rows.classes
        strategy = resolve_strategy(self.multi_class, len(classes), name)
        likelihood = Softmax(len(classes)) if strategy == "softmax" else sigmoid
        method = resolve_method(self.bound, likelihood, name)
        parameter_checks.check_minibatches(self, method, name)
        reporter = IterationReporter(self, as_passed(X), y, self.max_iter)
        progress = progress_of(self, reporter)
        problems = self._problems(rows, likelihood, strategy, progress)
        inner = Inner.within(self.tol, self.max_iter_predict, "max_iter_predict")
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        fits = fit_all(problems, SiteModel(method, inner), seed, self.n_jobs, is_watched(self))
        self._warn_at_bounds([problem.name for problem in problems], fits)
        self._store(fits)
        self.classes_, self.n_classes_ = classes, len(classes)
        self._strategy = strategy
        self._likelihoods = [fit.objective.method.likelihood for fit in fits]
        reporter.end()
        return self

    def _training_rows(self, X, y, sample_weight, name):
        """The user's rows, all of which are valid, from which tables can be made."""
        checks.check_in_memory(name, X=X, y=y, sample_weight=sample_weight)
        if isinstance(X, OpenSource):
            check_alone(name, y=y, sample_weight=sample_weight)
            return self._rows_of_source(X, name)
        check = partial(self._valid, partial(validate_data, self), name)
        X, y, weight, _ = check(Chunk(X, y, sample_weight))
        classes, index = checks.check_classes(y, weight, name)
        return Labelled(X, index, weight, classes)

    def _rows_of_source(self, source, name):
        """The same of chunks, those of a small source taken together."""
        validate = partial(check_X_y, estimator=self)
        check = partial(self._valid, validate, name, all_rows=False)
        found = survey(source.source, check, labels_and_weights, name)
        if found.arrays is not None:
            rows = self._training_rows(*found.arrays[:3], name)
        else:
            labels, weights = map(np.concatenate, zip(*found.notes))
            weights = None if found.weight is None else weights
            classes = checks.check_classes(labels, weights, name)[0]
            rows = labelled_chunks(source, found, classes, name)
        found.describe(self)
        return rows

    def _valid(self, validate, name, rows, all_rows=True):
        """Some rows, or all, as arrays that are valid."""
        X, y, weight, offset = rows
        if offset is not None:
            raise ValueError(f"{name}: a classifier takes no offset. Leave it out of the chunks.")
        checks.check_inputs(X, self.kernel, name)
        checks.check_no_none(y)
        X, y = validate(X, y, dtype=_FLOATS)
        check_classification_targets(y)
        return Chunk(X, y, check_sample_weight(weight, X, all_rows))

    def _problems(self, rows, likelihood, strategy, progress):
        """What is to be fitted: a `ClassProblem` for each task."""
        classes, name = rows.classes, type(self).__name__
        tasks = multiclass.tasks(len(classes), strategy)
        earlier = self._earlier(classes, strategy, len(tasks))
        tol = self.tol / multiclass.problems_of_a_row(len(classes), strategy)

        def problem(task, before):
            table = rows.table(task, name)
            kernel = resolve_latent_kernel(self.kernel, likelihood, table)
            parameter_checks.check_restarts(self, kernel)
            about_task = task.name(classes) if len(tasks) > 1 else ""
            told = partial(progress, about=about_task)
            plan = plan_of(self, table, kernel, told, name, len(table))
            return ClassProblem(about_task, table, kernel, before, plan._replace(tol=tol))

        return list(map(problem, tasks, earlier))

    def _warn_at_bounds(self, names, fits):
        if self.optimizer is not None and self.kernel is not None:
            for name, fit in zip(names, fits):
                with about(name):
                    warn_at_bounds(fit.kernel)

    def _earlier(self, classes, strategy, n_problems):
        """Kernels and inducing points to start from, None where there are none."""
        wanted = self.warm_start and self.optimizer is not None and hasattr(self, "_fits")
        same = wanted and np.array_equal(classes, self.classes_)
        if not same or strategy != self._strategy:
            return [None] * n_problems
        return [(fit.kernel, fit.posterior.features.Z) for fit in self._fits]
