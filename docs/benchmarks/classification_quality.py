"""Probabilities and labels of `SparseGPClassifier`, beside other classifiers.

Part "adam2021": small data sets of Adam, Chang, Khan and Solin (2021), and USPS. Inputs
standardised by the training part, m = 50, constant times Matern 5/2 with one length scale per
input, which start at sqrt(d); a variance of at most 50 (GPflow's is not bounded).

- titsias, titsias_new, gfitc-ep: ours, by bound, probit likelihood;
- exact: scikit-learn's `GaussianProcessClassifier` with the same kernel (Laplace, logit), left
  out above `--exact-max-n` training rows;
- GPflow: SVGP, k-means centres, `--iterations` times a natural-gradient step for q (size 0.5)
  and one of Adam for the rest (0.02), all rows; two classes only;
- logistic, boosting: `LogisticRegression` and `HistGradientBoostingClassifier`.

Part "defaults": `SparseGPClassifier(random_state=0)` untouched, on raw inputs, beside exact with
the kernel from which our default starts, logistic (on standardised inputs) and boosting.

Scores, means over the splits: negative log predictive density of the test labels (which is the log
loss), the share of wrong labels and, over all splits of a data set together, the expected
calibration error: in ten bins of the probability of the predicted class, the mean distance between
that and the share of right labels. results/classification_calibration.png shows the same for the
probability of each class but the first, by bound, over all data sets of the first part.

The test part is that of `test_masks` where a set has them; otherwise one of five folds up to
1,000 rows (all five are run unless `--splits` says which), a random tenth beyond. ::

    python classification_quality.py --data DIR --peers-python PATH
    python classification_quality.py --data DIR --parts defaults --datasets pima --splits 0
    python classification_quality.py --render                 # the tables and the picture alone

Each (part, data set, split, method) is one entry of results/classification.json; entries that
are there already are not computed again, unless with `--again`.
"""

import argparse
import warnings
from functools import partial
from itertools import product

import common
import numpy as np
import ours
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

STORE = common.RESULTS / "classification.json"
BOUNDS = ("titsias", "titsias_new", "gfitc-ep")
FOLDED = ("sonar", "ionosphere", "pima", "wisconsin", "wdbc", "german")
DATASETS = {
    "adam2021": ("sonar", "ionosphere", "pima", "banana", "usps35", "usps"),
    "defaults": (*FOLDED, "spambase", "banana", "phoneme", "eeg", "htru2"),
}
LARGEST = 50.0  # variance of the kernel, as in the default one of the estimator
USPS_ROWS = 2000  # training rows of all ten digits


# -- data and scores -------------------------------------------------------------------


def load(folder, name, split):
    """X, y, X_test, y_test; usps35 is the digits 3 and 5, usps all ten."""
    if not name.startswith("usps"):
        return common.labelled_split(folder, name, split)
    X, y, X_test, y_test = common.labelled_split(folder, "usps", 0)
    if name == "usps35":
        train, test = np.isin(y, (3, 5)), np.isin(y_test, (3, 5))
        return X[train], (y[train] == 5) * 1, X_test[test], (y_test[test] == 5) * 1
    rows = np.random.RandomState(split).permutation(len(X))[:USPS_ROWS]
    return X[rows], y[rows], X_test, y_test


def binned(probability, hit):
    """In ten bins of the probability: its count, its sum and the number of hits."""
    index = np.minimum((10 * probability).astype(int), 9)
    return [np.bincount(index, weight, 10).tolist() for weight in (None, probability, hit)]


def scores(y, probabilities):
    right = np.argmax(probabilities, axis=1) == y
    one_hot = np.arange(probabilities.shape[1]) == y[:, None]
    return {
        "nlpd": common.nlpd(y, probabilities),
        "error": float(1 - right.mean()),
        "confidence": binned(probabilities.max(axis=1), right),
        "reliability": binned(probabilities[:, 1:].ravel(), one_hot[:, 1:].ravel()),
    }


