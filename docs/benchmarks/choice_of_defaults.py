"""Why the defaults are what they are: kernel, number of inducing points and their start.

Fits of `SparseGPRegressor` that differ from the default in one choice, on several data sets;
test scores in units of the standard deviation of the training targets, and seconds. ::

    python choice_of_defaults.py --data DIR

Writes results/choice_of_defaults.md.
"""

import argparse
import time
import warnings

import common
import numpy as np
import ours
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

DATASETS = ("airfoil", "concrete", "energy", "wine", "skillcraft", "elevators", "kin40k")


def kernel_like_default(stationary):
    """The default kernel with another stationary part, on raw inputs."""

    def build(X):
        spread = np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
        typical = spread * np.sqrt(X.shape[1])
        bounds = np.column_stack([1e-3 * typical, 1e4 * typical])
        part = stationary(typical, bounds)
        return ConstantKernel(1.0, (1e-3, 1e4)) * part + WhiteKernel(0.1, (1e-6, 1e3))

    return build


VARIANTS = {
    "default": (kernel_like_default(RBF), {}),
    "Matern 5/2": (kernel_like_default(lambda a, b: Matern(a, b, nu=2.5)), {}),
    "Matern 3/2": (kernel_like_default(lambda a, b: Matern(a, b, nu=1.5)), {}),
    "200 inducing points": (kernel_like_default(RBF), {"n_inducing": 200}),
    "500 inducing points": (kernel_like_default(RBF), {"n_inducing": 500}),
    "rp-cholesky": (kernel_like_default(RBF), {"inducing_init": "rp-cholesky"}),
}


def measure(data, build, options):
    X, y, X_test, y_test = data
    model = ours.regressor(build(X), "titsias_new", random_state=0, **options)
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
        for variant, (build, options) in VARIANTS.items():
            found[variant, dataset] = measure(data, build, options)
            common.progress(dataset, variant, found[variant, dataset])
    parts = []
    for index, title in enumerate(("RMSE", "Mean log density", "Seconds of the fit")):
        lines = [[v, *(float(found[v, d][index]) for d in args.datasets)] for v in VARIANTS]
        parts.append(f"## {title}\n\n" + common.table(["variant", *args.datasets], lines))
    common.write_report("choice_of_defaults.md", "The choice of the defaults", *parts)


if __name__ == "__main__":
    main()
