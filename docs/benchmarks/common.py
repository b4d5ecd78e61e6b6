"""What the benchmark scripts share: data, timing, the call of a peer, the tables.

Nothing here measures anything by itself.
"""

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"

# -- data ------------------------------------------------------------------------------


def load(folder, name, split=None):
    """X, y; or X, y, X_test, y_test of one split. Everything float64, y of shape (n,)."""
    with np.load(Path(folder) / f"{name}.npz") as f:
        X = np.ascontiguousarray(f["X"], dtype=np.float64)
        y = f["y"].astype(np.float64)
        if split is None:
            return X, y
        test = f["test_masks"][:, split]
    return X[~test], y[~test], X[test], y[test]


def standardise(train, *others):
    """Each array minus the column means of `train`, over their standard deviations."""
    mean, std = train.mean(axis=0), train.std(axis=0)
    std = np.where(std > 0, std, 1.0)
    return tuple((array - mean) / std for array in (train, *others))


def labelled(folder, name):
    """X, the classes of its rows counted from 0, and the masks of test rows or None."""
    with np.load(Path(folder) / f"{name}.npz") as f:
        X = np.ascontiguousarray(f["X"], dtype=np.float64)
        masks = f["test_masks"] if "test_masks" in f.files else None
        return X, np.unique(f["y"], return_inverse=True)[1], masks


def labelled_split(folder, name, split):
    """X, y, X_test, y_test of a classification set; see `held_out`."""
    X, y, masks = labelled(folder, name)
    test = held_out(y, split) if masks is None else masks[:, split]
    return X[~test], y[~test], X[test], y[test]


