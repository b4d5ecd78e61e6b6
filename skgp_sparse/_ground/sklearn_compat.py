"""Functions that the package uses of scikit-learn, private or absent in some versions."""

from inspect import signature

from sklearn.utils.validation import _check_sample_weight

_ALLOW = "allow_all_zero_weights"  # a parameter of some versions, which refuse them otherwise
_ZEROS = {_ALLOW: True} if _ALLOW in signature(_check_sample_weight).parameters else {}

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn < 1.9

    class CallbackSupportMixin:
        """Stands in for scikit-learn's mixin, which came with 1.9."""

    def with_callbacks(method):
        """Leave the method as it is: there are no callbacks to manage."""
        return method


def check_sample_weight(sample_weight, X, all_rows=True):
    """Weights as float64 (n,), none of which is negative; None stays None.

    Those of all rows must not all be zero.
    """
    if sample_weight is None:
        return None
    options = {"dtype": float, "ensure_non_negative": True} | ({} if all_rows else _ZEROS)
    weight = _check_sample_weight(sample_weight, X, **options)
    if all_rows:
        check_any_weight(weight.any())
    return weight


def check_any_weight(found):
    """Raise unless there is a positive weight."""
    if not found:
        raise ValueError("sample_weight is zero for every row. Make at least one positive.")


def has_callbacks(estimator):
    """Whether scikit-learn's callbacks were set."""
    return bool(getattr(estimator, "_skl_callbacks", None))


class IterationReporter:
    """Tells scikit-learn's callbacks about a fit, its runs of the optimiser and their iterations.

    How many runs there will be is not known in advance: a poor optimum is tried again from other
    starts. Does nothing for an estimator without callbacks, whose problems may be fitted in several
    threads; with callbacks, all calls come from one thread.

    Parameters
    ----------
    estimator : estimator
    X, y : what the estimator is fitted on
    max_iter : int
        Most iterations of a run.
    """

    def __init__(self, estimator, X, y, max_iter):
        self.task = {"estimator": estimator, "X": X, "y": y}
        self.max_iter = max_iter
        self.context, self.run, self.iteration = None, None, 0
        if has_callbacks(estimator):
            self.context = estimator._init_callback_context(max_subtasks=None)
            self.context.call_on_fit_task_begin(**self.task)

    def report(self, iteration, about=""):
        """Iteration number `iteration` of a run is over; returns whether a callback asks to stop.

        A number that does not go on from the last one begins another run; `about` names it.
        """
        if self.context is None:
            return False
        if iteration <= self.iteration or self.run is None:
            self._end_run()
            name = f"optimize {about}" if about else "optimize"
            self.run = self._begin(self.context, name, self.max_iter + 1)
        self.iteration = iteration
        step = self._begin(self.run, "iteration", 0)
        return bool(step.call_on_fit_task_end(**self.task))

    def end(self):
        """The fit is over, and the estimator fitted."""
        if self.context is not None:
            self._end_run()
            self.context.call_on_fit_task_end(**self.task, reconstruction_attributes={})

    def _begin(self, parent, name, max_subtasks):
        context = parent.subcontext(task_name=name, max_subtasks=max_subtasks)
        context.call_on_fit_task_begin(**self.task)
        return context

    def _end_run(self):
        if self.run is not None:
            self.run.call_on_fit_task_end(**self.task)
