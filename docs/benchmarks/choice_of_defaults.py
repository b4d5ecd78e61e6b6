"""Why the defaults are what they are: the kernel and the number of inducing points.

Every kernel with every number of inducing points on several data sets; test scores in units of
the standard deviation of the training targets, and seconds. ::

    python choice_of_defaults.py --data DIR

Writes results/choice_of_defaults.md.
"""

import argparse
import time
import warnings

import common
import ours
from sklearn.gaussian_process.kernels import RBF, Matern

DATASETS = ("airfoil", "concrete", "energy", "wine", "skillcraft", "elevators")


STATIONARY = {
    "RBF": RBF,
    "Matern 5/2": lambda scale, bounds: Matern(scale, bounds, nu=2.5),
    "Matern 3/2": lambda scale, bounds: Matern(scale, bounds, nu=1.5),
}
VARIANTS = {
    f"{name}, m = {m}": (part, m) for name, part in STATIONARY.items() for m in (200, 300, 500)
}


def measure(data, stationary, m):
    X, y, X_test, y_test = data
    kernel = ours.like_default(X, stationary)
    model = ours.regressor(kernel, "titsias_new", m, random_state=0)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    seconds = time.perf_counter() - start
    mean, std = ours.observed(model, X_test)
    unit = y.std()
    density = common.log_density(y_test / unit, mean / unit, std / unit)
    return common.rmse(y_test, mean) / unit, density, seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", required=True, help="folder of the .npz data sets")
    parser.add_argument("--datasets", nargs="+", default=DATASETS)
    parser.add_argument("--split", type=int, default=0)
    args = parser.parse_args()
    found = {}
    for dataset in args.datasets:
        data = common.load(args.data, dataset, args.split)
        for variant, choice in VARIANTS.items():
            found[variant, dataset] = measure(data, *choice)
            common.progress(dataset, variant, found[variant, dataset])
    report(found, args.datasets)


def report(found, datasets):
    """Write the table of ``found[variant, dataset]``."""
    parts = ["The time of a fit was taken while other work ran: the order counts, not the number."]
    for index, title in enumerate(("RMSE", "Mean log density", "Seconds of the fit")):
        lines = [[v, *(float(found[v, d][index]) for d in datasets)] for v in VARIANTS]
        parts.append(f"## {title}\n\n" + common.table(["variant", *datasets], lines))
    common.write_report("choice_of_defaults.md", "The choice of the defaults", *parts)


if __name__ == "__main__":
    main()
