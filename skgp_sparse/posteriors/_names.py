"""Names of posteriors become objects, and variants of inducing points that their options ask for.

A variant has more points for the mean, or variances given the whole posterior, or rows whose inputs
are known up to their standard deviations. The true input of such a row is
``x_i ~ N(X_i, X_std_i²)``, and a normal ``q(x_i)`` is learned for each row under this prior,
together with hyperparameters and inducing points. To hold ``q`` at the prior would be worse than to
ignore `X_std`: what the targets say about inputs would count as noise.
"""

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone

from skgp_sparse import kernels
from skgp_sparse._engine.basis import InducingBasis
from skgp_sparse._engine.exact import tightened
from skgp_sparse._engine.feature_posterior import Normals, SparsePosterior
from skgp_sparse._engine.normal_inputs import MissingTargets
from skgp_sparse._ground.linalg import Jitter
from skgp_sparse._ground.validation import BOOLS, as_text, check_number, require
from skgp_sparse.inference.contracts import arithmetic
from skgp_sparse.inference.objectives import DecoupledObjective, LatentObjective
from skgp_sparse.posteriors._contract import Job, PosteriorMethod, WarmStart, start_on_subset
from skgp_sparse.posteriors._exact import Exact, IterativeExact
from skgp_sparse.posteriors._inducing_points import FourierFeatures, InducingPoints
from skgp_sparse.posteriors._neighbors import Neighbors
from skgp_sparse.solvers import LBFGS, Fit


class TightVariance(PosteriorMethod):
    """Method of `InducingPoints` with `tight_variance`: the posterior of a tighter bound."""

    name = "inducing"
    uses_bound = True
    remedy = "It needs one basis: set tight_variance to False."
    is_exact_for_few = True

    def fit(self, job, random_state):
        """The `Fit` at inducing points with smaller variances."""
        if not job.rows.in_memory:
            raise ValueError(
                "tight_variance=True needs all rows in memory. Pass arrays, not a source or rows "
                "on a cluster, or set posterior to 'inducing'."
            )
        fit = InducingPoints().fit(job, random_state)
        with arithmetic():
            rows, bound = fit.objective.rows.everything(), fit.objective.bound
            return fit._replace(posterior=tightened(fit.posterior, rows, bound))

    def refuses(self, request):
        """Likelihoods, and objectives that are no variational bound."""
        if request.has_sites:
            return (
                "needs likelihood='gaussian' for tight_variance. Got "
                f"likelihood={as_text(request.likelihood)}"
            )
        bound = request.resolved_bound
        if not bound.is_lower_bound or np.any(bound.noise_share):
            names = "'titsias', 'titsias_new' or 'artemev'"
            return f"needs the bound {names} for tight_variance. Got bound={as_text(request.bound)}"
        return None

    def refuses_later_rows(self):
        """Variances that need all rows."""
        return "tight_variance=True takes all rows at once"


_JITTER = Jitter(1e-6)


class UncertainInputs(PosteriorMethod):
    """Method of "inducing" and "auto" where `X_std` is given."""

    name = "inducing"
    uses_bound = True

    def fit(self, job, random_state):
        """The `Fit` from hyperparameters of few rows, whose inputs are taken as known."""
        job = start_on_subset(job, random_state)
        rows, options = job.rows, job.settings.options._replace(jitter=_JITTER)
        Z = job.points.initialise(rows, job.kernel, random_state)
        known = job.model.sparse(rows, Z, options)
        X = rows.everything().X
        objective = LatentObjective(
            rows=rows,
            bound=known.bound,
            basis=known.basis,
            prior=Normals(X, rows.X_std**2),
            shift=np.zeros_like(X),
            log_ratio=np.zeros_like(X),
            missing=MissingTargets.everything(rows.n_targets),
            options=options,
        )
        fit = LBFGS().solve(objective, job.kernel, job.settings, random_state, job.model)
        given = fit.posterior
        posterior = SparsePosterior(fit.kernel, given.features, given.u, given.TB[0])
        return fit._replace(posterior=posterior)

    def refuses(self, request):
        """Everything that needs inputs which are known, or moves no parameters of rows."""
        if request.has_sites:
            return f"likelihood='gaussian'. Got likelihood={as_text(request.likelihood)}"
        if np.any(request.resolved_bound.noise_share):
            bound = as_text(request.bound)
            return f"bound='titsias_new', 'titsias', 'artemev' or 'dtc'. Got bound={bound}"
        if request.metric not in ("auto", "ard"):
            return f"metric='ard'. Got metric={as_text(request.metric)}"
        if request.optimizer != "fmin_l_bfgs_b":
            return f"optimizer='fmin_l_bfgs_b'. Got optimizer={as_text(request.optimizer)}"
        if request.kernel is not None and not kernels.differentiable(request.kernel):
            return f"a kernel with a derivative rule. Got kernel={request.kernel}"
        return None


