"""`posterior="pool"` beside the default on small tables: errors, densities, intervals, seconds.

The recipe of the pool was found on tables of this kind; nothing in it was chosen by this script. ::

    python pool.py --data DIR
"""

import argparse
import time
import warnings

import common
import numpy as np
import ours  # noqa: F401  # so that the package of this checkout is measured

from skgp_sparse import SparseGPRegressor

TABLES = "airfoil autompg autos breastcancer challenger concrete concreteslump energy fertility"
TABLES = f"{TABLES} forest housing machine pendulum servo solar stock wine yacht".split()
POSTERIORS = "auto", "pool"


def scores(posterior, X, y, X_test, y_test):
    """RMSE and log density in units of the targets, coverage of 95 % intervals, CPU seconds."""
    start = time.process_time()
    model = SparseGPRegressor(posterior=posterior, random_state=0, n_jobs=1).fit(X, y)
    seconds = time.process_time() - start
    mean, std = model.predict(X_test, return_std=True)
    unit = y.std()
    density = common.log_density(y_test / unit, mean / unit, std / unit)
    covered = np.mean(np.abs(y_test - mean) < 1.96 * std)
    return common.rmse(y_test, mean) / unit, density, covered, seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    common.add_data(parser)
    parser.add_argument("--tables", nargs="+", default=TABLES)
    parser.add_argument("--splits", nargs="+", type=int, default=[0, 1, 2])
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    lines, summaries = [], []
    for name in args.tables:
        found = []
        for split in args.splits:
            rows = common.load(args.data, name, split)
            found.append([scores(posterior, *rows) for posterior in POSTERIORS])
            common.progress(name, split, *np.round(np.ravel(found[-1]), 3))
        found = np.array(found)  # (splits, posteriors, scores)
        alone, pool = found.mean(axis=0)
        ratio = np.exp(np.mean(np.log(found[:, 1, 0] / found[:, 0, 0])))
        shape = len(rows[0]), rows[0].shape[1]
        pairs = [f"{a:.3f} / {b:.3f}" for a, b in zip(alone[:3], pool[:3])]
        lines.append([name, *shape, *pairs, f"{alone[3]:.1f} / {pool[3]:.1f}"])
        summaries.append([ratio, pool[1] - alone[1], alone[2], pool[2], pool[3] / alone[3]])
    ratios, gains, covered, covered_pool, times = np.array(summaries).T
    about = (
        f"Default / pool; means over {len(args.splits)} splits, in units of std(y). RMSE is "
        f"{np.exp(np.mean(np.log(ratios))):.3f} times that of the default in the geometric mean "
        f"(worst table {ratios.max():.3f}), log density {gains.mean():+.3f} (median "
        f"{np.median(gains):+.3f}, worst table {gains.min():+.3f}), coverage of 95 % intervals "
        f"{covered.mean():.3f} and {covered_pool.mean():.3f}, CPU seconds of a fit "
        f"{np.exp(np.mean(np.log(times))):.1f} times as many. Commit "
        f"{common.commit(common.HERE)}."
    )
    header = ["table", "rows", "columns", "RMSE", "log density", "coverage", "seconds"]
    common.write_report(
        "pool.md", "An average of several exact fits", about, common.table(header, lines)
    )


if __name__ == "__main__":
    main()
