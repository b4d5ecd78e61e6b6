"""The estimator `SparseGPClassifier`."""

from __future__ import annotations  # short names of types in help

from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skgp_sparse._estimator import SparseGP
from skgp_sparse.choices.parameter_checks import can_learn_later
from skgp_sparse.data.checks import RawRows
from skgp_sparse.data.columns import order_of
from skgp_sparse.explain.leave_one_out import loo_probabilities
from skgp_sparse.ground.validation import AnyArray, Array, AutoName, MaybeArray, SigmoidName
from skgp_sparse.likelihoods import Binary, Likelihood
from skgp_sparse.sources import Source
from skgp_sparse.targets.labels import ClassLabels

_Self = TypeVar("_Self", bound="SparseGPClassifier")


@dataclass(eq=False, repr=False)
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
        The covariance function: any kernel of `sklearn.gaussian_process.kernels` on vectors, whose
        `WhiteKernel` is a part of the latent process. None means ``ConstantKernel() *
        Matern(nu=2.5)`` with a length scale per feature that begins from the data, and parts for
        categories, missing values and skewed columns.
    bound : str or Bound, default="auto"
        The training objective: the variational bounds "titsias" (or "vfe") of [1]_, eq. 20, and
        "titsias_new" (also "artemev" and "auto"), eq. 23; "gfitc-ep" (or "fitc"), expectation
        propagation under the FITC prior [2]_, which is no bound; "pep" or ``PEP(alpha=0.3)``, a
        power between "titsias" (up to 0.01) and "gfitc-ep" (1). A softmax needs one of [1]_.
    likelihood : {"probit", "logit", "ordinal"} or Binary, default="probit"
        The sigmoid, unless there is a softmax, or an object of `skgp_sparse.likelihoods`. With
        "ordinal", labels have an order, such as grades: one process and increasing thresholds
        predict all classes [4]_, whatever `multi_class` is.
    mean : None, "auto", "linear", "boosting" or estimator, default="auto"
        The mean of the process: a constant (None), "linear" (a part of the kernel, which goes on
        beyond the rows), "boosting" (`HistGradientBoostingClassifier`), a classifier with
        `predict_proba`, or "auto": "boosting" where it pays, with an `optimizer`, 200 different
        rows and no approximation named. All but "linear" need the default kernel: probabilities are
        a weighted geometric mean, whose weights come from rows that are left out.
    posterior : str or PosteriorMethod, default="auto"
        What predictions are based on: all rows ("exact"), "inducing" points, cosines and sines
        ("fourier"), the rows nearest to each query ("neighbors", for binary problems), or an object
        of `skgp_sparse.posteriors`. "auto" is "exact" for few rows, "inducing" up to 2000 distinct
        ones and where anything asks for these, and otherwise what predicts rows that are held out
        with the higher probability.
    n_inducing : int or "auto", default="auto"
        The number of inducing points; if it is at least that of the distinct rows, all of them are
        inducing points. "auto" is exact for up to 300 distinct rows, and 200 for more.
    inducing_init : str, array-like or callable, default="auto"
        Where inducing points begin, as for `SparseGPRegressor`.
    optimize_inducing : bool, default=True
        Whether inducing points move.
    optimizer : "fmin_l_bfgs_b", callable or None, default="fmin_l_bfgs_b"
        The optimizer of the hyperparameters, specified as in `GaussianProcessClassifier`. A
        callable starts at the initial ones, None keeps them, and both keep inducing points.
    solver : {"auto", "lbfgs", "stochastic"} or Solver, default="auto"
        The rows of "fmin_l_bfgs_b", as for `SparseGPRegressor`.
    n_restarts_optimizer : int, default=0
        The number of restarts in the small exact fit that comes first, from hyperparameters that
        are drawn log-uniformly within their bounds.
    max_iter : int, default=1000
        The maximum number of L-BFGS iterations, with ``solver="stochastic"`` on each sample.
    metric : {"auto", "ard", "full"}, default="auto"
        How predictions from neighbours mix columns: not at all ("ard", "auto"), or by a matrix
        that is kept if rows that are held out gain ("full", for stationary kernels).
    prior : {"auto", "scaled"}, None or object, default="auto"
        The prior of hyperparameters, as for `SparseGPRegressor`. "auto" is "scaled" for the default
        kernel and at most twenty rows per column.
    time_limit : float, default=None
        Seconds after which a fit, or a call of `partial_fit`, looks no further and predicts with
        what was found. Several binary problems share them.
    tol : float or "auto", default="auto"
        The fit ends when six iterations (five if only hyperparameters are learned) have improved
        the bound by less than `tol` nats per row in total; "auto" is 1e-3. The binary problems of a
        row share it. That of inner iterations is a thousandth, relative, from 1e-11 to 1e-6.
    categorical_features : array-like of bool, int or str, or None, default="from_dtype"
        The columns that are categories, as for `SparseGPRegressor`.
    random_state : int, RandomState instance or None, default=None
        Controls the rows of the first fit, restarts, initial inducing points and samples. Pass an
        int for reproducible results.
    n_jobs : int, default=None
        The number of threads that process blocks of rows; with several binary problems, of
        processes that fit them, without progress. None means as many threads as BLAS may use. The
        results do not depend on it.
    verbose : int, default=0
        If it is positive, the plan of the fit is printed, and then the bound every `verbose`
        iterations.
    ordinal_classes : array-like or None, default=None
        All labels, lowest first, for ``likelihood="ordinal"``, also those without rows. None means
        the order of an ordered category of pandas or an Enum of polars, or of numbers.
    max_iter_predict : int, default=100
        The maximum number of inner iterations in an evaluation of the bound.
    warm_start : bool, default=False
        Whether `fit` starts at the hyperparameters and inducing points of the previous fit, where
        the classes, the structure of the kernel and `n_inducing` are the same, unless a cold start
        has a higher bound.
    multi_class : {"one_vs_rest", "one_vs_one", "softmax"}, default="one_vs_rest"
        How more than two classes are handled: by a binary problem for each class against the rest,
        whose probabilities are normalised, or for each pair of classes, with votes for labels and
        pairwise coupling [3]_ for probabilities, or by one model ("softmax") with a process for
        each class, which share the kernel and the inducing points.
    calibration : "auto" or None, default="auto"
        Whether probabilities have a temperature and a bias for every class, where rows that are
        left out gain and `kernel` is None. An approximation that is named
        has a calibration only beside a mean that is named. With a third as many hyperparameters as
        rows or more, each third of the rows is predicted by fits without it.
    class_weight : None, "balanced" or dict, default=None
        How much classes matter: factors of their probabilities by label, which are normalised then.
        "balanced" takes the inverse of the number of rows. The fit does not depend on them.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Unique class labels, sorted.
    n_classes_ : int
        The number of classes in the training data.
    ordinal_classes_ : ndarray of shape (n_classes,)
        The labels in their order, lowest first. Defined only with ``likelihood="ordinal"``.
    mean_ : estimator, list of these, or None
        The fitted mean. None where there is no mean, where it is a part of `kernel_`, and after
        `partial_fit`.
    calibration_ : Calibration or None
        How probabilities differ from those of the processes; None: not at all.
    posterior_ : str, or list of str
        What predictions are based on. Of several binary problems, this attribute and those below
        are lists with one element per problem, or means (of values) and maxima (of `n_iter_` and
        `jitter_`).
    kernel_ : kernel object
        The kernel with the hyperparameters that were found, of several binary problems a
        `CompoundKernel`.
    inducing_points_ : ndarray of shape (m, n_features), or list of these
        The inducing points, in the units of X. Not defined if a posterior is "neighbors" or
        "fourier", and `n_inducing_` neither.
    metric_ : ndarray of shape (n_features, n_features), None, or list of these
        What the kernel sees is ``X @ metric_.T``, and None means X itself.
    log_marginal_likelihood_value_ : float
        The value of the bound at `kernel_` and `inducing_points_`, of a softmax that of the joint
        model.
    likelihood_ : Likelihood, or list of these
        The likelihood with the parameters that were found; with ``likelihood="ordinal"``, it has
        `thresholds` between labels of `ordinal_classes_`.
    n_inducing_ : int, or list of int
        The number of inducing points.
    n_iter_ : int
        The number of iterations of the optimizer, on all samples together.
    evidence_per_row_ : float
        `log_marginal_likelihood_value_` per row, counted by weight: in nats, and comparable between
        tables.
    fit_seconds_ : float
        Seconds that `fit` took.
    feature_importances_ : ndarray of shape (n_features,)
        Total Sobol indices of the latent mean: the share of its variance that is lost without a
        column, if columns were independent. With several means, variances are added. It is computed
        when it is asked for the first time.
    sobol_first_ : ndarray of shape (n_features,)
        First-order Sobol indices: the share of the variance that a column explains alone.
    sobol_error_ : ndarray of shape (2, n_features)
        Standard errors of `sobol_first_` and `feature_importances_`.
    jitter_ : float
        The jitter on the diagonal of the kernel matrix of the inducing points, as a fraction of the
        mean of this diagonal.
    selection_ : Selection, or list of Selection
        Tuples ``(name, density, rmse, seconds, n_rows)`` of posteriors that were tried on so
        many held-out rows, with nan as `rmse`. Its attribute `plan` says why.
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
    sklearn.gaussian_process.GaussianProcessClassifier : The exact process, by Laplace's method.
    SparseGPRegressor : Sparse Gaussian process regression.

    References
    ----------
    .. [1] Titsias (2025). "New bounds for sparse variational Gaussian processes." ICML.
    .. [2] Naish-Guzman and Holden (2008). "The generalized FITC approximation." NIPS.
    .. [3] Wu, Lin and Weng (2004). "Probability estimates for multi-class classification by
       pairwise coupling." JMLR.
    .. [4] Chu and Ghahramani (2005). "Gaussian processes for ordinal regression." JMLR.

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

    classes_: AnyArray = field(init=False)
    n_classes_: int = field(init=False)
    ordinal_classes_: AnyArray = field(init=False)
    likelihood_: Likelihood | list[Likelihood] = field(init=False)
    _: KW_ONLY
    likelihood: SigmoidName | Binary = "probit"
    ordinal_classes: MaybeArray = None
    max_iter_predict: int = 100
    warm_start: bool = False
    multi_class: Literal["one_vs_rest", "one_vs_one", "softmax"] = "one_vs_rest"
    calibration: AutoName | None = "auto"
    class_weight: Literal["balanced"] | dict[Any, float] | None = None

    def fit(
        self: _Self, X: ArrayLike | Source, y: MaybeArray = None, sample_weight: MaybeArray = None
    ) -> _Self:
        """Fit hyperparameters and inducing points.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or source
            Training inputs: numbers, which may be a memory map, or a data frame, whose columns may
            be categories, times and text, too. An array with more than a million elements is never
            copied as a whole, except by ``multi_class="one_vs_one"``. A source, see
            `skgp_sparse.sources`, gives all rows with their labels and weights.
        y : array-like of shape (n_samples,), default=None
            Class labels of at least two classes. It is None only if X is a source.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights. With the default kernel, only their ratios matter. Whole numbers count
            rows where repeated inputs have several labels. Weights that are constant within each
            class act as `class_weight`. With a kernel of yours, a row with weight w counts as w
            rows.

        Returns
        -------
        self : SparseGPClassifier
            The fitted estimator.

        Raises
        ------
        ValueError
            If a parameter or the data are invalid. The message says how to correct them.
        """
        return self._fit(RawRows(X, y, sample_weight))

    @available_if(can_learn_later)
    def partial_fit(
        self: _Self,
        X: ArrayLike,
        y: MaybeArray = None,
        sample_weight: MaybeArray = None,
        classes: MaybeArray = None,
    ) -> _Self:
        """Learn from rows that arrive later, in chunks.

        The first call is a fit of its rows. Later calls add theirs. Hyperparameters and inducing
        points move by a few iterations on a sample of at most 20,000 of the rows that came,
        whenever the rows have doubled. As long as no more than `n_inducing` distinct rows have
        come, all of them are inducing points. Nothing is forgotten: where classes change, fit again
        on recent rows, or pass a `sample_weight` that grows from call to call.

        Up to 20,000 rows are inferred together in every call. For more, a sample of so many stands
        for all of them. If `optimizer` is None, hyperparameters and inducing points stay, and
        chunks of up to 20,000 rows in any order equal one fit if `kernel` and `inducing_init` (an
        array) are given.

        After `fit`, calls go on from its result. Moves use L-BFGS on the sample, whatever `solver`
        is. Callbacks are not told of the progress.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs of type float32 or float64.
        y : array-like of shape (n_samples,), default=None
            Class labels, all of which are in `classes`. They must be passed.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights, with the default kernel relative to the mean of all weights so far.
            Whole numbers count rows.
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
            cluster or from a large source, or the estimator was loaded from a pickle without them.
        TypeError
            If X is a source of rows, or an argument is a dask collection. Pass their chunks or
            partitions one by one.
        """
        order = order_of(y) or order_of(classes)
        return self._learn(RawRows(X, y, sample_weight), classes=classes, order=order)

    def predict(self, X: ArrayLike) -> AnyArray:
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
        X, view = self._answered(X)
        return self.classes_[view.decide(X)]

    def predict_proba(self, X: ArrayLike) -> Array:
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
        X, view = self._answered(X)
        return view.probabilities(X)

    def predict_parts(self, X: ArrayLike) -> tuple[Array, Array]:
        """Predict the part of the mean, and that of the processes, as logits of the classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Query points.

        Returns
        -------
        mean, process : ndarray of shape (n_samples, n_classes)
            Logits. The softmax of their sum is ``predict_proba(X)``. The first one is zero where
            `mean_` is None.

        Examples
        --------
        >>> import numpy as np
        >>> from scipy.special import softmax
        >>> from sklearn.linear_model import LogisticRegression
        >>> from skgp_sparse import SparseGPClassifier
        >>> X = np.linspace(0, 10, 50)[:, None]
        >>> y = np.sin(X[:, 0]) + 0.2 * X[:, 0] > 1
        >>> model = SparseGPClassifier(mean=LogisticRegression(), random_state=0).fit(X, y)
        >>> mean, process = model.predict_parts(X)
        >>> bool(np.allclose(softmax(mean + process, axis=1), model.predict_proba(X)))
        True
        """
        X, view = self._answered(X)
        logits = np.log(np.maximum(view.probabilities(X), np.finfo(float).tiny))
        mean = self._fitted.logits_of_mean(X, logits.shape[1])
        return mean, logits - mean

    def loo_predict_proba(self) -> Array:
        """Probabilities of the classes of every training row, given all others, without a refit.

        The hyperparameters and the inducing points are those of all rows. The posterior has a term
        for each row, which approximates its likelihood. Without the term of a row, it is the cavity
        distribution of expectation propagation, which predicts the row here. As the other terms
        have seen the row, this is between the prediction of the fit and that of a fit without the
        row: in tests of this package, nine tenths of the way, and two thirds with
        ``multi_class="softmax"``. With ``posterior="neighbors"``, the nearest others predict it.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Probabilities in the order of the rows of `fit` and of `classes_`. A row is left out
            with its copies and all of its weight; where weights count rows, one of these is.

        Raises
        ------
        ValueError
            If there are more than two classes and ``multi_class="one_vs_one"``, or if a row of
            `fit` has the weight zero. Also if the rows were not kept (after a fit on a cluster or
            to a large source, and in pickles), or their terms (``solver="stochastic"``).

        References
        ----------
        .. [1] Vehtari, Mononen, Tolvanen, Sivula and Winther (2016). "Bayesian leave-one-out
           cross-validation approximations for Gaussian latent variable models." JMLR 17.

        Examples
        --------
        A label that is wrong stands out:

        >>> import numpy as np
        >>> from skgp_sparse import SparseGPClassifier
        >>> X = np.linspace(0, 10, 60)[:, None]
        >>> y = (X[:, 0] > 5).astype(int)
        >>> y[10] = 1
        >>> p = SparseGPClassifier(random_state=0).fit(X, y).loo_predict_proba()
        >>> int(np.argmin(p[np.arange(60), y]))
        10
        """
        check_is_fitted(self, "kernel_")
        name = f"{type(self).__name__}.loo_predict_proba"
        return loo_probabilities(self._fitted.fits, self._fitted.view, self.n_jobs, name)

    def latent_mean_and_variance(self, X: ArrayLike) -> tuple[Array, Array]:
        """Compute the mean and variance of the latent process, or of those of a softmax.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Query points where the GP is evaluated.

        Returns
        -------
        latent_mean : ndarray of shape (n_samples,) or (n_samples, n_classes)
            Mean of the latent process. It is positive where ``classes_[1]`` is the more probable
            class. With ``likelihood="ordinal"``, it is larger where labels are higher. For more
            than two classes and ``multi_class="softmax"``, it has one column for each class.
        latent_var : ndarray of shape (n_samples,) or (n_samples, n_classes)
            Variance of the latent process.

        Raises
        ------
        ValueError
            If there are more than two classes, and `multi_class` is not "softmax" nor `likelihood`
            "ordinal".
        """
        X, view = self._answered(X)
        if self.n_classes_ > 2 and view.multi_class not in ("softmax", "ordinal"):
            raise ValueError(
                "Returning the mean and variance of the latent function f is only supported for "
                f"binary classification, received {self.n_classes_} classes. Set "
                "multi_class='softmax', which supports any number of classes."
            )
        return view.latent_moments(X)

    def _observations(self, **announced: Any) -> ClassLabels:
        fitted = self._fitted
        earlier = fitted and (self.classes_, fitted.view.multi_class, fitted.fits)
        observations = ClassLabels(self, type(self).__name__, earlier)
        if announced:
            observations.announce(**announced)
        return observations
