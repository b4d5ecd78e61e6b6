"""
Swap in the classifier
======================

Change the name of the class and keep the kernel. Both models stand in the same Pipeline and are
judged by the same log loss on rows that they have not seen.

The data come with scikit-learn: breast cancer (two classes, 30 features) and digits (ten classes,
64 features), of which few rows are used, as the exact model takes its time over ten problems. Two
things differ. ``GaussianProcessClassifier`` has the logit likelihood, which is asked for here by
name; the default of ``SparseGPClassifier`` is the probit. And it approximates the posterior by
Laplace's method, the sparse model by variational inference, so that probabilities differ. Laplace's
are known to be too cautious (Nickisch and Rasmussen 2008), above all where the classes can be
separated, as those of the digits can.
"""

import argparse
from pathlib import Path
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgp_sparse import SparseGPClassifier

KERNEL = ConstantKernel() * RBF(10.0)
DATA = {"breast cancer": load_breast_cancer, "digits": load_digits}
COLOURS = {"GaussianProcessClassifier": "#d1495b", "SparseGPClassifier": "#30638e"}


def models(n_inducing):
    """Both models, by the name of their class."""
    return {
        "GaussianProcessClassifier": GaussianProcessClassifier(KERNEL, random_state=0),
        "SparseGPClassifier": SparseGPClassifier(
            KERNEL, likelihood="logit", n_inducing=n_inducing, random_state=0
        ),
    }


# %%
# Both models are used by the same lines. A table is scaled in the Pipeline, as the kernel has one
# length scale for all features.


def measure(model, X, X_test, y, y_test):
    """Seconds to fit, log loss on test rows, and probabilities of the last class."""
    pipeline = make_pipeline(StandardScaler(), model)
    start = perf_counter()
    pipeline.fit(X, y)
    seconds = perf_counter() - start
    probability = pipeline.predict_proba(X_test)
    return seconds, log_loss(y_test, probability), probability[:, -1]


def compare(sizes, n_inducing):
    """Measurements by data set and class."""
    results = {}
    for data, load in DATA.items():
        X, y = load(return_X_y=True)
        split = train_test_split(X, y, train_size=sizes[data], stratify=y, random_state=0)
        for name, model in models(n_inducing).items():
            results[data, name] = measure(model, *split)
            seconds, loss, _ = results[data, name]
            title = f"{data}, n = {sizes[data]}"
            print(f"{title:<24} {name:<26} {seconds:6.1f} s, log loss {loss:.4f}")
    return results


# %%
# On the left the probabilities of the breast cancer data, on the right the log losses.


def draw(results):
    """Probabilities against each other, and log losses."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
    exact, sparse = (results["breast cancer", name][2] for name in COLOURS)
    left.plot(exact, sparse, "o", color="#30638e", markersize=4, alpha=0.4, linewidth=0)
    left.axline((0, 0), slope=1, color="black", linewidth=0.6)
    left.set(
        xlabel="GaussianProcessClassifier",
        ylabel="SparseGPClassifier",
        aspect="equal",
        title="probability of a benign tumour",
    )
    for shift, (name, colour) in zip((0.2, -0.2), COLOURS.items()):
        loss = [results[data, name][1] for data in DATA]
        bars = right.barh(np.arange(len(DATA)) + shift, loss, 0.36, color=colour, label=name)
        right.bar_label(bars, fmt="%.3f", padding=3)
    right.set(yticks=range(len(DATA)), yticklabels=DATA, title="held-out log loss (less is better)")
    right.margins(x=0.15)
    right.legend(frameon=False, loc="lower right")
    for axis in (left, right):
        axis.spines[["top", "right"]].set_visible(False)
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, help="picture file; without it, a window opens")
    parser.add_argument("--cancer", type=int, default=300, help="rows of the breast cancer data")
    parser.add_argument("--digits", type=int, default=120, help="rows of the digits")
    parser.add_argument("--n-inducing", type=int, default=40)
    arguments = parser.parse_args()
    sizes = {"breast cancer": arguments.cancer, "digits": arguments.digits}
    figure = draw(compare(sizes, arguments.n_inducing))
    figure.savefig(arguments.output, dpi=110) if arguments.output else plt.show()


if __name__ == "__main__":
    main()
