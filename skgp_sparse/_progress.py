"""Reports of a fit while it runs: printed lines, callbacks, and values to be drawn later."""

from time import monotonic
from typing import NamedTuple

import numpy as np


class Run(NamedTuple):
    """Record of one run of an optimiser, as in the attribute `convergence_` of estimators.

    Parameters
    ----------
    name : str
        Of the problem, where a fit has several.
    quantity : str
        What is maximised, or what tells how good the result is.
    seconds : ndarray of shape (k,)
        Since `fit` began, after each iteration.
    values : ndarray of shape (k,)
        Of the quantity, in nats. Bounds of samples and densities are those of all rows together,
        if these are like the sample.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse import SparseGPRegressor
    >>> X = np.linspace(0, 10, 50)[:, None]
    >>> model = SparseGPRegressor(n_inducing=10, random_state=0).fit(X, np.sin(X[:, 0]))
    >>> run = model.convergence_[-1]
    >>> run.quantity, len(run.values) == len(run.seconds)
    ('bound', True)
    """

    name: str
    quantity: str
    seconds: np.ndarray
    values: np.ndarray


class Progress:
    """Prints how an optimiser proceeds, tells scikit-learn's callbacks, and remembers it.

    Once a callback has asked to stop, every run of the optimiser that is still to come stops, too.

    Parameters
    ----------
    estimator : estimator
        Whose parameter `verbose` says how often something is printed.
    reporter : IterationReporter or None
        Of callbacks.
    """

    def __init__(self, estimator, reporter=None):
        self.name, self.verbose = type(estimator).__name__, int(estimator.verbose)
        self.reporter, self.asked_to_stop, self.start = reporter, False, monotonic()
        self._steps = {}  # by problem: (iteration, quantity, seconds, value)

    def __call__(self, iteration, value, about="", note="", quantity="bound"):
        """Tell of an iteration; return whether to stop.

        Parameters
        ----------
        iteration : int
        value : float or None
            Of the quantity; None: there is only a note.
        about : str
            Name of the problem, where a fit has several.
        note : str
            What is printed in the place of the value.
        quantity : str
        """
        if self.verbose and iteration % self.verbose == 0:
            where = f"{about}, iteration" if about else "iteration"
            print(f"[{self.name}] {where} {iteration}: {note or f'{quantity} {value:.6g}'}")
        if value is not None:
            step = iteration, quantity, monotonic() - self.start, float(value)
            self._steps.setdefault(about, []).append(step)
        if self.reporter is not None and self.reporter.report(iteration, about):
            self.asked_to_stop = True
        return self.asked_to_stop

    def tell_plans(self, plans):
        """Print each of the plans once."""
        for plan in dict.fromkeys(plans):
            self.tell(f"plan: {plan}")

    def tell(self, text):
        """Print a sentence, where something is printed."""
        if self.verbose:
            print(f"[{self.name}] {text}")

    def runs(self):
        """A `Run` for each run of the optimiser, problem by problem."""
        return [Run(about, *run) for about, steps in self._steps.items() for run in _runs_of(steps)]


def _runs_of(steps):
    """Quantity, seconds and values of each run: a number that does not go on begins another one."""
    iterations = np.array([step[0] for step in steps])
    first = np.flatnonzero(np.diff(iterations) <= 0) + 1
    for some in np.split(np.arange(len(steps)), first):
        _, quantities, seconds, values = zip(*(steps[k] for k in some))
        yield quantities[0], np.array(seconds), np.array(values)
