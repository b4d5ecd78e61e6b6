"""Tables of three papers, the published numbers beside ours.

Inputs, and targets that are no classes, are standardised by the training part. `default` is the
estimator without arguments, with its own kernel, so that it shows what a user gets who says
nothing; `exact` is the exact process with the kernel of the others. Parts:

- `tsvgp`: Adam, Chang, Khan and Solin (2021), "Dual parameterization of sparse variational
  Gaussian processes". Five folds, 50 inducing points, Matern 5/2 with one length scale, and the
  probit likelihood for classes. Scores are the mean log density of test rows and their root mean
  squared error; of classes, the mean log probability and the share of wrong ones.
- `bui2025`: Bui and Titsias (2025), arXiv 2507.02377. 5,000 training and 5,000 test rows of kin40k,
  256 inducing points, squared exponential kernel with one length scale per input.
- `cheng2017`: Cheng and Boots (2017), "Variational inference for Gaussian process models with
  linear complexity". Inverse dynamics of arms: the squared error over the variance of the test
  targets, averaged over the outputs, which share kernel, noise and inducing points. A way is the
  number of inducing points of the covariance, and behind "+" that of the mean, if it has more.
  `exact 500` is the exact process given so many random rows. ::

    python published.py --data DIR
    python published.py --data DIR --parts tsvgp --datasets sonar --splits 0
    python published.py --render                    # the tables alone

Each (part, data set, way, split) is one entry of results/published.json; entries that are there
already are not computed again, unless with `--again`.
"""

import argparse
import warnings
from functools import partial
from itertools import product

import common
import numpy as np
import ours
from quality_titsias2025 import entry_of, estimator, fitted, mean_and_error, standardised
from sklearn.model_selection import KFold, StratifiedKFold

STORE = common.RESULTS / "published.json"
TARGETS, CLASSES = ("airfoil", "housing", "concrete"), ("sonar", "ionosphere", "pima")
ARMS = ("sarcos", "ur10e")
BUI2025 = {  # RMSE and log density
    "titsias 256": (0.26, -0.14),
    "titsias_new 256": (0.22, -0.06),
    "pep 256": (0.20, 0.18),
    "exact": (0.12, 0.80),
    "default": (None, None),
}
CHENG2017 = {  # normalised mean squared errors of KUKA 1 and 2, and of MuJoCo 1 and 2
    "decoupled": (0.037, 0.038, 0.072, 0.065),
    "stochastic variational inference": (0.169, 0.166, 0.163, 0.167),
    "incremental": (0.128, 0.137, 0.099, 0.093),
    "batch variational": (0.139, 0.134, 0.118, 0.107),
    "exact on few rows": (0.231, 0.234, 0.213, 0.207),
}
FEW = {"exact 500": 500, "exact 1000": 1000, "exact 2000": 2000}  # rows
WAYS = {
    "tsvgp": ("titsias 50", "titsias_new 50", "exact", "default"),
    "bui2025": tuple(BUI2025),
    "cheng2017": ("128", "128 + 1280", "192", "256", "256 + 1280", *FEW, "default"),
}
ROWS, TESTED = {"kin40k": 5000, "ur10e": 20_000}, {"kin40k": 5000, "ur10e": 2000}  # at most


# -- t-SVGP ----------------------------------------------------------------------------


def fit_tsvgp(args, name, way, split):
    if name in CLASSES:
        return fit_classes(args, name, way, split)
    X, y = common.load(args.data, name)
    train, test = fold(KFold, X, y, split)
    kernel = ours.one_scale_kernel(nu=2.5)
    return entry_of(estimator(way, kernel, split), standardised(X, y, train, test))


def fit_classes(args, name, way, split):
    X, y, _ = common.labelled(args.data, name)
    train, test = fold(StratifiedKFold, X, y, split)
    X, X_test = common.standardise(X[train], X[test])
    model = labels(way, len(X)).set_params(random_state=split)
    about = fitted(model, X, y[train])
    p = model.predict_proba(X_test)
    wrong = float(np.mean(np.argmax(p, axis=1) != y[test]))
    return {"log_density": -common.nlpd(y[test], p), "rmse": wrong} | about


