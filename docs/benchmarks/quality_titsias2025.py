"""Tables 1, 2, 4 and 5 of Titsias (2025), the published numbers beside ours.

Random splits of 64 % training, 16 % unused (validation in the paper) and 20 % test rows; inputs and
targets standardised by the training part. Scores are the mean log predictive density of the
standardised test targets, noise included, and their root mean squared error. Parts:

- `table1`: pol, bike and elevators, squared exponential kernel with one length scale per input. All
  three bounds predict by the same formula; what differs is the kernel, the noise and Z to which
  they lead. The exact process begins at the hyperparameters with which rows are predicted best by
  their neighbours (`posterior="neighbors"`), and has at most `--exact-max-iter` iterations.
- `table2`: Tables 2 and 4, kin40k and keggdirected, Matern 3/2 with one length scale.
- `table5`: counts of bicycles from two temperatures, a Poisson likelihood, random splits of 90 %
  training and 10 % test rows; squared exponential kernel with one length scale per input.

Ways to fit: a bound and a number of inducing points; `exact`; and `default`, which is
`SparseGPRegressor()` with its own kernel, so that it shows what a user gets who says nothing. In
`table5`, the word "rows" behind it means that random rows are the first inducing points.

M. K. Titsias, "New bounds for sparse variational Gaussian processes", ICML 2025. ::

    python quality_titsias2025.py --data DIR
    python quality_titsias2025.py --data DIR --datasets pol --splits 0 1 --ways default exact
    python quality_titsias2025.py --render                    # the tables alone

Each (part, data set, way, split) is one entry of results/titsias2025.json; entries that are
there already are not computed again, unless with `--again`.
"""

import argparse
import time
import warnings
from functools import partial
from itertools import product

import common
import numpy as np
import ours

STORE = common.RESULTS / "titsias2025.json"
TABLE1 = {  # log density
    "titsias 1024": {"pol": 0.821, "bike": 2.176, "elevators": -0.387},
    "artemev 1024": {"pol": 0.859, "bike": 2.199, "elevators": -0.387},
    "titsias_new 1024": {"pol": 0.920, "bike": 2.326, "elevators": -0.387},
    "titsias 2048": {"pol": 0.958, "bike": 2.337, "elevators": -0.387},
    "artemev 2048": {"pol": 0.976, "bike": 2.356, "elevators": -0.387},
    "titsias_new 2048": {"pol": 0.998, "bike": 2.511, "elevators": -0.387},
    "exact": {"pol": 1.089, "bike": 3.105, "elevators": -0.386},
    "default": {},
}
TABLE2 = {  # log density and RMSE
    "titsias 1024": {"kin40k": (0.108, 0.195), "keggdirected": (1.042, 0.086)},
    "titsias_new 1024": {"kin40k": (0.152, 0.182), "keggdirected": (1.044, 0.086)},
    "titsias 2048": {"kin40k": (0.237, 0.171), "keggdirected": (1.050, 0.086)},
    "titsias_new 2048": {"kin40k": (0.286, 0.158), "keggdirected": (1.051, 0.086)},
    "default": {},
}
TABLE5 = {
    "titsias 8": -36.397,
    "titsias 16": -16.557,
    "titsias 32": -8.556,
    "titsias_new 8": -9.713,
    "titsias_new 16": -9.301,
    "titsias_new 32": -8.203,
    "exact": -5.061,
    "default": None,
}
BICYCLES = "nyc_bicycle_2016"
EVERYTHING = 10**6  # inducing points, which makes any process exact


# -- data ------------------------------------------------------------------------------


def split_rows(n, seed):
    """Training and test rows: 64 % and 20 % of a seeded permutation."""
    rows = np.random.default_rng(seed).permutation(n)
    return rows[: int(0.64 * n)], rows[int(0.8 * n) :]


def split_data(folder, name, seed):
    X, y = common.load(folder, name)
    return standardised(X, y, *split_rows(len(X), seed))


def standardised(X, y, train, test):
    X_train, X_test = common.standardise(X[train], X[test])
    y_train, y_test = common.standardise(y[train], y[test])
    return X_train, y_train, X_test, y_test


# -- one fit ---------------------------------------------------------------------------


def estimator(way, kernel, seed, **options):
    """Unfitted: "default", "exact", or a bound and a number of inducing points."""
    if way == "default":
        return ours.default_regressor().set_params(random_state=seed)
    if way == "exact":
        return ours.regressor(kernel, "auto", posterior="exact", random_state=seed, **options)
    bound, m = way.split()
    return ours.regressor(kernel, bound, int(m), random_state=seed, **options)


