"""Checks of user-defined bounds, kernel rules, likelihoods, posterior methods and sources.

Each check takes one instance, calls its methods as the package does, and compares the results with
central differences, numerical integrals or scikit-learn. If all results are correct, the check
returns None or, of a posterior method, what it refuses. Otherwise it raises an AssertionError. The
message names the object, the result that was found, and the result that was expected.

The checks are in ``_checkers.py``, with the comparisons that all of them use.
"""

from skgp_sparse.testing._checkers import (
    check_bound,
    check_kernel_rule,
    check_likelihood,
    check_posterior,
    check_source,
)

__all__ = ["check_bound", "check_kernel_rule", "check_likelihood", "check_posterior"]
__all__ += ["check_source"]
