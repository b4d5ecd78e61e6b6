"""Where default fits begin: what is found of fine structure, and tables before and after.

Two parts:

- **Functions** that oscillate 5 to 100 times over the range of their inputs, of numbers, labels and
  other likelihoods: the share of the variance (of labels: the share of right answers, and that of
  the true probabilities) that a default fit explains at 600 random places.
- **Tables**, arrays of numbers and data frames with types: default fits of this checkout and of
  another one (``--before DIR``), on the same splits. Numbers are in units of the standard deviation
  of the training targets. A table says the mean log density (labels: minus the log loss) of both,
  the mean of their paired differences with its standard error, the ratio of root mean squared
  errors (labels: of error rates), and the median ratio of CPU seconds of a fit.

One thread. Every (checkout, table) runs in a process of its own; splits take turns between the
checkouts. ::

    python starts.py --data DIR --before CHECKOUT
    python starts.py --data DIR --before CHECKOUT --tables energy cigar --splits 0 1 --again
    python starts.py --functions --before CHECKOUT
    python starts.py --render

Each (table, split, checkout) is one entry of results/starts.json.
"""

import argparse
import json
import os
import time
import warnings
from functools import partial
from pathlib import Path

for library in ("OMP", "OPENBLAS", "MKL"):
    os.environ[f"{library}_NUM_THREADS"] = "1"

import common
import numpy as np
import ours

STORE = common.RESULTS / "starts.json"
MOST_ROWS, MOST_TESTED = 5000, 3000  # of a data frame
SMALLEST = 1e-15  # probability
CHECKOUTS = ("before", "now")


# -- functions -------------------------------------------------------------------------


def _uniform(n, d):
    return lambda rng: rng.uniform(size=(n, d))


def _wave(X, k, column=0):
    return np.sin(2 * np.pi * k * X[:, column])


def _growth(X):
    t = X[:, 0] - 1958
    return 315 + 1.3 * t + 0.01 * t**2 + 3 * _wave(X, 1)


FUNCTIONS = {  # inputs, mean, standard deviation of the noise
    "an hour's wave, three weeks": (
        lambda rng: np.arange(504.0)[:, None],
        lambda X: 10 + 0.01 * X[:, 0] + 3 * _wave(X, 1 / 24),
        0.5,
    ),
    "25 bumps in the plane": (
        _uniform(1800, 2),
        lambda X: 2 * np.prod(np.sin(10 * np.pi * X), axis=1),
        0.1,
    ),
    "checkerboard": (
        _uniform(1200, 2),
        lambda X: np.sign(np.prod(np.sin(6 * np.pi * X), axis=1)),
        0.1,
    ),
    "rings": (
        lambda rng: rng.uniform(-1, 1, (1000, 2)),
        lambda X: np.sin(40 * np.hypot(*X.T)),
        0.1,
    ),
    "square wave, 25 periods": (_uniform(600, 1), lambda X: np.sign(_wave(X, 25)), 0.2),
    "square wave, 50 periods": (_uniform(900, 1), lambda X: np.sign(_wave(X, 50)), 0.2),
    "sine, 40 periods": (_uniform(300, 1), lambda X: _wave(X, 40), 0.1),
    "one column of three": (_uniform(800, 3), lambda X: _wave(X, 20), 0.1),
    "the same beside a trend": (_uniform(800, 3), lambda X: _wave(X, 20) + 3 * X[:, 1], 0.2),
    "a year's wave on a growing trend": (
        lambda rng: 1958 + np.arange(390.0)[:, None] / 9,
        _growth,
        0.3,
    ),
    "one column of five, and a product": (
        _uniform(1500, 5),
        lambda X: _wave(X, 15, 2) + X[:, 0] * X[:, 1],
        0.2,
    ),
    "83 periods": (lambda rng: np.arange(2000.0)[:, None], lambda X: _wave(X, 1 / 24), 0.3),
    "100 periods, random places": (
        lambda rng: np.sort(rng.uniform(size=(1000, 1)) * 1000, axis=0),
        lambda X: _wave(X, 0.1),
        0.3,
    ),
    "60 periods that grow": (_uniform(700, 1), lambda X: _wave(X, 60) * X[:, 0], 0.1),
    "saw, 30 teeth": (_uniform(500, 1), lambda X: 30 * X[:, 0] % 1, 0.1),
    "slow": (_uniform(500, 2), lambda X: np.sin(5 * X[:, 0]) + X[:, 1], 0.1),
}
LABELS = {  # rows, columns, log odds
    "labels: 20 stripes": (800, 1, lambda X: 8 * _wave(X, 20)),
    "labels: 30 stripes": (1000, 1, lambda X: 8 * _wave(X, 30)),
    "labels: 25 fields": (900, 2, lambda X: 8 * np.prod(np.sin(5 * np.pi * X), axis=1)),
    "labels: rings": (800, 2, lambda X: 6 * np.sin(25 * np.hypot(*(X - 0.5).T))),
    "labels: 15 stripes of 250 rows": (250, 1, lambda X: 8 * _wave(X, 15)),
}
LIKELIHOODS = ("poisson", "negative_binomial", "gamma", "student_t")


