"""A grid search over six bounds, beside another checkout: CPU seconds, with one thread.

3,000 rows of a made-up function of three columns, 100 inducing points, five folds and a last fit.
The ratio is that of two runs after one another; repeat it on a noisy machine. ::

    python grid_search.py --before CHECKOUT

The report is results/grid_search.md.
"""

import argparse
import json
import os
import time
import warnings
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import common
import numpy as np
import ours

BOUNDS = ("titsias", "vfe", "titsias_new", "artemev", "fitc", "dtc")
N, N_INDUCING, NOISE = 3000, 100, 0.2


def problem():
    """Rows (n, 3) and targets."""
    rng = np.random.RandomState(0)
    X = rng.uniform(-1, 1, (N, 3))
    f = np.sin(4 * X[:, 0]) + 2 * X[:, 1] ** 2 + np.cos(3 * X[:, 1] * X[:, 2])
    return X, f + NOISE * rng.normal(size=N)


def work(folder):
    """CPU seconds of the search, and the bound that wins."""
    from sklearn.model_selection import GridSearchCV

    ours.check_package(folder)
    warnings.simplefilter("ignore")
    ours.warm_up(False)
    model = ours.default_regressor().set_params(n_inducing=N_INDUCING)
    search = GridSearchCV(model, {"bound": list(BOUNDS)}, cv=5)
    start = time.process_time()
    search.fit(*problem())
    seconds = time.process_time() - start
    return {"cpu_seconds": seconds, "bound": search.best_params_["bound"]}


def measured(folder):
    """The entry of a checkout."""
    found = common.run_version(folder, "grid_search.py", "--worker", folder.resolve())
    return found | {"commit": common.commit(folder)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--before", type=Path, required=False, help="another checkout")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        print(json.dumps(work(args.worker)))
        return
    folders = {"now": common.HERE.parents[1]} | ({"before": args.before} if args.before else {})
    found = {name: measured(folder) for name, folder in folders.items()}
    rows = [[name, one["commit"], one["bound"], one["cpu_seconds"]] for name, one in found.items()]
    parts = [common.table(["", "commit", "bound that wins", "CPU seconds"], rows)]
    if args.before:
        ratio = found["now"]["cpu_seconds"] / found["before"]["cpu_seconds"]
        parts.append(f"The search takes {ratio:.2f} times the CPU seconds of the other checkout.")
    common.write_report("grid_search.md", "A grid search over six bounds", *parts)


if __name__ == "__main__":
    main()
