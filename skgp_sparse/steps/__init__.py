"""Steps of a fit beside its search, of which a plan names those that are needed.

- `scales`: where the length scales of the default kernel begin; columns on a scale of logarithms
- `several_classes`: several classes that begin together
- `heteroscedastic_noise`: noise whose variance varies with the inputs, by a second process
- `mean`: a mean beside the process, or a calibration of labels, and whether they pay
- `fit_warnings`: fits that explain no more than a constant; hyperparameters close to a bound
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from skgp_sparse.data.dataset import Dataset
from skgp_sparse.methods.contract import Job


class FitStep:
    """Step of a fit: what it does before the search and after it."""

    def __init__(
        self, observations: Any, rows: Dataset, random_states: Sequence[np.random.RandomState]
    ) -> None:
        self.observations, self.rows, self.random_states = observations, rows, random_states

    def before(self, jobs: list[Job]) -> list[Job]:
        """Return the jobs that are fitted."""
        return jobs

    def after(self, found: Any) -> Any:
        """Return the `FittedProblems` with what this step adds to them."""
        return found
