"""The estimator `SparseGPClassifier`."""

from __future__ import annotations  # short names of types in help

from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skgp_sparse._estimator import SparseGP
from skgp_sparse.choices.parameter_checks import can_learn_later
from skgp_sparse.data.checks import Given
from skgp_sparse.data.columns import order_of
from skgp_sparse.explain.leave_one_out import loo_probabilities
from skgp_sparse.ground.validation import (
    AnyArray,
    Array,
    AutoName,
    MaybeArray,
    SigmoidName,
)
from skgp_sparse.likelihoods import Binary, Likelihood
from skgp_sparse.sources import Source
from skgp_sparse.targets.labels import ClassLabels, announced_classes, announced_order

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
        The kernel specifying the covariance function of the GP. It can be any kernel of
        `sklearn.gaussian_process.kernels` that is defined on vectors. A `WhiteKernel` in it is
        part of the latent process. If None is passed, the kernel
        ``ConstantKernel() * Matern(nu=2.5)`` with one length scale per feature is used as default.
        Its hyperparameters are learned. Their initial values and bounds are computed from the
        data. With categories, it is
        ``ConstantKernel() * Columns(c + Matern()) * Columns(c + Categorical())``. Where values are
        missing, the part of the numbers is `Missing`, and skewed columns may be on a `LogScale`.
    bound : str or Bound, default="auto"
        The training objective:

        - "titsias" (also called "vfe"): the variational bound of [1]_, eq. 20.
        - "titsias_new" (also called "artemev"): the tighter variational bound of [1]_, eq. 23.
        - "auto": "titsias_new".
        - "gfitc-ep" (also called "fitc"): expectation propagation under the FITC prior [2]_. This
          objective is not a bound.
        - "pep", or an instance such as ``PEP(alpha=0.3)``: power expectation propagation, between
          "titsias" (power 0, also for powers below 0.01) and "gfitc-ep" (power 1).

        With ``multi_class="softmax"``, only the variational bounds are available.
    likelihood : {"probit", "logit", "ordinal"} or Binary, default="probit"
        The sigmoid, as a name or as an instance of a class of `skgp_sparse.likelihoods`. It is not
        used with more than two classes and ``multi_class="softmax"``. With "ordinal", labels have
        an order, such as grades: one process and increasing thresholds predict all classes, see
        `skgp_sparse.likelihoods.Ordinal` [4]_. `multi_class` is not used then. The order is
        `ordinal_classes` or, if this is None, that of an ordered category of pandas or an Enum of
        polars that is y (a Series), or that of numbers.
    mean : None, "auto", "linear", "boosting" or estimator, default="auto"
        The mean of the process, which other columns or another model tell:

        - None: a constant.
        - "linear": a linear function of the numbers in X. With a user's kernel, it is a part of
          the kernel, whose coefficients have a wide prior. With the default one, it is a
          `LogisticRegression`.
        - "boosting": `HistGradientBoostingClassifier`, with categories and missing values as
          it takes them.
        - Any classifier of scikit-learn with `predict_proba`. It is fitted to the numbers and
          codes of X. A grid search sets its parameters as ``mean__max_depth``. The kernel has to
          be the default one, as for "boosting".
        - "auto": "boosting" where it clearly improves predictions of rows that are left out. The
          default kernel, at least 200 different rows in memory, and an `optimizer` are needed,
          otherwise it is None. It is also None where an approximation is named, which is then
          fitted alone: where `bound`, `n_inducing`, `inducing_init` or `posterior` is not "auto".

        Training rows have predictions of three fits, each without a third of the rows (equal rows
        stay together); queries have those of a fit to all rows. The default kernel sees all
        columns, as the mean does: the prediction is a weighted geometric mean of the probabilities
        of both, whose weights come from rows that are left out, see the guide.
    posterior : str or PosteriorMethod, default="auto"
        What the posterior is given, as a name or as an object of `skgp_sparse.posteriors`:

        - "exact": all rows. An evaluation takes O(n³) time.
        - "inducing": the inducing points, or all rows where `n_inducing` makes every row one.
        - "fourier": cosines and sines at random frequencies from the spectral density of the
          kernel, which has to be stationary, however few rows there are; see `FourierFeatures`.
          `n_inducing` and `inducing_init` must be "auto".
        - "neighbors": for every query, the 100 training rows that are nearest to it, in units of
          the length scales; see `Neighbors`. The sites of all rows are those at which every row
          has the cavity that its neighbours predict. The hyperparameters maximise the density of
          rows that are left out and predicted by their neighbours. There is no `bound` to choose,
          and `multi_class` cannot be "softmax". Many rows cost little: a prediction takes the same
          time, however many there are. All rows are held in memory, also those of a source.
        - "auto": "exact" for few rows, see `n_inducing`, and "inducing" for up to 2000 distinct
          rows. For more, "neighbors" or "inducing", whichever predicts rows that are held out
          with the higher log probability; see `selection_`. A near tie goes to "inducing". Of
          several binary problems, three try both, and all are given what wins in these. It is
          "inducing" as well if `bound`, `n_inducing`, `inducing_init` or `solver` is not "auto",
          for a softmax, for kernels without a derivative rule, for rows of large sources and
          clusters, and if `optimizer` is a callable or None.
    n_inducing : int or "auto", default="auto"
        The number of inducing points. If it is at least the number of distinct rows, every row
        becomes an inducing point. "auto" makes every row an inducing point for up to 300 distinct
        rows; where more rows have inducing points, there are 200. The attribute `n_inducing_` holds
        the number that was chosen.
    inducing_init : str, array-like or callable, default="auto"
        The method to initialise the inducing points. "auto" is "k-means". See `SparseGPRegressor`
        for the other options.
    optimize_inducing : bool, default=True
        Whether to optimise the inducing points. If False, the points of `inducing_init` are used
        unchanged.
    optimizer : "fmin_l_bfgs_b", callable or None, default="fmin_l_bfgs_b"
        The optimizer of the hyperparameters, specified as in `GaussianProcessClassifier`. A
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
        small fit that precedes the full fit. The initial hyperparameters of each restart are
        sampled log-uniformly from within their bounds. If the kernel has periods, every second
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
        - "auto": "ard", as a full matrix seldom predicts labels better.
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
        - "auto": "scaled" if `kernel` is None and there are at most twenty rows per column, None
          otherwise. Without a kernel, categories and missing values have the priors above in any
          case.

        It acts on the length scales of kernels on chosen columns, too, but not on those of periodic
        kernels and of `Sphere`. The values that `verbose` prints are with it.
    time_limit : float, default=None
        Seconds after which a fit, or a call of `partial_fit`, looks no further: the optimiser stops
        after the iteration that is under way, no restart and no larger sample begins, and the
        posterior is computed with what was found. This may take longer than the limit, as a fit
        begins and ends with work that cannot be left out. There is no warning, but `verbose` says
        it. A callable `optimizer` is not interrupted. Several binary problems share the time. None
        means no limit; with one, the result depends on the speed of the machine.
    tol : float or "auto", default="auto"
        The tolerance of the stopping criterion. The fit ends when ten iterations (five if only
        hyperparameters are learned) have improved the bound by less than `tol` nats per row in
        total. ``tol=1e-2`` gives a faster and less accurate fit, and ``tol=1e-5`` gives a more
        accurate one. "auto" is 1e-3. `tol` is divided among the binary problems that a row takes
        part in. The relative tolerance of the inner iterations is a thousandth of `tol`, but at
        least 1e-11 and at most 1e-6.
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
        With one problem (two classes, or a softmax), the number of threads that process blocks of
        rows. With several binary problems, the number of processes that fit them; progress is then
        not reported. None means as many threads as BLAS may use, which fit several binary problems
        in parallel. If the problems are large or progress is reported, the problems are fitted one
        after the other, and the threads process the blocks of rows of each. The results do not
        depend on `n_jobs`.
    verbose : int, default=0
        Controls the verbosity. If it is positive, which posterior is fitted or tried is printed
        first, and why, and then the bound every `verbose` iterations. With ``solver="stochastic"``,
        it is the number of passes over the rows, the seconds, and the log density of rows that are
        held out.
    ordinal_classes : array-like or None, default=None
        All labels, lowest first, for ``likelihood="ordinal"``. There may be labels without rows,
        which `classes_` does not have.
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
        a latent process, and the processes share the kernel and the inducing points. With
        ``likelihood="ordinal"``, it is not used.
    calibration : "auto" or None, default="auto"
        Whether probabilities are calibrated, if `kernel` is None and `mean` is not "linear": by a
        temperature and a bias of every class, where this improves predictions of rows that are
        left out. Where an approximation is named, as for `mean`, only a mean that is named has a
        calibration.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Unique class labels, sorted.
    n_classes_ : int
        The number of classes in the training data.
    ordinal_classes_ : ndarray of shape (n_classes,)
        The labels in their order, lowest first. Defined only with ``likelihood="ordinal"``.
    mean_ : estimator, list of these, or None
        The fitted mean. "linear" is a pipeline with a `LogisticRegression` as the last step. None
        where there is no mean, where it is a part of `kernel_` ("linear" with a user's kernel), and
        after `partial_fit`.
    calibration_ : Calibration or None
        How probabilities differ from those of the processes: ``(scale, bias, weight, function)``,
        of logarithms of their probabilities, and of those of the mean. None: not at all.
    posterior_ : str, or list of str
        What the posterior was given: "exact", "inducing", "fourier" or "neighbors". With several
        binary problems, it is a list of one name per problem.
    kernel_ : kernel object
        The kernel used for prediction, with optimised hyperparameters. With several binary
        problems, it is a `CompoundKernel` that contains one kernel per problem. With a softmax, it
        is the kernel that all classes share.
    inducing_points_ : ndarray of shape (m, n_features), or list of these
        The inducing points, in the units of X. With several binary problems, it is a list of one
        array per problem. With a softmax, all classes share them.
        Not defined if a posterior
        is "neighbors" or "fourier", and `n_inducing_` neither.
    metric_ : ndarray of shape (n_features, n_features), None, or list of these
        What the kernel sees is ``X @ metric_.T``, and None means X itself. With several
        binary problems, it is a list of one per problem.
    log_marginal_likelihood_value_ : float
        The value of the bound at `kernel_` and `inducing_points_`. With several binary problems,
        it is the mean over the problems. With a softmax, it is the bound of the joint model.
    likelihood_ : Likelihood, or list of these
        The likelihood with the parameters that were found. With several binary problems, it is a
        list of one per problem. With a softmax, it is that of all classes, and with
        ``likelihood="ordinal"``, too, with `thresholds` between labels of `ordinal_classes_`.
    n_inducing_ : int, or list of int
        The number of inducing points. With several binary problems, it is a list of one number
        per problem.
    n_iter_ : int
        The number of iterations of the optimizer, on all samples together. With several binary
        problems, it is the maximum over the problems.
    evidence_per_row_ : float
        `log_marginal_likelihood_value_` per row, counted by weight: in nats, and comparable between
        tables. With several binary problems, it is their mean.
    fit_seconds_ : float
        Seconds that `fit` took.
    feature_importances_ : ndarray of shape (n_features,)
        Total Sobol indices of the latent mean: the share of its variance that is lost without a
        column, where columns are independent and distributed as in the training rows. With several
        means, their variances are added, of standardised targets. It is computed when it is asked
        for the first time, and stored.
    sobol_first_ : ndarray of shape (n_features,)
        First-order Sobol indices: the share of the variance that a column explains alone.
    sobol_error_ : ndarray of shape (2, n_features)
        Standard errors of `sobol_first_` and `feature_importances_`.
    jitter_ : float
        The jitter that was added to the diagonal of the kernel matrix of the inducing points, as a
        fraction of the mean of this diagonal. With several binary problems, it is the maximum over
        the problems.
    selection_ : Selection, or list of Selection
        What was tried on held-out rows, in order: a tuple ``(name, density, rmse,
        seconds)`` for each posterior, with the mean log probability of the labels as `density` and
        nan as `rmse`. It is empty where there was nothing to choose by trial. Its attribute `plan`
        says which posterior was fitted or tried, and why. With several binary problems, it is a
        list of one per problem, those that had no trial included.
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

    def fit(
        self: _Self,
        X: npt.ArrayLike | Source,
        y: MaybeArray = None,
        sample_weight: MaybeArray = None,
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
        return self._fit(Given(X, y, sample_weight))

    @available_if(can_learn_later)
    def partial_fit(
        self: _Self,
        X: npt.ArrayLike,
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
            cluster or from a large source, or the estimator was loaded from a pickle without them.
        TypeError
            If X is a source of rows, or an argument is a dask collection. Pass their chunks or
            partitions one by one.
        """
        order = order_of(y) or order_of(classes)
        return self._learn(Given(X, y, sample_weight), classes=classes, order=order)

    def predict(self, X: npt.ArrayLike) -> AnyArray:
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

    def predict_proba(self, X: npt.ArrayLike) -> Array:
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

    def predict_parts(self, X: npt.ArrayLike) -> tuple[Array, Array]:
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
        >>> from skgp_sparse import SparseGPClassifier
        >>> X = np.linspace(0, 10, 50)[:, None]
        >>> y = np.sin(X[:, 0]) + 0.2 * X[:, 0] > 1
        >>> model = SparseGPClassifier(mean="linear", random_state=0).fit(X, y)
        >>> mean, process = model.predict_parts(X)
        >>> bool(np.allclose(softmax(mean + process, axis=1), model.predict_proba(X)))
        True
        """
        X, view = self._answered(X)
        probabilities = view.probabilities(X)
        logits = np.log(np.maximum(probabilities, np.finfo(float).tiny))
        mean = self._fitted.logits_of_mean(X, logits.shape[1])
        return mean, logits - mean

    def loo_predict_proba(self) -> Array:
        """Probabilities of the classes of every training row, given all others, without a refit.

        The hyperparameters and the inducing points are those of all rows. The row is taken out of
        the posterior by its own term, the approximation of its likelihood: what is left is the
        cavity of expectation propagation. The terms of the others have seen the row. In the
        tests of this package, this makes nine tenths of the step to a fit without the row, and two
        thirds with ``multi_class="softmax"``. With ``posterior="neighbors"``, the
        nearest others predict the row.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Probabilities in the order of the rows of `fit` and of `classes_`. Of a row with a
            weight above one, one copy is left out, and others stay.

        Raises
        ------
        ValueError
            If there are more than two classes and ``multi_class="one_vs_one"``, if a row of `fit`
            has the weight zero, or if its rows or their terms were not kept: after a cluster, a
            large source, a pickle, or a solver of minibatches.

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

    def latent_mean_and_variance(self, X: npt.ArrayLike) -> tuple[Array, Array]:
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

    def _observations(self, **known: Any) -> ClassLabels:
        name = type(self).__name__
        if not known:
            return ClassLabels(self, name)
        before = getattr(self, "classes_", None)
        classes = announced_classes(known["classes"], before, name)
        order = known["order"], getattr(self, "ordinal_classes_", None)
        order = announced_order(self.ordinal_classes, *order, name)
        return ClassLabels(self, name, classes, order)

    def _earlier(self) -> Any:
        if self._fitted is None:
            return None
        return self.classes_, self._fitted.view.multi_class, self._fitted.fits
