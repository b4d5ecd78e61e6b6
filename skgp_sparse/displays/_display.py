"""The axes, and what all displays share."""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = npt.NDArray[np.float64]
AnyArray = npt.NDArray[Any]


class Display:
    """Base class of all displays: axes, and errors about values that cannot be drawn.

    Attributes
    ----------
    ax_ : matplotlib Axes, or array of Axes
    figure_ : matplotlib Figure
    """

    def _axes(self, ax: "Axes | AnyArray | None", count: int = 1) -> AnyArray:
        """The axes to draw on, new ones if none are given."""
        import matplotlib.pyplot as plt

        if ax is None:
            width = 6.4 if count == 1 else 5.0 * count
            _, ax = plt.subplots(1, count, figsize=(width, 4.8), constrained_layout=True)
        axes: Any = np.atleast_1d(np.asarray(ax))
        if axes.shape != (count,):
            raise ValueError(
                f"{type(self).__name__} needs {count} axes. Got {len(axes)}. Pass as many, or none."
            )
        self.ax_, self.figure_ = ax, axes[0].figure
        return axes


def shorten_dates(*axes: Any) -> None:
    """Write dates of axes, if they have some, in short labels."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    for axis in axes:
        locator = axis.get_major_locator()
        if isinstance(locator, AutoDateLocator):
            axis.set_major_formatter(ConciseDateFormatter(locator, tz=locator.tz))
