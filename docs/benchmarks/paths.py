"""Files and functions of the package that a call passes, for default fits and predictions.

A reader who follows a fit has to open these files. Every function is counted when it is called for
the first time; imports are not counted.

    python paths.py
"""

import sys
import warnings
from pathlib import Path

import common
import numpy as np

import skgp_sparse
from skgp_sparse import SparseGPClassifier, SparseGPRegressor

ROOT = Path(skgp_sparse.__file__).parent
HEADER = ["call", "files", "functions", "lines of these files"]


def traced(act):
    """Code objects of the package that run while a function does."""
    found = set()

    def look(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(str(ROOT)):
            found.add(frame.f_code)

    sys.setprofile(look)
    try:
        act()
    finally:
        sys.setprofile(None)
    return {code for code in found if code.co_name != "<module>"}


def line(name, codes):
    """A row of the table."""
    files = {code.co_filename for code in codes}
    lines = sum(len(Path(file).read_text("utf-8").splitlines()) for file in files)
    functions = {code for code in codes if not code.co_name.startswith("<")}
    return [name, len(files), len(functions), f"{lines:,}"]


def calls():
    """Pairs of a name and a function without arguments."""
    rng = np.random.RandomState(0)
    X = rng.uniform(-2, 2, (2600, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=2600)
    options = {"random_state": 0, "n_jobs": 1}
    fitted = SparseGPRegressor(**options).fit(X[:300], y[:300])
    yield (
        "SparseGPRegressor().fit, 300 rows",
        lambda: SparseGPRegressor(**options).fit(X[:300], y[:300]),
    )
    alone = {"mean": None, "noise": "constant", **options}
    yield (
        "SparseGPRegressor(mean=None, noise='constant').fit, 300 rows",
        lambda: SparseGPRegressor(**alone).fit(X[:300], y[:300]),
    )
    yield "SparseGPRegressor().fit, 2,600 rows", lambda: SparseGPRegressor(**options).fit(X, y)
    yield (
        "SparseGPClassifier().fit, 500 rows",
        lambda: SparseGPClassifier(**options).fit(X[:500], y[:500] > 0),
    )
    yield "predict(return_std=True)", lambda: fitted.predict(X[:50], return_std=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(common.table(HEADER, [line(name, traced(act)) for name, act in calls()]))
