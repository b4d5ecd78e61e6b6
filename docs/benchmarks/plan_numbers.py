"""The numbers of the plan (`skgp_sparse/plan.py`): what others would cost, and what they would buy.

Each number is changed in the working process, a table is fitted by the defaults (or by inducing
points, where the number is one of theirs), and density and CPU seconds stand beside those of the
number as it is. Tables are those of `wild.py`; a table is cut where a number asks for few rows. ::

    python plan_numbers.py --data DIR
    python plan_numbers.py --data DIR --numbers POINTS START_ROWS --splits 3
    python plan_numbers.py --render

Each (number, value, table, split) is one entry of results/plan_numbers.json.
"""

import argparse
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import common
import numpy as np
import ours
import wild

from skgp_sparse import SparseGPClassifier, SparseGPRegressor
from skgp_sparse.choices import plan

STORE = common.RESULTS / "plan_numbers.json"
INDUCING = {"posterior": "inducing"}


class Question(NamedTuple):
    """A number of the plan, other values of it, and the tables that tell."""

    number: str
    values: tuple
    tables: tuple
    options: dict = {}
    rows: int = 100_000  # of the tables, at most


OF_SOME_ROWS = ("saratoga", "cigar", "wage", "skillcraft", "gas", "pol", "kin40k", "elevators")
QUESTIONS = (
    Question("EXACT_ROWS", (1000,), OF_SOME_ROWS, rows=1700),
    Question("EXACT_RIVAL", (0,), ("wage", "exam", "skillcraft", "sml", "sarcos")),
    Question("EXACT_QUIET", (0,), ("gas", "sml", "sarcos"), INDUCING),
    Question("EXACT_LABELS", (100, 900), ("oj", "hawks", "attrition", "fishing"), rows=800),
    Question("POINTS", (250, 1000), ("exam", "elevators", "computers"), INDUCING, 6000),
    Question("POINTS_OF_LABELS", (100, 400), ("health_insurance", "attrition", "email"), INDUCING),
    Question("START_ROWS", (250, 1000), ("elevators", "computers", "ames"), INDUCING, 6000),
    Question("START_LABELS", (125, 500), ("health_insurance", "email", "stackoverflow"), {}, 3000),
    Question("LEVELS_PER_POINT", (np.inf,), ("hawks",)),
)


def fitted(args, question, value, name, split):
    """Density and CPU seconds of a fit with a value of a number; None: as it is."""
    X, y, X_test, y_test, _ = wild.load(args.data, name, split)
    X, y = X.iloc[: question.rows], y[: question.rows]
    labels = name in wild.LABELS
    usual = getattr(plan, question.number)
    setattr(plan, question.number, usual if value is None else value)
    estimator = SparseGPClassifier if labels else SparseGPRegressor
    model = estimator(random_state=0, categorical_features="from_dtype", **question.options)
    try:
        start = time.process_time()
        model.fit(X, y)
        seconds = time.process_time() - start
    finally:
        setattr(plan, question.number, usual)
    if labels:
        logs = np.log(np.maximum(model.predict_proba(X_test), 1e-15))
        density = np.mean(logs[np.arange(len(y_test)), np.searchsorted(model.classes_, y_test)])
    else:
        density = common.log_density(y_test, *model.predict(X_test, return_std=True))
    return {"density": float(density), "seconds": seconds, "posterior": str(model.posterior_)[:40]}


def run(args):
    warnings.simplefilter("ignore")
    ours.warm_up(True)
    ours.warm_up(False)
    for question in QUESTIONS:
        if question.number not in args.numbers:
            continue
        for name in question.tables:
            for split in args.splits:
                for value in (None, *question.values):
                    key = f"{question.number}/{value}/{name}/{split}"
                    measure = lambda: (  # noqa: E731
                        fitted(args, question, value, name, split)  # noqa: B023
                        | {"commit": common.commit(common.HERE.parents[1])}
                        | {"machine": common.machine()}
                    )
                    common.once(STORE, key, measure, args.again)


def render():
    entries = common.read_json(STORE)
    rows = []
    for question in QUESTIONS:
        for value in question.values:
            pairs = [
                (entries[f"{question.number}/{value}/{name}/{split}"], entries[usual])
                for name in question.tables
                for split in range(10)
                if (usual := f"{question.number}/None/{name}/{split}") in entries
                and f"{question.number}/{value}/{name}/{split}" in entries
            ]
            if not pairs:
                continue
            gains = [other["density"] - usual["density"] for other, usual in pairs]
            ratios = [other["seconds"] / usual["seconds"] for other, usual in pairs]
            usual = getattr(plan, question.number)
            told = [question.number, usual, value, len(pairs)]
            told += [f"{np.mean(gains):+.3f}", f"{min(gains):+.3f}", f"{max(gains):+.3f}"]
            rows.append([*told, f"{np.exp(np.mean(np.log(ratios))):.2f}"])
    header = ["number", "as it is", "other", "fits", "density", "least", "most", "CPU seconds"]
    told = [
        "Density: that of the other value less that of the number as it is, in nats per test row "
        "(mean, least and most over the fits). CPU seconds: their ratio (geometric mean)."
    ]
    parts = [*told, common.table(header, rows), *common.about_runs(entries)]
    common.write_report("plan_numbers.md", "The numbers of the plan", *parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--numbers", nargs="+", default=[one.number for one in QUESTIONS])
    parser.add_argument("--splits", nargs="+", type=int, default=[3, 4])
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--render", action="store_true")
    args = parser.parse_args()
    if not args.render:
        run(args)
    render()


if __name__ == "__main__":
    main()
