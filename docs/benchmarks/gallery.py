"""scikit-learn's Gaussian process gallery, with its estimators and with ours, panel by panel.

Each panel of tests/gallery_panels.py is fitted by scikit-learn, by our estimator with the name
alone exchanged, and by our estimator with scikit-learn's model (``alpha=1e-10, normalize_y=False``;
``likelihood="logit"``), in turn and on one thread. The tables have the evidence, the largest
differences on the grid that the example draws, and seconds of the processor (medians); the pictures
have what is drawn with the name alone exchanged. ::

    python gallery.py
    python gallery.py --repeats 1 --panels gpc-initial     # a trial, which writes nothing
"""

import argparse
import sys
import time
import warnings

import common
import numpy as np
import ours
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from threadpoolctl import threadpool_limits

sys.path.append(str(common.HERE.parents[1] / "tests"))
from gallery_panels import CLASSIFICATION, REGRESSION  # noqa: E402

REGRESSORS = {
    "scikit-learn": lambda: GaussianProcessRegressor(random_state=0),
    "name alone": ours.default_regressor,
    "same model": lambda: ours.default_regressor().set_params(alpha=1e-10, normalize_y=False),
}
CLASSIFIERS = {
    "scikit-learn": lambda: GaussianProcessClassifier(random_state=0),
    "name alone": ours.default_classifier,
    "logit": lambda: ours.default_classifier().set_params(likelihood="logit"),
}
ABOUT = """Evidence is in units of y. Differences are the largest on the grid that the example
draws, from scikit-learn: of means and deviations in units of the standard deviation of y. Seconds
are those of the processor, one thread, for a fit and the predictions that the example draws.

![Regression](gallery_regression.png)

*Our mean and deviation (blue) with the name alone exchanged, and scikit-learn's (black).*

![Classification](gallery_classification.png)"""
SHADE, INK = "#4c9be8", "#1f4e8c"


def fits(panel, makers, repeats):
    """{who: (seconds of fit and predictions, model, predictions)}, fitted in turn."""
    turns = [{who: fit(panel, make) for who, make in makers.items()} for _ in range(repeats)]
    seconds = {who: float(np.median([turn[who][0] for turn in turns])) for who in makers}
    return {who: (seconds[who], *turns[0][who][1:]) for who in makers}


def fit(panel, make):
    start = time.process_time()
    model = make().set_params(kernel=panel.kernel, **panel.options).fit(panel.X, panel.y)
    drawing = drawn(model, panel.grid)
    return time.process_time() - start, model, drawing


def drawn(model, grid):
    """Means and deviations, or probabilities, at the inputs of a picture."""
    if hasattr(model, "predict_proba"):
        return model.predict_proba(grid)
    return np.stack(model.predict(grid, return_std=True))


def evidence(model, y):
    """The evidence in units of y, so that normalised targets compare with others."""
    value = model.log_marginal_likelihood(model.kernel_.theta)
    normalised = getattr(model, "normalize_y", False)
    return float(value - len(y) * np.log(y.std()) if normalised else value)


def row_of_regression(name, panel, found):
    (_, _, theirs), *others = found.values()
    differences = [np.abs(mine - theirs).max(axis=1) / panel.y.std() for _, _, mine in others]
    differences = [" / ".join(f"{one:.3f}" for one in pair) for pair in differences]
    return [name, *evidences(panel, found), *differences, *times(found)]


def row_of_classification(name, panel, found):
    (_, _, theirs), *others = found.values()
    differences = [float(np.abs(mine - theirs).max()) for _, _, mine in others]
    unequal = [np.mean(mine.argmax(1) != theirs.argmax(1)) for _, _, mine in others]
    unequal = [f"{100 * one:.1f} %" for one in unequal]
    return [name, *evidences(panel, found), *differences, *unequal, *times(found)]


def evidences(panel, found):
    return [f"{evidence(model, panel.y):.5g}" for _, model, _ in found.values()]


def times(found):
    return [seconds for seconds, *_ in found.values()]


def landscape_row(name, panel, found):
    """Seconds of all values of the evidence that the example draws, and these values."""
    seconds, values = [], []
    for _, model, _ in found.values():
        start = time.process_time()
        values.append(np.apply_along_axis(model.log_marginal_likelihood, 2, panel.landscape))
        seconds.append(time.process_time() - start)
    return [name, panel.landscape[..., 0].size, *seconds], values


# -- pictures -------------------------------------------------------------------------------


def pyplot():
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    plt.rcParams.update({"font.size": 6, "xtick.labelsize": 5, "ytick.labelsize": 5})
    return plt


