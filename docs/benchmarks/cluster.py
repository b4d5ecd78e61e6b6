"""Evaluations on a cluster of dask: beside threads, their overhead, and a model of large ones.

race
    One value and gradient (kernel, noise, Z) at n = 1,000,000, m = 500, d = 8 with four threads on
    arrays, and with four worker processes of one thread, in turns; the median ratio.
overhead
    Clusters of 1, 2 and 4 workers: seconds of a visit that does nothing, by number of parts (of
    1,000 rows), by bytes that go to every worker, and by bytes that every part sends; seconds of an
    evaluation at m = 50 beside the local one, 1 ... 32 parts. Least squares give the seconds per
    visit, per task and per byte.
rate
    Seconds per row of an evaluation on one worker, from 20,000 rows, and of the algebra (m, m) in
    the client, by m.

`--predict` puts the constants into the model of docs/guide/streams_and_clusters.md and prints its table. ::

    python cluster.py
    python cluster.py --parts race --n 40000 --m 200 --repeats 1         # a trial
    python cluster.py --predict                                        # the table of the model

Each part is one entry of results/cluster.json; an entry that is there is not measured again, unless
with `--again`. Leave the machine alone meanwhile; the load before each part is recorded.
"""

import argparse
import json
import os
from contextlib import contextmanager

import common
import numpy as np
import ours

STORE = common.RESULTS / "cluster.json"
BOUND = "titsias_new"
D = 8
FAN_IN = 8  # sums added at once
PART_BYTES = 128e6  # of the rows of a part, in the predictions
NETWORK = 1.25e9  # bytes per second of 10 Gbit/s


# -- data ------------------------------------------------------------------------------


def made(seed, n):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, D))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(n)
    return np.column_stack([X, y])


def lazily(n, parts):
    """dask arrays X and y, made on the workers, and the same numbers as arrays."""
    import dask.array as da
    from dask import delayed

    sizes = [len(part) for part in np.array_split(np.arange(n), parts)]
    blocks = [
        da.from_delayed(delayed(made)(seed, size), (size, D + 1), float)
        for seed, size in enumerate(sizes)
    ]
    table = da.concatenate(blocks).persist()
    return table[:, :D], table[:, D], sizes


def kernel_and_points(m):
    X = made(10**6, max(m, 2))[:, :D]
    return ours.like_default(X, ours.matern), X[:m].copy()


@contextmanager
def clients(workers):
    """A client of as many processes of one thread each."""
    from distributed import Client, LocalCluster

    options = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": ":0"}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        client.wait_for_workers(workers)
        yield client


# -- measurements ----------------------------------------------------------------------


def seconds(function, repeats):
    """Median, after a call that is not counted."""
    function()
    return float(np.median([common.seconds_of(function) for _ in range(repeats)]))


def race(given):
    """Threads and worker processes in turns."""
    kernel, Z = kernel_and_points(given.m)
    with clients(given.workers) as client:
        X, y, sizes = lazily(given.n, 2 * given.workers)
        local = np.vstack([made(seed, size) for seed, size in enumerate(sizes)])
        rows = ours.table_rows(np.ascontiguousarray(local[:, :D]), local[:, D])
        threaded = ours.evaluation_of_rows(rows, kernel, Z, BOUND, given.workers)
        with ours.cluster_rows(client, X, y) as parts:
            on_workers = ours.evaluation_of_rows(parts, kernel, Z, BOUND, given.workers)
            value, other = threaded()[0], on_workers()[0]
            pairs = [
                (common.seconds_of(threaded), common.seconds_of(on_workers))
                for _ in range(given.repeats)
            ]
    a, b = np.transpose(pairs)
    return {
        "n": given.n,
        "m": given.m,
        "workers": given.workers,
        "threads (s)": a.tolist(),
        "workers (s)": b.tolist(),
        "ratio": common.median_ratio(b, a),
        "relative difference": abs(value - other) / abs(value),
    }


def overhead(given):
    """Visits that do nothing, and small evaluations."""
    visits, evaluations = [], []
    kernel, Z = kernel_and_points(50)
    for workers in (1, 2, 4):
        with clients(workers) as client:
            for parts in (1, 2, 4, 8, 16, 32):
                X, y, sizes = lazily(1000 * parts, parts)
                with ours.cluster_rows(client, X, y) as rows:
                    for down, up in ((1, 1), (1 << 18, 1), (1 << 20, 1), (1, 1 << 18)):
                        visit = ours.idle_visit(rows, down, up)
                        visits.append(
                            {
                                "workers": workers,
                                "parts": parts,
                                "down": 8 * down,
                                "up": 8 * up,
                                "s": seconds(visit, given.repeats),
                            }
                        )
                    function = ours.evaluation_of_rows(rows, kernel, Z, BOUND, 1)
                    found = seconds(function, given.repeats)
                local = np.vstack([made(seed, size) for seed, size in enumerate(sizes)])
                table = ours.table_rows(np.ascontiguousarray(local[:, :D]), local[:, D])
                alone = seconds(
                    ours.evaluation_of_rows(table, kernel, Z, BOUND, workers), given.repeats
                )
                evaluations.append(
                    {"workers": workers, "parts": parts, "dask (s)": found, "threads (s)": alone}
                )
    return {"visits": visits, "evaluations": evaluations, "constants": constants_of(visits)}


