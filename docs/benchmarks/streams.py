"""Rows that arrive in chunks: when theta and Z should move.

Each stream is learned by `partial_fit` under several policies, and by one fit of all rows at the
end. Before a chunk is learned, it is predicted: the mean log density of the second half of the
stream, and of its last quarter, tell the policies apart. `after` is the mean log density of rows
that come after the stream. Seconds are those of all calls. ::

    python streams.py --data DIR
    python streams.py --data DIR --streams kin40k turning --policies doubling none
    python streams.py --render

Each pair of a stream and a policy is one entry of results/streams.json; entries that are there are
not computed again, unless with `--again`.
"""

import argparse
import warnings
from functools import partial

import common
import numpy as np
import ours

STORE = common.RESULTS / "streams.json"
POINTS = 100
POLICIES = ("none", "doubling", "each chunk", "refit at the end")


def random_rows(args, name, chunk):
    """A real table in random order: nothing changes."""
    X, y, X_test, y_test = common.load(args.data, name, 0)
    order = np.random.RandomState(0).permutation(len(X))
    return X[order], y[order] / y.std(), X_test, y_test / y.std(), chunk


def in_time_order(args, chunk):
    """Logarithms of fine dust at one station over four years, hour by hour."""
    X, y = common.load(args.data, "beijing_air")
    here = X[:, -1] == 0
    X, y = X[here, :-1], np.log(y[here])
    return X[:-2000], y[:-2000] / y.std(), X[-2000:], y[-2000:] / y.std(), chunk


def turning(args, chunk, rows=24_000, at_once=False):
    """A function of four inputs that turns slowly, or once in the middle."""
    rng = np.random.RandomState(0)
    X = rng.uniform(-2.0, 2.0, (rows, 4))
    time = np.arange(rows) / rows
    angle = np.pi * ((time > 0.5) if at_once else time)
    u = np.cos(angle) * X[:, 0] + np.sin(angle) * X[:, 1]
    y = np.sin(2.0 * u) + 0.3 * X[:, 2] ** 2 + 0.2 * rng.normal(size=rows)
    return X[:-1000], y[:-1000], X[-1000:], y[-1000:], chunk


def travelling(args, chunk, rows=24_000):
    """A function that stays, and inputs that travel along it."""
    rng = np.random.RandomState(0)
    X = rng.uniform(-1.0, 1.0, (rows, 3))
    X[:, 0] += 10.0 * np.arange(rows) / rows
    y = np.sin(2.0 * X[:, 0]) * np.cos(X[:, 1]) + 0.3 * X[:, 2] + 0.2 * rng.normal(size=rows)
    return X[:-1000], y[:-1000], X[-1000:], y[-1000:], chunk


STREAMS = {
    "kin40k": lambda args: random_rows(args, "kin40k", 2000),
    "keggdirected": lambda args: random_rows(args, "keggdirected", 2000),
    "elevators": lambda args: random_rows(args, "elevators", 500),
    "beijing_air, in time": lambda args: in_time_order(args, 1000),
    "turning slowly": lambda args: turning(args, 1000),
    "turning at once": lambda args: turning(args, 1000, at_once=True),
    "travelling": lambda args: travelling(args, 1000),
}


def learn(stream, policy):
    X, y, X_after, y_after, size = stream
    model = ours.default_regressor().set_params(n_inducing=POINTS)
    if policy == "refit at the end":
        seconds = common.seconds_of(lambda: model.fit(X, y))
        return {"seconds": seconds, "after": density(model, X_after, y_after)}
    edges = range(0, len(X) - size + 1, size)
    found, seconds = [], 0.0
    with ours.policy_of_streams(policy):
        for start in edges:
            rows = slice(start, start + size)
            if start:
                found.append(density(model, X[rows], y[rows]))
            seconds += common.seconds_of(partial(model.partial_fit, X[rows], y[rows]))
    half, quarter = len(found) // 2, 3 * len(found) // 4
    return {
        "seconds": seconds,
        "second half": float(np.mean(found[half:])),
        "last quarter": float(np.mean(found[quarter:])),
        "after": density(model, X_after, y_after),
        "iterations": model.n_iter_,
        "chunks": [round(one, 4) for one in found],
    }


def density(model, X, y):
    return float(np.mean(model.log_predictive_density(X, y)))


def run(args):
    for name in args.streams:
        for policy in args.policies:
            measure = partial(learn, STREAMS[name](args), policy)
            common.once(STORE, f"{name}/{policy}", measure, args.again)


def render():
    entries = common.read_json(STORE)
    columns = ["seconds", "second half", "last quarter", "after"]
    parts = [
        f"Mean log densities of rows before they are learned ({POINTS} inducing points, y over its "
        "standard deviation in real tables), by policy of `partial_fit`: when theta and Z move."
    ]
    for name in STREAMS:
        rows = []
        for policy in POLICIES:
            entry = entries.get(f"{name}/{policy}")
            if entry:
                rows.append([policy, *(entry.get(column) for column in columns)])
        parts += [f"## {name}", common.table(["moves", *columns], rows)]
    common.write_report("streams.md", "Rows that arrive in chunks", *parts)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder of the .npz data sets")
    parser.add_argument("--streams", nargs="+", choices=STREAMS, default=list(STREAMS))
    parser.add_argument("--policies", nargs="+", choices=POLICIES, default=list(POLICIES))
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--render", action="store_true", help="only the table")
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
