"""Minimising three functions: the ask/tell recipe, random search, and GaussianProcessRegressor.

`ours` is the recipe of docs/recipes.md, read from that page, in batches of five. `sklearn` is the
same loop with GaussianProcessRegressor: kernel, candidates, augmented expected improvement and
batches are the same. As it has neither gradients of predictions nor sampled functions, L-BFGS
takes differences, and the others of a batch are minima of joint samples at the 1,000 candidates.
`random` evaluates uniform draws. Numbers are medians over the seeds of the distance between the
lowest value so far and the minimum, with their range. Seconds are those of the processor, with one
BLAS thread, for all evaluations. ::

    OPENBLAS_NUM_THREADS=1 python acquisition.py
    OPENBLAS_NUM_THREADS=1 python acquisition.py --functions branin --seeds 1     # a trial
    python acquisition.py --render                                                # the table alone

Each result is one entry of results/acquisition.json; entries that are there already are not
computed again, unless with `--again`.
"""

import argparse
import re
import time
import warnings
from typing import NamedTuple

import common
import numpy as np
import ours  # noqa: F401  # so that the package of this checkout is measured
from scipy.optimize import minimize
from scipy.stats import norm
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

STORE = common.RESULTS / "acquisition.json"
BATCH, FIRST = 5, 10
TITLE = "## Minimising an expensive function: ask and tell"
STEEPNESS = np.array(
    [
        [10, 3, 17, 3.5, 1.7, 8],
        [0.05, 10, 17, 0.1, 8, 14],
        [3, 3.5, 1.7, 10, 17, 8],
        [17, 8, 0.05, 10, 0.1, 14],
    ]
)
CENTRES = 1e-4 * np.array(
    [
        [1312, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]
)

# -- functions -------------------------------------------------------------------------


def branin(X):
    slope = X[:, 1] - 5.1 / (4 * np.pi**2) * X[:, 0] ** 2 + 5 / np.pi * X[:, 0] - 6
    return slope**2 + 10 * (1 - 1 / (8 * np.pi)) * np.cos(X[:, 0]) + 10


def hartmann6(X):
    exponents = np.einsum("kj,nkj->nk", STEEPNESS, (X[:, None] - CENTRES) ** 2)
    return -np.exp(-exponents) @ [1.0, 1.2, 3.0, 3.2]


def ackley10(X):
    bowl = -20 * np.exp(-0.2 * np.sqrt(np.mean(X**2, axis=1)))
    return bowl - np.exp(np.mean(np.cos(2 * np.pi * X), axis=1)) + 20 + np.e


class Task(NamedTuple):
    function: object
    low: list
    high: list
    evaluations: int
    minimum: float


TASKS = {
    "branin": Task(branin, [-5, 0], [10, 15], 40, 0.397887),
    "hartmann6": Task(hartmann6, [0] * 6, [1] * 6, 80, -3.322368),
    "ackley10": Task(ackley10, [-5] * 10, [10] * 10, 120, 0.0),
}

# -- searches --------------------------------------------------------------------------


def recipe():
    """The class of the recipe, from the page itself."""
    text = (common.HERE.parent / "recipes.md").read_text().split(TITLE)[1]
    names = {}
    exec(re.search(r"```python\n(.*?)```", text, flags=re.DOTALL)[1], names)
    return names["Minimizer"]


Minimizer = recipe()


class Random(Minimizer):
    def ask(self, n=1):
        return self.low + self.width * self.rng.uniform(size=(n, len(self.low)))


class OfSklearn(Minimizer):
    """The same loop, as far as GaussianProcessRegressor goes."""

    def ask(self, n=1):
        if len(self.y) < self.n_random:
            return super().ask(n)
        d = len(self.low)
        kernel = ConstantKernel() * Matern(np.full(d, 0.5), (0.02, 50), nu=2.5) + WhiteKernel(0.1)
        model = GaussianProcessRegressor(kernel, normalize_y=True, random_state=0)
        model.fit(self.U, self.y)
        draws = self.rng.uniform(size=(500, d))
        near = self.U[np.argmin(self.y)] + 0.05 * self.rng.normal(size=draws.shape)
        candidates = np.vstack([draws, np.clip(near, 0, 1)])
        noise = np.sqrt(model.kernel_.k2.noise_level) * np.std(self.y)
        seen, spread = moments(model, self.U, noise)
        best = seen[np.argmin(seen + spread)]

        def loss(U):
            mean, std = moments(model, U, noise)
            z = (best - mean) / std
            gain = std * (norm.pdf(z) + z * norm.cdf(z))
            return -gain * (1 - noise / np.hypot(std, noise))

        start = candidates[np.argmin(loss(candidates))]
        first = minimize(lambda u: loss(u[None])[0], start, bounds=[(0, 1)] * d).x
        samples = model.sample_y(candidates, n - 1, random_state=self.rng)
        return self.low + self.width * np.vstack([first, candidates[np.argmin(samples, axis=0)]])


def moments(model, U, noise):
    """Mean and standard deviation of the function, without the noise."""
    mean, std = model.predict(U, return_std=True)
    return mean, np.sqrt(np.maximum(std**2 - noise**2, 1e-16 * np.var(model.y_train_)))


METHODS = {"ours": Minimizer, "sklearn": OfSklearn, "random": Random}


def measure(name, method, seed):
    """Distance from the minimum after half of the evaluations and after all, and seconds."""
    task = TASKS[name]
    search, start = METHODS[method](task.low, task.high, FIRST, seed), time.process_time()
    while len(search.y) < task.evaluations:
        X = search.ask(BATCH)
        search.tell(X, task.function(X))
    gaps = np.minimum.accumulate(search.y) - task.minimum
    return {
        "half": gaps[task.evaluations // 2 - 1],
        "all": gaps[-1],
        "seconds": time.process_time() - start,
        "commit": common.commit(common.HERE.parents[1]),
        "machine": common.machine(),
    }


# -- table -----------------------------------------------------------------------------


def render():
    entries = common.read_json(STORE)
    lines = []
    for name, task in TASKS.items():
        for method in METHODS:
            found = [one for key, one in entries.items() if key.startswith(f"{name}/{method}/")]
            if found:
                gaps = [spread([one[when] for one in found]) for when in ("half", "all")]
                seconds = float(np.median([one["seconds"] for one in found]))
                about = f"{name}, {task.evaluations} evaluations"
                lines.append([about, method, len(found), *gaps, f"{seconds:.1f}"])
    header = ["function", "method", "seeds", "after half", "after all", "CPU s"]
    about = __doc__.split(" ::")[0].split("\n\n", 1)[1]
    parts = about, common.table(header, lines), *common.about_runs(entries)
    common.write_report("acquisition.md", "Minimising three functions", *parts)


def spread(values):
    return f"{np.median(values):.3g} ({np.min(values):.2g} to {np.max(values):.2g})"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--functions", nargs="+", default=list(TASKS))
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--seeds", type=int, default=7)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--render", action="store_true", help="only the table")
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # hyperparameters at a bound are no news here
    runs = [(f, m, s) for s in range(args.seeds) for f in args.functions for m in args.methods]
    for run in () if args.render else runs:
        common.once(STORE, "/".join(map(str, run)), lambda run=run: measure(*run), args.again)
    render()


if __name__ == "__main__":
    main()
