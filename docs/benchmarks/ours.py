"""The package, as the benchmark scripts see it: one function per thing measured.

Everything that touches a name of `skgp_sparse` is here, so that a change of the package
changes this file only.
"""

import contextlib
import time
from functools import partial
from pathlib import Path

import numpy as np
import sklearn
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel


def check_package(folder):
    """Refuse to go on if another version of the package than that in `folder` was imported."""
    import skgp_sparse

    found = Path(skgp_sparse.__file__).resolve()
    assert found.is_relative_to(Path(folder).resolve()), f"{found} is not in {folder}"


def folder():
    """Where the package is."""
    import skgp_sparse

    return Path(skgp_sparse.__file__).parent


def source(X, y):
    """Arrays as a source of three chunks."""
    from skgp_sparse.sources import Stream

    return Stream(lambda: zip(np.array_split(X, 3), np.array_split(y, 3)))


def rbf_kernel(d, variance=1.0, lengthscales=1.0, noise=1.0):
    """Constant times squared exponential with `d` length scales, plus noise."""
    scales = np.broadcast_to(np.float64(lengthscales), (d,)).copy()
    return ConstantKernel(variance) * RBF(scales) + WhiteKernel(noise)


def like_default(X, stationary):
    """The default kernel for standardised targets, with `stationary(scale, bounds)` in it."""
    spread = np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
    typical = spread * np.sqrt(X.shape[1])
    part = stationary(typical, np.column_stack([1e-3 * typical, 1e4 * typical]))
    return ConstantKernel(1.0, (1e-3, 1e4)) * part + WhiteKernel(0.1, (1e-6, 1e3))


def matern(scale, bounds):
    """Matern 5/2, as `like_default` wants it."""
    return Matern(scale, bounds, nu=2.5)


def regressor(kernel=None, bound="titsias", n_inducing=None, **options):
    """An unfitted estimator; `kernel=None` and `n_inducing=None` keep its defaults."""
    from skgp_sparse import SparseGPRegressor

    if n_inducing is not None:
        options["n_inducing"] = n_inducing
    return SparseGPRegressor(kernel, bound=bound, **options)


def with_larger_mean(n_mean):
    """Inducing points, `n_mean` of them for the mean."""
    from skgp_sparse.posteriors import InducingPoints

    return InducingPoints(n_mean=n_mean)


def default_regressor():
    """`SparseGPRegressor()`, seeded and nothing else."""
    from skgp_sparse import SparseGPRegressor

    return SparseGPRegressor(random_state=0)


def of_inducing_points(m):
    """An unfitted estimator with m inducing points, on one thread."""
    return bounded("auto", m)


def bounded(bound, m):
    """An unfitted model with m inducing points and this bound, on one thread."""
    return regressor(bound=bound, n_inducing=m, posterior="inducing", random_state=0, n_jobs=1)


def held(model, posterior):
    """The same with another posterior at the hyperparameters and inducing points of a fit."""
    start = {} if posterior == "exact" else {"inducing_init": model.inducing_points_}
    return model.__class__(model.kernel_, posterior=posterior, optimizer=None, n_jobs=1, **start)


def tight_variance():
    """Inducing points with the smaller variances of the whole posterior."""
    from skgp_sparse.posteriors import InducingPoints

    return InducingPoints(tight_variance=True)


def with_features(method, m):
    """A regressor: "inducing", "neighbors", or "fourier" for random features."""
    from skgp_sparse import SparseGPRegressor
    from skgp_sparse.posteriors import FourierFeatures

    if method == "neighbors":
        return SparseGPRegressor(posterior="neighbors", random_state=0)
    if method == "inducing":
        return SparseGPRegressor(posterior="inducing", n_inducing=m, random_state=0)
    return SparseGPRegressor(posterior=FourierFeatures(m), random_state=0)


