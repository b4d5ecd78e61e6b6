"""Small exact fits beside those of scikit-learn's `GaussianProcessRegressor`.

Both estimators get the same rows (standardised columns, at most `--rows` of a table, drawn once)
and the same kernel at the same hyperparameters, noise included; all else is left alone, but that
both normalise y. The table says which evidence each of them ends with, and the CPU seconds.

Where ours is lower by more than 0.01 nats, SciPy's L-BFGS-B goes on from our hyperparameters with
the evidence of scikit-learn: if it gains more than 0.01 nats, our fit is unfinished; if not, it is
at another optimum. ::

    python drop_in_fits.py --data DIR
    python drop_in_fits.py --data DIR --rows 500
    python drop_in_fits.py --render

Each fit is one entry of results/drop_in_fits.json; entries that are there are not computed again,
unless with `--again`.
"""

import argparse
import time
import warnings

import common
import numpy as np
import ours
from scipy.optimize import minimize
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Matern,
    RationalQuadratic,
    WhiteKernel,
)

STORE = common.RESULTS / "drop_in_fits.json"
TABLES = """airfoil autompg autos breastcancer challenger concrete concreteslump energy fertility
forest housing machine mcycle pendulum servo snelson solar stock yacht""".split()
NATS = 0.01  # evidences that differ by less are the same
MOST = 200  # evaluations from where our fit ended
WARM_UP = "challenger"


def kernels(d):
    """By name, for d columns; noise included."""
    each = np.ones(d)
    signals = {"RBF": RBF(), "Matern 3/2": Matern(nu=1.5), "RationalQuadratic": RationalQuadratic()}
    if d > 1:
        signals |= {"RBF, columns": RBF(each), "Matern 5/2, columns": Matern(each, nu=2.5)}
    else:
        signals["ExpSineSquared"] = ExpSineSquared()
    sums = {"DotProduct + RBF": RBF(), "DotProduct + Matern 5/2, columns": Matern(each, nu=2.5)}
    found = {name: ConstantKernel() * one + WhiteKernel() for name, one in signals.items()}
    return found | {
        name: DotProduct() + ConstantKernel() * one + WhiteKernel() for name, one in sums.items()
    }


def rows_of(folder, name, most):
    """Some rows of a table, standardised."""
    X, y = common.load(folder, name)
    chosen = np.random.RandomState(0).permutation(len(X))[:most]
    return common.standardise(X[chosen])[0], y[chosen]


def cpu_seconds(model, X, y):
    begun = time.process_time()
    model.fit(X, y)
    return time.process_time() - begun


def compare(X, y, kernel, first):
    """Evidence and CPU seconds of both, `first` the one that goes first."""
    models = {
        "ours": ours.default_regressor().set_params(kernel=kernel),
        "gpr": GaussianProcessRegressor(kernel, normalize_y=True),
    }
    names = sorted(models, key=lambda name: name != first)
    seconds = {name: cpu_seconds(models[name], X, y) for name in names}
    value = {name: float(model.log_marginal_likelihood_value_) for name, model in models.items()}
    entry = {"value": value, "seconds": seconds, "shape": X.shape, "left": None}
    if value["ours"] < value["gpr"] - NATS:
        entry["left"] = left_to_gain(X, y, kernel, models["ours"].kernel_.theta)
    return entry | {"commit": common.commit(common.HERE.parents[1]), "machine": common.machine()}


def left_to_gain(X, y, kernel, theta):
    """What SciPy's L-BFGS-B adds to scikit-learn's evidence from a theta on."""
    gpr = GaussianProcessRegressor(kernel, normalize_y=True, optimizer=None).fit(X, y)

    def negative(theta):
        value, gradient = gpr.log_marginal_likelihood(theta, eval_gradient=True)
        return -value, -gradient

    options = {"ftol": 1e-13, "gtol": 1e-6, "maxfun": MOST}
    end = minimize(
        negative, theta, jac=True, bounds=kernel.bounds, method="L-BFGS-B", options=options
    )
    return float(negative(theta)[0] - end.fun)


def measure(args):
    X, y = rows_of(args.data, WARM_UP, args.rows)
    compare(X, y, kernels(X.shape[1])["RBF"], "ours")
    for name in args.tables:
        X, y = rows_of(args.data, name, args.rows)
        for number, (title, kernel) in enumerate(kernels(X.shape[1]).items()):
            first, key = ("ours", "gpr")[number % 2], f"{args.rows}/{name}/{title}"
            common.once(STORE, key, lambda: compare(X, y, kernel, first), args.again)  # noqa: B023


def difference(entry):
    return entry["value"]["ours"] - entry["value"]["gpr"]


def summary(title, entries):
    """A line of the first table: how many fits end above, as high, at another optimum, below."""
    differences = np.array([difference(entry) for entry in entries])
    left = [entry["left"] for entry in entries if entry["left"] is not None]
    unfinished = sum(gain > NATS for gain in left)
    seconds = [sum(entry["seconds"][side] for entry in entries) for side in ("ours", "gpr")]
    above, below = np.sum(differences > NATS), np.sum(differences < -NATS)
    counts = [len(entries), above, len(entries) - above - below, below - unfinished, unfinished]
    return [title, *counts, *seconds, seconds[0] / seconds[1]]


def report(rows, entries):
    """The tables of fits to at most so many rows."""
    fits = {key.split("/", 1)[1]: one for key, one in entries.items() if key.startswith(rows + "/")}
    names = sorted({key.split("/", 1)[1] for key in fits})
    lines = [
        summary(name, [one for key, one in fits.items() if key.split("/", 1)[1] == name])
        for name in names
    ]
    header = ["kernel", "fits", "above", "as high", "at another optimum, below", "unfinished"]
    header += ["CPU s", "GPR, CPU s", "ratio"]
    yield f"## At most {rows} rows"
    yield common.table(header, [*lines, summary("all", list(fits.values()))])
    yield "Fits that end higher or lower by more than 0.01 nats:"
    others = {key: one for key, one in fits.items() if abs(difference(one)) > NATS}
    yield common.table(
        ["table", "kernel", "ours", "GPR", "difference", "left to gain"],
        [
            [*key.split("/", 1), one["value"]["ours"], one["value"]["gpr"], difference(one)]
            + [one["left"]]
            for key, one in sorted(others.items(), key=lambda item: difference(item[1]))
        ],
    )


def render():
    entries = common.read_json(STORE)
    sizes = sorted({key.split("/")[0] for key in entries}, key=int)
    tables = [text for size in sizes for text in report(size, entries)]
    told = ["Seconds are CPU seconds, the two estimators in turn in one process"]
    about = common.about_runs(entries, told)
    common.write_report("drop_in_fits.md", "Small exact fits beside GPR", *tables, *about)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder of the .npz data sets")
    parser.add_argument("--rows", type=int, default=200, help="at most so many rows of a table")
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=TABLES)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--render", action="store_true", help="only the tables")
    args = parser.parse_args()
    if not (args.render or args.data):
        parser.error("--data is needed, unless with --render")
    warnings.simplefilter("ignore")  # hyperparameters at a bound are no news here
    if not args.render:
        measure(args)
    render()


if __name__ == "__main__":
    main()
