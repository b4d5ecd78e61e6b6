"""Random effects of schools, states and cities: beside GPBoost and a linear mixed model.

Test rows are a tenth of the rows, or all rows of a fifth of the groups. Scores are those of targets
in units of their standard deviation in training: log density and root mean squared error. The log
likelihood is that of the training rows at its maximum, per row. Seconds are CPU seconds of fit and
predictions, one thread. Effects of groups are a `Categorical` of nearly uncorrelated levels, and
"encoder" is the default with scikit-learn's `TargetEncoder` of groups. The table "simulated" has
60,000 rows of 10,000 levels, whose variance is that of the noise. ::

    python groups.py --data DIR --peers-python PYTHON
    python groups.py --data DIR --render

Exact processes are fitted to at most 2,000 rows. DIR has the tables of data/wild. Each result is an
entry of results/groups.json.
"""

import argparse
import gzip
import io
import json
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
STORE = HERE / "results" / "groups.json"
SPLITS, PATIENCE = 3, 600  # seconds of a fit
MOST_EXACT = 2000  # rows of exact processes
TABLES = {  # target, group, numbers; those after "log" are seen by their logarithms
    "exam": ("normexam", "school", ["standLRT", "schavg"], []),
    "cigar": ("sales", "state", ["year"], ["price", "pop", "ndi", "pimin", "sales"]),
    "txhousing": ("median", "city", ["date", "month"], ["sales", "listings", "median"]),
}
SIMULATED = "simulated"
OURS = ("exact", "inducing", "inducing, no effect", "default", "encoder")
EXACT = ("exact", "GPBoost, process")
PEERS = ("mixed model", "GPBoost, linear", "GPBoost, process", "GPBoost, trees")


def rows_of(folder, name):
    """Numbers (n, d), groups (n,) and targets (n,) of a table, without rows that lack a value."""
    if name == SIMULATED:
        return simulated(10_000, 60_000)
    import pandas as pd

    text = gzip.decompress((Path(folder) / f"{name}.csv.gz").read_bytes())
    target, group, numbers, logs = TABLES[name]
    frame = pd.read_csv(io.BytesIO(text))[list({target, group, *numbers, *logs})].dropna()
    frame = frame[(frame[logs] > 0).all(axis=1)]
    frame = frame.assign(**{one: np.log(frame[one]) for one in logs})
    numbers = numbers + [one for one in logs if one != target]
    codes = np.unique(frame[group].astype(str), return_inverse=True)[1]
    return frame[numbers].to_numpy(float), codes.astype(float), frame[target].to_numpy(float)


def simulated(n_levels, n):
    rng = np.random.RandomState(0)
    x, groups = rng.uniform(0, 10, n), rng.randint(0, n_levels, n)
    y = np.sin(x) + rng.normal(size=n_levels)[groups] + rng.normal(size=n)
    return x[:, None], groups.astype(float), y


