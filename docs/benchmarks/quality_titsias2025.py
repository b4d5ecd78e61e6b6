"""Table 1 of Titsias (2025): average test log-likelihood of three bounds.

Data sets pol, bike and elevators; squared exponential kernel with one length scale per
input, m = 1024; random splits of 64 % training, 16 % unused (validation in the paper)
and 20 % test rows; inputs and targets standardised by the training part. The score is
the mean log predictive density of the standardised test targets, noise included. All
three bounds predict by the same formula; what differs is the kernel, the noise and Z
to which they lead.

M. K. Titsias, "New bounds for sparse variational Gaussian processes", ICML 2025. ::

    python quality_titsias2025.py --data DIR
    python quality_titsias2025.py --data DIR --datasets pol --bounds titsias --splits 0 1
    python quality_titsias2025.py --render                    # the table alone

Each (data set, bound, split) is one entry of results/titsias2025.json; entries that are
there already are not computed again, unless with `--again`.
"""

import argparse
import warnings
from itertools import product

import common
import numpy as np
import ours

STORE = common.RESULTS / "titsias2025.json"
DATASETS = ("pol", "bike", "elevators")
PUBLISHED = {
    "titsias": {"pol": 0.821, "bike": 2.176, "elevators": -0.387},
    "artemev": {"pol": 0.859, "bike": 2.199, "elevators": -0.387},
    "titsias_new": {"pol": 0.920, "bike": 2.326, "elevators": -0.387},
}


def split_rows(n, seed):
    """Training and test rows: 64 % and 20 % of a seeded permutation."""
    rows = np.random.default_rng(seed).permutation(n)
    return rows[: int(0.64 * n)], rows[int(0.8 * n) :]


def split_data(folder, name, seed):
    X, y = common.load(folder, name)
    train, test = split_rows(len(X), seed)
    X_train, X_test = common.standardise(X[train], X[test])
    y_train, y_test = common.standardise(y[train], y[test])
    return X_train, y_train, X_test, y_test


def limits(args):
    """Options that the user gave; the others keep the estimator's defaults."""
    return {} if args.max_iter is None else {"max_iter": args.max_iter}


def score(args, name, bound, seed):
    X, y, X_test, y_test = split_data(args.data, name, seed)
    kernel = ours.rbf_kernel(X.shape[1])
    model = ours.regressor(kernel, bound, args.n_inducing, random_state=seed, **limits(args))
    seconds = common.seconds_of(lambda: model.fit(X, y))
    mean, std = ours.observed(model, X_test)
    return {
        "log_density": common.log_density(y_test, mean, std),
        "rmse": common.rmse(y_test, mean),
        "bound": float(model.log_marginal_likelihood_value_),
        "kernel": str(model.kernel_),
        "seconds": round(seconds, 1),
        "n": len(X),
        "n_inducing": args.n_inducing,
        "max_iter": args.max_iter,
    }


def run(args):
    done = common.read_json(STORE)
    for name, seed, bound in product(args.datasets, args.splits, args.bounds):
        key = f"{name}/{bound}/{seed}"
        if key in done and not args.again:
            continue
        entry = score(args, name, bound, seed)
        common.store(STORE, key, entry)
        common.progress(key, entry["log_density"], entry["seconds"], "s")


def mean_and_error(entries, name, bound):
    """Mean ± standard error (number of splits) of the test log-likelihood."""
    values = [
        entry["log_density"] for key, entry in entries.items() if key.startswith(f"{name}/{bound}/")
    ]
    if not values:
        return None
    if len(values) == 1:
        return f"{values[0]:.3f} (1)"
    error = np.std(values, ddof=1) / np.sqrt(len(values))
    return f"{np.mean(values):.3f} ± {error:.3f} ({len(values)})"


def summary(entries):
    header = ["bound"]
    header += [f"{name}, {who}" for name in DATASETS for who in ("published", "ours")]
    rows = []
    for bound, published in PUBLISHED.items():
        pairs = [(published[d], mean_and_error(entries, d, bound)) for d in DATASETS]
        rows.append([bound, *(value for pair in pairs for value in pair)])
    return common.table(header, rows)


def details(entries):
    columns = ["log_density", "rmse", "bound", "seconds", "n", "n_inducing", "max_iter"]
    rows = [[key, *(entry[c] for c in columns)] for key, entry in entries.items()]
    return common.table(["data set / bound / split", *columns], rows)


def render():
    entries = common.read_json(STORE)
    about = (
        "Average test log-likelihood, larger is better; mean ± standard error (number of "
        "splits). The random splits are ours, not those of the paper."
    )
    parts = [about, summary(entries), "## Every run", details(entries)]
    common.write_report("titsias2025.md", "Table 1 of Titsias (2025)", *parts)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder of the .npz data sets")
    parser.add_argument("--datasets", nargs="+", choices=DATASETS, default=DATASETS)
    parser.add_argument("--bounds", nargs="+", choices=PUBLISHED, default=list(PUBLISHED))
    parser.add_argument("--splits", nargs="+", type=int, default=[0], help="seeds")
    parser.add_argument("--n-inducing", type=int, default=1024)
    parser.add_argument("--max-iter", type=int)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--render", action="store_true", help="only the table")
    args = parser.parse_args()
    if not (args.render or args.data):
        parser.error("--data is needed, unless with --render")
    return args


def main():
    args = parse()
    warnings.simplefilter("ignore")  # hyperparameters at a bound are no news here
    if not args.render:
        run(args)
    render()


if __name__ == "__main__":
    main()