def labels(way, n):
    """An unfitted classifier."""
    if way == "default":
        return ours.default_classifier()
    bound, m = ("titsias_new", n) if way == "exact" else way.split()
    return ours.classifier(ours.one_scale_kernel(nu=2.5).k1, bound, int(m))


def fold(kind, X, y, split):
    """Training and test rows of one of five folds."""
    return list(kind(5, shuffle=True, random_state=0).split(X, y))[split]


# -- kin40k and arms -------------------------------------------------------------------


def drawn(args, name, split, rows=None):
    """Standardised data of random rows: a tenth of them, or so many, are the test part."""
    X, y = common.load(args.data, name)
    order = np.random.default_rng(split).permutation(len(X))
    tested = TESTED.get(name, len(X) // 10)
    train = order[tested:][: rows or ROWS.get(name)]
    return standardised(X, y, train, order[:tested])


def fit_bui2025(args, name, way, split):
    data = drawn(args, name, split)
    return entry_of(estimator(way, ours.rbf_kernel(data[0].shape[1]), split), data)


def fit_cheng2017(args, name, way, split):
    X, y, X_test, y_test = drawn(args, name, split, FEW.get(way))
    model = arm(way, ours.rbf_kernel(X.shape[1]), split)
    about = fitted(model, X, y)
    mean, std = ours.observed(model, X_test)
    errors = np.mean((y_test - mean) ** 2, axis=0) / y_test.var(axis=0)
    density = common.log_density(y_test, mean, std)
    return {"nmse": float(errors.mean()), "log_density": density} | about


def arm(way, kernel, seed):
    """Unfitted: the numbers of points of the covariance and of the mean, or another way."""
    if way == "default" or way in FEW:
        return estimator(way.split()[0], kernel, seed)
    m, _, n_mean = way.partition(" + ")
    how = {"posterior": ours.with_larger_mean(int(n_mean))} if n_mean else {}
    return estimator(f"titsias_new {m}", kernel, seed, **how)


def run(args):
    for part in args.parts:
        fit, names, _ = PARTS[part]
        names = [name for name in args.datasets or names if name in names]
        for name, split, way in product(names, args.splits or SPLITS[part], WAYS[part]):
            if way in (args.ways or WAYS[part]):
                key = f"{part}/{name}/{way}/{split}"
                common.once(STORE, key, partial(fit, args, name, way, split), args.again)


# -- the tables ------------------------------------------------------------------------


def tsvgp_tables(entries):
    rows = []
    for name, way in product((*TARGETS, *CLASSES), WAYS["tsvgp"]):
        prefix = f"tsvgp/{name}/{way}"
        rows.append([name, way, *(mean_and_error(entries, prefix, what) for what in SCORES)])
    yield "## t-SVGP: Adam, Chang, Khan and Solin (2021)"
    yield common.table(["data set", "way", "log density", "RMSE, or share of wrong classes"], rows)
    yield REMARKS["tsvgp"]


def bui_tables(entries):
    rows = []
    for way, (rmse, density) in BUI2025.items():
        found = [mean_and_error(entries, f"bui2025/kin40k/{way}", what) for what in SCORES]
        rows.append([way, density, found[0], rmse, found[1]])
    header = ["way", "log density, published", "ours", "RMSE, published", "ours"]
    yield "## kin40k with 5,000 rows: Bui and Titsias (2025)"
    yield common.table(header, rows)
    yield REMARKS["bui2025"]


def cheng_tables(entries):
    yield "## A mean with more points: Cheng and Boots (2017)"
    yield "Published: normalised mean squared errors on data that are not at hand."
    columns = ["KUKA 1", "KUKA 2", "MuJoCo 1", "MuJoCo 2"]
    yield common.table(["method", *columns], [[way, *row] for way, row in CHENG2017.items()])
    whats = ("nmse", "log_density", "cpu_seconds")
    rows = []
    for name, way in product(ARMS, WAYS["cheng2017"]):
        prefix = f"cheng2017/{name}/{way}"
        rows.append([name, way, *(mean_and_error(entries, prefix, what) for what in whats)])
    yield "Ours:"
    yield common.table(["data set", "way", "nMSE", "log density", "CPU seconds of the fit"], rows)
    yield REMARKS["cheng2017"]


SCORES = ("log_density", "rmse")
SPLITS = {"tsvgp": range(5), "bui2025": range(3), "cheng2017": range(3)}
PARTS = {  # how to fit, data sets, tables
    "tsvgp": (fit_tsvgp, (*TARGETS, *CLASSES), tsvgp_tables),
    "bui2025": (fit_bui2025, ("kin40k",), bui_tables),
    "cheng2017": (fit_cheng2017, ARMS, cheng_tables),
}
ABOUT = """Means ± standard errors (number of splits) of held-out scores, in units of the standard
deviation of the training targets. Larger log densities and smaller errors are better. A dash: not
published, or not run. `default` is the estimator without arguments, which has another kernel and
above 2,000 rows mostly another posterior; the papers have nothing of the kind. The random splits
are ours, as those of the papers are not known."""
REMARKS = {
    "tsvgp": """- The paper shows curves only, so there are no numbers to set beside ours.
  `titsias 50` maximises the bound of t-SVGP, so that its curves should end there if they reach
  the same optimum.
- Ours has all columns of concrete and housing (8 and 13); the paper names 5 and 12.
- `exact` has an inducing point for each row; its posterior is still the variational one for
  classes.
- The default has one length scale per column, from which its larger differences from `exact` come
  (airfoil, concrete).""",
    "bui2025": """- The log densities of `titsias` and `titsias_new` agree with the paper, given
  the standard errors.
- All our errors are 0.015 to 0.06 higher, and our exact process is behind the published one,
  although it has converged: a fiftieth of the tolerance gives the same two numbers. The paper's
  training and test rows, or its kernel, may be others; they are not known to us.
- `pep` has the objective of Bui, Yan and Turner (2017) at power 1/2. The published number belongs
  to that objective with the new bound in it, which the package does not have.""",
    "cheng2017": """- The published data are not at hand; ours are other arms, so only ratios can
  be compared.
- More points for the mean alone lower the error by 2 to 8 %. This is cheap, but about what the
  same seconds gain when they are spent on more inducing points for both (192 in place of 128).
- The paper's factor of three to four over batch variational inference is not reproduced. There,
  both bases and the hyperparameters are learned together by 2,000 stochastic steps. Here, the
  further points of the mean are random rows, and the hyperparameters are those of the inducing
  points alone, whose noise smooths the larger mean, too.
- The exact process of few rows is the worst in the paper, but not here. With half of the rows of
  sarcos it is better than the 192 inducing points that take as long. With a tenth of the rows of
  ur10e, it takes a fifth of their time: its density is a little higher, its error larger.
- In split 1 of ur10e, the default predicts one of 2,000 test rows 36 standard deviations of the
  targets off, with a standard deviation of 7. Without this row, its error is 0.013.
- CPU seconds were measured on a machine that other programs kept busy.""",
}


def render():
    entries = common.read_json(STORE)
    parts = [text for *_, tables in PARTS.values() for text in tables(entries)]
    runs = common.about_runs(entries)
    common.write_report("published.md", "Tables of three papers", ABOUT, *parts, *runs)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder of the .npz data sets")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--datasets", nargs="+", help="of every part")
    parser.add_argument("--ways", nargs="+", help="to fit, of every part")
    parser.add_argument("--splits", nargs="+", type=int, help="of every part")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--render", action="store_true", help="only the tables")
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