def objective(X, y, kernel, bound, n_jobs=None):
    """`f(theta, Z) -> value, theta_grad, Z_grad`, one evaluation as `fit` does it."""
    # ADAPT: to how rows, bounds and objectives are made, and to what `fit` wraps them in.
    from skgp_sparse.engine.basis import InducingBasis
    from skgp_sparse.ground.parallel import single_threaded_blas
    from skgp_sparse.inference.objectives import CollapsedObjective

    nowhere = InducingBasis(np.empty((0, X.shape[1])))  # `at` moves it
    empty = CollapsedObjective(table_rows(X, y), bound_named(bound), nowhere, options(n_jobs))

    def function(theta, Z):
        at, candidate = empty.at(basis=Z), kernel.clone_with_theta(theta)
        with single_threaded_blas():
            found = at.value_and_gradient(candidate, inputs=True)
        return found.value, found.theta_bar, found.Z_bar

    return function


def exact_evaluation(X, y, kernel):
    """A function of no argument: value and gradient (theta) of the exact process."""
    # ADAPT: to how rows, models and objectives are made, and to what `fit` wraps them in.
    from skgp_sparse.ground.parallel import single_threaded_blas
    from skgp_sparse.inference.objectives import GaussianObjectives

    exact = GaussianObjectives(bound_named("titsias_new")).exact(table_rows(X, y), options())

    def function():
        with single_threaded_blas():
            found = exact.value_and_gradient(kernel)
        return found.value, found.theta_bar

    return function


def as_in_fit():
    """The context in which `fit` computes: threads stay from one evaluation to the next."""
    # ADAPT: to what `fit` wraps its evaluations in.
    from skgp_sparse.ground.parallel import single_threaded_blas

    return single_threaded_blas()


def table_rows(X, y):
    from skgp_sparse.data.arrays import ArrayDataset

    return ArrayDataset(X, y.reshape(-1, 1))


@contextlib.contextmanager
def cluster_rows(client, X, y):
    """Standardised dask arrays as the table that `fit` makes of them, gone afterwards."""
    # ADAPT: to how estimators on a cluster make their rows.
    from skgp_sparse.dask._distributed_rows import DaskDataset, load
    from skgp_sparse.data.checks import Rules

    with contextlib.ExitStack() as held:
        rules, nothing = Rules("benchmark", None), {"sample_weight": None, "offset": None}
        parts, _, outline = load(client, rules, held, X, y=y, **nothing, alpha=0.0)
        scaler = rules.scaler(outline.y.shape[1:])
        yield DaskDataset(client, parts, outline.n_features, [], scaler).summarised()


def evaluation_of_rows(rows, kernel, Z, bound, n_jobs=None):
    """A function of no argument: value and gradient (theta, Z) on a table, as in a fit."""
    # ADAPT: to how objectives are made.
    from skgp_sparse.engine.basis import InducingBasis
    from skgp_sparse.inference.objectives import CollapsedObjective

    at = CollapsedObjective(rows, bound_named(bound), InducingBasis(Z), options(n_jobs))

    def function():
        with as_in_fit():
            found = at.value_and_gradient(kernel, inputs=True)
        return found.value, found.theta_bar, found.Z_bar

    return function


def idle_visit(rows, down, up):
    """A function of no argument: a visit that does nothing, with `down` and `up` numbers to send.

    The numbers go to every worker, and every part of the rows sends its own, which are added.
    """
    # ADAPT: to how tables are visited.
    load = np.zeros(down)
    layout = rows.layout(1, 1, options(1))
    first = [block.start for block in layout.blocks]

    def look(read):
        return (np.full(up, float(load.size > 0)),), None

    return lambda: rows.visit(look, layout, keep=[False] * len(first))


def bound_named(name):
    from skgp_sparse import bounds

    classes = {"titsias_new": "TitsiasNew", "fitc": "FITC", "dtc": "DTC"}
    return getattr(bounds, classes.get(name, name.title()))()


def options(n_jobs=None):
    """How the estimator computes, by default when nobody says otherwise."""
    # ADAPT: to the defaults of the estimator.
    from skgp_sparse.engine.basis import Options
    from skgp_sparse.ground.parallel import resolve_n_jobs

    memory = sklearn.get_config()["working_memory"] * 2**20
    return Options(n_jobs=resolve_n_jobs(n_jobs), memory=memory)


