"""Checks a release before it is published: files, site, spelling, versions of other packages.

    pip install build twine codespell -e ".[docs]"
    python tests/release.py              # ten minutes; and an hour for the tests of all versions
    python tests/release.py --quick      # without these tests

What is built stays in the folder `dist`.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
MOST = 1_000_000  # bytes of a wheel


def run(*command):
    print("==", *command, flush=True)
    subprocess.run([*map(str, command)], cwd=ROOT, check=True)


def version():
    text = (ROOT / "skgp_sparse" / "_version.py").read_text(encoding="utf-8")
    return re.search(r"\d+\.\d+\.\d+\w*", text)[0]


def check_texts(number):
    """The changelog and the citation speak of this version."""
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## \[{number}\] – \d{{4}}-\d\d-\d\d$", changelog, flags=re.M), number
    assert f"version: {number}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="without the tests of all versions")
    args = parser.parse_args()
    number, python = version(), sys.executable
    check_texts(number)
    run(python, "-m", "build", "--outdir", ROOT / "dist")
    files = sorted((ROOT / "dist").glob(f"skgp_sparse-{number}*"))
    (wheel,) = (file for file in files if file.suffix == ".whl")
    assert wheel.stat().st_size < MOST, wheel
    run(python, "-m", "twine", "check", "--strict", *files)
    run(python, "-m", "codespell_lib")
    with tempfile.TemporaryDirectory() as site:
        run(python, "-m", "sphinx", "-W", "docs", site)
    if not args.quick:
        run(python, ROOT / "tests" / "versions.py")
    print(f"{number} can be published: {', '.join(file.name for file in files)}")


if __name__ == "__main__":
    main()
