"""Posterior methods: predictions from inducing points, features, near rows or all rows.

Pass the name of a posterior method or an object as the parameter `posterior` of an estimator. An
object may have parameters, such as ``posterior=InducingPoints(n_mean=2000)``, which a search sets
as ``posterior__n_mean``. A method fits a job and returns a `Fit`, whose `Posterior`
predicts.
"""

from skgp_sparse.engine.posterior import NotAvailable, Posterior
from skgp_sparse.methods.contract import Candidate, PosteriorMethod, Selection
from skgp_sparse.methods.exact import Exact, IterativeExact
from skgp_sparse.methods.inducing_points import FourierFeatures, InducingPoints
from skgp_sparse.methods.neighbors import Neighbors
from skgp_sparse.solvers import Fit

__all__ = ["IterativeExact", "Candidate", "Exact", "Fit", "FourierFeatures", "InducingPoints"]
__all__ += ["Neighbors", "NotAvailable", "Posterior", "PosteriorMethod", "Selection"]
