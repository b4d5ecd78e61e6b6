"""Runs the quick tests with the oldest and the newest supported packages, on every Python there is.

    python tests/versions.py                    # all Pythons of the PATH from 3.10 to 3.14
    python tests/versions.py --python python3.11 --packages oldest

Each combination has a fresh virtual environment in a temporary folder. The oldest versions are
those of ``dependencies`` in pyproject.toml; a Python for which they have no wheels is skipped for
them. Afterwards, the package is installed alone, without extras, and a model is fitted.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
PYTHONS = [f"python3.{minor}{suffix}" for minor in range(10, 15) for suffix in ("", "t")]
OLD_TESTS = ["pyarrow<19"]  # the last one that takes NumPy 1
SMALL = """
import numpy as np
from skgp_sparse import SparseGPClassifier, SparseGPRegressor
X = np.linspace(0, 10, 100)[:, None]
assert SparseGPRegressor().fit(X, np.sin(X[:, 0])).score(X, np.sin(X[:, 0])) > 0.99
assert SparseGPClassifier().fit(X, X[:, 0] > 5).score(X, X[:, 0] > 5) > 0.95
"""


def oldest():
    """Requirements of the oldest versions, as ``numpy==1.25.*``."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (block,) = re.findall(r"^dependencies = \[(.*?)^\]", text, flags=re.S | re.M)
    pairs = re.findall(r'"([\w-]+)>=([\d.]+)"', block)
    return [f"{name}=={version}.*" for name, version in pairs]


def run(*command):
    """Whether a command succeeds; its output is printed if it does not."""
    done = subprocess.run([*map(str, command)], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        print(done.stdout[-3000:], done.stderr[-3000:], sep="\n")
    return done.returncode == 0


def environment(python, folder, requirements):
    """The interpreter of a fresh environment with these requirements; None if it has no wheels."""
    if not run(python, "-m", "venv", folder):
        return None
    inside = Path(folder) / "bin" / "python"
    wheels = "--only-binary=numpy,scipy,scikit-learn"
    is_made = run(inside, "-m", "pip", "install", "-q", wheels, *requirements)
    return inside if is_made else None


def trial(python, packages):
    """What became of the tests: "passed", "FAILED" or "no wheels"."""
    pinned = oldest() if packages == "oldest" else []
    with tempfile.TemporaryDirectory() as folder:
        bare = environment(python, Path(folder) / "bare", [".", *pinned])
        if bare is None:
            return "no wheels"
        if not run(bare, "-c", SMALL):
            return "FAILED without extras"
        full = environment(
            python,
            Path(folder) / "full",
            ["-e", ".[test]", *pinned, *(OLD_TESTS if pinned else [])],
        )
        if full is None:
            return "no wheels for the tests"
        return "passed" if run(full, "-m", "pytest", "-q", "-n", 2) else "FAILED"


def main():
    found = [name for name in PYTHONS if shutil.which(name)] or [sys.executable]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", nargs="+", default=found)
    parser.add_argument("--packages", nargs="+", default=["oldest", "newest"])
    args = parser.parse_args()
    results = {}
    for python in args.python:
        for packages in args.packages:
            results[python, packages] = trial(python, packages)
            print(f"{python}, {packages} packages: {results[python, packages]}", flush=True)
    sys.exit(any(result.startswith("FAILED") for result in results.values()))


if __name__ == "__main__":
    main()
