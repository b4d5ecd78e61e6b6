"""What all estimators do alike: names of parts, fitted attributes, progress, close bounds."""

from contextlib import contextmanager

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import CompoundKernel
from sklearn.utils.validation import check_is_fitted

from skgp_sparse._front import checks
from skgp_sparse._front.sklearn_compat import CallbackSupportMixin, has_callbacks
from skgp_sparse._front.targets import TargetView
from skgp_sparse._ground.parallel import single_threaded_blas
from skgp_sparse._ground.warnings import warn
from skgp_sparse.inference.parameters import value_or_minus_inf

_KEPT = (
    "kernel",
    "bound",
    "likelihood",
    "alpha",
    "normalize_y",
    "multi_class",
)  # parameters on which sums and sites of earlier rows depend


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
                    f"{key!r} of {type(self).__name__} cannot be set, because {owner} is {value!r} "
                    f"and has no parameters. First set {owner} to an object that has a parameter "
                    f"{part!r}. Bounds are in skgp_sparse.bounds, likelihoods are in "
                    "skgp_sparse.likelihoods, and kernels are in sklearn.gaussian_process.kernels."
                )
        return super().set_params(**params)


class SparseGP(NamedPartsMixin, CallbackSupportMixin, BaseEstimator):
    """One or several fitted processes; several where classes become binary problems."""

    def log_marginal_likelihood(self, theta=None, eval_gradient=False, clone_kernel=True):
        """Evaluate the bound on the log marginal likelihood at the fitted inducing points.

        A classifier with more than two classes has several binary problems, unless it is a softmax.
        In this case, the value is the mean over these problems.

        Parameters
        ----------
        theta : array-like of shape (n_kernel_params,), default=None
            Log hyperparameters at which the bound is evaluated. With several binary problems,
            theta holds either the hyperparameters of one kernel, which all problems share, or those
            of all kernels, as ``kernel_.theta`` does. If None, the bound at the fitted
            hyperparameters is returned.
        eval_gradient : bool, default=False
            If True, the gradient of the bound with respect to theta is returned additionally.
        clone_kernel : bool, default=True
            If True, `kernel_` is not changed. If False, its theta is set to `theta`.

        Returns
        -------
        value : float
            Value of the bound. It is -inf if a kernel matrix at theta cannot be factorised or if
            a number overflows.
        gradient : ndarray of shape (n_kernel_params,), if `eval_gradient`
            Gradient of the bound with respect to theta. It is zero for a problem whose value is
            -inf.

        Raises
        ------
        ValueError
            If `eval_gradient` is True and theta is None, if theta has a wrong length, or if the
            estimator does not contain the training rows, because it was fitted on a cluster or
            loaded from a pickle.
        """
        check_is_fitted(self, "kernel_")
        if theta is None:
            if eval_gradient:
                raise ValueError("Gradient can only be evaluated for theta!=None")
            return self.log_marginal_likelihood_value_
        if self._fits[0].objective is None:
            raise _rows_are_gone(self)
        fitted = [fit.kernel for fit in self._fits]
        theta, shared = checks.check_thetas(theta, fitted)
        with np.errstate(all="ignore"):
            kernels = [kernel.clone_with_theta(part) for kernel, part in zip(fitted, theta)]
            if not clone_kernel:
                for kernel, part in zip(getattr(self.kernel_, "kernels", [self.kernel_]), theta):
                    kernel.theta = part
            return self._mean_value(kernels, eval_gradient, shared)

    def __sklearn_is_fitted__(self):
        return hasattr(self, "kernel_")

    def __getstate__(self):
        state = super().__getstate__().copy()
        if "_fits" in state:  # an objective holds the training rows
            state["_fits"] = [fit._replace(objective=None) for fit in state["_fits"]]
        return state

    def _mean_value(self, kernels, eval_gradient, shared):
        """Mean bound of the problems at their kernels, and its gradient if asked for.

        The gradient is wrt one theta that is `shared` by all, or wrt all of theirs, in their order.
        """
        with single_threaded_blas():
            found = [
                value_or_minus_inf(fit.objective, kernel, eval_gradient)
                for fit, kernel in zip(self._fits, kernels)
            ]
        if not eval_gradient:
            return np.mean(found)
        values, gradients = zip(*found)
        total = np.sum(gradients, axis=0) if shared else np.concatenate(gradients)
        return np.mean(values), total / len(found)

    def _store(self, fits):
        """Set the fitted attributes; of several problems they are lists, means and maxima."""
        for of_a_stream in ("_stream", "n_samples_seen_"):  # that is over; `partial_fit` sets them
            vars(self).pop(of_a_stream, None)
        kernels = [clone(fit.kernel) for fit in fits]  # clone_kernel=False changes them
        Z = [fit.objective.inducing_points for fit in fits]
        sizes, one = [len(points) for points in Z], len(fits) == 1
        self.kernel_ = kernels[0] if one else CompoundKernel(kernels)
        self.inducing_points_ = Z[0] if one else Z
        self.n_inducing_ = sizes[0] if one else sizes
        self.log_marginal_likelihood_value_ = float(np.mean([fit.value for fit in fits]))
        self.n_iter_ = max(fit.n_iter for fit in fits)
        self.jitter_ = max(fit.jitter for fit in fits)
        self._fits = fits
        self._fitted_with = kept_parameters(self)

    def _view(self, problem=0):
        """A fitted process in its own units."""
        posterior = self._fits[problem].posterior
        return TargetView(posterior, posterior.width, np.zeros(1), np.ones(1), True, self.n_jobs)


def kept_parameters(estimator):
    """Parameters that may not change before `partial_fit` goes on, as text."""
    given = estimator.get_params(deep=False)
    return {name: repr(given[name]) for name in _KEPT if name in given}


def progress_of(estimator, reporter):
    """``(iteration, value, about="", note="") -> stop?``, which prints and tells the callbacks.

    `about` names the problem, where a fit has several; `note` is printed in the place of the value.
    Once a callback has asked to stop, every run
    of the optimiser that is still to come stops, too.
    """
    asked_to_stop = []

    def progress(iteration, value, about="", note=""):
        if estimator.verbose and iteration % int(estimator.verbose) == 0:
            where = f"{about}, iteration" if about else "iteration"
            what = note or f"bound {value:.6g}"
            print(f"[{type(estimator).__name__}] {where} {iteration}: {what}")
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


def _rows_are_gone(estimator):
    """The error of an estimator that was loaded without its training rows."""
    return ValueError(
        f"This {type(estimator).__name__} was fitted on a cluster, or loaded from a pickle (or "
        "copied). It does not contain the training rows, so that its bound cannot be evaluated at "
        "another theta. Call fit again, or use log_marginal_likelihood_value_."
    )
