"""Random tables, kernels, parameters and call sequences, and what must hold for all of them.

`test_fuzz.py` runs some cases, always the same. For more, with other seeds::

    python tests/fuzz.py --cases 20000 --seed 1

What must hold: a table of ordinary scales is fitted, and any other is fitted or refused in words;
NumPy does not warn; inputs and parameters stay as they were; n_jobs changes no bit; predictions are
numbers, variances not negative, probabilities sum to one; pickles and clones work; the objective is
a number with a gradient of numbers, or -inf with zeros.
"""

import argparse
import pickle
import time
import warnings
from typing import NamedTuple

import numpy as np
import pandas as pd
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import kernels as sk

from skgp_sparse import SparseGPClassifier, SparseGPRegressor

ORDINARY = 6.0  # decimal exponent of a scale up to which nothing may fail
OVERFLOWING = 150.0
REGRESSION_BOUNDS = ("titsias", "titsias_new", "artemev", "fitc", "pep", "dtc")
CLASSIFICATION_BOUNDS = ("titsias", "titsias_new", "fitc")


class Table(NamedTuple):
    """A training table, queries, and whether anything about it may fail."""

    X: np.ndarray  # or a data frame with categories and missing values
    y: np.ndarray
    weight: np.ndarray | None
    queries: np.ndarray
    is_ordinary: bool


class Case(NamedTuple):
    """What is fitted, and what is done then."""

    estimator: object
    table: Table
    other: Table
    operations: tuple
    theta: float  # of all hyperparameters, at which the objective is asked for

    def __repr__(self):
        shapes = self.table.X.shape, self.table.y.shape, np.asarray(self.table.X).dtype
        return (
            f"Case({self.estimator!r}, {shapes}, X={np.asarray(self.table.X).tolist()}, "
            f"y={self.table.y.tolist()}, weight={self.table.weight}, {self.operations}, "
            f"theta={self.theta})"
        )


# -- strategies ------------------------------------------------------------------------

scales = st.one_of(
    st.just(0.0), st.floats(-ORDINARY, ORDINARY), st.floats(-OVERFLOWING, OVERFLOWING)
)
seeds = st.integers(0, 2**20)


@st.composite
def tables(draw, labels, columns=None, kinds=None):
    """A table of a handful of rows: clusters, grids, copies, offsets, weights.

    With `kinds`, one for each column, it is a data frame of numbers and categories with gaps.
    """
    rng = np.random.default_rng(draw(seeds))
    n, d = draw(st.integers(2, 40)), columns or draw(st.integers(1, 4))
    X, exponent = draw(st.sampled_from(LAYOUTS))(rng, (n, d)), draw(scales)
    is_ordinary = abs(exponent) <= ORDINARY
    X = X * 10.0**exponent
    y = np.sin(X[:, 0] / 10.0**exponent) + 0.1 * rng.normal(size=n)
    if labels:
        n_classes = draw(st.integers(2, 3))
        y = (
            rng.permutation(np.arange(n) % n_classes)
            if draw(st.booleans())
            else (y > 0).astype(int)
        )
        y[:2] = 0, 1
    else:
        y = y * 10.0 ** draw(scales.filter(lambda exponent: abs(exponent) <= ORDINARY))
        y = np.full(n, y[0]) if draw(st.integers(0, 9)) == 0 else y
        y = np.column_stack([y, y[::-1]]) if draw(st.integers(0, 4)) == 0 else y
    weight = None
    if draw(st.integers(0, 3)) == 0:
        weight = rng.integers(1 if labels else 0, 4, size=n).astype(float)
        weight[:2] = 1.0
    queries = np.vstack([X[:2], X[:1] + 10.0 ** draw(st.floats(-3, 250)), -X[:1]])
    if kinds is not None:
        frame, queries = typed(rng, X, kinds)
        return Table(frame, y, weight, queries, is_ordinary)
    if draw(st.booleans()) and is_ordinary:
        X = X.astype(np.float32)
    X = np.asfortranarray(X) if draw(st.booleans()) else X
    for array in (X, y):
        array.flags.writeable = False
    return Table(X, y, weight, queries, is_ordinary)


def typed(rng, X, kinds):
    """A data frame of numbers, text and categories, of which some are missing, and queries."""
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    for name, kind in zip(frame, kinds):
        if "number" not in kind:
            levels = np.array(["a", "b", "c", "d"], dtype=object)
            frame[name] = levels[rng.integers(0, 4, len(frame))]
        if "gaps" in kind:
            frame.loc[rng.uniform(size=len(frame)) < 0.3, name] = None
        if "category" in kind:
            frame[name] = frame[name].astype("category")
    levels = [name for name, kind in zip(frame, kinds) if "number" not in kind]
    queries = frame.iloc[:3].astype(dict.fromkeys(levels, object))
    queries.loc[queries.index[0], levels] = "another"
    return frame, queries


