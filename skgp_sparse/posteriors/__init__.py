"""Posterior methods, which say what a posterior is given: inducing points, or all rows.

Pass the name of a posterior method or an object as the parameter `posterior` of an estimator. An
object may have parameters, such as ``posterior=InducingPoints(n_mean=2000)``, which a search sets
as ``posterior__n_mean``. A method fits a job and returns a `Fit`, whose `Posterior`
predicts:

- `_contract`: what every posterior method does, and what is logged of those that are tried; what is
  fitted, how every fit begins, exact fits to more and more rows, and rows that arrive later
- `_scales`: where the length scales of the default kernel begin; columns on a scale of logarithms
- `_exact`: all rows, exactly or by a solve
- `_inducing_points`: inducing points, and random features
- `_neighbors`: the rows that are nearest to a query, also where rows have a likelihood; a metric
  that neighbours learn, for another posterior
- `_neighbor_search`: the search for its hyperparameters, metric and smoothness
- `_validation_set`: held-out rows, which compare models; a factor of variances
- `_model_selection`: which posterior predicts these rows best
- `_names`: names become posterior methods, and options of inducing points become variants of them:
  a larger mean, smaller variances, inputs that are known up to their standard deviations
"""

from skgp_sparse._engine.posterior import NotAvailable, Posterior
from skgp_sparse.posteriors._contract import Candidate, PosteriorMethod, Selection
from skgp_sparse.posteriors._exact import Exact, IterativeExact
from skgp_sparse.posteriors._inducing_points import FourierFeatures, InducingPoints
from skgp_sparse.posteriors._neighbors import Neighbors
from skgp_sparse.solvers import Fit

__all__ = ["IterativeExact", "Candidate", "Exact", "Fit", "FourierFeatures", "InducingPoints"]
__all__ += ["Neighbors", "NotAvailable", "Posterior", "PosteriorMethod", "Selection"]
