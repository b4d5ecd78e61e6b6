"""Random Fourier features: cosines and sines at frequencies drawn from a stationary kernel."""

from numbers import Integral

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from skgp_sparse import kernels
from skgp_sparse._engine.basis import FourierBasis
from skgp_sparse._ground.validation import as_text, check_number, is_auto, require
from skgp_sparse.inference.contracts import SparseFit
from skgp_sparse.inference.parameter_vectors import value_or_minus_inf
from skgp_sparse.posteriors._contract import PosteriorMethod, Request
from skgp_sparse.posteriors._job import Job, best_start, start_on_subset
from skgp_sparse.solvers import Fit

_ROWS_OF_NOISE = 5000  # rows that tell the noise ...
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
            job = start_on_subset(job, random_state)
        rows, settings = job.rows, job.settings._replace(move_basis=False)
        origin = rows.block(slice(1)).X[0]
        basis = FourierBasis.drawn(job.kernel, self.n_components // 2, origin, random_state)
        objective = job.model.in_basis(rows, basis, settings.options)
        kernel = job.kernel
        if settings.solver.starts_on_subset and not job.model.has_sites:
            some = rows.sampled(rows.sample(_ROWS_OF_NOISE, random_state))
            kernel = _with_more_noise(kernel, objective.on(some))
        _, kernel = best_start(objective, kernel, objective, job)
        return settings.solver.solve(objective, kernel, settings, random_state, job.model)

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
        asked = ("n_inducing", n_inducing), ("inducing_init", request.inducing_init)
        for name, value in asked:
            if not is_auto(value):
                return (
                    f"has no inducing points; the number of features is n_components of "
                    f"FourierFeatures. Got {name}={as_text(value)}"
                )
        return None


def _with_more_noise(kernel: Kernel, objective: SparseFit) -> Kernel:
    """The kernel with its noise multiplied by 4 for as long as the objective rises.

    The noise of an exact fit is too low for features, which cannot follow all that the kernel can:
    from there, a search ends where the objective is low.
    """
    best, louder = -np.inf, kernel
    while (value := value_or_minus_inf(objective, louder, False)) > best:
        best, kernel, theta = value, louder, louder.theta
        for positions in kernels.positions_of(kernel, "noise_level"):
            theta[positions] += np.log(_LOUDER)
        theta = np.clip(theta, *np.reshape(kernel.bounds, (-1, 2)).T)
        louder = kernel.clone_with_theta(theta)
    return kernel
