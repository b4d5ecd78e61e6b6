"""What the package uses of scikit-learn that is private or absent in some supported versions."""

from sklearn.utils.validation import _check_sample_weight

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn < 1.9

    class CallbackSupportMixin:
        """Stands in for scikit-learn's mixin, which came with 1.9."""

    def with_callbacks(method):
        """Leave the method as it is: there are no callbacks to manage."""
        return method


def check_sample_weight(sample_weight, X):
    """Weights as float64 (n,): non-negative and not all zero; None stays None."""
    if sample_weight is None:
        return None
    weight = _check_sample_weight(sample_weight, X, dtype=float, ensure_non_negative=True)
    if not weight.any():
        raise ValueError(
            "sample_weight is zero for every row: at least one weight must be positive."
        )
    return weight


class IterationReporter:
    """Tells scikit-learn's callbacks about a fit and its iterations.

    Does nothing where the installed version has no callbacks.

    Parameters
    ----------
    estimator : estimator
    X, y : what the estimator is fitted on
    max_iter : int
    """

    def __init__(self, estimator, X, y, max_iter):
        self.task = {"estimator": estimator, "X": X, "y": y}
        self.context = None
        if hasattr(estimator, "_init_callback_context"):
            self.context = estimator._init_callback_context(max_subtasks=max_iter)
            self.context.call_on_fit_task_begin(**self.task)

    def iteration(self):
        """One iteration is over; returns whether a callback asks to stop."""
        if self.context is None:
            return False
        step = self.context.subcontext(task_name="lbfgs-iter")
        step.call_on_fit_task_begin(**self.task)
        return bool(step.call_on_fit_task_end(**self.task))

    def end(self):
        """The fit is over."""
        if self.context is not None:
            self.context.call_on_fit_task_end(**self.task, reconstruction_attributes={})
