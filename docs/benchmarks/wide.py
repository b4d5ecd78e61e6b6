"""Intervals of the default regressor where columns are at least a third as many as rows.

Rows are made up, 500 of them are new. "Before" are intervals without the factor of all deviations
that fits to parts of the rows tell, and "needed" is the width that holds 90 % of the new rows. The
seeds of this script were not used when the step was chosen. ::

    python wide.py
"""

import argparse
import time

import common
import numpy as np
import ours  # noqa: F401  # so that the package of this checkout is measured
from sklearn.linear_model import BayesianRidge

from skgp_sparse import SparseGPRegressor

NEW = 500
SHAPES = (40, 40), (60, 300), (100, 35), (100, 100), (200, 120)


def made(kind, n, p, seed):
    """Rows and targets, the new ones last."""
    rng, size = np.random.RandomState(seed), n + NEW
    X, noise = rng.normal(size=(size, p)), rng.normal(size=size)
    if kind == "dense":
        return X, 3.0 * X @ rng.normal(size=p) / np.sqrt(p) + noise
    if kind == "few columns":
        return X, 3.0 * np.sin(X[:, 0]) + X[:, 1] ** 2 + noise
    if kind == "factors":
        Z = rng.normal(size=(size, 5))
        return Z @ rng.normal(size=(5, p)) + 0.5 * X, 2.0 * Z[:, 0] + Z[:, 1] ** 2 + noise
    if kind == "spectra":
        peaks = np.exp(-0.5 * ((np.linspace(0, 1, p) - rng.uniform(size=(6, 1))) / 0.08) ** 2)
        Z = rng.uniform(size=(size, 6))
        return Z @ peaks + 0.01 * X, 10.0 * Z[:, 0] + 3.0 * Z[:, 1] * Z[:, 2] + noise
    if kind == "heavy tails":
        noise = rng.standard_t(3, size=size)
    scale = {"nothing": 0.0, "little noise": 20.0}.get(kind, 1.0)
    return X, scale * X[:, :3] @ [3.0, 2.0, 1.0] + noise


def scores(X, y, n):
    """Numbers of one table."""
    start = time.process_time()
    model = SparseGPRegressor(random_state=0, n_jobs=1).fit(X[:n], y[:n])
    seconds, X_new, new = time.process_time() - start, X[n:], y[n:]
    mean, std = model.predict(X_new, return_std=True)
    lower, upper = model.predict_interval(X_new, 0.9, "conformal")
    apart = np.abs(new - mean) / std
    before = np.mean(apart < 1.645 / np.sqrt(model.variance_factor_))
    width = np.median((upper - lower) / (2.0 * std)) / np.quantile(apart, 0.9)
    ridge, of_ridge = BayesianRidge().fit(X[:n], y[:n]).predict(X_new, return_std=True)
    r2 = [1.0 - np.mean((new - one) ** 2) / np.var(new) for one in (mean, ridge)]
    held = [before, np.mean(apart < 1.645), np.mean((lower < new) & (new < upper))]
    return [*r2, *held, np.mean(np.abs(new - ridge) < 1.645 * of_ridge), width, seconds]


def main():
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    kinds = "sparse", "dense", "few columns", "factors", "heavy tails", "nothing", "little noise"
    lines, every = [], [(kind, SHAPES) for kind in kinds] + [("spectra", [(60, 600), (60, 300)])]
    for kind, shapes in every:
        found = [scores(*made(kind, *shape, 500 + k), shape[0]) for k, shape in enumerate(shapes)]
        common.progress(kind, *np.mean(found, axis=0).round(3))
        lines.append([kind, len(found), *np.mean(found, axis=0)])
    header = "targets, tables, R², of ridge, before, model, conformal, of ridge, width / needed, s"
    text = "Shares of new rows in intervals of 90 %; means over tables, CPU seconds of fits."
    table = common.table(header.split(", "), lines)
    common.write_report("wide.md", "Wide tables", __doc__.split("::")[0].strip(), text, table)


if __name__ == "__main__":
    main()
