"""The exact process, in two parts.

evaluation
    One value and gradient (kernel and noise) of the exact process, constant times Matern 5/2 with
    one length scale per input plus white noise, n = 1000, 2000, 4000 rows, d = 8, beside its BLAS
    floor: LAPACK's potrf and potri on an n by n matrix, in place and with all BLAS threads, and the
    product of 2 d + 1 rows with such a matrix that the gradient of the length scales needs. Ours
    and the three take turns in one process; the ratio is the median of the ratios within a round.
    And the peak memory of an evaluation beyond what was there before (`tracemalloc`, to which
    NumPy reports), in units of n² doubles, and, up to 2000 rows, the largest difference of its
    gradient from that of scikit-learn, relative to the largest entry.
regression
    `SparseGPRegressor(kernel, n_inducing=n)` beside scikit-learn's
    `GaussianProcessRegressor(kernel, normalize_y=True)`, both with the kernel from which our
    default starts, on the first n = 500, 1000, 2000 rows of kin40k, concrete and skillcraft, as far
    as they have as many: seconds of `fit`, and the log marginal likelihood that each found. In
    turn, `--repeats` times where the first fit of scikit-learn takes less than 20 seconds, else
    once. ::

    python exact_engine.py --data DIR
    python exact_engine.py --data DIR --parts regression --datasets concrete --rows 500
    python exact_engine.py --parts evaluation --sizes 200 --repeats 2             # a trial
    python exact_engine.py --render                                         # the tables alone

Each measurement is one entry of results/exact_engine.json; entries that are there already are not
measured again, unless with `--again`. Leave the machine alone meanwhile.
"""

import argparse
import tracemalloc
import warnings
from functools import partial

import common
import numpy as np
import ours
import speed
from scipy.linalg import lapack
from sklearn.gaussian_process import GaussianProcessRegressor

STORE = common.RESULTS / "exact_engine.json"
CHECKED = 2000  # rows up to which scikit-learn says what the gradient is
QUICK = 20.0  # seconds of a fit that is worth repeating


def once(args, key, measure):
    common.once(STORE, key, measure, args.again)


def entries_of(part):
    """[(words of the key after the part, entry)], numbers in order."""
    entries = common.read_json(STORE).items()
    found = [(key.split("/")[1:], entry) for key, entry in entries if key.startswith(f"{part}/")]
    return sorted(found, key=lambda pair: [word.zfill(9) for word in pair[0]])


# -- evaluation ------------------------------------------------------------------------


def problem(n, d):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(n)
    return X, (y - y.mean()) / y.std()


def positive_definite(n):
    noise = np.random.default_rng(0).standard_normal((n, 50))
    return np.asfortranarray(noise @ noise.T / 50 + np.eye(n))


def floor_steps(n, d):
    """What the floor is made of; the copies that LAPACK overwrites are not timed."""
    A, work = positive_definite(n), np.empty((n, n), order="F")
    L = lapack.dpotrf(A, lower=1)[0]
    columns = np.random.default_rng(1).standard_normal((n, 2 * d + 1))
    symmetric = np.ascontiguousarray(A)

    def potrf():
        lapack.dpotrf(work, lower=1, clean=0, overwrite_a=1)

    def potri():
        lapack.dpotri(work, lower=1, overwrite_c=1)

    def multiply():
        symmetric @ columns

    return [
        speed.Timed("potrf", potrf, prepare=lambda: np.copyto(work, A)),
        speed.Timed("potri", potri, prepare=lambda: np.copyto(work, L)),
        speed.Timed("product", multiply, prepare=multiply),
    ]


def evaluation(args):
    for n in args.sizes:
        once(args, f"evaluation/{n}/{args.d}", partial(measure_evaluation, args, n))


def measure_evaluation(args, n):
    X, y = problem(n, args.d)
    kernel = ours.like_default(X, ours.matern)
    function = ours.exact_evaluation(X, y, kernel)
    steps = floor_steps(n, args.d)
    times = speed.rounds([speed.warm("ours", function), *steps], args.repeats)
    floor = sum(times[step.name] for step in steps)
    medians = {name: float(np.median(seconds)) for name, seconds in times.items()}
    found = {"ratio": common.median_ratio(times["ours"], floor), "floor": float(np.median(floor))}
    found |= {"peak": peak(function) / (8 * n**2), "repeats": args.repeats}
    return medians | found | {"off": gradient_off(function()[1], X, y, kernel)}