def constants_of(visits):
    """Seconds per visit, per task, per byte that goes to a worker, and per byte of a sum."""
    design = [
        [
            1.0,
            tasks_of_visit(one["parts"]),
            one["workers"] * one["down"],
            one["parts"] * one["up"],
        ]
        for one in visits
    ]
    found = non_negative_least_squares(np.array(design), np.array([one["s"] for one in visits]))
    return dict(zip(("visit", "task", "byte to a worker", "byte of a part"), found))


def non_negative_least_squares(A, b):
    """Relative errors squared, so that short visits count as much as long ones."""
    from scipy.optimize import nnls

    scale = np.abs(A / b[:, None]).max(axis=0)
    return (nnls(A / b[:, None] / scale, np.ones(len(b)))[0] / scale).tolist()


def rate(given):
    """Seconds per row of an evaluation on one worker, and of the algebra in the client."""
    found = []
    with clients(1) as client:
        for m in given.sizes:
            kernel, Z = kernel_and_points(m)
            few = ours.table_rows(*(made(0, 64)[:, part] for part in (slice(0, D), D)))
            algebra = seconds(ours.evaluation_of_rows(few, kernel, Z, BOUND, 1), given.repeats)
            times = []
            for n in (4000, 20_000):
                X, y, _ = lazily(n, 4)
                with ours.cluster_rows(client, X, y) as rows:
                    function = ours.evaluation_of_rows(rows, kernel, Z, BOUND, 1)
                    times.append(seconds(function, given.repeats))
            found.append(
                {"m": m, "row (s)": (times[1] - times[0]) / 16_000, "algebra (s)": algebra}
            )
    return {"rates": found}


# -- the model -------------------------------------------------------------------------


