"""
What a model has learned
========================

Which columns matter, and what do they do? Sobol indices say how much of the variance of the mean a
column explains, and partial dependence shows how, with a band: how sure the model is of it. The
data are those of diabetes that come with scikit-learn: a measure of its progress within a year, and
ten properties of each of 442 patients.
"""

import argparse

import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

from skgp_sparse import SparseGPRegressor
from skgp_sparse.displays import CoverageDisplay, EffectDisplay

LONG = {"bmi": "body mass index", "bp": "blood pressure", "s5": "log of triglycerides"}


def load():
    """A data frame of ten columns, in units of patients, and targets."""
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    return X.rename(columns=LONG), y


# %%
# The indices are attributes, so that scikit-learn's ``SelectFromModel`` and ``RFECV`` find them.


def print_table(model):
    """Total indices, the largest first."""
    pairs = sorted(zip(model.feature_importances_, model.feature_names_in_), reverse=True)
    for share, column in pairs[:5]:
        print(f"{share:6.1%} of the variance is lost without {column}")


# %%
# Above: which columns matter, and what the strongest does. Below: whether intervals of rows that
# were held out hold, and what a column does that hardly matters.


def draw_importances(model, ax):
    """Total indices with standard errors, and what each column explains alone."""
    order = model.feature_importances_.argsort()
    names, error = model.feature_names_in_[order], model.sobol_error_[1, order]
    ax.barh(names, model.feature_importances_[order], xerr=error, alpha=0.35, label="total")
    ax.barh(names, model.sobol_first_[order], 0.4, color="C0", label="alone")
    ax.set_xlabel("share of the variance of the mean")
    ax.legend(loc="lower right")


def draw(model, X, X_test, y_test):
    """Four panels."""
    figure, axes = plt.subplots(2, 2, figsize=(10, 7.5), layout="constrained")
    draw_importances(model, axes[0, 0])
    for ax, column in zip(axes[:, 1], (LONG["bmi"], "age")):
        EffectDisplay.from_estimator(model, X, column, ax=ax)
        ax.set_ylim(60, 280)
    CoverageDisplay.from_estimator(model, X_test, y_test, ax=axes[1, 0])
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", help="file of the picture, instead of a window")
    args = parser.parse_args()
    X, y = load()
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    model = SparseGPRegressor(random_state=0).fit(X_train, y_train)
    print_table(model)
    figure = draw(model, X_train, X_test, y_test)
    figure.savefig(args.output, dpi=110) if args.output else plt.show()


if __name__ == "__main__":
    main()