# -- the methods: (args, data) -> scores -----------------------------------------------


def fit_and_score(model, data):
    X, y, X_test, y_test = data
    return scores(y_test, model.fit(X, y).predict_proba(X_test))


def fit_bound(bound, args, data):
    model = ours.classifier(
        ours.latent_kernel(data[0].shape[1], LARGEST), bound, args.m, random_state=0
    )
    return fit_and_score(model, data) | about_ours(model)


def about_ours(model):
    found = {"bound": model.log_marginal_likelihood_value_, "n_iter": int(model.n_iter_)}
    return found | {"kernel": str(model.kernel_)}


def fit_default(args, data):
    model = ours.default_classifier()
    return fit_and_score(model, data) | about_ours(model)


def fit_exact(args, data, kernel_of=lambda X, y: ours.latent_kernel(X.shape[1], LARGEST)):
    X, y = data[:2]
    if len(X) > args.exact_max_n:
        return None
    model = GaussianProcessClassifier(kernel_of(X, y))
    return fit_and_score(model, data) | {"kernel": str(model.kernel_)}


def fit_gpflow(args, data):
    X, y, X_test, y_test = data
    if not args.peers_python or y.max() > 1:
        return None
    Z = common.kmeans_centres(X, args.m)
    start = {"lengthscales": np.sqrt(X.shape[1]), "gpflow_kernel": "Matern52"}
    model = common.problem(X, y, Z, X_test=X_test, **start)
    result = common.run_peer(
        args.peers_python, "gpflow-classify", model, iterations=args.iterations
    )
    positive = np.array(result["probability"])
    found = scores(y_test, np.column_stack([1 - positive, positive]))
    return found | {key: result[key] for key in ("bound", "versions")}


def fit_logistic(args, data):
    return fit_and_score(make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)), data)


def fit_boosting(args, data):
    return fit_and_score(HistGradientBoostingClassifier(random_state=0), data)


METHODS = {
    "adam2021": {
        **{bound: partial(fit_bound, bound) for bound in BOUNDS},
        "exact": fit_exact,
        "GPflow": fit_gpflow,
        "logistic": fit_logistic,
        "boosting": fit_boosting,
    },
    "defaults": {
        "ours": fit_default,
        "exact": partial(fit_exact, kernel_of=ours.initial_latent_kernel),
        "logistic": fit_logistic,
        "boosting": fit_boosting,
    },
}


def splits_of(args, name):
    return args.splits or (range(5) if name in FOLDED else [0])


def run(args):
    done = common.read_json(STORE)
    for part in args.parts:
        for name, method in product(DATASETS[part], METHODS[part]):
            chosen = name in (args.datasets or [name]) and method in (args.methods or [method])
            for split in splits_of(args, name) if chosen else []:
                key = f"{part}/{name}/{split}/{method}"
                if args.again or key not in done:
                    run_one(args, key)


def run_one(args, key):
    part, name, split, method = key.split("/")
    X, y, X_test, y_test = load(args.data, name, int(split))
    if part == "adam2021":
        X, X_test = common.standardise(X, X_test)
    data, entry = (X, y, X_test, y_test), {}
    seconds = common.seconds_of(lambda: entry.update(METHODS[part][method](args, data) or {}))
    if entry:
        entry |= {"seconds": round(seconds, 2), "n": len(X), "d": X.shape[1]}
        common.store(STORE, key, entry)
    common.progress(key, entry.get("nlpd"), entry.get("error"), round(seconds, 1), "s")


# -- the tables and the picture --------------------------------------------------------


def found(entries, part, name, method):
    """The entries of all splits on which every method was run that ran on the data set."""
    own = {}
    for key, entry in entries.items():
        *place, split, of = key.split("/")
        if place == [part, name]:
            own.setdefault(of, {})[split] = entry
    shared = set.intersection(*map(set, own.values())) if own else set()
    return [entry for split, entry in own.get(method, {}).items() if split in shared]


