"""Reports of a fit while it runs: printed lines and callbacks."""


class Progress:
    """Prints how an optimiser proceeds, and tells scikit-learn's callbacks.

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
        self.reporter, self.asked_to_stop = reporter, False

    def __call__(self, iteration, value=None, about="", note="", quantity="bound"):
        """Tell of an iteration; return whether to stop.

        Parameters
        ----------
        iteration : int
        value : float, default=None
            Of the quantity. It is needed without a note.
        about : str
            Name of the problem, where a fit has several.
        note : str
            What is printed in the place of the value.
        quantity : str
        """
        if self.verbose and iteration % self.verbose == 0:
            where = f"{about}, iteration" if about else "iteration"
            print(f"[{self.name}] {where} {iteration}: {note or f'{quantity} {value:.6g}'}")
        if self.reporter is not None and self.reporter.report(iteration, about):
            self.asked_to_stop = True
        return self.asked_to_stop

    def tell(self, text):
        """Print a sentence, where something is printed."""
        if self.verbose:
            print(f"[{self.name}] {text}")