class LargerMean(PosteriorMethod):
    """Method of `InducingPoints` with `n_mean`: the mean has random rows as inducing points, too.

    Parameters
    ----------
    n_mean : int
    """

    name = "inducing"
    uses_bound = True
    remedy = "It needs one basis: set n_mean to None."
    is_exact_for_few = True

    def __init__(self, n_mean):
        self.n_mean = n_mean

    def fit(self, job, random_state):
        """The `Fit` at inducing points with another mean, if that has more of them."""
        fit = InducingPoints().fit(job, random_state)
        Z, rows = fit.objective.inducing_points, job.rows
        if self.n_mean <= len(Z):
            return fit
        more = rows.subset(rows.sample(self.n_mean - len(Z), random_state)).everything().X
        objective = DecoupledObjective(fit.objective, InducingBasis(np.vstack([Z, more])))
        with arithmetic():
            return fit._replace(**objective.conclude(fit.kernel)._asdict())

    def with_points(self, n_inducing):
        """`InducingPoints` where the mean would have no more points than the covariance."""
        return InducingPoints() if self.n_mean <= n_inducing else self

    def refuses(self, request):
        """Likelihoods, and bounds that count a residual as noise."""
        if request.has_sites:
            likelihood = as_text(request.likelihood)
            return f"needs likelihood='gaussian' for n_mean. Got likelihood={likelihood}"
        if np.any(request.resolved_bound.noise_share):
            names = "'titsias', 'titsias_new', 'artemev' or 'dtc'"
            return f"needs the bound {names} for n_mean. Got bound={as_text(request.bound)}"
        return None

    def refuses_later_rows(self):
        """A second basis, whose sums are not kept."""
        return f"n_mean={self.n_mean} has a second one, which takes all rows at once"


class Auto(PosteriorMethod):
    """The choice of a posterior, which is left to the plan."""

    name = "auto"
    uses_bound = takes_learned_noise = True
    is_exact_for_few = True

    def fit(self, job: Job, random_state: np.random.RandomState) -> Fit:
        """Raise NotImplementedError: the plan names another method."""
        raise NotImplementedError

    def refuses_later_rows(self) -> str | None:
        """None: rows that arrive later are learned with inducing points."""
        return None

    def resume(self, *given: Any, **known: Any) -> tuple[Fit, WarmStart]:
        """Fit and warm start that `InducingPoints.resume` returns."""
        return InducingPoints().resume(*given, **known)


BY_NAME = {
    "auto": Auto,
    "exact": Exact,
    "fourier": FourierFeatures,
    "inducing": InducingPoints,
    "neighbors": Neighbors,
    "rows": IterativeExact,
}


def resolve_posterior(posterior: PosteriorMethod | str, name: str) -> PosteriorMethod:
    """The method of a name or an instance; raises where its parameters cannot be used."""
    if isinstance(posterior, str) and posterior in BY_NAME:
        return BY_NAME[posterior]()
    must = f"one of {sorted(BY_NAME)} or an object (no class) such as posteriors.InducingPoints()"
    require(isinstance(posterior, PosteriorMethod), "posterior", posterior, name, must)
    found: PosteriorMethod = clone(posterior)
    found.check_parameters(name)
    return _of_options(found, name) if isinstance(found, InducingPoints) else found


def _of_options(points: InducingPoints, name: str) -> PosteriorMethod:
    """Inducing points, or what their options make of them."""
    n_mean, tight = points.n_mean, points.tight_variance
    require(isinstance(tight, BOOLS), "posterior__tight_variance", tight, name, "True or False")
    if n_mean is None:
        return TightVariance() if tight else points
    check_number(n_mean, "posterior__n_mean", name, Integral, low=1)
    if tight:
        raise ValueError(
            f"{name}: tight_variance=True needs one basis of inducing points, but n_mean={n_mean} "
            "is a second one for the mean. Set n_mean to None, or tight_variance to False."
        )
    return LargerMean(n_mean)