def draw_regression(found):
    plt = pyplot()
    figure, axes = plt.subplots(4, 4, figsize=(9, 7), layout="constrained")
    for ax, (name, fits_of_panel) in zip(axes.flat, found.items()):
        panel, (theirs, mine, _) = REGRESSION[name], [one[2] for one in fits_of_panel.values()]
        x = panel.grid[:, 0]
        ax.fill_between(x, mine[0] - mine[1], mine[0] + mine[1], color=SHADE, alpha=0.4, lw=0)
        ax.plot(x, mine[0], color=INK, lw=1, label="SparseGPRegressor")
        ax.plot(x, theirs[0], "k--", lw=0.7, label="GaussianProcessRegressor")
        for sign in (-1, 1):
            ax.plot(x, theirs[0] + sign * theirs[1], "k:", lw=0.5)
        ax.plot(panel.X[:, 0], panel.y, ".", color="crimson", ms=1 if len(panel.y) > 99 else 4)
        ax.set_title(name, fontsize=7)
    axes.flat[-1].legend(*axes.flat[0].get_legend_handles_labels(), loc="center", frameon=False)
    for ax in axes.flat[len(found) :]:
        ax.set_axis_off()
    figure.savefig(common.RESULTS / "gallery_regression.png", dpi=90)
    plt.close(figure)


def draw_classification(found, landscapes):
    plt = pyplot()
    figure, axes = plt.subplots(2, 8, figsize=(14, 4), layout="constrained")
    for column, (name, fits_of_panel) in zip(axes.T, found.items()):
        for ax, (who, (_, _, drawing)) in zip(column, fits_of_panel.items()):
            draw_probabilities(ax, CLASSIFICATION[name], drawing)
            ax.set_title(f"{name}\n{who}")
    panel = CLASSIFICATION["gpc-optimised"]
    variances, scales = np.exp(panel.landscape[0, :, 0]), np.exp(panel.landscape[:, 0, 1])
    for ax, values, who in zip(axes[:, -1], landscapes, CLASSIFIERS):
        ax.pcolormesh(variances, scales, values, vmin=-35, vmax=-3)
        ax.set(xscale="log", yscale="log", title=f"gpc, evidence\n{who}")
    figure.savefig(common.RESULTS / "gallery_classification.png", dpi=80)
    plt.close(figure)


def draw_probabilities(ax, panel, drawing):
    """Lines over one input; over two, a colour that mixes those of the classes."""
    if panel.grid.shape[1] == 1:
        ax.plot(panel.grid[:, 0], drawing[:, 1], color=INK, lw=1)
        ax.plot(panel.X[:, 0], panel.y, ".", color="crimson", ms=3)
        return
    x, y = map(np.unique, panel.grid.T)
    image = drawing if drawing.shape[1] == 3 else np.repeat(drawing[:, 1:], 3, axis=1)
    extent = x[0], x[-1], y[0], y[-1]
    ax.imshow(image.reshape(len(y), len(x), 3), origin="lower", extent=extent, aspect="auto")
    ax.scatter(*panel.X.T, c=panel.y, s=3, cmap="rainbow")


# -- the report -----------------------------------------------------------------------------


def header(makers, *measures):
    everyone, own = list(makers), list(makers)[1:]
    return [
        "panel",
        *[f"evidence, {who}" for who in everyone],
        *[f"{measure}, {who}" for measure in measures for who in own],
        *[f"s, {who}" for who in everyone],
    ]


def measured(panels, makers, repeats, row, *measures):
    """What was found in each panel, and the table of it."""
    found = {name: fits(panel, makers, repeats) for name, panel in panels.items()}
    rows = [row(name, panels[name], one) for name, one in found.items()]
    return found, common.table(header(makers, *measures), rows)


def landscapes(regression, classification):
    """The table of both landscapes, and the values of `gpc`."""
    noisy, gpc = "gpr_noisy-little_noise", "gpc-optimised"
    first, _ = landscape_row(noisy, REGRESSION[noisy], regression[noisy])
    second, values = landscape_row(gpc, CLASSIFICATION[gpc], classification[gpc])
    titles = [
        "landscape of",
        "thetas",
        "s, scikit-learn",
        "s, name alone",
        "s, same model or logit",
    ]
    return common.table(titles, [first, second]), values


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--panels", nargs="+", help="print the rows of these panels only")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    threadpool_limits(1)
    regression, classification = (
        {name: one for name, one in panels.items() if args.panels is None or name in args.panels}
        for panels in (REGRESSION, CLASSIFICATION)
    )
    measures = row_of_regression, "mean / deviation"
    regression, first = measured(regression, REGRESSORS, args.repeats, *measures)
    measures = row_of_classification, "probability", "other class"
    classification, second = measured(classification, CLASSIFIERS, args.repeats, *measures)
    if args.panels:
        print(first, second, sep="\n\n")
        return
    third, values = landscapes(regression, classification)
    draw_regression(regression)
    draw_classification(classification, values)
    common.write_report("gallery.md", "The gallery", ABOUT, first, second, third)


if __name__ == "__main__":
    main()