def fitted(model, X, y):
    """What an entry says of a fit, whatever its scores are."""
    start = time.process_time()
    model.fit(X, y)
    return {
        "cpu_seconds": round(time.process_time() - start, 1),
        "kernel": str(model.kernel_),
        "bound": float(model.log_marginal_likelihood_value_),
        "iterations": int(model.n_iter_),
        "max_iter": model.max_iter,
        "posterior": ours.given(model),
        "n": len(X),
        "commit": common.commit(common.HERE.parents[1]),
        "machine": common.machine(),
    }


def entry_of(model, data):
    """Scores of a regressor with normal noise, on one split."""
    X, y, X_test, y_test = data
    about = fitted(model, X, y)
    mean, std = ours.observed(model, X_test)
    density = common.log_density(y_test, mean, std)
    return {"log_density": density, "rmse": common.rmse(y_test, mean)} | about


# -- the parts -------------------------------------------------------------------------


def limit(way, args):
    """At most so many iterations, where the user or the size of an exact fit says so."""
    most = args.exact_max_iter if way == "exact" else args.max_iter
    return {} if most is None else {"max_iter": most}


def fit_table1(args, name, way, seed):
    data = split_data(args.data, name, seed)
    kernel = ours.rbf_kernel(data[0].shape[1])
    if way == "exact":
        kernel = ours.regressor(kernel, "auto", posterior="neighbors", random_state=seed)
        kernel = kernel.fit(*data[:2]).kernel_
    return entry_of(estimator(way, kernel, seed, **limit(way, args)), data)


def fit_table2(args, name, way, seed):
    data = split_data(args.data, name, seed)
    return entry_of(estimator(way, ours.one_scale_kernel(), seed, **limit(way, args)), data)


