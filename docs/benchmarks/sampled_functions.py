"""Functions drawn from a posterior: their moments beside predictions, and their seconds.

1. Standard deviations of 4,000 functions beside those of `predict(latent=True)`, at 200 test rows,
   for fits of several kernels to a small table, by the number of frequencies.
2. Seconds of 1,000 functions at 10,000 inputs beside the matrix products that they are. ::

    python sampled_functions.py
"""

import time

import common
import numpy as np
import ours  # noqa: F401  # so that the package of this checkout is measured
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, RationalQuadratic

from skgp_sparse import SparseGPRegressor

KERNELS = {
    "default": None,
    "RBF": ConstantKernel() * RBF([1.0, 1.0]),
    "Matern 1.5": ConstantKernel() * Matern([1.0, 1.0], nu=1.5),
    "Matern 0.5": ConstantKernel() * Matern([1.0, 1.0], nu=0.5),
    "RationalQuadratic": ConstantKernel() * RationalQuadratic(),
}
FREQUENCIES = 256, 1024, 4096
REPEATS = 5


def table(n, rng):
    X = rng.uniform(-3, 3, size=(n, 2))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=n)


def deviations():
    """Root mean squared deviation of the ratio of standard deviations from 1."""
    rng = np.random.RandomState(0)
    X, y = table(300, rng)
    Q = rng.uniform(-4, 4, size=(200, 2))
    for name, kernel in KERNELS.items():
        for posterior in ("exact", "inducing"):
            model = SparseGPRegressor(kernel, posterior=posterior, n_inducing=60, random_state=0)
            std = model.fit(X, y).predict(Q, return_std=True, latent=True)[1]
            row = [name, posterior]
            for frequencies in FREQUENCIES:
                drawn = model.sample_functions(4000, n_frequencies=frequencies)(Q)
                row.append(f"{np.sqrt(np.mean((drawn.std(axis=1) / std - 1) ** 2)):.3f}")
            yield row


def seconds():
    """Median seconds of evaluations and of products, and their ratio."""
    rng = np.random.RandomState(0)
    X, y = table(2000, rng)
    Q = rng.uniform(-3, 3, size=(10_000, 2))
    model = SparseGPRegressor(posterior="inducing", n_inducing=200, random_state=0).fit(X, y)
    functions = model.sample_functions(1000)
    features = rng.normal(size=(len(Q), 2 * 1024 + 200))
    weights = rng.normal(size=(features.shape[1], 1000))
    times = [
        (common.seconds_of(lambda: functions(Q)), common.seconds_of(lambda: features @ weights))
        for _ in range(REPEATS)
    ]
    mine, floor = np.median(times, axis=0)
    return f"{mine:.2f} s beside {floor:.2f} s, {np.median([a / b for a, b in times]):.2f} times"


def main():
    start = time.time()
    lines = list(deviations())
    header = ["kernel", "posterior", *(f"{count} frequencies" for count in FREQUENCIES)]
    about = (
        f"1,000 functions at 10,000 inputs, with 1,024 frequencies and 200 inducing points, beside "
        f"the product of matrices that they are: {seconds()} (medians of {REPEATS})."
    )
    title = "Functions drawn from a posterior"
    deviation = "Root mean squared deviation of the ratio of standard deviations from 1:"
    common.write_report(
        "sampled_functions.md", title, about, deviation, common.table(header, lines)
    )
    common.progress(f"{time.time() - start:.0f} s")


if __name__ == "__main__":
    main()
