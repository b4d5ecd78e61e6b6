"""Copies of rows: which tables have them, and what default fits make of them.

The first part tells, of every table with repeated inputs, the share of these that have one target,
beyond chance, by which a fit decides whether equal rows are copies (`skgp_sparse.data.copies`): as
the table is, of a bootstrap sample, with all rows twice, and with the first fifth twice.

The second part fits such samples of functions with known noise, beside a fit to the distinct rows
of the sample and a random forest: R² of new rows, the noise, and how many new rows intervals of
90 % hold. With ``--before CHECKOUT``, another checkout is fitted, too. ::

    python copies.py --data DIR --before CHECKOUT
"""

import argparse
import json
import warnings
from pathlib import Path

import common
import numpy as np
import ours  # noqa: F401  # so that the package of this checkout is measured
import wild
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.metrics import log_loss

from skgp_sparse import SparseGPClassifier, SparseGPRegressor

SAMPLES = {
    "as it is": lambda n, rng: np.arange(n),
    "bootstrap": lambda n, rng: rng.randint(n, size=n),
    "all twice": lambda n, rng: np.r_[0:n, 0:n],
    "a fifth twice": lambda n, rng: np.r_[0:n, 0 : n // 5],
}


# -- shares ----------------------------------------------------------------------------


def tables(folder):
    """Names, inputs, targets and kinds of tables of numbers, and of everyday ones."""
    import pandas as pd

    from skgp_sparse.data.columns import types_of

    for path in sorted(folder.glob("*.npz")):
        with np.load(path) as f:
            if "y" in f and f["X"].size < 5e6:
                yield path.stem, f["X"].astype(float), f["y"], f["y"].dtype.kind == "i"
    for name in (*wild.NUMBERS, *wild.LABELS):
        X, y, *_ = wild.load(folder, name, 0)
        types, is_label = types_of(X, "from_dtype", name), name in wild.LABELS
        X = X.to_numpy(float) if types is None else types.encoded(X, name)
        yield name, X, pd.factorize(y)[0] if is_label else y, is_label


def share(X, y):
    """The share of repeated inputs with one target, beyond chance; None without such inputs."""
    from skgp_sparse.data.arrays import ArrayDataset
    from skgp_sparse.data.copies import RowHashes, share_with_one_target

    found = RowHashes.of(ArrayDataset(X, y))
    if len(np.unique(found.inputs)) == len(X):
        return None
    _, first, counts = np.unique(found.rows, return_index=True, return_counts=True)
    return share_with_one_target(found.inputs[first], found.targets[first], counts)


def shares(folder):
    """Rows of the first table: those of tables that have repeated inputs as they are."""
    for name, X, y, is_label in tables(folder):
        if share(X, y) is None:
            continue
        rows = [make(len(X), np.random.RandomState(0)) for make in SAMPLES.values()]
        found = [f"{share(X[some], y[some]):.2f}" for some in rows]
        common.progress(name, *found)
        yield [name, "labels" if is_label else "numbers", len(X), *found]


# -- fits ------------------------------------------------------------------------------


def wave(X):
    return np.sin(2 * X[:, 0]) + 0.5 * X[:, 1]


def steps(X):
    return np.where(X[:, 0] > 0, 1.0, -0.5) * (1.0 + np.rint(X[:, 1]))


FUNCTIONS = {"wave": (wave, 0.5), "steps": (steps, 0.4)}


def drawn(name, n, seed):
    """Inputs, of which one is a category of "steps", and targets."""
    function, noise = FUNCTIONS[name]
    rng = np.random.RandomState(seed)
    X = rng.uniform(-3, 3, (n, 3))
    if name == "steps":
        X[:, 1] = np.rint(X[:, 1])
    return X, function(X) + noise * rng.normal(size=n)


def scores(model, X, y, new, truth):
    model.fit(X, y)
    if hasattr(model, "predict_proba"):
        return [log_loss(truth, model.predict_proba(new)), np.nan, np.nan, np.nan]
    found = [model.score(new, truth), np.nan, np.nan, np.nan]
    if isinstance(model, SparseGPRegressor):
        found[1] = model.noise_std(new[:1])[0]
        for k, method in enumerate(("model", "conformal")):
            try:
                low, high = model.predict_interval(new, coverage=0.9, method=method)
                found[2 + k] = np.mean((low <= truth) & (truth <= high))
            except ValueError:  # no deviation is above 0
                found[2 + k] = 0.0
    return found


def work(seeds):
    """Scores by function, number of rows, sample and method."""
    found = {}
    for name in (*FUNCTIONS, "labels"):
        makers = SparseGPRegressor, RandomForestRegressor
        makers = (SparseGPClassifier, RandomForestClassifier) if name == "labels" else makers
        for n in (250, 1000, 3000):
            for sample, make in SAMPLES.items():
                runs = []
                for seed in range(seeds):
                    X, y = drawn("wave" if name == "labels" else name, n, seed)
                    new, truth = drawn("wave" if name == "labels" else name, 2000, 100 + seed)
                    y, truth = (y > 0, truth > 0) if name == "labels" else (y, truth)
                    rows = make(n, np.random.RandomState(seed))
                    once = np.unique(rows)
                    cases = (makers[0], rows), (makers[0], once), (makers[1], rows)
                    runs.append(
                        [
                            scores(one(random_state=0), X[some], y[some], new, truth)
                            for one, some in cases
                        ]
                    )
                found[f"{name}, {n}, {sample}"] = np.mean(runs, axis=0).tolist()
                common.progress(name, n, sample, np.round(found[f"{name}, {n}, {sample}"], 3))
    return found


def fits(seeds, before):
    """Rows of the second table."""
    now = work(seeds)
    arguments = "copies.py", "--data", "-", "--work", seeds
    old = {} if before is None else common.run_version(before, *arguments)
    for case, (copies, once, forest) in now.items():
        known = old.get(case, [[np.nan] * 4])[0]
        yield [case, *(f"{one[0]:.3f}" for one in (copies, once, forest)), f"{known[0]:.3f}"] + [
            " / ".join(f"{one[k]:.2f}" for one in (copies, once))
            if copies[k] == copies[k]
            else None
            for k in (1, 2, 3)
        ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    common.add_data(parser)
    parser.add_argument("--before", type=Path)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--work", type=int)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    if args.work:
        print(json.dumps(work(args.work)))
        raise SystemExit
    header = ["table", "targets", "rows", *SAMPLES]
    of_tables = common.table(header, list(shares(Path(args.data))))
    header = ["function, rows, sample", "copies", "distinct rows", "forest", "before"]
    header += ["noise: copies / distinct", "model intervals of 90 % hold", "conformal ones"]
    of_fits = common.table(header, list(fits(args.seeds, args.before)))
    common.write_report(
        "copies.md",
        "Copies of rows",
        "The share of repeated inputs with one target, beyond chance. Equal rows are copies from "
        "0.5 on, and from 0.8 on where there are labels or a likelihood.",
        of_tables,
        "R² of new rows (log loss of labels) of default fits to samples with copies, of fits to "
        "their distinct rows, of random forests, and of default fits of the version before.",
        of_fits,
    )
