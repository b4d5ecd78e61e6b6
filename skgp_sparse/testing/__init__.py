"""Checkers of bounds, kernel rules and likelihoods that others write for this package.

Each takes one instance, calls it as the package would, and compares what it returns with central
differences, dense sums or scikit-learn. It returns None if all is well. Otherwise it raises an
AssertionError whose sentence names the object, what was found, and what was expected.

Files: `_bounds`, `_kernels` and `_likelihoods` have one checker each, and `_require` the sentences
that all of them use.
"""

from skgp_sparse.testing._bounds import check_bound
from skgp_sparse.testing._kernels import check_kernel_rule
from skgp_sparse.testing._likelihoods import check_likelihood

__all__ = ["check_bound", "check_kernel_rule", "check_likelihood"]
