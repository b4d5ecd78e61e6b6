"""Checks of user-defined bounds, kernel rules and likelihoods.

Each check takes one instance, calls its methods as the package does, and compares the results with
central differences, numerical integrals or scikit-learn. If all results are correct, the check
returns None. Otherwise it raises an AssertionError. The message names the object, the result that
was found, and the result that was expected.

The modules `_bounds`, `_kernels` and `_likelihoods` contain one check each. `_require` contains the
comparisons that all of them use.
"""

from skgp_sparse.testing._bounds import check_bound
from skgp_sparse.testing._kernels import check_kernel_rule
from skgp_sparse.testing._likelihoods import check_likelihood

__all__ = ["check_bound", "check_kernel_rule", "check_likelihood"]