def gradient_off(gradient, X, y, kernel):
    """Largest difference from scikit-learn's gradient, relative; None where that takes too long."""
    if len(X) > CHECKED:
        return None
    model = GaussianProcessRegressor(kernel, optimizer=None, alpha=1e-14).fit(X, y)
    expected = model.log_marginal_likelihood(kernel.theta, eval_gradient=True)[1]
    return float(np.abs(gradient - expected).max() / np.abs(expected).max())


def peak(function):
    """Bytes that a call takes at most, beyond those that were taken before."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    function()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most - before


def evaluation_table():
    parts = ("ours", "floor", "ratio", "potrf", "potri", "product", "peak", "repeats")
    rows = [
        [n, d, *map(entry.get, parts), scientific(entry["off"])]
        for (n, d), entry in entries_of("evaluation")
    ]
    header = ["n", "d", "ours (s)", "floor (s)", "ours / floor", "potrf (s)", "potri (s)"]
    header += ["product (s)", "peak memory (n² doubles)", "repeats", "gradient off by"]
    return common.table(header, rows)


def scientific(value):
    return None if value is None else f"{value:.0e}"


# -- regression ------------------------------------------------------------------------


def regression(args):
    for name in args.datasets:
        X, y = common.load(args.data, name)
        for n in [n for n in args.rows if n <= len(X)]:
            once(args, f"regression/{name}/{n}", partial(measure_fits, args, X[:n], y[:n]))


def measure_fits(args, X, y):
    """Both estimators in turn; times are medians."""
    kernel = ours.initial_kernel(X, y)
    make = {
        "ours": lambda: ours.regressor(kernel, "titsias_new", len(X), random_state=0),
        "exact": lambda: GaussianProcessRegressor(kernel, normalize_y=True),
    }
    ours.warm_up(labels=False)
    found = {who: [] for who in make}
    while len(found["exact"]) < rounds(args, found["exact"]):
        for who, model in make.items():
            found[who].append(timed_fit(model(), X, y))
    return {"d": X.shape[1], "repeats": len(found["exact"])} | {
        who: {"seconds": float(np.median([one[0] for one in fits])), "evidence": fits[0][1]}
        for who, fits in found.items()
    }


def rounds(args, found):
    return args.repeats if not found or found[0][0] < QUICK else 1


def timed_fit(model, X, y):
    seconds = common.seconds_of(lambda: model.fit(X, y))
    return seconds, float(model.log_marginal_likelihood_value_)


def regression_table():
    rows = []
    for (name, n), entry in entries_of("regression"):
        mine, exact = entry["ours"], entry["exact"]
        found = [mine["seconds"], exact["seconds"], mine["seconds"] / exact["seconds"]]
        found += [mine["evidence"], exact["evidence"], mine["evidence"] - exact["evidence"]]
        rows.append([name, n, entry["d"], *found, entry["repeats"]])
    header = ["data set", "n", "d", "ours (s)", "exact (s)", "ours / exact"]
    header += ["log marginal likelihood, ours", "exact", "difference", "repeats"]
    return common.table(header, rows)


# -- command line ----------------------------------------------------------------------

PARTS = {"evaluation": evaluation, "regression": regression}


def render():
    titles = {
        "One value and gradient beside the bare BLAS work": evaluation_table,
        "Regression, beside scikit-learn": regression_table,
    }
    about = (
        "Medians over interleaved repeats. Peak memory is that of one evaluation, beyond what was "
        "there before."
    )
    parts = [f"## {title}\n\n{body()}" for title, body in titles.items()]
    common.write_report("exact_engine.md", "The exact process", about, *parts)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder of the .npz data sets")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--sizes", nargs="+", type=int, default=[1000, 2000, 4000])
    parser.add_argument("--d", type=int, default=8, help="of part evaluation")
    parser.add_argument("--datasets", nargs="+", default=["kin40k", "concrete", "skillcraft"])
    parser.add_argument("--rows", nargs="+", type=int, default=[500, 1000, 2000])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--render", action="store_true", help="only the tables")
    args = parser.parse_args()
    if not (args.render or args.data or args.parts == ["evaluation"]):
        parser.error("--data is needed, unless with --render or for the evaluation alone")
    return args


def main():
    args = parse()
    warnings.simplefilter("ignore")  # hyperparameters at a bound are no news here
    for part in args.parts if not args.render else []:
        PARTS[part](args)
    render()


if __name__ == "__main__":
    main()
