"""Inducing points, or random Fourier features, and hyperparameters maximise a bound together."""

from numbers import Integral

import numpy as np

from skgp_sparse import inducing, kernels
from skgp_sparse.engine.basis import FourierBasis, InducingBasis
from skgp_sparse.engine.posteriors_around import tightened
from skgp_sparse.exceptions import collected
from skgp_sparse.ground.validation import BOOLS, Kernel, as_text, check_number, is_auto, require
from skgp_sparse.inference import contracts
from skgp_sparse.inference.contracts import SparseFit, arithmetic
from skgp_sparse.inference.objectives import DecoupledObjective
from skgp_sparse.methods import small_fits
from skgp_sparse.methods.contract import Job, PosteriorMethod, Request
from skgp_sparse.solvers import Fit

_ROWS_OF_SIZE = 3000  # rows that tell how many points are enough
_FEWER, _ITERATIONS = 5, 20  # as many times fewer, and iterations of their fit to these rows
_NEGLIGIBLE = 0.02  # residual variance over that of the noise, from which more points gain little
_SIZES = 5  # numbers of points that are considered, the largest one included


class InducingPoints(PosteriorMethod):
    """The posterior is given inducing points.

    An evaluation of the bound takes O(n m²) time for n rows and m inducing points, and O(m²)
    memory. A prediction takes O(m) time per query, and O(m²) with its standard deviation.

    Parameters
    ----------
    n_mean : int, default=None
        The number of inducing points of the mean, those of the covariance included. The others
        are random rows, which are added when hyperparameters and inducing points are learned. With
        more of them, the mean comes closer to that of the exact process, for O(n n_mean²) time, and
        the model stays smaller than all rows. None means those of the covariance only. It is
        available for Gaussian noise and the bounds "titsias", "titsias_new", "artemev" and "dtc".
    tight_variance : bool, default=False
        Whether variances are those of the whole posterior whose bound was maximised (Titsias 2025,
        eq. 17). They are smaller, and the means are the same. A fit takes O(n³) time and O(n²)
        memory more, and a prediction O(n²) time per query. The model keeps all rows and n² numbers.
        It is available for Gaussian noise, the bounds "titsias_new" and "artemev" ("titsias", too,
        whose variances stay as they are), and rows in memory. `n_mean` must be None.

    References
    ----------
    Titsias (2025). "New bounds for sparse variational Gaussian processes." ICML.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse import SparseGPRegressor
    >>> from skgp_sparse.posteriors import InducingPoints
    >>> rng = np.random.RandomState(0)
    >>> X = rng.uniform(-3, 3, size=(500, 1))
    >>> y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=500)
    >>> posterior = InducingPoints(n_mean=50)
    >>> model = SparseGPRegressor(posterior=posterior, n_inducing=20, random_state=0).fit(X, y)
    >>> model.posterior_, model.n_inducing_
    ('inducing', 20)

    Smaller standard deviations between the inducing points:

    >>> tight = model.set_params(posterior=InducingPoints(tight_variance=True), n_inducing=8)
    >>> plain = SparseGPRegressor(posterior="inducing", n_inducing=8, random_state=0).fit(X, y)
    >>> at = [[0.5], [1.5]]
    >>> tight.fit(X, y).predict(at, return_std=True)[1] < plain.predict(at, return_std=True)[1]
    array([ True,  True])
    """

    name = "inducing"
    uses_bound = is_exact_for_few = True

    def __init__(self, n_mean: int | None = None, tight_variance: bool = False) -> None:
        self.n_mean = n_mean
        self.tight_variance = tight_variance

    @property
    def has_options(self) -> bool:
        """Whether the posterior is another one than that of one basis."""
        return self.tight_variance or self.n_mean is not None

    @property
    def takes_learned_noise(self) -> bool:  # type: ignore[override]
        """Whether one basis gives mean and variance."""
        return not self.has_options

    @property
    def remedy(self) -> str:  # type: ignore[override]
        """Option to leave out, so that one basis gives both."""
        option = "tight_variance to False" if self.tight_variance else "n_mean to None"
        return f"It needs one basis: set {option}."

    def fit(self, job: Job, random_state: np.random.RandomState) -> Fit:
        """The `Fit` at inducing points."""
        if self.tight_variance and not job.rows.in_memory:
            raise ValueError(
                "tight_variance=True needs all rows in memory. Pass arrays, not a source or rows "
                "on a cluster, or set posterior to 'inducing'."
            )
        if job.settings.solver.starts_on_subset:
            job = with_enough_points(small_fits.on_subset(job, random_state), random_state)
        fit, rows = self.go_on(job, self.objective(job, random_state), random_state), job.rows
        objective, Z = fit.objective, fit.objective.inducing_points
        with arithmetic():
            if self.tight_variance:
                posterior = tightened(fit.posterior, objective.rows.everything(), objective.bound)  # type: ignore[arg-type]
                return fit._replace(posterior=posterior)
            if self.n_mean is None or self.n_mean <= len(Z):
                return fit
            more = rows.subset(rows.sample(self.n_mean - len(Z), random_state)).everything().X
            objective = DecoupledObjective(objective, InducingBasis(np.vstack([Z, more])))
            return fit._replace(**objective.conclude(fit.kernel)._asdict())

    def objective(self, job: Job, random_state: np.random.RandomState) -> SparseFit:
        """The objective where the initialiser puts the inducing points."""
        Z = job.points.initialise(job.rows, job.kernel, random_state)
        return job.objectives.sparse(job.rows, Z, job.settings.options)

    def go_on(self, job: Job, objective: SparseFit, random_state: np.random.RandomState) -> Fit:
        """The `Fit` from this objective or, if that is higher, from a warm start."""
        kernel, warm, settings = job.kernel, objective, job.settings
        if settings.solver.starts_on_subset:  # and has begun
            noise, residual = objective.noise_and_residual(kernel)
            if residual:  # points leave it unexplained, which noise has to cover
                kernel = contracts.with_more_noise(kernel, np.log1p(residual / noise))
            Z = () if job.before is None or job.points.are_given else job.before[1]
            if np.shape(Z) == (job.points.size, job.rows.n_features):
                warm = objective.at(basis=Z)
        objective, kernel = small_fits.best_start(objective, kernel, warm, job)
        start = contracts.Start(objective, kernel, settings, random_state, job.objectives)
        return settings.solver.solve(start)

    def with_points(self, n_inducing: int) -> PosteriorMethod:
        """The method without `n_mean` where the mean would have no more points."""
        return InducingPoints() if self.n_mean is not None and self.n_mean <= n_inducing else self

    def check_parameters(self, name: str) -> None:
        """Raise unless there is at most one option, which can be used."""
        tight = self.tight_variance
        require(isinstance(tight, BOOLS), "posterior__tight_variance", tight, name, "True or False")
        if self.n_mean is None:
            return
        check_number(self.n_mean, "posterior__n_mean", name, Integral, low=1)
        if tight:
            raise ValueError(
                f"{name}: tight_variance=True needs one basis of inducing points, but n_mean="
                f"{self.n_mean} is a second one for the mean. Set n_mean to None, or "
                "tight_variance to False."
            )

    def refuses(self, request: Request) -> str | None:
        """With an option, likelihoods and bounds of another kind."""
        if not self.has_options:
            return None
        option = "tight_variance" if self.tight_variance else "n_mean"
        if request.has_sites:
            likelihood = as_text(request.likelihood)
            return f"needs likelihood='gaussian' for {option}. Got likelihood={likelihood}"
        bound = request.resolved_bound
        counts_residuals = np.any(bound.noise_share)  # as noise
        if counts_residuals or self.tight_variance and not bound.is_lower_bound:
            or_dtc = "" if self.tight_variance else " or 'dtc'"
            names = f"'titsias', 'titsias_new', 'artemev'{or_dtc}"
            return f"needs the bound {names} for {option}. Got bound={as_text(request.bound)}"
        return None

    def refuses_later_rows(self) -> str | None:
        """None where there is one basis, whose sums over rows are kept."""
        if self.tight_variance:
            return "tight_variance=True takes all rows at once"
        if self.n_mean is not None:
            return f"n_mean={self.n_mean} has a second one, which takes all rows at once"
        return None


