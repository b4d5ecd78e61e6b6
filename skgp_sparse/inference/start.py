"""Hyperparameters from an exact fit of few rows: restarts happen here, where they are cheap."""

import numpy as np

from skgp_sparse._engine.exact import group_rows
from skgp_sparse.inference.objectives import ExactObjective
from skgp_sparse.inference.optimizers import maximise

_EXACT_ITERATIONS = 200
_RESCUES = 4


def fit_exact(objective, kernel, *, n_restarts, random_state, max_iter, ftol=2.2e-9, callback=None):
    """Maximise the exact log marginal likelihood over theta.

    Starts at the kernel's own theta and at `n_restarts` points drawn uniformly between the bounds.
    Where the best of them explains the targets no better than noise alone, a few starts around the
    kernel's own theta are tried before that is believed.

    Returns
    -------
    kernel : sklearn kernel
        Clone at the best theta.
    maximum : Maximum
    """

    def function(theta):
        evaluation = objective.value_and_gradient(kernel.clone_with_theta(theta))
        return evaluation.value, evaluation.theta_bar

    def run(theta):
        return maximise(
            function, theta, bounds, max_iter=max_iter, ftol=ftol, callback=callback
        )

    bounds = np.reshape(kernel.bounds, (-1, 2))
    best = run(kernel.theta)
    for _ in range(n_restarts):
        best = max(best, run(random_state.uniform(*bounds.T)), key=lambda found: found.value)
    if best.value < _noise_only(objective.groups) and len(kernel.theta):
        for _ in range(_RESCUES):
            theta = kernel.theta + random_state.normal(size=len(kernel.theta))
            best = max(best, run(theta), key=lambda found: found.value)
    return kernel.clone_with_theta(best.x), best


def start_kernel(rows, kernel, size, *, n_restarts, random_state):
    """Kernel with the hyperparameters of an exact fit to `size` random rows."""
    chosen = rows.sample(size, random_state)
    objective = ExactObjective(group_rows(rows.block(chosen)))
    return fit_exact(
        objective,
        kernel,
        n_restarts=n_restarts,
        random_state=random_state,
        max_iter=_EXACT_ITERATIONS,
    )[0]


def _noise_only(groups):
    """Log likelihood of the targets as noise of their own variance, and a little more."""
    n, n_targets = groups.weight.sum(), groups.y.shape[1]
    variance = (groups.weight @ groups.y**2).sum() / (n * n_targets)
    if variance == 0:
        return -np.inf
    return -0.5 * n * n_targets * (np.log(2 * np.pi * variance) + 1) + 1.0
