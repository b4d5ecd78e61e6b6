"""The prior of length scales by the number of rows per column: with ``prior="scaled"`` and without.

Default fits of random rows of many tables, a few for each column, and of all training rows of small
tables. The tables are in two halves, by turns in the order of their names: the rule of
``prior="auto"`` was chosen on the first half, and the second one checks it. A gain in log density
counts as at most one nat per row, as intervals without any width may lose thousands. ::

    python length_scale_priors.py --data DIR
"""

import argparse
import warnings
from itertools import product

import common
import numpy as np
import ours  # noqa: F401  # so that the package of this checkout is measured

from skgp_sparse import SparseGPClassifier, SparseGPRegressor

SMALL = (
    "autompg autos breastcancer challenger concreteslump energy fertility forest housing machine"
)
SMALL = [*SMALL.split(), "pendulum", "servo", "stock", "yacht"]
LARGE = "airfoil bike concrete elevators gas keggdirected kin40k parkinsons pol skillcraft sml wine"
LABELS = "eeg german htru2 ionosphere phoneme pima sonar spambase wdbc wisconsin"
LARGE, LABELS = LARGE.split(), LABELS.split()
PER_COLUMN = 1, 2, 3, 4, 5, 7, 10, 20  # rows
MOST_ROWS, MOST_LABELS, TEST_ROWS = 400, 1000, 1000
ALL = "all"  # training rows
CLIP = 1.0


def scores(prior, X, y, X_test, y_test):
    """RMSE and log density in units of the targets, and coverage of intervals of 95 %."""
    model = SparseGPRegressor(prior=prior, random_state=0, n_jobs=1).fit(X, y)
    mean, std = model.predict(X_test, return_std=True)
    unit = y.std()
    density = common.log_density(y_test / unit, mean / unit, std / unit)
    covered = np.mean(np.abs(y_test - mean) < 1.96 * std)
    return common.rmse(y_test, mean) / unit, density, covered


def scores_of_labels(prior, X, y, X_test, y_test):
    """Share of errors, and mean log probability of the labels."""
    model = SparseGPClassifier(prior=prior, random_state=0, n_jobs=1).fit(X, y)
    probabilities = model.predict_proba(X_test)
    errors = np.mean(model.classes_[probabilities.argmax(axis=1)] != y_test)
    return errors, -common.nlpd(y_test, probabilities), np.nan


def few(X, y, X_test, y_test, ratio, seed):
    """So many rows per column, and some of the test rows; None where there are too few."""
    n, rng = max(ratio * X.shape[1], 15), np.random.RandomState(100 * seed + ratio)
    if n > len(X):
        return None
    rows = rng.permutation(len(X))[:n]
    test = rng.permutation(len(X_test))[:TEST_ROWS]
    return X[rows], y[rows], X_test[test], y_test[test]


def cases(folder, seeds):
    """Dataset, ratio, seed, rows, and the function that scores a prior."""
    for name, seed in product(SMALL, seeds):
        yield name, ALL, seed, common.load(folder, name, seed), scores
    for name, ratio, seed in product(LARGE, PER_COLUMN, seeds):
        rows = few(*common.load(folder, name, seed), ratio, seed)
        if rows is not None and len(rows[0]) <= MOST_ROWS:
            yield name, ratio, seed, rows, scores
    for name, ratio, seed in product(LABELS, PER_COLUMN, seeds):
        X, y, _ = common.labelled(folder, name)
        order = np.random.RandomState(seed).permutation(len(y))
        train, test = np.split(order, [3 * len(y) // 4])
        rows = few(X[train], y[train], X[test], y[test], ratio, seed)
        if rows is not None and len(rows[0]) <= MOST_LABELS and len(set(rows[1])) == 2:
            yield name, ratio, seed, rows, scores_of_labels


def summary(by_case, names):
    """Rows of a report: the gains of tables, means over seeds first, by rows per column."""
    for ratio in (*PER_COLUMN, ALL):
        for half in (0, 1):
            tables = sorted(names)[half::2]
            found = [by_case[key] for key in by_case if key[0] in tables and key[1] == ratio]
            if found:
                yield [ratio, "choice" if half == 0 else "check", *_gains(found)]


def _gains(found):
    """Over tables whose pairs of scores (seeds, 2, 3) are given."""
    pairs = [np.asarray(one) for one in found]
    gains = np.array([np.clip(p[:, 1, 1] - p[:, 0, 1], -CLIP, CLIP).mean() for p in pairs])
    without, scaled = np.mean([p.mean(axis=0) for p in pairs], axis=0)
    if np.isnan(without[2]):
        error = f"{scaled[0] - without[0]:+.3f}"
    else:
        ratios = [np.log(p[:, 1, 0] / p[:, 0, 0]).mean() for p in pairs]
        error = f"{np.exp(np.mean(ratios)):.3f}"
    wins = f"{np.sum(gains > 0.003)}/{np.sum(gains < -0.003)}"
    covered = ["" if np.isnan(v) else f"{v:.2f}" for v in (without[2], scaled[2])]
    return len(pairs), error, f"{gains.mean():+.3f}", wins, *covered


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    common.add_data(parser)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    by_case, of_labels = {}, {}
    for name, ratio, seed, rows, score in cases(args.data, args.seeds):
        pair = [score(prior, *rows) for prior in (None, "scaled")]
        common.progress(name, ratio, seed, *np.round(np.ravel(pair), 3))
        into = by_case if score is scores else of_labels
        into.setdefault((name, ratio), []).append(pair)
    header = ["rows per column", "half", "tables", "RMSE, ratio", "log density", "more/less"]
    about = (
        f"Means over tables of means over {len(args.seeds)} seeds. Gains count as at most {CLIP:g} "
        f"nat per row. Fits of at most {MOST_ROWS} rows, {MOST_LABELS} with labels; 'all' are "
        "the training rows of small tables. 'choice': the tables on which the rule of 'auto' was "
        f"chosen. Commit {common.commit(common.HERE)}."
    )
    numbers = common.table(
        [*header, "coverage without", "with"], list(summary(by_case, [*SMALL, *LARGE]))
    )
    labels = [row[:-2] for row in summary(of_labels, LABELS)]
    header[3] = "errors, difference"
    parts = about, "## Numbers", numbers, "## Labels", common.table(header, labels)
    common.write_report("length_scale_priors.md", "A prior of length scales", *parts)


if __name__ == "__main__":
    main()