def split_of(groups, held_out, seed):
    """Mask of the test rows: a tenth of the rows, or those of a fifth of the groups."""
    rng = np.random.RandomState(seed)
    if held_out == "groups":
        levels = rng.permutation(np.unique(groups))
        return np.isin(groups, levels[: len(levels) // 5])
    test = np.zeros(len(groups), dtype=bool)
    test[rng.permutation(len(groups))[: len(groups) // 10]] = True
    return test


def problem_of(folder, name, held_out, seed):
    X, groups, y = rows_of(folder, name)
    test = split_of(groups, held_out, seed)
    mean, std = X[~test].mean(axis=0), X[~test].std(axis=0)
    X, y = (X - mean) / std, (y - y[~test].mean()) / y[~test].std()
    names = "X", "groups", "y", "X_test", "groups_test", "y_test"
    return dict(
        zip(names, (*(a[~test] for a in (X, groups, y)), *(a[test] for a in (X, groups, y))))
    )


# -- models: each returns means, variances and the log likelihood ------------------------


def ours(data, model):
    import pandas as pd
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern
    from sklearn.preprocessing import TargetEncoder

    from skgp_sparse import SparseGPRegressor
    from skgp_sparse.kernels import Categorical, Columns

    def table(X, groups):
        return pd.DataFrame(X).add_prefix("x").assign(group=[f"g{g:.0f}" for g in groups])

    X, new = table(data["X"], data["groups"]), table(data["X_test"], data["groups_test"])
    numbers = [*X.columns[:-1]]
    kernel = ConstantKernel() * Columns(Matern(np.ones(len(numbers)), nu=2.5), numbers)
    parameters = {"random_state": 0, "noise": "constant", "mean": "linear"}
    effect = Columns(Categorical(correlation=1e-6, correlation_bounds="fixed"), "group")
    both = kernel + ConstantKernel() * effect
    if model == "exact":
        parameters |= {"kernel": both, "posterior": "exact"}
    elif model == "inducing":
        parameters |= {"kernel": both, "posterior": "inducing", "n_inducing": 100}
    elif model == "default":
        parameters = {"random_state": 0}
    elif model == "encoder":
        parameters = {"random_state": 0}
        means = TargetEncoder(target_type="continuous", cv=20, random_state=0)
        known, later = means.fit_transform(X[["group"]], data["y"]), means.transform(new[["group"]])
        X, new = X.assign(group=known[:, 0]), new.assign(group=later[:, 0])
    else:
        X, new = X[numbers], new[numbers]
        parameters |= {"kernel": kernel, "n_inducing": 100}
    fitted = SparseGPRegressor(**parameters).fit(X, data["y"])
    mean, std = fitted.predict(new, return_std=True)
    is_default = model in ("default", "encoder")
    value = np.nan if is_default else fitted.log_marginal_likelihood_value_
    return mean, std**2, value


def mixed_model(data):
    import statsmodels.api as sm

    X, new = sm.add_constant(data["X"]), sm.add_constant(data["X_test"], has_constant="add")
    fitted = sm.MixedLM(data["y"], X, groups=data["groups"]).fit(reml=False)
    v, scale = float(np.asarray(fitted.cov_re)[0, 0]), fitted.scale
    effects = {level: float(np.ravel(one)[0]) for level, one in fitted.random_effects.items()}
    counts = dict(zip(*np.unique(data["groups"], return_counts=True)))
    mean = new @ fitted.fe_params + [effects.get(g, 0.0) for g in data["groups_test"]]
    left = [v / (1 + v * counts.get(g, 0) / scale) for g in data["groups_test"]]
    return mean, np.array(left) + scale, fitted.llf


def gpboost(data, model):
    import gpboost as gpb

    groups, new = data["groups"], data["groups_test"]
    if model == "GPBoost, trees":
        process = gpb.GPModel(group_data=groups, likelihood="gaussian")
        train = gpb.Dataset(data["X"], data["y"])
        booster = gpb.train({"verbose": -1}, train, gp_model=process, num_boost_round=100)
        found = booster.predict(
            data["X_test"], group_data_pred=new, predict_var=True, pred_latent=False
        )
        return found["response_mean"], found["response_var"], np.nan
    X, X_test = (np.column_stack([np.ones(len(a)), a]) for a in (data["X"], data["X_test"]))
    given, at = {"group_data": groups}, {"group_data_pred": new}
    if model == "GPBoost, process":
        given |= {"gp_coords": data["X"], "cov_function": "matern_ard", "cov_fct_shape": 2.5}
        at["gp_coords_pred"] = data["X_test"]
    process = gpb.GPModel(likelihood="gaussian", **given)
    process.fit(y=data["y"], X=X)
    found = process.predict(X_pred=X_test, predict_var=True, predict_response=True, **at)
    return found["mu"], found["var"], -process.get_current_neg_log_likelihood()


def scores(model, data):
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if model == "mixed model":
            mean, variance, value = mixed_model(data)
        else:
            mean, variance, value = (gpboost if model in PEERS else ours)(data, model)
    error = data["y_test"] - np.ravel(mean)
    density = -0.5 * (error**2 / np.ravel(variance) + np.log(2 * np.pi * np.ravel(variance)))
    return {
        "density": float(density.mean()),
        "rmse": float(np.sqrt(np.mean(error**2))),
        "likelihood": float(value) / len(data["y"]),
        "seconds": time.process_time() - start,
    }


# -- runs --------------------------------------------------------------------------------


def measured(python, model, data):
    """The scores of a model, in a process of its own with one thread."""
    import common

    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    environment = (common.os.environ if model in OURS else common.peer_environment()) | threads
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "problem.npz"
        np.savez(path, **data)
        command = [python, __file__, "--run", model, str(path)]
        how = {"env": environment, "stdout": subprocess.PIPE, "check": True}
        done = subprocess.run(command, timeout=PATIENCE, **how)
    return json.loads(done.stdout.splitlines()[-1])


def measure(args):
    import common

    for held_out in args.held_out:
        for name in args.tables:
            for model in args.models:
                if model in PEERS and not args.peers_python:
                    continue
                python = sys.executable if model in OURS else args.peers_python

                def one(name=name, held_out=held_out, model=model, python=python):
                    seeds = range(1 if name == SIMULATED else SPLITS)
                    data = [problem_of(args.data, name, held_out, seed) for seed in seeds]
                    if model in EXACT and len(data[0]["y"]) > MOST_EXACT:
                        return None
                    try:
                        found = [measured(python, model, each) for each in data]
                    except subprocess.TimeoutExpired:
                        common.progress(f"{name}/{held_out}/{model}: over {PATIENCE} seconds")
                        return None
                    means = {key: float(np.mean([f[key] for f in found])) for key in found[0]}
                    return means | {"commit": common.commit(HERE), "machine": common.machine()}

                common.once(STORE, f"{name}/{held_out}/{model}", one)


def render():
    import common

    entries = common.read_json(STORE)
    parts = []
    for name, (target, group, *_) in {**TABLES, SIMULATED: ("y", "level")}.items():
        rows = []
        for model in OURS + PEERS:
            found = [
                entries.get(f"{name}/{held_out}/{model}", {}) for held_out in ("rows", "groups")
            ]
            if any(found):
                keys = ("density", "rmse")
                likelihood = found[0].get("likelihood", np.nan)
                likelihood = None if np.isnan(likelihood) else likelihood
                each = [one.get(key) for one in found for key in keys]
                rows.append([model, *each, likelihood, found[0].get("seconds")])
        header = ["model", "density", "RMSE", "density, groups", "RMSE, groups", "likelihood", "s"]
        parts += [f"## {name}: {target} by {group}", common.table(header, rows)]
    runs = common.about_runs({k: v for k, v in entries.items() if "machine" in v})
    text = "\n\n".join(["# Groups", __doc__.split(" ::")[0].strip(), *parts, *runs])
    (HERE / "results" / "groups.md").write_text(text + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="folder of data/wild")
    parser.add_argument("--peers-python", help="interpreter with gpboost and statsmodels")
    parser.add_argument("--tables", nargs="+", default=[*TABLES, SIMULATED])
    parser.add_argument("--held-out", nargs="+", default=["rows", "groups"])
    parser.add_argument("--models", nargs="+", default=OURS + PEERS)
    parser.add_argument("--render", action="store_true")
    parser.add_argument("--run", nargs=2)
    args = parser.parse_args()
    if args.run:
        with np.load(args.run[1]) as data:
            print(json.dumps(scores(args.run[0], dict(data))))
        return
    sys.path.insert(0, str(HERE))
    if not args.render:
        measure(args)
    render()


if __name__ == "__main__":
    main()
