"""Intervals of the model and conformal ones: coverage and interval scores on many tables.

Default fits, three splits. Coverage is the share of test targets within central intervals of 50,
80, 90 and 95 %, and the score is that of `interval_score` at 90 %, conformal over model. ::

    python intervals.py --data DIR
"""

import argparse
import time
import warnings

import common
import numpy as np
import ours  # noqa: F401  # so that the package of this checkout is measured

from skgp_sparse import SparseGPRegressor
from skgp_sparse.metrics import interval_coverage, interval_score

SMALL = "autompg autos breastcancer concreteslump energy fertility forest housing machine"
SMALL = f"{SMALL} pendulum servo solar stock yacht concrete airfoil wine".split()
LARGE = "bike elevators gas keggdirected kin40k parkinsons pol skillcraft sml tamielectric".split()
LEVELS = 0.5, 0.8, 0.9, 0.95
METHODS = "model", "conformal"


def scores(X, y, X_test, y_test):
    """Coverage (2, 4) by method and level, the ratio of scores, and CPU seconds."""
    start = time.process_time()
    model = SparseGPRegressor(random_state=0, n_jobs=1).fit(X, y)
    seconds = time.process_time() - start
    covered = np.full((2, 4), np.nan)
    paid = []
    for i, method in enumerate(METHODS):
        for j, level in enumerate(LEVELS):
            interval = model.predict_interval(X_test, level, method)
            covered[i, j] = interval_coverage(y_test, *interval)
            if level == 0.9:
                paid.append(interval_score(y_test, *interval, coverage=level))
    return covered, paid[1] / paid[0], seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    common.add_data(parser)
    parser.add_argument("--tables", nargs="+", default=[*SMALL, *LARGE])
    parser.add_argument("--splits", nargs="+", type=int, default=[0, 1, 2])
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    lines, tables, ratios = [], [], []
    for name in args.tables:
        splits = args.splits if name in SMALL else args.splits[:1]
        found = [scores(*common.load(args.data, name, split)) for split in splits]
        covered = np.mean([one[0] for one in found], axis=0)
        ratio = np.exp(np.mean([np.log(one[1]) for one in found]))
        common.progress(name, *np.round(covered.ravel(), 3), round(ratio, 3))
        pairs = [f"{a:.3f} / {b:.3f}" for a, b in covered.T]
        lines.append([name, len(splits), *pairs, f"{ratio:.3f}"])
        tables.append(covered)
        ratios.append(ratio)
    mean, ratio = np.mean(tables, axis=0), np.exp(np.mean(np.log(ratios)))
    pairs = [f"{a:.3f} / {b:.3f}" for a, b in mean.T]
    lines.append(["mean", "", *pairs, f"{ratio:.3f}"])
    about = (
        "Coverage: intervals of the model / conformal ones. Score: interval score at 90 %, "
        f"conformal over model. Default fits. Commit {common.commit(common.HERE)}."
    )
    header = ["table", "splits", *(f"{level:.0%}" for level in LEVELS), "score"]
    common.write_report("intervals.md", "Intervals", about, common.table(header, lines))


if __name__ == "__main__":
    main()
