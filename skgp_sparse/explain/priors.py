"""Predictions of an estimator before it is fitted: those of the prior."""

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skgp_sparse._engine.data.target_scaler import TargetScaler
from skgp_sparse._engine.predictions.prior import Prior
from skgp_sparse._ground.plain_text import as_text
from skgp_sparse.explain.views import ResponseView, TargetView
from skgp_sparse.parameters.choices import is_gaussian, resolve_likelihood
from skgp_sparse.parameters.parameter_checks import check_kernel
from skgp_sparse.rows.checks import check_one_column


def prior_view(parameters, name):
    """The prior process of a regressor, in units of y."""
    check_kernel(parameters.kernel, name)
    p = parameters.n_targets or 1
    kernel = ConstantKernel() * RBF() if parameters.kernel is None else parameters.kernel
    units = TargetScaler.none(p)
    if is_gaussian(parameters.likelihood):
        return TargetView(Prior(kernel, p), units)
    likelihood = resolve_likelihood(parameters.likelihood, name)
    check_one_column(np.empty((1, p)), f"likelihood={as_text(likelihood)}", name)
    return ResponseView(TargetView(Prior(kernel, 1)), likelihood, units)
