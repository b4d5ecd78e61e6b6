"""One kriging package on one problem: started by kriging.py, in an environment of its own.

It prints JSON with the means, the standard deviations of targets, and seconds of the processor.
"""

import contextlib
import json
import sys
import time
from importlib.metadata import version

import numpy as np


def pykrige(X, y, X_test, with_trend):
    """Exponential variogram; of ordinary kriging a window of the 50 nearest rows, as of its fit."""
    from pykrige.rk import Krige

    trend = {"method": "universal", "drift_terms": ["regional_linear"]}
    model = Krige(
        variogram_model="exponential",
        nlags=30,
        n_closest_points=50,
        **(trend if with_trend else {}),
    )
    model.fit(X, y)
    points = {"xpoints": X_test[:, 0], "ypoints": X_test[:, 1]}
    mean, variance = model.execute(points, **({"backend": "vectorized"} if with_trend else {}))
    return mean, np.sqrt(variance)


def gstools(X, y, X_test, with_trend):
    """The variogram that fits best of three, of residuals from the trend where there is one.

    From its own starts, GSTools finds variograms that are far from the points here.
    """
    import gstools as gs

    columns = np.column_stack([np.ones(len(X)), X])
    residual = y - columns @ np.linalg.lstsq(columns, y)[0] if with_trend else y
    distance, gamma = gs.vario_estimate(X.T, residual, sampling_size=2000, sampling_seed=0)
    start = {"dim": 2, "var": float(gamma.max()), "len_scale": float(distance.max()) / 5}
    models = [one(**start) for one in (gs.Exponential, gs.Spherical, gs.Matern)]
    how = {"init_guess": "current", "max_eval": 100_000, "return_r2": True}
    scores = [one.fit_variogram(distance, gamma, **how)[2] for one in models]
    model = models[int(np.argmax(scores))]
    if with_trend:
        kriging = gs.krige.Universal(model, X.T, y, "linear", pseudo_inv=False)
    else:
        kriging = gs.krige.Ordinary(model, X.T, y, pseudo_inv=False)
    mean, variance = kriging(X_test.T)
    return mean, np.sqrt(variance)


def libkriging(X, y, X_test, with_trend):
    """Matern 3/2, a nugget, and maximum likelihood."""
    from pylibkriging.sklearn import KrigingRegressor

    trend = "linear" if with_trend else "constant"
    model = KrigingRegressor("matern3_2", regmodel=trend, noise="nugget").fit(X, y)
    return model.predict(X_test, return_std=True)


METHODS = {"PyKrige": pykrige, "GSTools": gstools, "libKriging": libkriging}
PACKAGES = {"PyKrige": "pykrige", "GSTools": "gstools", "libKriging": "pylibkriging"}


def main():
    method, trend, path = sys.argv[1:]
    with np.load(path) as problem, contextlib.redirect_stdout(sys.stderr):
        rows = [np.ascontiguousarray(problem[name]) for name in ("X", "y", "X_test")]
        start = time.process_time()
        mean, std = map(np.ravel, METHODS[method](*rows, trend == "linear"))
        seconds = time.process_time() - start
    found = {"mean": list(map(float, mean)), "std": list(map(float, std)), "seconds": seconds}
    print(json.dumps(found | {"versions": {PACKAGES[method]: version(PACKAGES[method])}}))


if __name__ == "__main__":
    main()
