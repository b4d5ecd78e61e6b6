r"""Inducing points for rows whose inputs are known up to their standard deviations.

The true input of a row is ``x_i ~ N(X_i, X_std_i²)``, and a normal ``q(x_i)`` is learned for each
row under this prior, together with hyperparameters and inducing points. To hold ``q`` at the prior
would be worse than to ignore `X_std`: what the targets say about inputs would count as noise.
"""

import numpy as np

from skgp_sparse import kernels
from skgp_sparse._engine.predictions.feature_posterior import SparsePosterior
from skgp_sparse._engine.predictions.normal_predictions import Normals
from skgp_sparse._engine.sparse.normal_inputs import MissingTargets
from skgp_sparse._ground.linalg import Jitter
from skgp_sparse._ground.plain_text import as_text
from skgp_sparse.inference.latent_objective import LatentObjective
from skgp_sparse.posteriors._contract import PosteriorMethod
from skgp_sparse.posteriors._job import start_on_subset
from skgp_sparse.solvers import LBFGS

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