def average(what, entries):
    return float(np.mean([entry[what] for entry in entries]))


def calibration_error(entries):
    count, probability, hits = np.sum([entry["confidence"] for entry in entries], axis=0)
    return float(np.abs(probability - hits).sum() / count.sum())


def method_table(entries, part, score):
    rows = []
    for name in DATASETS[part]:
        by_method = {method: found(entries, part, name, method) for method in METHODS[part]}
        every = [entry for some in by_method.values() for entry in some]
        if every:
            splits = min(len(some) for some in by_method.values() if some)
            sizes = [round(average("n", every)), every[0]["d"], splits]
            rows.append(
                [name, *sizes, *(score(some) if some else None for some in by_method.values())]
            )
    return common.table(["data set", "n", "d", "splits", *METHODS[part]], rows)


def reliability(entries, method):
    """Probability and share of hits in the bins that are not empty, over all data sets."""
    every = [found(entries, "adam2021", name, method) for name in DATASETS["adam2021"]]
    parts = [entry["reliability"] for some in every for entry in some]
    count, probability, hits = np.sum(parts, axis=0) if parts else np.zeros((3, 10))
    filled = count > 0
    return probability[filled] / count[filled], hits[filled] / count[filled]


def draw(entries, name):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(4.5, 4.5), layout="constrained")
    axes.plot([0, 1], [0, 1], color="0.7", linewidth=1)
    for method in BOUNDS:
        axes.plot(*reliability(entries, method), marker="o", markersize=4, label=method)
    axes.set(xlabel="predicted probability", ylabel="share of rows", aspect="equal")
    axes.legend(frameon=False)
    figure.savefig(common.RESULTS / name, dpi=120)


def table_of_ours(entries):
    rows = []
    for name in DATASETS["defaults"]:
        own = [
            e
            for key, e in entries.items()
            if key.split("/")[:2] == ["defaults", name] and key.split("/")[3] == "ours"
        ]
        if own:
            loss = [entry["nlpd"] for entry in own]
            error = np.std(loss, ddof=1) / np.sqrt(len(loss)) if len(loss) > 1 else None
            rows.append([name, len(own), np.mean(loss), error, average("error", own)])
    return common.table(["data set", "splits", "log loss", "standard error", "errors"], rows)


def render():
    entries = common.read_json(STORE)
    titles = {"adam2021": "m = 50, standardised inputs", "defaults": "Defaults, raw inputs"}
    tables = {
        "negative log predictive density (smaller is better)": partial(average, "nlpd"),
        "share of wrong labels": partial(average, "error"),
        "expected calibration error": calibration_error,
    }
    parts = [
        "Means over the splits on which all methods were run; n is the training part. A dash: not "
        "run, see the script.",
        "## Defaults of ours, all splits",
        table_of_ours(entries),
    ]
    for (part, title), (what, score) in product(titles.items(), tables.items()):
        parts += [f"## {title}: {what}", method_table(entries, part, score)]
    draw(entries, "classification_calibration.png")
    parts.append("![Reliability by bound](classification_calibration.png)")
    common.write_report("classification.md", "Quality of classification", *parts)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    every_set = sorted({name for names in DATASETS.values() for name in names})
    every_method = list(dict.fromkeys(m for methods in METHODS.values() for m in methods))
    parser.add_argument("--data", help="folder of the .npz data sets")
    common.add_peers(parser)
    parser.add_argument("--parts", nargs="+", choices=DATASETS, default=list(DATASETS))
    parser.add_argument("--datasets", nargs="+", choices=every_set)
    parser.add_argument("--methods", nargs="+", choices=every_method)
    parser.add_argument("--splits", nargs="+", type=int)
    parser.add_argument("--m", type=int, default=50, help='in part "adam2021"')
    parser.add_argument("--exact-max-n", type=int, default=1000)
    parser.add_argument("--iterations", type=int, default=1000, help="of GPflow")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--render", action="store_true", help="only the tables and the picture")
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
