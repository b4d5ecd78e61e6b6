"""Noise that varies beside constant noise: the default regressor with both, all tables of numbers.

Splits at random: at most a fifth of the rows, and at most 5,000, are tested, and at most 20,000 of
the others are learned (`--rows`). Recipe and guard were chosen on splits 0 to 2 of small tables
(autompg, concrete, energy, gas, housing, mcycle, servo, solar, yacht), and this script reports on
others. ::

    python varying_noise.py --data DIR
"""

import argparse
import time
import warnings

import common
import numpy as np
import ours  # noqa: F401  # so that the package of this checkout is measured

from skgp_sparse import SparseGPRegressor
from skgp_sparse.kernels import HeteroscedasticNoise

SMALL = "airfoil autompg autos breastcancer concrete energy fertility forest housing machine mcycle"
SMALL = f"{SMALL} pendulum servo solar stock wine yacht".split()
LARGE = "bike bikeshare_counts cal_housing elevators flights gas kin40k parkinsons pol skillcraft"
LARGE = f"{LARGE} sml srtm_n27e086 tamielectric".split()
NOISES = "constant", "auto"
MOST_TESTED = 5000


def split_of(X, y, split, most):
    """Training and test rows."""
    order = np.random.RandomState(split).permutation(len(y))
    tested = min(len(y) // 5, MOST_TESTED)
    test, train = order[:tested], order[tested:][:most]
    return X[train], y[train], X[test], y[test]


def scores(noise, X, y, X_test, y_test):
    """Log density and RMSE in units of the targets, coverage of 95 % intervals, CPU seconds."""
    start = time.process_time()
    model = SparseGPRegressor(noise=noise, random_state=0, n_jobs=1).fit(X, y)
    seconds = time.process_time() - start
    mean, std = model.predict(X_test, return_std=True)
    unit = y.std()
    density = common.log_density(y_test / unit, mean / unit, std / unit)
    covered = np.mean(np.abs(y_test - mean) < 1.959964 * std)
    varies = isinstance(getattr(model.kernel_, "k2", None), HeteroscedasticNoise)
    return density, common.rmse(y_test, mean) / unit, covered, seconds, varies


def line(args, name, splits):
    """The row of a table, and what the summary needs of it."""
    X, y = common.load(args.data, name)
    found = []
    for split in splits:
        rows = split_of(X, y, split, args.rows)
        found.append([scores(noise, *rows) for noise in NOISES])
        common.progress(name, split, *np.round(np.ravel(found[-1]), 3))
    found = np.array(found)  # (splits, noises, scores)
    constant, auto = found.mean(axis=0)
    gain, taken = auto[0] - constant[0], f"{int(found[:, 1, 4].sum())} of {len(splits)}"
    pairs = [f"{a:.3f} / {b:.3f}" for a, b in zip(constant[:3], auto[:3])]
    times = f"{constant[3]:.1f} / {auto[3]:.1f}"
    summary = gain, auto[1] / constant[1], constant[2], auto[2], auto[3] / constant[3]
    return [name, *rows[0].shape, taken, pairs[0], f"{gain:+.3f}", *pairs[1:], times], summary


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    common.add_data(parser)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--splits", nargs="+", type=int, default=[3, 4, 5])
    parser.add_argument("--splits-of-large", nargs="+", type=int, default=[3])
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    found = [line(args, name, args.splits) for name in SMALL]
    found += [line(args, name, args.splits_of_large) for name in LARGE]
    lines, summaries = zip(*found)
    gains, ratios, covered, covered_auto, times = np.array(summaries).T
    about = (
        f"Constant / varying by default; means over {len(args.splits)} splits "
        f"({len(args.splits_of_large)} of the {len(LARGE)} large tables), in units of std(y). Log "
        f"density {gains.mean():+.3f} (median {np.median(gains):+.3f}, worst {gains.min():+.3f}); "
        f"{np.sum(gains > 0.05)} of {len(gains)} tables are better by more than .05, and "
        f"{np.sum(gains < -0.01)} worse by more than .01. RMSE is "
        f"{np.exp(np.mean(np.log(ratios))):.3f} times that of constant noise in the geometric mean "
        f"(worst table {ratios.max():.3f}), coverage of 95 % intervals {covered.mean():.3f} / "
        f"{covered_auto.mean():.3f}, and CPU seconds are "
        f"{np.exp(np.mean(np.log(times))):.2f} times as many. Commit {common.commit(common.HERE)}."
    )
    header = ["table", "rows", "columns", "taken", "density", "gain", "RMSE", "coverage", "CPU s"]
    common.write_report(
        "varying_noise.md", "Noise that varies with the inputs", about, common.table(header, lines)
    )


if __name__ == "__main__":
    main()