def evaluation(model, bound):
    """A function of no argument: value and gradient of a `common.problem`."""
    kernel = rbf_kernel(
        model["X"].shape[1], model["variance"], model["lengthscales"], model["noise"]
    )
    function = objective(model["X"], model["y"], kernel, bound)
    return lambda: function(kernel.theta, model["Z"])


class Reached(Exception):
    """Ends a fit whose bound has reached the target."""


class Trace:
    """Notes the time and the bound of each iteration; stops at the target."""

    def __init__(self, target):
        self.start = time.perf_counter()
        self.target = target
        self.rows = []

    def __call__(self, bound):
        self.rows.append((time.perf_counter() - self.start, float(bound)))
        if bound >= self.target:
            raise Reached


@contextlib.contextmanager
def maximising(wrap):
    """Let fits on the full data, and on samples of them, use ``wrap(maximise)``."""
    # ADAPT: to who calls `maximise` for the small exact fit, and who for the others.
    from skgp_sparse import solvers
    from skgp_sparse.inference import optimizers, stochastic

    climb, maximise = optimizers.climb, optimizers.maximise

    def climbing(*args, **options):
        optimizers.maximise = wrap(maximise)
        try:
            return climb(*args, **options)
        finally:
            optimizers.maximise = maximise

    solvers.climb = stochastic.climb = climbing
    try:
        yield
    finally:
        solvers.climb = stochastic.climb = climb


def initial_kernel(X, y):
    """The kernel from which the default fit starts, noise included, y being normalised."""
    model = regressor(bound="dtc", n_inducing=10, inducing_init="random", optimizer=None)
    return model.fit(X, y).kernel_


def n_inducing(model):
    """How many inducing points a fitted model has, of several problems the one with most, or 0."""
    points = getattr(model, "inducing_points_", ())
    return max(map(len, points)) if isinstance(points, list) else len(points)


def given(model):
    """What the posterior of a fitted model is given: "exact", "inducing" or "rows"."""
    return model.posterior_


def evidence(model):
    """The bounds of the log marginal likelihood of the rows of the fit, by name."""
    found = model.evidence_bounds()._asdict()
    return {name: float(found[name]) for name in EVIDENCE}


EVIDENCE = ("own", "upper")


def fitted_kernel(model):
    """The kernel that was found, noise included, of normalised targets."""
    return model.kernel_


def observed(model, X):
    """Mean and standard deviation of new *observations*, noise included."""
    return model.predict(X, return_std=True)


# -- classification --------------------------------------------------------------------


def latent_kernel(d, largest=1e3):
    """Constant, at most `largest`, times Matern 5/2 for `d` standardised inputs."""
    return ConstantKernel(1.0, (1e-2, largest)) * Matern(np.full(d, np.sqrt(d)), nu=2.5)


def classifier(kernel=None, bound="titsias_new", n_inducing=None, **options):
    """An unfitted estimator; `kernel=None` and `n_inducing=None` keep its defaults."""
    from skgp_sparse import SparseGPClassifier

    if n_inducing is not None:
        options["n_inducing"] = n_inducing
    return SparseGPClassifier(kernel, bound=bound, **options)


def default_classifier():
    """`SparseGPClassifier()`, seeded and nothing else."""
    from skgp_sparse import SparseGPClassifier

    return SparseGPClassifier(random_state=0)


def initial_latent_kernel(X, y):
    """The kernel from which the default classifier starts."""
    model = classifier(bound="titsias", n_inducing=10, inducing_init="random", optimizer=None)
    return model.fit(X, y).kernel_


def inner_loop(model, theta):
    """Value, inner iterations, Newton steps of the means, and estimated error at a theta."""
    from unittest.mock import patch

    from skgp_sparse.inference.site_loop import AlternatingUpdates

    objective = model._fitted.fits[0].objective  # ADAPT: to how objectives say how they ended
    climbed, steps = AlternatingUpdates._climbed, []

    def counted(*args):
        steps.append(1)
        return climbed(*args)

    with patch.object(AlternatingUpdates, "_climbed", counted):
        solution = objective.infer(model.kernel_.clone_with_theta(theta))[1]
    step = solution.step
    return f"{step.value:.6f}", solution.n_iter, len(steps), f"{step.gap:.0e}"