def function_shares():
    """The share that a default fit explains, by function."""
    found = {}
    for name, (inputs, f, noise) in FUNCTIONS.items():
        rng = np.random.RandomState(0)
        X = inputs(rng)
        model = ours.default_regressor().fit(X, f(X) + noise * rng.normal(size=len(X)))
        Q = np.random.RandomState(9).uniform(X.min(axis=0), X.max(axis=0), (600, X.shape[1]))
        found[name] = [share(model.predict(Q), f(Q)), 1.0]
    for name, (n, d, odds) in LABELS.items():
        rng = np.random.RandomState(0)
        X, Q = rng.uniform(size=(n, d)), rng.uniform(size=(1500, d))
        p = [1 / (1 + np.exp(-odds(at))) for at in (X, Q)]
        y, t = (rng.uniform(size=len(one)) < one for one in p)
        model = ours.default_classifier().fit(X, y)
        found[name] = [float(model.score(Q, t)), float(np.mean((p[1] > 0.5) == t))]
    for name in LIKELIHOODS:
        days, y, mean = responses(name)
        model = ours.default_regressor().set_params(likelihood=name).fit(days, y)
        found[f"{name}, three weeks of hours"] = [share(model.predict(days), mean), 1.0]
    return found


def responses(name):
    """Days, observations and their means."""
    rng, days = np.random.RandomState(0), np.arange(504.0)[:, None] / 24
    wave = 1.2 * _wave(days, 1)
    if name == "student_t":
        return days, wave + 0.2 * rng.standard_t(2, size=504), wave
    mean = np.exp(2 + wave)
    return days, rng.gamma(4, mean / 4) if name == "gamma" else rng.poisson(mean), mean


def share(mean, truth):
    return float(1 - np.mean((mean - truth) ** 2) / np.var(truth))


# -- tables ----------------------------------------------------------------------------


def tables(data):
    """Names of all tables: arrays of at most 5,000 rows (and parkinsons), and data frames."""
    found = []
    for path in sorted(data.glob("*.npz")):
        with np.load(path) as f:
            if "y" in f.files and f["y"].ndim == 1 and len(f["X"]) >= 20:
                if len(f["X"]) <= MOST_ROWS or path.stem == "parkinsons":
                    found.append(path.stem)
    for folder in ("frames", "wild"):
        names = json.loads((data / folder / "frames.json").read_text())
        found += [f"{folder}/{name}" for name in names]
    return found


