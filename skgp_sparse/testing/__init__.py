"""Checks of user-defined bounds, kernel rules, likelihoods, posterior methods and sources.

Each check takes one instance, calls its methods as the package does, and compares the results with
something independent: derivatives with differences, rules with the scikit-learn kernel itself,
lower bounds with the exact value on small problems, and likelihoods with numerical integrals and
samples. Posterior methods and sources are used as an estimator uses them. If all results are
correct, the check returns None or, of a posterior method, what it refuses. Otherwise it raises an
AssertionError. The message names the object, the result that was found, and the result that was
expected.

- `_comparisons`: what all checks use
- `_kernels`: `check_kernel_rule`
- `_bounds`: `check_bound`
- `_likelihoods`: `check_likelihood`
- `_posteriors`: `check_posterior`
- `_sources`: `check_source`
"""

from ._bounds import check_bound
from ._kernels import check_kernel_rule
from ._likelihoods import check_likelihood
from ._posteriors import check_posterior
from ._sources import check_source

__all__ = ["check_bound", "check_kernel_rule", "check_likelihood", "check_posterior"]
__all__ += ["check_source"]
