"""The axes, and what all displays share."""

import numpy as np


class Display:
    """What all displays share: axes, and errors of what cannot be drawn.

    Attributes
    ----------
    ax_ : matplotlib Axes, or array of Axes
    figure_ : matplotlib Figure
    """

    def _axes(self, ax, count=1):
        """The axes to draw on, new ones if none are given."""
        import matplotlib.pyplot as plt

        if ax is None:
            width = 6.4 if count == 1 else 5.0 * count
            _, ax = plt.subplots(1, count, figsize=(width, 4.8), constrained_layout=True)
        axes = np.atleast_1d(ax)
        if axes.shape != (count,):
            raise ValueError(
                f"{type(self).__name__} needs {count} axes. Got {len(axes)}. Pass as many, or none."
            )
        self.ax_, self.figure_ = ax, axes[0].figure
        return axes