KINDS = ("number", "number with gaps", "text", "text with gaps", "category", "category with gaps")


LAYOUTS = (  # of rows: normal, a grid, copies, near copies, a constant column, far groups and rows
    lambda rng, shape: rng.normal(size=shape),
    lambda rng, shape: rng.integers(0, 4, size=shape).astype(float),
    lambda rng, shape: rng.normal(size=(3, shape[1]))[rng.integers(0, 3, size=shape[0])],
    lambda rng, shape: LAYOUTS[2](rng, shape) + 1e-9 * rng.normal(size=shape),
    lambda rng, shape: np.where(np.arange(shape[1]) == 0, 3.0, rng.normal(size=shape)),
    lambda rng, shape: rng.normal(size=shape) + far(rng, 9) * (np.arange(shape[0]) % 2)[:, None],
    lambda rng, shape: rng.normal(size=shape) * np.r_[far(rng, 12), np.ones(shape[0] - 1)][:, None],
    lambda rng, shape: rng.normal(size=shape) + far(rng, 9),
)


def far(rng, most):
    return 10.0 ** rng.uniform(0, most)


@st.composite
def kernel_expressions(draw, columns):
    """A sum, product or power of kernels of all kinds, with ordinary hyperparameters."""
    value = st.floats(-1.5, 1.5).map(lambda exponent: 10.0**exponent)
    leaves = st.one_of(
        st.builds(sk.RBF, value),
        st.builds(
            lambda values: sk.RBF(values), st.lists(value, min_size=columns, max_size=columns)
        ),
        st.builds(sk.Matern, value, nu=st.sampled_from([0.5, 1.5, 2.5, np.inf])),
        st.builds(sk.RationalQuadratic, value, value),
        st.builds(sk.ExpSineSquared, value, value),
        st.builds(sk.DotProduct, value),
    )
    expression = draw(leaves)
    for _ in range(draw(st.integers(0, 2))):
        expression = draw(st.sampled_from(OPERATORS))(expression, draw(leaves))
    if draw(st.booleans()):
        expression = sk.ConstantKernel(draw(value)) * expression
    return expression + sk.WhiteKernel(draw(value)) if draw(st.booleans()) else expression


OPERATORS = (
    lambda one, other: one + other,
    lambda one, other: one * other,
    lambda one, other: sk.Exponentiation(one, 2.0) + other,
)


@st.composite
def cases(draw):
    """An estimator, two tables and some calls."""
    labels, kinds = draw(st.booleans()), None
    if draw(st.integers(0, 3)) == 0:
        kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=4))
    table = draw(tables(labels, kinds and len(kinds), kinds))
    d = table.X.shape[1]
    kernel = draw(st.one_of(st.none(), kernel_expressions(d))) if kinds is None else None
    options = {
        "kernel": kernel,
        "bound": draw(st.sampled_from(CLASSIFICATION_BOUNDS if labels else REGRESSION_BOUNDS)),
        "n_inducing": draw(st.sampled_from(["auto", 1, 3, 10])),
        "inducing_init": draw(
            st.sampled_from(["k-means", "rp-cholesky", table.X[:3] if kinds is None else "random"])
        ),
        "optimize_inducing": draw(st.booleans()),
        "optimizer": draw(st.sampled_from(["fmin_l_bfgs_b", "fmin_l_bfgs_b", None])),
        "n_restarts_optimizer": draw(st.integers(0, 1)),
        "max_iter": draw(st.integers(1, 4)),
        "random_state": 0,
    }
    if labels:
        options["likelihood"] = draw(st.sampled_from(["probit", "logit"]))
        options["multi_class"] = draw(st.sampled_from(["one_vs_rest", "one_vs_one", "softmax"]))
        options["warm_start"] = draw(st.booleans())
    else:
        options["normalize_y"] = draw(st.booleans())
        options["alpha"] = draw(st.sampled_from([None, None, 1e-10, 0.1, "rows"]))
        if isinstance(options["alpha"], str):
            options["alpha"] = np.linspace(0.1, 1.0, len(table.y))
    make = SparseGPClassifier if labels else SparseGPRegressor
    operations = draw(st.lists(st.sampled_from(sorted(OPERATIONS)), min_size=1, max_size=3))
    other = draw(tables(labels, d, kinds))
    return Case(make(**options), table, other, tuple(operations), draw(st.floats(-800, 800)))


# -- what must hold --------------------------------------------------------------------