def site_objective(X, y, bound, Z):
    """The objective of a classifier for labels 0 and 1, probit likelihood."""
    # ADAPT: to how methods and objectives are made.
    from skgp_sparse.likelihoods import Probit

    return objective_with(Probit(), X, np.where(y > 0, 1.0, -1.0), bound, Z)


def objective_with(likelihood, X, y, bound, Z):
    """The objective of rows with any likelihood."""
    # ADAPT: to how methods and objectives are made.
    from skgp_sparse.choices.choices import resolve_method
    from skgp_sparse.inference.site_objective import SiteObjectives

    model = SiteObjectives(resolve_method(bound, likelihood, "a benchmark"))
    return model.sparse(table_rows(X, y), Z, options())


# -- likelihoods -----------------------------------------------------------------------


def shared_matern(X):
    """Matern 5/2 with one length scale for all features, in the units of X."""
    typical = np.sqrt(X.var(axis=0).sum())
    return ConstantKernel(1.0, (1e-2, 50.0)) * Matern(typical, (1e-3 * typical, 1e4 * typical), 2.5)


def likelihood_evaluations(n, d, m, n_classes=5):
    """Functions of no argument by likelihood: value and gradient, from the last sites on."""
    from skgp_sparse import likelihoods
    from skgp_sparse.ground.parallel import single_threaded_blas
    from skgp_sparse.likelihoods._labels import Softmax

    rng = np.random.RandomState(0)
    X = rng.normal(size=(n, d))
    f = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1]
    kernel = ConstantKernel(1.0) * Matern(np.full(d, 2.0), nu=2.5)
    labels = np.where(f + rng.normal(size=n) > 0, 1.0, -1.0)
    classes = np.argmax(np.sin(X @ rng.normal(size=(d, n_classes))), axis=1).astype(float)
    tables = {
        "probit": (likelihoods.Probit(), labels),
        "logit": (likelihoods.Logit(), labels),
        "poisson": (likelihoods.Poisson(level=0.0), rng.poisson(np.exp(f + 1.0)).astype(float)),
        "negative_binomial": (
            likelihoods.NegativeBinomial(level=0.0),
            rng.negative_binomial(5.0, 5.0 / (5.0 + np.exp(f + 1.0))).astype(float),
        ),
        "gamma": (likelihoods.Gamma(level=0.0), np.exp(f) * rng.gamma(2.0, 0.5, n) + 1e-9),
        "student_t": (likelihoods.StudentT(0.3, level=0.0), f + 0.3 * rng.standard_t(4.0, n)),
        f"softmax, {n_classes} classes": (Softmax(n_classes), classes),
    }

    def evaluation(likelihood, y):
        objective = objective_with(likelihood, X, y, "titsias_new", X[:m].copy())
        with single_threaded_blas():
            memory = objective.value_and_gradient(kernel, inputs=True).inner_state

        def evaluate():
            moved = kernel.clone_with_theta(kernel.theta + 0.02)
            with single_threaded_blas():
                objective.value_and_gradient(moved, True, memory)

        return evaluate

    return {name: evaluation(*table) for name, table in tables.items()}


# -- what a fit knew, and when ---------------------------------------------------------


def default(labels):
    """The default estimator, seeded."""
    return default_classifier() if labels else default_regressor()


@contextlib.contextmanager
def timed_steps(timed):
    """Context that yields what `timed` says of each step of a plan, and of the fits, summed."""
    # ADAPT: to how the steps of a plan are taken.
    from skgp_sparse.targets import model

    took, step_named, fit_all = {}, model.step_named, model.fit_all

    def watched(name, function):
        def act(*given):
            found = []
            seconds = timed(lambda: found.append(function(*given)))
            took[name] = tuple(np.add(took.get(name, (0.0, 0.0)), seconds).tolist())
            return found[0]

        return act

    model.step_named = lambda name: watched(name, step_named(name))
    model.fit_all = watched("fit", fit_all)
    try:
        yield took
    finally:
        model.step_named, model.fit_all = step_named, fit_all


