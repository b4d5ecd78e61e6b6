"""Heights of a terrain from scattered ones, beside packages for kriging.

Rows are random cells of the tile around Mount Everest (examples/data/n27e086.npz; km to the north
and east), and 1,000 other cells are predicted. `ours` is `SparseGPRegressor(random_state=0)`;
`ours, Matern` has the exact posterior and `kernel=ConstantKernel() * Matern([10, 10], nu)`. PyKrige
(the estimator `Krige`, an exponential variogram) predicts from the 50 nearest rows, or from all of
them with a trend. GSTools takes the exponential, the spherical or the Matérn variogram, whichever
fits best, from a start that was chosen for it, and all rows. libKriging (`KrigingRegressor`)
maximises the likelihood of a Matern 3/2 kernel with a nugget. Each has a constant mean, and one
that is linear in the coordinates (`mean="linear"`, universal kriging), but for `ours`, which has
`mean=None`. Not run for 3,000 rows were PyKrige with a trend, whose constructor takes O(n⁴) time,
and libKriging, which had not ended after 50 CPU seconds.

RMSE in metres; density is the mean log density of the heights, in nats; coverage is the share of
heights in intervals of 95 %; seconds are those of the processor for fit and prediction, with one
BLAS thread. ::

    OPENBLAS_NUM_THREADS=1 python kriging.py --peers-python PEERS/bin/python

The peers need an environment with `pip install pykrige gstools pylibkriging scikit-learn`. Each
result is one entry of results/kriging.json; entries that are there already are not computed again,
unless with `--again`.
"""

import argparse
import json
import subprocess
import tempfile
import time
import warnings
from pathlib import Path

import common
import numpy as np
import ours
from sklearn.gaussian_process.kernels import ConstantKernel, Matern

STORE = common.RESULTS / "kriging.json"
TILE = common.HERE.parents[1] / "examples" / "data" / "n27e086.npz"
KM_PER_DEGREE = 111.2, 98.4  # of latitude, and of longitude as far north as this
SIZES, TESTED = (1000, 3000), 1000


def with_matern(nu):
    return {"kernel": ConstantKernel() * Matern([10.0, 10.0], nu=nu), "posterior": "exact"}


OURS = {"ours": {}, "ours, Matern 1/2": with_matern(0.5), "ours, Matern 3/2": with_matern(1.5)}
PEERS = "PyKrige", "GSTools", "libKriging"
NOT_RUN = [(3000, "PyKrige", "linear")]  # the constructor solves a system for each row: O(n⁴)
NOT_RUN += [(3000, "libKriging", trend) for trend in ("constant", "linear")]
NOT_RUN += [(n, "ours", "linear") for n in SIZES]  # which has no mean here
TRENDS = {"constant": None, "linear": "linear"}


def problem(n):
    """X, y, X_test, y_test of random cells, in km and metres."""
    with np.load(TILE) as tile:
        height, step = tile["height"].astype(float), float(tile["step"])
    order = np.random.RandomState(0).permutation(height.size)
    test, train = order[:TESTED], order[TESTED : TESTED + n]
    cells = np.indices(height.shape).reshape(2, -1).T * step * KM_PER_DEGREE
    return cells[train], height.flat[train], cells[test], height.flat[test]


def predictions(method, trend, X, y, X_test):
    """Means, standard deviations and seconds of the package itself."""
    from skgp_sparse import SparseGPRegressor

    start = time.process_time()
    model = SparseGPRegressor(mean=TRENDS[trend], random_state=0, **OURS[method]).fit(X, y)
    mean, std = model.predict(X_test, return_std=True)
    return {"mean": mean, "std": std, "seconds": time.process_time() - start, "versions": {}}


def of_peer(python, method, trend, X, y, X_test):
    """The same of another package, in its environment."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "problem.npz"
        np.savez(path, X=X, y=y, X_test=X_test)
        command = [python, str(common.HERE / "kriging_peers.py"), method, trend, str(path)]
        how = {"env": common.peer_environment(), "stdout": subprocess.PIPE, "check": True}
        return json.loads(subprocess.run(command, **how).stdout.splitlines()[-1])


def measure(python, n, method, trend):
    X, y, X_test, y_test = problem(n)
    if method in OURS:
        found = predictions(method, trend, X, y, X_test)
    else:
        found = of_peer(python, method, trend, X, y, X_test)
    mean, std = np.array(found["mean"]), np.array(found["std"])
    return {
        "rmse": common.rmse(y_test, mean),
        "density": common.log_density(y_test, mean, std),
        "coverage": float(np.mean(np.abs(y_test - mean) < 1.96 * std)),
        "seconds": found["seconds"],
        "versions": found["versions"],
        "commit": common.commit(ours.folder().parent),
        "machine": common.machine(),
    }


def render():
    entries = common.read_json(STORE)
    lines = []
    for n in SIZES:
        for method in (*OURS, *PEERS):
            for trend in TRENDS:
                one = entries.get(f"{n}/{method}/{trend}")
                if one:
                    scores = one["density"], f"{one['coverage']:.1%}", f"{one['seconds']:.1f}"
                    lines.append([f"{n:,}", method, trend, f"{one['rmse']:.0f}", *scores])
    about = __doc__.split(" ::")[0].split("\n\n", 1)[1]
    header = ["rows", "method", "mean", "RMSE", "density", "coverage", "CPU s"]
    parts = about, common.table(header, lines), *common.about_runs(entries)
    common.write_report("kriging.md", "Heights of a terrain, beside packages for kriging", *parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    common.add_peers(parser)
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES))
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--render", action="store_true", help="only the table")
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # hyperparameters at a bound are no news here
    methods = [*OURS, *(PEERS if args.peers_python else ())]
    runs = [(n, method, trend) for n in args.sizes for method in methods for trend in TRENDS]
    for run in () if args.render else (run for run in runs if run not in NOT_RUN):
        key = "/".join(map(str, run))
        common.once(STORE, key, lambda run=run: measure(args.peers_python, *run), args.again)
    render()


if __name__ == "__main__":
    main()
