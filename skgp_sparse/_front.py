"""What all estimators do alike: fits that fail without a trace, progress, and lost rows."""

from contextlib import contextmanager


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


def rows_are_gone(estimator):
    """The error of an estimator that was loaded without its training rows."""
    return ValueError(
        f"This {type(estimator).__name__} was loaded from a pickle (or copied), which leaves the "
        "training rows out, so that its bound cannot be evaluated at another theta. Call fit "
        "again, or use log_marginal_likelihood_value_."
    )
