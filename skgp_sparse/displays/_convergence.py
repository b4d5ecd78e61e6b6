"""How quickly an optimiser converged."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ._display import Display

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class ConvergenceDisplay(Display):
    """How quickly a fit converged: what each run of an optimiser maximised, against seconds.

    Parameters
    ----------
    runs : list of Run
        As in the attribute `convergence_` of a fitted estimator.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse import SparseGPRegressor
    >>> from skgp_sparse.displays import ConvergenceDisplay
    >>> X = np.linspace(0, 10, 200)[:, None]
    >>> model = SparseGPRegressor(n_inducing=20, random_state=0).fit(X, np.sin(X[:, 0]))
    >>> display = ConvergenceDisplay(model.convergence_)
    >>> display.plot()  # doctest: +SKIP
    """

    def __init__(self, runs: Sequence[Any]) -> None:
        self.runs = runs

    @classmethod
    def from_estimator(
        cls, estimator: BaseEstimator, *, ax: "Axes | None" = None
    ) -> "ConvergenceDisplay":
        """Draw the runs of a fitted model, `convergence_`.

        Parameters
        ----------
        estimator : fitted SparseGPRegressor or SparseGPClassifier
        ax : matplotlib Axes, default=None
            None makes new ones.

        Returns
        -------
        ConvergenceDisplay
            The display, whose `ax_` and `figure_` hold the drawing.

        Raises
        ------
        ValueError
            If no optimiser ran that told its progress.
        """
        check_is_fitted(estimator)
        runs = getattr(estimator, "convergence_", [])
        if not runs:
            raise ValueError(
                "ConvergenceDisplay needs a fitted SparseGPRegressor or SparseGPClassifier whose "
                "optimiser told its progress. There is none with optimizer=None or one of your "
                "own, after partial_fit, and where other processes fit (n_jobs). Call fit without "
                "these."
            )
        return cls(runs).plot(ax=ax)

    def plot(self, ax: "Axes | None" = None) -> "ConvergenceDisplay":
        """Draw again.

        The lowest values are cut off: what matters are the last steps of each run.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            None makes new ones.

        Returns
        -------
        ConvergenceDisplay
            The display, whose `ax_` and `figure_` hold the drawing.
        """
        (ax,) = self._axes(ax)
        labels = [f"{run.name} {run.quantity}".strip() for run in self.runs]
        colours = {label: f"C{k}" for k, label in enumerate(dict.fromkeys(labels))}
        for run, label in zip(self.runs, labels):
            is_first = label not in ax.get_legend_handles_labels()[1]
            style: dict[str, Any] = {"color": colours[label], "label": label if is_first else None}
            ax.plot(run.seconds, run.values, ".-", **style)
        highest = max(run.values.max() for run in self.runs)
        lowest = min(np.median(run.values) for run in self.runs)
        if highest > lowest:
            ax.set_ylim(lowest - 0.1 * (highest - lowest), highest + 0.1 * (highest - lowest))
        ax.set(xlabel="seconds", ylabel="nats")
        ax.legend(loc="lower right")
        return self
