"""Peak memory of one evaluation and one prediction on a million rows.

X is a float32 ``np.memmap`` on disk (n = 1,000,000, d = 10), m = 512. For one value and
gradient of the bound, and for one `predict(X, return_std=True)` of all rows, the peak
growth of the anonymous resident memory of the process is compared with scikit-learn's
`working_memory` plus 100 MB. What a call returns counts as growth.

``RssAnon`` of /proc/PID/status is read every few milliseconds (Linux only). Pages of
the file behind the memmap are not anonymous, so the operating system's cache is not
mistaken for ours. The watcher is a process, not a thread: SciPy's BLAS wrappers hold
the interpreter lock, and a thread would sleep through the peaks. ::

    python memory.py
    python memory.py --working-memory 256 --bounds titsias fitc
    python memory.py --n 20000 --m 50                         # a trial
"""

import argparse
import multiprocessing
import os
import tempfile
from pathlib import Path

import common
import numpy as np
import ours
import sklearn

SLACK = 100.0  # MB beyond working_memory


def rss_anon(pid):
    """Anonymous resident memory of a process, in MB."""
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(x for x in status.splitlines() if x.startswith("RssAnon"))
    return int(line.split()[1]) / 1024


def watch(pid, pipe, period=0.003):
    """Send the first reading, then, once told to stop, the peak. Runs in a process."""
    peak = rss_anon(pid)
    pipe.send(peak)
    while not pipe.poll(period):
        peak = max(peak, rss_anon(pid))
    pipe.send(peak)


def growth(function):
    """Peak growth of the memory during a call (MB), and its seconds."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    watcher = context.Process(target=watch, args=(os.getpid(), there))
    watcher.start()
    before = here.recv()
    seconds = common.seconds_of(function)
    here.send("stop")
    peak = here.recv()
    watcher.join()
    return peak - before, seconds


def write_inputs(path, n, d, block=100_000):
    """Standard normal rows, written in blocks."""
    rng = np.random.default_rng(0)
    X = np.memmap(path, dtype=np.float32, mode="w+", shape=(n, d))
    for start in range(0, n, block):
        stop = min(start + block, n)
        X[start:stop] = rng.standard_normal((stop - start, d))
    X.flush()


def targets(X, block=100_000):
    """A smooth function of two columns, computed in blocks."""
    starts = range(0, len(X), block)
    rows = (np.asarray(X[s : s + block, :2], dtype=np.float64) for s in starts)
    return np.concatenate([np.sin(2 * x[:, 0]) + x[:, 1] for x in rows])


def evaluation(X, y, m, bound):
    Z = np.asarray(X[:m], dtype=np.float64)
    return ours.evaluation(common.problem(X, y, Z, lengthscales=3.0, noise=0.1), bound)


def prediction(X, y, m):
    """`predict` of all rows by a model that was fitted, cheaply, to a few of them."""
    few = np.asarray(X[: 4 * m], dtype=np.float64)
    kernel = ours.rbf_kernel(X.shape[1], lengthscales=3.0, noise=0.1)
    model = ours.regressor(kernel, "titsias", m, optimizer=None, random_state=0)
    model.fit(few, y[: len(few)])
    return lambda: model.predict(X, return_std=True)


def tasks(args, X, y):
    """(name, function) pairs, one at a time, so that nothing of one stays for the next."""
    for bound in args.bounds:
        yield f"value and gradient, {bound}", evaluation(X, y, args.m, bound)
    yield "predict, return_std=True", prediction(X, y, args.m)


def rows(args, path):
    X = np.memmap(path, dtype=np.float32, mode="r", shape=(args.n, args.d))
    y = targets(X)
    allowed = args.working_memory + SLACK
    for name, function in tasks(args, X, y):
        megabytes, seconds = growth(function)
        common.progress(name, round(megabytes), "MB", round(seconds, 1), "s")
        verdict = "yes" if megabytes <= allowed else "NO"
        yield [name, round(megabytes), round(allowed), verdict, seconds]


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--d", type=int, default=10)
    parser.add_argument("--m", type=int, default=512)
    parser.add_argument("--bounds", nargs="+", default=["titsias", "titsias_new"])
    parser.add_argument("--working-memory", type=int, default=1024, help="MB")
    parser.add_argument("--folder", help="where the memmap goes; a temporary one")
    return parser.parse_args()


def main():
    args = parse()
    sklearn.set_config(working_memory=args.working_memory)
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        path = Path(folder) / "X.float32"
        write_inputs(path, args.n, args.d)
        found = list(rows(args, path))
    header = ["call", "peak growth (MB)", "allowed (MB)", "within", "seconds"]
    about = f"n = {args.n}, d = {args.d}, m = {args.m}, X a float32 memmap on disk."
    common.write_report("memory.md", "Peak memory", about, common.table(header, found))


if __name__ == "__main__":
    main()