def warm_up(labels):
    """A tiny sparse fit, so that imports and first calls are not timed."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 2))
    y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(200)
    if labels:
        classifier(None, "titsias_new", 20, max_iter=5, random_state=0).fit(X, y > 0)
    else:
        regressor(None, "titsias_new", 20, max_iter=5, random_state=0).fit(X, y)


def at_snapshot(kernel, Z, X, y, labels):
    """The default model with this kernel and these inducing points, nothing optimised."""
    fixed = {"inducing_init": Z, "optimize_inducing": False, "optimizer": None}
    make = classifier if labels else regressor
    return make(kernel, "titsias_new", len(Z), **fixed).fit(X, y)


# -- rows on disk ----------------------------------------------------------------------


def files(pairs):
    """The source that reads pairs of .npy files."""
    from skgp_sparse.sources import Stream

    return Stream(lambda: (tuple(map(np.load, pair)) for pair in pairs))


def posterior(source, m):
    """A model at the first rows of a source and at a kernel of its own: one pass for each sum."""
    X = np.asarray(source.chunk(0).X[:m], dtype=np.float64)
    kernel = rbf_kernel(X.shape[1], lengthscales=2.0, noise=0.1)
    return regressor(kernel, "titsias_new", m, inducing_init=X, optimizer=None).fit(source)


def gradient(model):
    """Value and gradient, with respect to theta and Z, of a fitted model."""
    # ADAPT: to what a fitted model keeps.
    with as_in_fit():
        return model._fitted.fits[0].objective.value_and_gradient(model.kernel_, inputs=True)


# -- streams ---------------------------------------------------------------------------


@contextlib.contextmanager
def policy_of_streams(name):
    """`partial_fit` with another rule of when theta and Z move."""
    # ADAPT: to where the limit of the policy is.
    from skgp_sparse.targets import streams

    before = streams._GROWTH
    try:
        streams._GROWTH = {"none": np.inf, "doubling": before, "each chunk": 1.0}[name]
        yield
    finally:
        streams._GROWTH = before


# -- fits on all rows or on parts of them ----------------------------------------------


class Course:
    """What a fit knew and when, how much it read, and how it ended.

    `rows` holds (seconds, function of no argument that answers with the kernel and Z): the best so
    far of every iteration of L-BFGS, be it on a sample, and what follows from a sample. When time
    is up, the fit ends as if it had converged.
    """

    def __init__(self, limit):
        self.limit, self.rows = limit, []
        self.read, self.steps = 0, 0  # rows of evaluations; iterations
        self.n_rows, self.last_pass, self.is_stochastic = None, None, False
        self.time_was_up = False
        self.start = time.perf_counter()

    def seconds(self):
        return time.perf_counter() - self.start

    def is_over(self):
        """Whether to end now."""
        self.time_was_up |= self.seconds() >= self.limit
        return self.time_was_up

    def note(self, decode):
        self.rows.append((self.seconds(), decode))

    def reads(self, rows):
        self.read += rows
        return rows

    def passes(self):
        """Rows that evaluations had, as a multiple of the rows of the table."""
        return None if self.n_rows is None else self.read / self.n_rows

    def chosen(self, count):
        """[(seconds, kernel, Z)]: about `count` of them, at even steps of log seconds."""
        if not self.rows:
            return []
        seconds = np.array([row[0] for row in self.rows])
        wanted = np.geomspace(seconds[0], seconds[-1], count)
        index = np.unique(np.searchsorted(seconds, wanted * (1 - 1e-12)))
        return [(float(seconds[i]), *self.rows[i][1]()) for i in index]

    # What takes the place of functions of the package.

    def maximise(self, maximise):
        """The optimiser, which notes the best point of every iteration."""

        def reporting(function, *args, callback=None, **kwargs):
            best, n = [None, -np.inf], len(function.objective.rows)
            self.n_rows = max(n, self.n_rows or 0)

            def watched(x):
                value, gradient = function(x)
                self.reads(n)
                if value > best[1]:
                    best[:] = np.array(x), value
                return value, gradient

            def report(iteration, value):
                self.steps += 1
                self.note(partial(_decoded, function, best[0]))
                told = callback is not None and callback(iteration, value)
                return bool(told) or self.is_over()

            return maximise(watched, *args, callback=report, **kwargs)

        return reporting

    def report(self, report):
        """`Search._report`, which stops when time is up."""

        def reporting(search, iteration, state):
            stopped = report(search, iteration, state)
            search.stopped |= self.is_over()
            return stopped or search.stopped

        return reporting

    def better(self, better):
        """`Search._better`, after a sample."""

        def noting(search, before, objective, kernel, sample):
            self.reads(len(sample))
            state = better(search, before, objective, kernel, sample)
            self.note(lambda: (state.kernel, state.objective.inducing_points))
            return state

        return noting

    def conclude(self, conclude):
        """`Search.conclude`."""

        def timing(search, state):
            self.is_stochastic, self.n_rows = True, self.reads(len(search.rows))
            begun = time.perf_counter()
            found = conclude(search, state)
            self.last_pass = time.perf_counter() - begun
            return found

        return timing


def _decoded(function, vector):
    objective, kernel = function.at(vector)
    return kernel, objective.inducing_points


def course_of_fit(model, X, y, limit=np.inf):
    """`Course` of a complete fit of one target or two classes, and its seconds.

    The clock starts before `fit`; the small exact fit counts, and its own iterations are no rows.
    """
    # ADAPT: to the names of the parts of a search, and to who calls `maximise`.
    from skgp_sparse.inference import stochastic

    course = Course(limit)
    search = stochastic.Search
    places = [(search, "report", course.report), (search, "better", course.better)]
    places += [(search, "conclude", course.conclude)]
    with contextlib.ExitStack() as stack:
        stack.enter_context(maximising(course.maximise))
        for owner, name, wrapped in places:
            stack.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, wrapped(getattr(owner, name)))
        course.start = time.perf_counter()
        model.fit(X, y)
        seconds = course.seconds()
    return course, seconds


def begins_with_all_rows(n, m):
    """Whether solver="stochastic" is L-BFGS on all rows."""
    from skgp_sparse.inference import stochastic

    stages = (stage for stage in stochastic.STAGES if stage.rows * m < n)
    return not any(stage.stand_for_all for stage in stages)


@contextlib.contextmanager
def samples_below(n, m):
    """Leave out the samples that would have all rows: what a fit without them finds."""
    from skgp_sparse.inference import stochastic

    stages = stochastic.STAGES
    stochastic.STAGES = tuple(one for one in stages if one.rows * m < n) or stages[:1]
    try:
        yield
    finally:
        stochastic.STAGES = stages


def one_scale_kernel(nu=1.5):
    """Constant times Matern with one length scale for all features, plus noise; all 1."""
    return ConstantKernel(1.0) * Matern(1.0, nu=nu) + WhiteKernel(1.0)


def gplvm(q, m, bound="auto", **options):
    """An unfitted model with latent inputs."""
    from skgp_sparse import BayesianGPLVM

    return BayesianGPLVM(q, bound=bound, n_inducing=m, **options)


@contextlib.contextmanager
def latent_starts():
    """A list to which each start of a fit in this context adds bound, iterations, CPU seconds."""
    # ADAPT: to who climbs from a start.
    from skgp_sparse import gplvm

    found, climb = [], gplvm._climb_from

    def traced(*given):
        begun = time.process_time()
        maximum, *fit = climb(*given)
        seconds = time.process_time() - begun
        found.append([float(maximum.value), maximum.n_iter, seconds])
        return maximum, *fit

    gplvm._climb_from = traced
    try:
        yield found
    finally:
        gplvm._climb_from = climb


def latent_start(Y, q, m):
    """Means, length scales and inducing points of the first start, for centred Y."""
    # ADAPT: to how starts are made.
    from skgp_sparse import inducing
    from skgp_sparse.inference.latent_queries import principal_components

    random_state = np.random.RandomState(0)
    mean, length_scale = principal_components(Y, q, random_state)
    Z = inducing.k_means(mean, m, ConstantKernel() * RBF(length_scale), random_state)
    return mean, length_scale, Z