def fit_table5(args, name, way, seed):
    X, y = common.load(args.data, name)
    test, train = np.split(np.random.RandomState(seed).permutation(len(y)), [len(y) // 10])
    X, X_test = common.standardise(X[train], X[test])
    model = poisson(way, X, seed)
    about = fitted(model, X, y[train])
    return {"log_density": float(model.log_predictive_density(X_test, y[test]).mean())} | about


def poisson(way, X, seed):
    """Unfitted; "rows" behind the number: random rows, without repeats, come first."""
    how = {"likelihood": "poisson", "random_state": seed}
    if way == "default":
        return ours.default_regressor().set_params(**how)
    words = way.split()
    bound, m = ("titsias_new", EVERYTHING) if way == "exact" else (words[0], int(words[1]))
    if words[-1] == "rows":
        order = np.random.RandomState(seed).permutation(len(X))
        how["inducing_init"] = np.unique(X[order[:m]], axis=0)
        m = len(how["inducing_init"])
    kernel = ours.rbf_kernel(X.shape[1]).k1
    return ours.regressor(kernel, bound, m, **how)


def run(args):
    for part in args.parts:
        fit, names, ways, _ = PARTS[part]
        names = [name for name in args.datasets or names if name in names]
        for name, seed, way in product(names, args.splits, args.ways or ways):
            if way in ways:
                key = f"{part}/{name}/{way}/{seed}"
                common.once(STORE, key, partial(fit, args, name, way, seed), args.again)


# -- the tables ------------------------------------------------------------------------


def mean_and_error(entries, prefix, what="log_density"):
    """Mean ± standard error (number of splits); None without entries."""
    values = [entry[what] for key, entry in entries.items() if key.startswith(f"{prefix}/")]
    if not values:
        return None
    if len(values) == 1:
        return f"{values[0]:.3f} (1)"
    error = np.std(values, ddof=1) / np.sqrt(len(values))
    return f"{np.mean(values):.3f} ± {error:.3f} ({len(values)})"


def table1(entries):
    header = ["way"] + [f"{name}, {who}" for name in DATASETS1 for who in ("published", "ours")]
    rows = [[way, *cells1(entries, way, published)] for way, published in TABLE1.items()]
    return ["## Table 1: log density", common.table(header, rows), REMARKS1]


def cells1(entries, way, published):
    for name in DATASETS1:
        yield from (published.get(name), mean_and_error(entries, f"table1/{name}/{way}"))


def table2(entries):
    header = ["data set", "way", "log density, published", "ours", "RMSE, published", "ours"]
    rows = []
    for name, (way, published) in product(DATASETS2, TABLE2.items()):
        pair = published.get(name, (None, None))
        ours_ = [mean_and_error(entries, f"table2/{name}/{way}", what) for what in SCORES]
        rows.append([name, way, pair[0], ours_[0], pair[1], ours_[1]])
    return ["## Tables 2 and 4: log density and RMSE", common.table(header, rows), REMARKS2]


def table5(entries):
    header = ["way", "published", "ours", "ours, random rows come first"]
    rows = []
    for way, published in TABLE5.items():
        prefix = f"table5/{BICYCLES}/{way}"
        both = [mean_and_error(entries, prefix), mean_and_error(entries, f"{prefix} rows")]
        rows.append([way, published, *both])
    return ["## Table 5: log density of bicycle counts", common.table(header, rows), REMARKS5]


def details(entries):
    columns = ["log_density", "rmse", "bound", "iterations", "max_iter", "n"]
    columns += ["posterior", "cpu_seconds"]
    rows = [[key, *(entry.get(c) for c in columns)] for key, entry in sorted(entries.items())]
    return common.table(["part / data set / way / split", *columns], rows)


SCORES = ("log_density", "rmse")
DATASETS1, DATASETS2 = ("pol", "bike", "elevators"), ("kin40k", "keggdirected")
WAYS5 = (*TABLE5, *(f"{way} rows" for way in TABLE5 if " " in way))
PARTS = {  # how to fit, data sets, ways, tables
    "table1": (fit_table1, DATASETS1, tuple(TABLE1), table1),
    "table2": (fit_table2, DATASETS2, tuple(TABLE2), table2),
    "table5": (fit_table5, (BICYCLES,), WAYS5, table5),
}
ABOUT = """Means ± standard errors (number of splits) of held-out scores, in units of the standard
deviation of the training targets. Larger log densities and smaller errors are better. A dash: not
published, or not run. `default` is `SparseGPRegressor()`, which has another kernel and mostly
another posterior; the paper has nothing of the kind.

In all tables the random splits are ours, as those of the paper are not known. Our fits begin at
the hyperparameters of an exact fit to some of the rows, the paper's at fixed values. Ours end
when L-BFGS gains less than 0.001 nats per row in six iterations; the paper takes 10,000 steps of
Adam in Table 1, and 100 epochs of minibatches in Tables 2 and 4."""
REMARKS1 = """- pol and elevators agree with the paper, given the standard errors. With 2,048
  inducing points, pol is 0.04 higher for all three bounds; its fits had 100 iterations at most.
- bike is higher by 0.46 to 0.76. The target is an exact function of two of the inputs (the
  logarithm of their sum), so that its density tells how far an optimiser has come. The paper's
  bike also has fewer rows (10,600 for training; 64 % of ours are 11,122).
- The default is above the paper's exact process on all three, as its kernel and its metric are
  others.
- Exact processes were ended early, those of elevators, pol and bike after 5, 10 and 15 iterations.
  The evidence of elevators was still 53 nats below the bound of `titsias_new`; its density agrees
  with the paper all the same.
- bike with 2,048 inducing points was not run for want of time."""
REMARKS2 = """- kin40k is better than published, although our fits were ended after 100
  iterations at most. Ours maximise the collapsed bound of all rows, with L-BFGS; the paper takes
  minibatches, whose bound has more parameters. The new bound gains 0.08 over the old one, and
  0.04 in the paper.
- keggdirected is a little better than published. Two thirds of its rows are exact repeats, so
  that many test rows are copies of training rows, and splits differ by how many.
- 2,048 inducing points have one split; those of kin40k that are missing were not run for want of
  time."""
REMARKS5 = """- The 210 rows are 30 days, each of them seven times, so that test rows are copies
  of training rows. The log density of a Poisson variable at its mean is -4.71 on average here,
  and our exact process comes close to this limit. We do not know why the paper's is 0.28 lower.
  The kernel is hardly the reason: one length scale for both inputs, and Matern 5/2, gave -4.777
  as well in a trial.
- 32 inducing points are more than there are days. From k-means, ours is therefore the exact
  process. The paper's is not, as if its inducing points had begun at rows that repeat some of the
  days: from random rows, ours has the paper's order, too.
- With 8 and 16 inducing points, both bounds have several optima, as the standard errors show.
  Where optimisers begin and end decides here: most of ours are better than the paper's."""


def render():
    entries = common.read_json(STORE)
    parts = [text for *_, tables in PARTS.values() for text in tables(entries)]
    runs = ["## Every run", details(entries), *common.about_runs(entries)]
    common.write_report("titsias2025.md", "Tables of Titsias (2025)", ABOUT, *parts, *runs)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder of the .npz data sets")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--datasets", nargs="+", help="of every part")
    parser.add_argument("--ways", nargs="+", help="to fit, of every part")
    parser.add_argument("--splits", nargs="+", type=int, default=[0], help="seeds")
    parser.add_argument("--max-iter", type=int, help="at most, except of the exact process")
    parser.add_argument("--exact-max-iter", type=int, default=20)
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
