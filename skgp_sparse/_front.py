"""What all estimators do alike: failing without a trace, progress, close bounds, lost rows."""

from contextlib import contextmanager

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skgp_sparse._sklearn_compat import has_callbacks
from skgp_sparse._warnings import warn


@contextmanager
def unchanged_on_failure(estimator):
    """Whatever interrupts a fit, the estimator is as it was before."""
    before = vars(estimator).copy()
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise


class NamedPartsMixin:
    """Estimator whose parameters may be names of objects, such as ``bound="pep"``."""

    def set_params(self, **params):
        """Set parameters, those of nested objects as ``bound__alpha``.

        Parameters
        ----------
        **params : dict
            Values by name.

        Returns
        -------
        self : estimator
            This estimator.

        Raises
        ------
        ValueError
            If there is no such parameter, or the object that should have it is a string or None.
        """
        for key in params:
            owner, _, part = key.partition("__")
            value = params.get(owner, getattr(self, owner, None))
            if part and (value is None or isinstance(value, str)) and hasattr(self, owner):
                raise ValueError(
                    f"{key!r} of {type(self).__name__} cannot be set: {owner} is {value!r} and "
                    f"has no parameters. Set {owner} to an object with a parameter {part!r} first, "
                    "if there is one (bounds are in skgp_sparse.bounds, likelihoods in "
                    "skgp_sparse.likelihoods, kernels in sklearn.gaussian_process.kernels)."
                )
        return super().set_params(**params)


def progress_of(estimator, reporter):
    """``(iteration, value, about="") -> stop?``: prints as `verbose` says and tells the callbacks.

    `about` names the problem, where a fit has several. Once a callback has asked to stop, every run
    of the optimiser that is still to come stops, too.
    """
    asked_to_stop = []

    def progress(iteration, value, about=""):
        if estimator.verbose and iteration % int(estimator.verbose) == 0:
            where = f"{about}, iteration" if about else "iteration"
            print(f"[{type(estimator).__name__}] {where} {iteration}: bound {value:.6g}")
        if reporter.report(iteration, about):
            asked_to_stop.append(iteration)
        return bool(asked_to_stop)

    return progress


def is_watched(estimator):
    """Whether somebody wants to know how a fit goes on."""
    return bool(estimator.verbose) or has_callbacks(estimator)


def warn_at_bounds(kernel):
    """Warn, in the words of scikit-learn, of every hyperparameter close to a bound."""
    free = [hyper for hyper in kernel.hyperparameters if not hyper.fixed]
    names = [(hyper, dim) for hyper in free for dim in range(hyper.n_elements)]
    close = np.isclose(kernel.bounds, kernel.theta[:, None])
    for (hyper, dim), (at_lower, at_upper) in zip(names, close):
        if at_lower or at_upper:
            _warn_at_bound(hyper, dim, "lower" if at_lower else "upper")


def _warn_at_bound(hyper, dim, side):
    bound, remedy = hyper.bounds[dim], "Decreasing"
    if side == "upper":
        bound, remedy = bound[::-1], "Increasing"
    warn(
        f"The optimal value found for dimension {dim} of parameter {hyper.name} is close to the "
        f"specified {side} bound {bound[0]}. {remedy} the bound and calling fit again may find a "
        "better value.",
        ConvergenceWarning,
    )


def rows_are_gone(estimator):
    """The error of an estimator that was loaded without its training rows."""
    return ValueError(
        f"This {type(estimator).__name__} was loaded from a pickle (or copied), which leaves the "
        "training rows out, so that its bound cannot be evaluated at another theta. Call fit "
        "again, or use log_marginal_likelihood_value_."
    )