def check(case):
    """Raise AssertionError, or whatever went wrong, unless everything holds."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", UserWarning)
        model, fits = clone(case.estimator), fitted(case.estimator, case.table)
        if fits is None:
            return
        check_predictions(fits, case.table)
        several = len(getattr(fits, "classes_", ())) > 2  # n_jobs would start processes
        check_same_bits(model.set_params(n_jobs=None if several else 2), fits, case.table)
        for operation in case.operations:
            OPERATIONS[operation](fits, case)


def fitted(estimator, table):
    """A fitted clone; None where an extraordinary table is refused in words."""
    model = clone(estimator)
    before = pickle.dumps(table[:3])
    parameters = repr(model.get_params())
    try:
        model.fit(table.X, table.y, sample_weight=table.weight)
    except ValueError as error:
        may_be_refused = not table.is_ordinary or may_fail(model) or has_no_method(model)
        assert may_be_refused, f"refused: {error}"
        assert len(str(error)) > 30 and "infs or NaNs" not in str(error), f"no words: {error}"
        assert not vars_of_fit(model), "half fitted"
        return None
    assert pickle.dumps(table[:3]) == before, "the input was changed"
    assert repr(model.get_params()) == parameters, "a parameter was changed"
    return model


def may_fail(model):
    """Whether ordinary tables may be too much: unbounded kernels, or no covariance (in 2-d)."""
    kernel = repr(model.kernel)
    return any(name in kernel for name in ("DotProduct", "linear", "**", "ExpSineSquared"))


def has_no_method(model):
    """Whether the choices exclude each other: expectation propagation has no softmax."""
    choices = model.get_params()
    return choices.get("multi_class") == "softmax" and choices["bound"] == "fitc"


def vars_of_fit(model):
    """Names of what only a fit sets."""
    return [name for name in vars(model) if name.endswith("_") and not name.startswith("_")]


def predicted(model, X):
    """All that predictions are made of; nothing where they overflow, which is said in words."""
    try:
        if isinstance(model, SparseGPClassifier):
            return model.predict_proba(X), model.predict(X)
        return model.predict(X, return_std=True)
    except ValueError as error:
        words = ("overflow", "infinity", "but it was a number in fit")  # where all were missing
        assert any(one in str(error) for one in words), error
        return ()


def check_predictions(model, table):
    """Numbers, as large as they may be."""
    for X in (table.X, table.queries):
        found = predicted(model, X)
        if not found:
            continue
        first, second = found
        assert np.isfinite(first).all()
        if isinstance(model, SparseGPClassifier):
            assert (first >= 0).all() and np.allclose(first.sum(axis=1), 1.0)
            assert np.isin(second, model.classes_).all()
        else:
            assert np.isfinite(second).all() and (second >= 0).all()


def check_same_bits(estimator, model, table):
    """Another fit, with two threads, finds the same."""
    other = fitted(estimator, table)
    for one, another in zip(predicted(model, table.X), predicted(other, table.X)):
        np.testing.assert_array_equal(one, another, "n_jobs or a second fit changes the result")


def check_theta(model, case):
    """The objective at any theta is a number with a gradient, or -inf with zeros."""
    size = len(model.kernel_.theta)
    theta = case.theta * np.cos(np.arange(size))
    value, gradient = model.log_marginal_likelihood(theta, eval_gradient=True)
    assert np.isfinite(gradient).all(), (value, gradient)
    assert np.isfinite(value) or value == -np.inf, value
    alone = model.log_marginal_likelihood(theta)
    assert np.isfinite(alone) or alone == -np.inf, alone
    single = not isinstance(model, SparseGPClassifier) or model.n_classes_ == 2
    assert not (value == -np.inf and single and gradient.any())


def check_pickle(model, case):
    """What was pickled predicts the same."""
    again = pickle.loads(pickle.dumps(model))
    for one, other in zip(predicted(model, case.table.X), predicted(again, case.table.X)):
        np.testing.assert_array_equal(one, other)


def check_refit(model, case):
    """A fit to another table: the same as that of a new estimator, unless it starts warm."""
    if np.ndim(model.get_params().get("alpha")) > 0:
        return
    new = fitted(case.estimator, case.other)
    if new is None:
        return
    model.fit(case.other.X, case.other.y, sample_weight=case.other.weight)
    check_predictions(model, case.other)
    if not model.get_params().get("warm_start"):
        for one, other in zip(predicted(model, case.other.X), predicted(new, case.other.X)):
            np.testing.assert_array_equal(one, other)


OPERATIONS = {"theta": check_theta, "pickle": check_pickle, "refit": check_refit}


def run(n_cases, first_seed):
    """Check so many cases, and count them; the smallest one that fails is shown."""
    checked = 0

    @seed(first_seed)
    @settings(
        max_examples=n_cases,
        deadline=None,
        database=None,
        print_blob=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=cases())
    def holds(case):
        nonlocal checked
        checked += 1
        if checked % 500 == 0:
            print(f"{checked} cases", flush=True)
        check(case)

    holds()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    started = time.perf_counter()
    run(args.cases, args.seed)
    print(f"all hold, after {time.perf_counter() - started:.0f} s")
