"""When a fit should end: asked between iterations, and before anything that may be left out."""

from itertools import takewhile
from time import monotonic


class Deadline:
    """A moment, from so many seconds after now on.

    Parameters
    ----------
    seconds : float, default=inf
    tell : callable or None
        Called once, when somebody first hears that the moment has come.
    """

    def __init__(self, seconds=float("inf"), tell=None):
        self.start, self.tell = monotonic(), tell
        self.moment = self.start + seconds

    def is_over(self):
        """Whether the moment has come, so that what may be left out is left out."""
        over = monotonic() >= self.moment
        if over and self.tell is not None:
            self.tell()
            self.tell = None
        return over

    def left(self):
        """Seconds."""
        return max(self.moment - monotonic(), 0.0)

    def allows(self, share):
        """Whether something may begin that takes a share of the time that has gone so far."""
        now = monotonic()
        return now + share * (now - self.start) <= self.moment

    def share(self, count):
        """The deadline of one of several things that are still to be done in turn."""
        return Deadline(self.left() / count, self.tell)

    def until(self, items):
        """Items, one after the other, as long as there is time."""
        return takewhile(lambda _: not self.is_over(), items)
