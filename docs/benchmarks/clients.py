"""Clients of scikit-learn with our estimators, and with scikit-learn's own Gaussian processes.

Makes an environment under a temporary directory, installs this package into it, and then one client
after the other, at the versions of NumPy, SciPy and scikit-learn that are there. Every trial of
`client_trials.py` runs in a process of its own. A trial works, works with a flaw, or fails::

    python clients.py                                  # half an hour
    python clients.py --only shap MAPIE                # trials whose names begin so, again
    python clients.py --environment /tmp/clients       # keeps the environment for the next call
    python clients.py --render                         # the table of what is there
"""

import argparse
import json
import subprocess
import tempfile
import venv
from datetime import date
from pathlib import Path

import client_trials
import common

STORE = common.RESULTS / "clients.json"
ROOT = common.HERE.parents[1]
PINNED = ("numpy", "scipy", "scikit-learn")
SIGNS = {"works": "works", "flaw": "flaw", "fails": "**fails**", "absent": "–"}


class Environment:
    """A virtual environment with this package, to which clients are added."""

    def __init__(self, folder):
        self.folder, self.python = Path(folder), Path(folder) / "bin" / "python"
        self.constraints = self.folder / "constraints.txt"
        self.commit = common.commit(ROOT)
        self.outcomes = {}  # of installations: None, or the last words of pip
        if not self.python.exists():
            venv.create(self.folder, with_pip=True)
            self.pip("install", "--upgrade", "pip").check_returncode()
        self.pip("install", f"{ROOT}[onnx]").check_returncode()
        self.pip("install", "--force-reinstall", "--no-deps", str(ROOT)).check_returncode()
        pinned = [f"{name}=={self.version(name)}" for name in PINNED]
        self.constraints.write_text("\n".join(pinned) + "\n")

    def add(self, packages):
        """Why the packages cannot be installed; None if they can."""
        if packages not in self.outcomes:
            done = self.pip("install", "--constraint", str(self.constraints), *packages)
            errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
            self.outcomes[packages] = "; ".join(errors) if done.returncode else None
        return self.outcomes[packages]

    def pip(self, *arguments):
        command = [self.python, "-m", "pip", "--quiet", *arguments]
        return subprocess.run(command, capture_output=True, text=True)

    def version(self, package):
        """The installed version, "" if there is none."""
        name = package.split("[")[0].split("<")[0]
        code = f"import importlib.metadata as m; print(m.version({name!r}))"
        done = subprocess.run([self.python, "-c", code], capture_output=True, text=True)
        return done.stdout.strip()

    def run(self, name, side, patience):
        """The outcome of a trial, which is ended after `patience` seconds."""
        command = [self.python, common.HERE / "client_trials.py", name, side]
        variables = common.peer_environment() | {"OPENBLAS_NUM_THREADS": "1", "MPLBACKEND": "Agg"}
        with tempfile.TemporaryDirectory() as elsewhere:
            how = {"env": variables, "cwd": elsewhere, "capture_output": True, "text": True}
            try:
                done = subprocess.run(command, timeout=patience, **how)
            except subprocess.TimeoutExpired:
                return {"status": "fails", "words": f"not ended after {patience} seconds"}
        if done.returncode:
            return {"status": "fails", "words": done.stderr.strip().splitlines()[-1]}
        return json.loads(done.stdout.splitlines()[-1])


def measure(environment, name, patience):
    packages, client = client_trials.TRIALS[name][0], name.split(":")[0]
    refused = environment.add(packages) if packages else None
    entry = {
        "version": environment.version(client if client == "scikit-learn" else packages[0]),
        "commit": environment.commit,
        "day": str(date.today()),
    }
    for side in ("ours", "theirs"):
        absent = {"status": "absent", "words": refused}
        entry[side] = absent if refused else environment.run(name, side, patience)
    return entry


def rows(entries):
    for name in client_trials.TRIALS:
        if name in entries:
            entry = entries[name]
            client, what = name.split(": ", 1)
            signs = [SIGNS[entry[side]["status"]] for side in ("ours", "theirs")]
            yield [client, entry["version"] or None, what, *signs, remark(entry)]


def remark(entry):
    """What there is to say of both sides."""
    words = {"": entry["ours"]["words"], "GP(R/C): ": entry["theirs"]["words"]}
    if entry["ours"]["words"] == entry["theirs"]["words"]:
        words = {"": entry["ours"]["words"]}
    parts = [f"{whose}{shortened(said)}" for whose, said in words.items() if said]
    return ". ".join(parts)


def shortened(words, size=140):
    """One line without the signs of a table."""
    line = " ".join(words.replace("|", "/").replace("<", "‹").replace(">", "›").split())
    return line if len(line) <= size else line[: size - 1] + "…"


def render(entries):
    counts = [["side", *list(SIGNS)[:3]]]
    for side, whose in (("ours", "skgp-sparse"), ("theirs", "scikit-learn's GPR and GPC")):
        statuses = [entry[side]["status"] for entry in entries.values()]
        counts.append([whose, *(statuses.count(status) for status in list(SIGNS)[:3])])
    clients = {name.split(":")[0] for name in entries if name in client_trials.TRIALS}
    header = ["client", "version", "what", "skgp-sparse", "GPR / GPC", "remarks"]
    common.write_report(
        "clients.md",
        "Clients of scikit-learn",
        f"{len(entries)} trials of {len(clients)} clients, the class name exchanged "
        "(`client_trials.py`). A trial fails if it raises an exception, and has a flaw if it ends "
        "without something that the client can do. A dash: the client cannot be installed beside "
        "the scikit-learn of today.",
        common.table(counts[0], counts[1:]),
        common.table(header, rows(entries)),
        "Commits: " + ", ".join(sorted({entry["commit"] for entry in entries.values()})) + ".",
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", default=[""], help="how names of trials begin")
    parser.add_argument("--environment", help="a folder, which is kept")
    parser.add_argument("--patience", type=float, default=300.0, help="seconds for a trial")
    parser.add_argument("--render", action="store_true", help="only write the table")
    options = parser.parse_args()
    if not options.render:
        with tempfile.TemporaryDirectory() as folder:
            environment = Environment(options.environment or folder)
            for name in client_trials.TRIALS:
                if name.startswith(tuple(options.only)):
                    entry = measure(environment, name, options.patience)
                    common.store(STORE, name, entry)
                    print(name, *(entry[s]["status"] for s in ("ours", "theirs")), flush=True)
    render(common.read_json(STORE))


if __name__ == "__main__":
    main()
