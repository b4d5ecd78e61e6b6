"""Sparse Gaussian processes that feel like scikit-learn."""

from skgp_sparse._version import __version__
from skgp_sparse.classification import SparseGPClassifier
from skgp_sparse.gplvm import BayesianGPLVM
from skgp_sparse.regression import SparseGPRegressor

__all__ = ["BayesianGPLVM", "SparseGPClassifier", "SparseGPRegressor", "__version__"]