def load(data, name, split):
    """Training rows and targets, test rows and targets, whether they are labels."""
    if "/" in name:
        return _load_frame(data, *name.split("/"), split)
    with np.load(data / f"{name}.npz") as f:
        X, y = np.ascontiguousarray(f["X"], dtype=np.float64), f["y"]
        masks = f["test_masks"] if "test_masks" in f.files else np.zeros((len(y), 0), dtype=bool)
    is_label = y.dtype.kind != "f" and len(np.unique(y)) <= 20
    test = masks[:, split] if split < masks.shape[1] else np.zeros(len(y), dtype=bool)
    if not test.any():
        test[np.random.RandomState(split).permutation(len(y))[: len(y) // 10]] = True
    return X[~test], y[~test], X[test], y[test], is_label


def _load_frame(data, folder, name, split):
    import pandas as pd

    about = json.loads((data / folder / "frames.json").read_text())[name]
    frame = pd.read_csv(data / folder / f"{name}.csv.gz").drop(columns="is_test", errors="ignore")
    y = frame.pop(about["target"]).to_numpy()
    for column in about["categories"]:
        known = frame[column].notna()
        frame[column] = frame[column].astype(str).where(known, None).astype("category")
    order = np.random.RandomState(split).permutation(len(y))
    test, train = order[: len(y) // 10][:MOST_TESTED], order[len(y) // 10 :][:MOST_ROWS]
    is_label = about["kind"] == "labels"
    return frame.iloc[train], y[train], frame.iloc[test], y[test], is_label


def measure(data, name, split):
    """Score, error, CPU seconds and warnings of a default fit."""
    X, y, Q, t, is_label = load(data, name, split)
    model = (ours.default_classifier if is_label else ours.default_regressor)()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start = time.process_time()
        model.fit(X, y)
        seconds = time.process_time() - start
    score, error = _of_labels(model, Q, t) if is_label else _of_numbers(model, Q, t, y)
    told = sorted({one.category.__name__ for one in caught})
    evidence = float(model.log_marginal_likelihood_value_)
    return {"score": score, "error": error, "cpu": seconds, "told": told, "evidence": evidence}


def _of_numbers(model, Q, t, y):
    mean, std = model.predict(Q, return_std=True)
    unit = np.std(y.astype(float))
    density = -0.5 * np.log(2 * np.pi * std**2) - 0.5 * ((t - mean) / std) ** 2
    return float(density.mean() + np.log(unit)), float(np.sqrt(np.mean((t - mean) ** 2)) / unit)


def _of_labels(model, Q, t):
    p = model.predict_proba(Q)[np.arange(len(t)), np.searchsorted(model.classes_, t)]
    return float(np.log(np.maximum(p, SMALLEST)).mean()), float(np.mean(model.predict(Q) != t))


# -- runs and results ------------------------------------------------------------------


def measured(checkout, *arguments):
    """An entry of the results: what a process of a checkout has found, its commit and machine."""
    found = common.run_version(checkout, "starts.py", "--worker", checkout.resolve(), *arguments)
    return {"found": found, "commit": common.commit(checkout), "machine": common.machine()}


def render():
    entries = common.read_json(STORE)
    found = {key: entry["found"] for key, entry in entries.items()}
    functions = [found.get(f"functions/{which}", {}) for which in CHECKOUTS]
    shares = [
        [name, functions[0].get(name, [None])[0], now, best]
        for name, (now, best) in functions[1].items()
    ]
    names = sorted({key.rsplit("/", 2)[0] for key in found if not key.startswith("functions/")})
    rows = [row for name in names if (row := _row(found, name))]
    gains = np.array([row[-1] for row in rows])
    common.write_report(
        "starts.md",
        "Where default fits begin",
        __doc__.split("::")[0].split("\n\n", 1)[1].rsplit("\n\n", 1)[0],
        "## Functions",
        common.table(["function", "before", "now", "best"], shares),
        "## Tables",
        common.table(HEADER, [row[:-1] for row in rows]),
        f"The mean of the differences over {len(rows)} tables is {gains.mean():+.4f}.",
        *common.about_runs(entries),
    )


HEADER = ["table", "splits", "score before", "now", "difference", "errors", "CPU seconds"]


def _row(found, name):
    """A line of the second table, and the mean difference; None where a checkout is missing."""
    splits = [k for k in range(10) if all(f"{name}/{k}/{which}" in found for which in CHECKOUTS)]
    if not splits:
        return None
    pairs = [[found[f"{name}/{k}/{which}"] for which in CHECKOUTS] for k in splits]
    score, error, cpu = (
        np.array([[one[key] for one in pair] for pair in pairs])
        for key in ("score", "error", "cpu")
    )
    gain = score[:, 1] - score[:, 0]
    text = f"{gain.mean():+.4f}"
    if len(gain) > 1:
        text += f" ± {np.std(gain, ddof=1) / np.sqrt(len(gain)):.4f}"
    errors = float(error[:, 1].sum() / error[:, 0].sum()) if error[:, 0].sum() > 0 else None
    seconds = float(np.median(cpu[:, 1] / cpu[:, 0]))
    return [name, len(splits), *map(float, score.mean(axis=0)), text, errors, seconds, gain.mean()]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder of the data sets")
    parser.add_argument("--before", type=Path, help="another checkout of the package")
    parser.add_argument("--tables", nargs="*")
    parser.add_argument("--splits", nargs="*", type=int, default=[*range(10)])
    parser.add_argument("--functions", action="store_true")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--render", action="store_true")
    parser.add_argument("--worker", nargs="*", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker is not None:
        work(given.worker)
        return
    checkouts = dict(zip(CHECKOUTS, (given.before, common.HERE.parent.parent)))
    for key, arguments in () if given.render else questions(given):
        for which, checkout in checkouts.items():
            measure_it = partial(measured, checkout, *arguments)
            common.once(STORE, f"{key}/{which}", measure_it, given.again)
    render()


def questions(given):
    """Keys of the results, and what workers are told."""
    if given.functions:
        return [("functions", ["functions"])]
    data = given.data.resolve()
    names = given.tables or tables(data)
    return [(f"{name}/{k}", [data, name, k]) for name in names for k in given.splits]


def work(words):
    """Print what a worker has found."""
    checkout, *words = words
    ours.check_package(checkout)
    warnings.simplefilter("ignore")
    if len(words) == 1:
        found = function_shares()
    else:
        found = measure(Path(words[0]), words[1], int(words[2]))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
