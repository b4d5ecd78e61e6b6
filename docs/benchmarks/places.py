"""New groups, new places, later times: default fits where no row is near.

Of each split, a tenth of the groups (a column of the table, or clusters of places) is tested, or
the last tenth in time; at most 1,500 rows of these, and at most 6,000 of the others are learned.
Numbers are in units of the standard deviation of the training targets. Methods:

- `now` and, with ``--before CHECKOUT``, `before`: default estimators of this checkout and another.
- `inducing`: the default estimator of this checkout with ``posterior="inducing"``.
- `CatBoost` at its defaults, with native categories and missing values.

Every fit runs in a process of its own, on one core; CPU seconds are those of the fit. ::

    python places.py --data DIR --before CHECKOUT --peers-python PATH
    python places.py --render

Each (table, split, method) is one entry of results/places.json; widths are medians.
"""

import json
import time
import warnings

import common
import frames
import numpy as np
import ours
import wild

STORE = common.RESULTS / "places.json"
GROUPS = dict(airfare="id", cigar="state", txhousing="city", exam="school", sacramento="zip")
NUMBERS = {"cal_blocks": "cal_housing", "srtm_holes": "srtm_n27e086", "sml_later": "sml"}
TABLES = *GROUPS, *NUMBERS
METHODS = ("now", "before", "inducing", "CatBoost")
SCORES = ("rmse", "log_density", "coverage", "width", "cpu_seconds")
MOST_ROWS, MOST_TESTED, MAP_ROWS = 6000, 1500, 12_000


def grouped(folder, name):
    """A frame, its targets, the groups of its rows, and which columns are categories and times."""
    from sklearn.cluster import KMeans

    frame, y, about = wild.table(folder, NUMBERS.get(name, name))
    if name in GROUPS:
        return frame, y, frame[GROUPS[name]].astype(str).to_numpy(), about
    if name == "sml_later":
        return frame, y, 10 * np.arange(len(y)) // len(y), about  # tenths in time
    if name == "srtm_holes":
        some = np.random.RandomState(0).permutation(len(y))[:MAP_ROWS]
        frame, y = frame.iloc[some], y[some]
    blocks = KMeans(60 if name == "cal_blocks" else 200, n_init=1, random_state=0)
    return frame, y, blocks.fit_predict(frame.to_numpy()[:, -2:]), about  # places come last


def load(folder, name, split):
    """Training and test frames and targets, and which columns are categories and times."""
    frame, y, groups, about = grouped(folder, name)
    rng, levels = np.random.RandomState(split), np.unique(groups)
    held = levels[-1:] if name == "sml_later" else rng.permutation(levels)[: len(levels) // 10]
    is_held = np.isin(groups, held)
    test, train = (rng.permutation(np.flatnonzero(one)) for one in (is_held, ~is_held))
    if name in GROUPS:  # whole groups
        _, first, group = np.unique(groups[train], return_index=True, return_inverse=True)
        train = train[np.argsort(first[group], kind="stable")]
    test, train = test[:MOST_TESTED], train[:MOST_ROWS]
    y, y_test = common.standardise(y[train].astype(float), y[test].astype(float))
    return frame.iloc[train], y, frame.iloc[test], y_test, about


def work(args):
    """Scores and seconds of one fit."""
    name, split, method = args.tables[0], args.splits[0], args.worker
    X, y, X_test, y_test, about = load(args.data, name, split)
    if method == "CatBoost":
        X, X_test = (wild.without_times(one, about["times"]) for one in (X, X_test))
        X, X_test = (frames.as_taken(method, one, about["categories"]) for one in (X, X_test))
        model = frames.estimator(method, False, X, about["categories"])
    else:
        posterior = "inducing" if method == "inducing" else "auto"
        model = ours.default_regressor().set_params(posterior=posterior)
        ours.warm_up(False)
    warnings.simplefilter("ignore")
    start = time.process_time()
    model.fit(X, y)
    found = {"cpu_seconds": time.process_time() - start, "machine": common.machine()}
    found["rmse"] = common.rmse(y_test, model.predict(X_test))
    if method != "CatBoost":
        mean, std = model.predict(X_test, return_std=True)
        lower, upper = model.predict_interval(X_test, coverage=0.95)
        found["log_density"] = common.log_density(y_test, mean, std)
        found["coverage"] = float(np.mean((lower <= y_test) & (y_test <= upper)))
        found |= {"width": float(np.median(upper - lower)), "posterior": model.posterior_}
    return found


def verdict(entries, method):
    """A sentence on a method, from means over the splits that it has with `now`."""
    pairs = {what: [] for what in ("rmse", "log_density")}
    for name, what in ((name, what) for name in TABLES for what in pairs):
        now, other = (frames.by_split(entries, name, one, what) for one in ("now", method))
        if shared := now.keys() & other.keys():
            pairs[what].append([np.mean([one[k] for k in shared]) for one in (now, other)])
    rmse, gain = np.array(pairs["rmse"]), -np.diff(pairs["log_density"])
    ratios = [wild.ratio(entries, TABLES, what, method)[0] for what in ("rmse", "cpu_seconds")]
    text = f"- beside {method}: RMSE {ratios[0]:.3f} times (lower on {sum(rmse[:, 0] < rmse[:, 1])}"
    text += f" of {len(rmse)} tables), CPU seconds {ratios[1]:.2f} times (geometric means)"
    if gain.size:
        text += f", log density {gain.mean():+.3f} (mean) and {gain.min():+.3f} (worst)"
    return f"{text}."


def render():
    entries = common.read_json(STORE)
    done = {key: one for key, one in entries.items() if "commit" in one}
    known = {key.split("/")[2] for key in done}
    parts = ["\n".join(verdict(entries, method) for method in METHODS[1:] if method in known)]
    parts += [wild.scores(entries, TABLES, SCORES, METHODS)]
    parts += [f"{key}: {one['failed']}" for key, one in entries.items() if "failed" in one]
    parts += common.about_runs(done, ["Means over the splits; widths are medians"])
    common.write_report("places.md", "New groups, new places, later times", *parts)


if __name__ == "__main__":
    args = wild.arguments(__doc__, TABLES, METHODS)
    if args.worker:
        print(json.dumps(work(args)))
    else:
        if not args.render:
            wild.run(args, __file__, STORE)
        render()
