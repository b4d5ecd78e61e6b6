"""How many files, hops and frames a fit passes: what one has to read to follow a row.

The functions of the package are put in the order in which they are first called. A hop is a step of
this walk that leads to another file, and one between rooms if it leads to another folder (a file at
the top is a room of its own). Depth is the largest number of frames of the package on top of each
other at a first call. Every thread counts.
3,000 rows, 50 inducing points, one thread, until the fit converges, so that nothing warns. ::

    python files_of_a_fit.py
    python files_of_a_fit.py --list "default fit"             # its files, in the order of visits
    PYTHONPATH=OTHER/CHECKOUT python files_of_a_fit.py        # of another version
    python files_of_a_fit.py --write                          # results/files_of_a_fit.md

A fit of a few rows goes before, so that what is imported or kept once does not count.
"""

import argparse
import sys
import threading
from itertools import pairwise
from pathlib import Path

import common
import numpy as np
import ours

ROOT = f"{ours.folder()}/"
N = 3000


class Visits:
    """Context that notes the first calls of functions of the package."""

    def __init__(self):
        self.places, self.depth = {}, 0  # {code: its file}, in the order of first calls

    def __enter__(self):
        threading.setprofile(self._note)
        sys.setprofile(self._note)
        return self

    def __exit__(self, *args):
        sys.setprofile(None)
        threading.setprofile(None)

    def _note(self, frame, event, arg):
        code = frame.f_code
        if event == "call" and code not in self.places and is_ours(frame):
            self.places[code] = code.co_filename.removeprefix(ROOT)
            self.depth = max(self.depth, sum(map(is_ours, stack(frame))))

    def files(self):
        """Names of the files, in the order of first visits."""
        return list(dict.fromkeys(self.places.values()))

    def row(self):
        """Numbers of files, hops, hops between rooms, and frames."""
        walk = list(self.places.values())
        rooms = [Path(name).parts[0] for name in walk]
        return [len(self.files()), steps(walk), steps(rooms), self.depth]


def is_ours(frame):
    return frame.f_code.co_filename.startswith(ROOT)


def stack(frame):
    """A frame and those that called it."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def steps(places):
    """How often the place changes."""
    return sum(one != two for one, two in pairwise(places))


def fits(n):
    """{name: a fit of n rows}."""
    rng = np.random.RandomState(0)
    X = rng.uniform(-3, 3, (n, 2))
    f = np.sin(2 * X[:, 0])
    y, counts = f + 0.3 * rng.normal(size=n), rng.poisson(np.exp(f))
    halves = np.array_split(np.arange(n), 2)

    def in_parts(model, targets):
        for rows in halves:
            model.partial_fit(X[rows], targets[rows])

    choices = {"n_inducing": 50, "n_jobs": 1}

    def regressor(**others):
        return ours.default_regressor().set_params(**choices, posterior="inducing", **others)

    return {
        "default fit": lambda: regressor().fit(X, y),
        "classifier": lambda: ours.default_classifier().set_params(**choices).fit(X, y > 0),
        "fit(source)": lambda: regressor().fit(ours.source(X, y)),
        "partial_fit": lambda: in_parts(regressor(), y),
        "partial_fit of counts": lambda: in_parts(regressor(likelihood="poisson"), counts),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", metavar="FIT", help="print the files of one fit instead")
    parser.add_argument("--write", action="store_true", help="also to results/files_of_a_fit.md")
    args = parser.parse_args()
    chosen = [args.list] if args.list else list(fits(N))
    rows = []
    for name in chosen:
        fits(200)[name]()
        with Visits() as visits:
            fits(N)[name]()
        rows.append([name, *visits.row()])
    if args.list:
        print("\n".join(visits.files()))
        return
    header = ["", "files", "hops between files", "hops between rooms", "frames on a stack"]
    table = common.table(header, rows)
    if args.write:
        common.write_report("files_of_a_fit.md", "Files of a fit", table)
    else:
        print(table)


if __name__ == "__main__":
    main()