def tasks_of_visit(parts):
    """One for each part, the tree of sums, and the one that unpacks the function."""
    count, level = parts + 1, parts
    while level > 1:
        level = -(-level // FAN_IN)
        count += level
    return count


def predicted(n, m, cores, constants, rate, network=None):
    """Seconds of an evaluation by where they go; see docs/guide/streams_and_clusters.md."""
    parts = cores * max(2, int(np.ceil(n * 8 * (D + 1) / PART_BYTES / cores)))
    square = 8.0 * m * m
    per_byte = constants["byte to a worker"] if network is None else 1.0 / network
    levels = int(np.ceil(np.log(max(parts, 2)) / np.log(FAN_IN)))
    rows = rate["row (s)"] * n / cores
    scheduler = 2 * constants["visit"] + 2 * constants["task"] * tasks_of_visit(parts)
    sending = 3 * square * cores * per_byte  # T, and T and B⁻¹ in the second visit
    sums = 2 * constants["byte of a part"] * square * parts / cores
    sums += 2 * levels * (FAN_IN - 1) * square * per_byte
    return {
        "parts": parts,
        "rows": rows,
        "tasks": scheduler,
        "matrices": sending,
        "sums": sums,
        "algebra": rate["algebra (s)"],
    }


def prediction_table(stored, network=NETWORK):
    """Lines of Markdown: seconds of an evaluation, and the share that the rows take."""
    constants = stored["overhead"]["constants"]
    lines = [
        "| n | m | cores | parts | rows (s) | tasks (s) | matrices (s) | sums (s) | algebra (s) | "
        "evaluation (s) | efficiency | 200 evaluations (h) |",
        "|" + " ---: |" * 12,
    ]
    for n in (10**8, 10**9):
        for one in stored["rate"]["rates"]:
            for cores in (16, 64, 256, 1000):
                cost = predicted(n, one["m"], cores, constants, one, network)
                parts = cost.pop("parts")
                total = sum(cost.values())
                lines.append(
                    f"| {n:.0e} | {one['m']} | {cores} | {parts} | "
                    + " | ".join(f"{value:.2f}" for value in cost.values())
                    + f" | {total:.1f} | {one['row (s)'] * n / cores / total:.0%}"
                    + f" | {200 * total / 3600:.1f} |"
                )
    return lines


def where_it_stops(stored, network=NETWORK):
    """Lines of Markdown: cores from which half is overhead, and beyond which nothing is gained."""
    constants = stored["overhead"]["constants"]
    lines = ["| n | m | half of the time is overhead from | no gain beyond |", "|" + " ---: |" * 4]
    candidates = np.unique(np.geomspace(1, 20_000, 400).astype(int))
    for n in (10**6, 10**7, 10**8, 10**9):
        for one in stored["rate"]["rates"]:
            totals = []
            for cores in candidates:
                cost = predicted(n, one["m"], int(cores), constants, one, network)
                cost.pop("parts")
                totals.append(sum(cost.values()))
            share = one["row (s)"] * n / candidates / np.array(totals)
            half = candidates[np.argmax(share < 0.5)] if (share < 0.5).any() else "> 20,000"
            best = candidates[int(np.argmin(totals))]
            lines.append(f"| {n:.0e} | {one['m']} | {half} cores | {best} cores |")
    return lines


# -- the report ------------------------------------------------------------------------


def rendered(stored):
    lines = ["# Evaluations on a cluster of dask", "", f"Bound {BOUND}, d = {D}.", ""]
    for part, entry in stored.items():
        lines += [f"## {part}", "", f"{entry['where']}", ""]
        lines += {"race": of_race, "overhead": of_overhead, "rate": of_rate}[part](entry) + [""]
    return "\n".join(lines)


def of_race(entry):
    pairs = zip(entry["threads (s)"], entry["workers (s)"])
    return [
        f"n = {entry['n']:,}, m = {entry['m']}, {entry['workers']} threads or worker processes; "
        f"median ratio **{entry['ratio']:.3f}**; relative difference of the values "
        f"{entry['relative difference']:.0e}.",
        "",
        "| threads (s) | workers (s) |",
        "| ---: | ---: |",
        *(f"| {one:.2f} | {other:.2f} |" for one, other in pairs),
    ]


def of_overhead(entry):
    per_visit, per_task, *_ = (1e3 * one for one in entry["constants"].values())
    *_, to_worker, of_part = (1e9 * one for one in entry["constants"].values())
    return [
        f"Least squares: {per_visit:.1f} ms per visit, {per_task:.2f} ms per task, "
        f"{to_worker:.2f} s per GB that goes to a worker, {of_part:.2f} s per GB that parts send.",
        "",
        "| workers | parts of 1,000 rows | Dask, m = 50 (ms) | threads (ms) | overhead (ms) |",
        "| ---: | ---: | ---: | ---: | ---: |",
        *(
            f"| {one['workers']} | {one['parts']} | {1e3 * one['dask (s)']:.1f} | "
            f"{1e3 * one['threads (s)']:.1f} | {1e3 * (one['dask (s)'] - one['threads (s)']):.1f} |"
            for one in entry["evaluations"]
        ),
    ]


def of_rate(entry):
    return [
        "| m | µs per row and core | algebra in the client (ms) |",
        "| ---: | ---: | ---: |",
        *(
            f"| {one['m']} | {1e6 * one['row (s)']:.1f} | {1e3 * one['algebra (s)']:.0f} |"
            for one in entry["rates"]
        ),
    ]


def where():
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    libraries = common.versions("dask", "distributed")
    names = ", ".join(f"{name} {number}" for name, number in libraries.items())
    return (
        f"Commit {common.commit(common.HERE.parents[1])}; {common.machine()}; {names}; "
        f"load before it: {load}."
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", default=["race", "overhead", "rate"])
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--m", type=int, default=500)
    parser.add_argument("--sizes", type=int, nargs="+", default=[200, 500, 1000], help="m of rate")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--trial", action="store_true", help="print, and write nothing")
    parser.add_argument("--render", action="store_true")
    parser.add_argument("--predict", action="store_true")
    given = parser.parse_args()
    stored = json.loads(STORE.read_text()) if STORE.exists() else {}
    if given.predict:
        print("\n".join([*prediction_table(stored), "", *where_it_stops(stored)]))
        return
    for part in [] if given.render else given.parts:
        if part in stored and not given.again and not given.trial:
            continue
        entry = {"where": where()}
        entry |= {"race": race, "overhead": overhead, "rate": rate}[part](given)
        if given.trial:
            print(json.dumps(entry, indent=1))
            continue
        stored[part] = entry
        STORE.write_text(json.dumps(stored, indent=1) + "\n")
    if not given.trial:
        STORE.with_suffix(".md").write_text(rendered(stored))


if __name__ == "__main__":
    main()