def held_out(y, split):
    """Mask of the test rows: up to 1,000 rows one of five folds, else a random tenth."""
    from sklearn.model_selection import StratifiedKFold

    test = np.zeros(len(y), dtype=bool)
    if len(y) <= 1000:
        folds = StratifiedKFold(5, shuffle=True, random_state=0).split(y, y)
        test[list(folds)[split][1]] = True
    else:
        test[np.random.RandomState(split).permutation(len(y))[: len(y) // 10]] = True
    return test


def kmeans_centres(X, m, seed=0):
    from sklearn.cluster import KMeans

    return KMeans(m, n_init=1, random_state=seed).fit(X).cluster_centers_


def problem(X, y, Z, variance=1.0, lengthscales=1.0, noise=1.0, **extra):
    """A model to hand to a peer; the defaults are those of GPflow."""
    lengthscales = np.broadcast_to(np.float64(lengthscales), X.shape[1:]).copy()
    start = {"variance": variance, "lengthscales": lengthscales, "noise": noise}
    return {"X": X, "y": y, "Z": Z, **start, **extra}


def log_density(y, mean, std):
    """Average log density of `y` under independent normal predictions."""
    return float(np.mean(-0.5 * ((y - mean) / std) ** 2 - np.log(std) - HALF_LOG_2PI))


HALF_LOG_2PI = 0.5 * np.log(2 * np.pi)


def rmse(y, mean):
    return float(np.sqrt(np.mean((y - mean) ** 2)))


def nlpd(y, probabilities):
    """Average negative log of the probability that was given to the class of each row."""
    chosen = probabilities[np.arange(len(y)), y]
    return float(-np.mean(np.log(np.maximum(chosen, np.finfo(float).tiny))))


# -- timing ----------------------------------------------------------------------------


def seconds_of(function):
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def median_ratio(times, reference):
    return float(np.median(np.asarray(times) / np.asarray(reference)))


# -- peers -----------------------------------------------------------------------------


def run_peer(python, command, model, patience=None, **options):
    """Run one subcommand of peers.py on `model` (see `problem`); its JSON, decoded.

    It is ended after `patience` seconds.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "problem.npz"
        np.savez(path, **model)
        flags = [f"--{key}={value}" for key, value in options.items()]
        arguments = [python, str(HERE / "peers.py"), command, str(path), *flags]
        how = {"env": peer_environment(), "stdout": subprocess.PIPE, "check": True}
        done = subprocess.run(arguments, timeout=patience, **how)
    return json.loads(done.stdout.splitlines()[-1])


def peer_environment():
    """This environment, without the path that leads Python to our own package."""
    return {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}


# -- the package in a process of its own -----------------------------------------------


def run_version(folder, script, *arguments, patience=None):
    """What a script of this folder prints last, decoded, with the package that is in `folder`.

    It runs in a process of its own and in an empty directory, and should check what it imported:
    see `ours.check_package`. It is ended after `patience` seconds.
    """
    environment = os.environ | {"PYTHONPATH": str(Path(folder).resolve())}
    command = [sys.executable, str(HERE / script), *map(str, arguments)]
    with tempfile.TemporaryDirectory() as elsewhere:
        how = {"env": environment, "stdout": subprocess.PIPE, "check": True}
        done = subprocess.run(command, cwd=elsewhere, timeout=patience, **how)
    return json.loads(done.stdout.splitlines()[-1])


def commit(folder):
    """The commit that is checked out in `folder`, and whether the package differs from it."""
    found = git(folder, "rev-parse", "--short", "HEAD") or "no commit"
    changed = git(folder, "status", "--porcelain", "--", "skgp_sparse")
    return f"{found} with changes" if changed else found


def git(folder, *words):
    done = subprocess.run(["git", "-C", str(folder), *words], stdout=subprocess.PIPE, text=True)
    return done.stdout.strip()


# -- scores ----------------------------------------------------------------------------


def outcome(ours, theirs, score):
    """1 if ours is better, 0 if it is level (1 % of an error, 0.01 nats), -1 if it is worse."""
    if score == "rmse":
        return int(theirs > 1.01 * ours) - int(ours > 1.01 * theirs)
    gain = ours - theirs if score == "log_density" else theirs - ours
    return int(gain > 0.01) - int(gain < -0.01)


# -- reports ---------------------------------------------------------------------------


def versions(*names):
    return {name: version_or_none(name) for name in names}


def version_or_none(name):
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def machine():
    """One line: processor, cores, BLAS, Python and the versions that matter."""
    from threadpoolctl import threadpool_info

    blas = sorted({f"{p['internal_api']} {p['version']}" for p in threadpool_info()})
    libraries = versions("numpy", "scipy", "scikit-learn")
    parts = [f"{os.cpu_count()} cores, {processor()}", f"Python {platform.python_version()}"]
    parts += [f"{name} {number}" for name, number in libraries.items()]
    return "; ".join(parts + blas)


def processor():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def table(header, rows):
    """A markdown table; floats with three digits after the point, None as a dash."""
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join("| " + " | ".join(map(cell, line)) + " |" for line in lines)


def cell(value):
    if value is None:
        return "–"
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def write_report(name, title, *parts):
    """Print a report and write it to results/`name`, with its age if results/ages.json tells it."""
    age = [one] if (one := read_json(RESULTS / "ages.json").get(name)) else []
    text = "\n\n".join([f"# {title}", *age, *parts, f"Machine: {machine()}."]) + "\n"
    if "ommit" not in text:
        text += f"\nCommit {commit(HERE)}.\n"
    print(text)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / name).write_text(text)


def read_json(path):
    return json.loads(path.read_text()) if path.exists() else {}


def about_runs(entries, told=()):
    """Commits, machines and versions of the peers, and what else is to be told of the entries."""
    known = {f"Commit {entry['commit']}; {entry['machine']}" for entry in entries.values()}
    known |= {json.dumps(entry["versions"]) for entry in entries.values() if "versions" in entry}
    yield "## The runs"
    yield "\n".join(f"- {line}." for line in [*sorted(known), *told])


def tables_of(parts, entries):
    """The tables of all parts, ``name: (measure, tables)``, that have entries."""
    return [
        text
        for part, (_, tables) in parts.items()
        if any(key.startswith(f"{part}/") for key in entries)
        for text in tables(entries)
    ]


def store(path, key, value):
    """Set one entry of a JSON file, so that a long table can be made piece by piece."""
    path.parent.mkdir(exist_ok=True)
    entries = read_json(path) | {key: value}
    path.write_text(json.dumps(entries, indent=1, sort_keys=True) + "\n")


def once(path, key, measure, again=False):
    """Store what `measure()` returns, unless it is there or nothing; the entry, or None."""
    entry = read_json(path).get(key)
    if entry is None or again:
        entry = measure()
        if entry is not None:
            store(path, key, entry)
            hidden = ("trace", "versions", "kernel", "machine")
            progress(key, {k: v for k, v in entry.items() if k not in hidden})
    return entry


def progress(*words):
    print(*words, file=sys.stderr, flush=True)


# -- command line ----------------------------------------------------------------------


def add_data(parser):
    parser.add_argument("--data", required=True, help="folder of the .npz data sets")


def add_peers(parser):
    parser.add_argument(
        "--peers-python",
        help="interpreter of the environment with the other packages; "
        "without it the peers are left out",
    )