def with_enough_points(job: Job, random_state: np.random.RandomState) -> Job:
    """The job with as few points as its noise allows, where nobody asked for a number.

    The residual variance over that of the noise bounds what more points gain (Burt, Rasmussen
    and van der Wilk 2020), at hyperparameters of few points and rows.
    """
    points = job.points
    if not points.is_auto or points.are_given or job.objectives.has_sites:
        return job
    rows = job.rows.sampled(job.rows.sample(_ROWS_OF_SIZE, random_state))
    few = job._replace(rows=rows, points=points.of_size(-(-points.size // _FEWER)))
    n_iter, solver = min(_ITERATIONS, job.settings.max_iter), job.settings.solver
    few = few.with_settings(max_iter=n_iter, solver=small_fits.of_few_rows(solver), progress=None)
    posterior = InducingPoints()
    with collected():  # it need not converge
        kernel = posterior.go_on(few, posterior.objective(few, random_state), random_state).kernel
    some, most = rows.everything(), points.size
    noise = float(np.mean(kernels.diagonal(kernel, some.X)[1]) + np.mean(some.noise))
    enough = inducing.n_points_within(some.X, _NEGLIGIBLE * noise, most, kernel, random_state)
    sizes = (most * k // _SIZES for k in range(1, _SIZES + 1))
    size = next(size for size in sizes if size >= enough)
    return job._replace(kernel=kernel, points=points.of_size(size))


_ROWS_OF_FEATURE_NOISE = 5000  # rows that tell the noise ...
_LOUDER = 4.0  # ... which grows by this factor
_KERNELS = (
    "RBF, Matern, RationalQuadratic and ConstantKernel, their sums, products and powers up to 4, "
    "on chosen Columns, too, and WhiteKernel"
)


class FourierFeatures(PosteriorMethod):
    r"""The posterior is that of a linear model of random Fourier features.

    The process is :math:`f(x) = \sum_i a_i \cos \omega_i^\top x + b_i \sin \omega_i^\top x` with
    independent normal weights and frequencies :math:`\omega_i` from the spectral density of the
    kernel [1]_. Its covariance is the mean of :math:`\cos \omega_i^\top (x - z)` over the
    frequencies, which comes closer to the kernel with more of them. They are quantiles of a
    scrambled Sobol sequence, which fills the space evenly [2]_, and move with the length scales of
    the kernel. Everything else is exact: all Gaussian objectives coincide, and with a likelihood
    `bound` says how sites are found.

    An evaluation takes O(n m²) time and O(m²) memory for n rows and m features. A prediction takes
    O(m) time per query, and O(m²) with its standard deviation.

    Parameters
    ----------
    n_components : int, default=500
        The number of features m, an even number: a cosine and a sine for each of m / 2 frequencies.
        The terms of a sum of kernels share them evenly.

    References
    ----------
    .. [1] Rahimi and Recht (2007). "Random features for large-scale kernel machines." NIPS.
    .. [2] Yang, Sindhwani, Avron and Mahoney (2014). "Quasi-Monte Carlo feature maps for
       shift-invariant kernels." ICML.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse import SparseGPRegressor
    >>> from skgp_sparse.posteriors import FourierFeatures
    >>> rng = np.random.RandomState(0)
    >>> X = rng.uniform(-3, 3, size=(500, 1))
    >>> y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=500)
    >>> model = SparseGPRegressor(posterior=FourierFeatures(n_components=40), random_state=0)
    >>> model.fit(X, y).posterior_, round(model.score(X, y), 2)
    ('fourier', 0.98)
    """

    name = "fourier"
    uses_bound = True
    takes_missing = False

    def __init__(self, n_components: int = 500) -> None:
        self.n_components = n_components

    @property
    def width(self) -> int:  # type: ignore[override]
        """The number of features of a row."""
        return self.n_components

    def fit(self, job: Job, random_state: np.random.RandomState) -> Fit:
        """The `Fit` with these features, however few rows there are."""
        if not kernels.spectrum(job.kernel):
            raise ValueError(
                f"posterior='fourier' draws frequencies of {_KERNELS} only. The kernel of this fit "
                f"is {job.kernel}: categories and a linear mean add parts that have none. Choose "
                "another posterior, or set mean to None."
            )
        if job.settings.solver.starts_on_subset:
            job = small_fits.on_subset(job, random_state)
        rows, settings = job.rows, job.settings._replace(move_basis=False)
        origin = rows.block(slice(1)).X[0]
        basis = FourierBasis.drawn(job.kernel, self.n_components // 2, origin, random_state)
        objective = job.objectives.in_basis(rows, basis, settings.options)
        kernel = job.kernel
        if settings.solver.starts_on_subset and not job.objectives.has_sites:
            some = rows.sampled(rows.sample(_ROWS_OF_FEATURE_NOISE, random_state))
            kernel = _with_noise_raised(kernel, objective.on(some))
        _, kernel = small_fits.best_start(objective, kernel, objective, job)
        start = contracts.Start(objective, kernel, settings, random_state, job.objectives)
        return settings.solver.solve(start)

    def check_parameters(self, name: str) -> None:
        """Raise unless the number of features is even."""
        m = self.n_components
        check_number(m, "posterior__n_components", name, Integral, low=2)
        require(m % 2 == 0, "posterior__n_components", m, name, "an even number")

    def refuses(self, request: Request) -> str | None:
        """Kernels whose spectral measure is not known, and parameters of inducing points."""
        if request.kernel is not None and not kernels.spectrum(request.kernel):
            return f"draws frequencies of {_KERNELS} only. Got kernel={request.kernel}"
        n_inducing = "auto" if request.n_inducing is None else request.n_inducing
        for name, value in ("n_inducing", n_inducing), ("inducing_init", request.inducing_init):
            if not is_auto(value):
                return (
                    f"has no inducing points; the number of features is n_components of "
                    f"FourierFeatures. Got {name}={as_text(value)}"
                )
        return None


def _with_noise_raised(kernel: Kernel, objective: SparseFit) -> Kernel:
    """The kernel with its noise, too low after an exact fit, times 4 while the objective rises."""
    best, louder = -np.inf, kernel
    while (value := contracts.value_or_minus_inf(objective, louder)) > best:
        best, kernel = value, louder
        louder = contracts.with_more_noise(kernel, np.log(_LOUDER))
    return kernel
