"""Sparse Gaussian processes that feel like scikit-learn."""

from skgp_sparse.classification import SparseGPClassifier
from skgp_sparse.regression import SparseGPRegressor

__version__ = "0.1.0"

__all__ = ["SparseGPClassifier", "SparseGPRegressor", "__version__"]
