"""Bad input: a clear error, or a documented behaviour that is finite and not silent."""

import re
import warnings

import numpy as np
import pytest
from conftest import NAMED_BOUNDS
from inside import BOUNDS, moments
from scipy.sparse import coo_matrix, csr_array, csr_matrix
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import kernels as sk

from skgp_sparse import BayesianGPLVM, SparseGPClassifier, SparseGPRegressor
from skgp_sparse.bounds import PEP
from skgp_sparse.exceptions import ConstantFitWarning
from skgp_sparse.inducing import BY_NAME

RNG = np.random.RandomState(0)
X = RNG.normal(size=(60, 2))
Y = np.sin(2 * X[:, 0]) + 0.1 * RNG.normal(size=60)
ROUTES = pytest.mark.parametrize("n_inducing", [15, 100], ids=["sparse", "exact"])


def model(kernel=None, **parameters):
    defaults = {"n_inducing": 15, "max_iter": 20, "random_state": 0}
    return SparseGPRegressor(kernel, **defaults | parameters)


def fitted_quietly(estimator, X, y, *, may_explain_nothing=False, **fit_parameters):
    """Fit; only ConvergenceWarnings are allowed, and one of a constant fit if that may be."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)
        if may_explain_nothing:
            warnings.simplefilter("ignore", ConstantFitWarning)
        return estimator.fit(X, y, **fit_parameters)


def standard_sane(estimator, X):
    """Nothing is NaN, no variance negative."""
    mean, std = estimator.predict(X, return_std=True)
    _, cov = estimator.predict(X, return_cov=True)
    assert np.isfinite(mean).all() and np.isfinite(std).all() and np.isfinite(cov).all()
    assert (std >= 0).all() and (np.diagonal(cov) >= 0).all()
    assert np.isfinite(estimator.sample_y(X, 2)).all()
    assert np.isfinite(estimator.log_marginal_likelihood_value_)
    assert np.isfinite(estimator.jitter_)


def spoilt(array, value):
    array = array.copy()
    array.flat[3] = value
    return array


def names(estimator, X=X, y=Y, **rows):
    """The message of the error of a fit."""
    with pytest.raises(ValueError) as error:
        estimator.fit(X, y, **rows)
    return str(error.value)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nan_and_inf_are_refused(value):
    ones = spoilt(np.ones(60), value)
    assert "Input X contains" in names(model(sk.RBF()), spoilt(X, value))
    assert "Input y contains" in names(model(), X, spoilt(Y, value))
    assert "Input sample_weight contains" in names(model(), sample_weight=ones)
    assert "alpha contains" in names(model(alpha=ones))
    assert "inducing_init" in names(model(inducing_init=spoilt(X[:5], value)))
    assert "'alpha' parameter" in names(model(alpha=value))
    fitted = model(kernel=sk.RBF(), optimizer=None).fit(X, Y)
    with pytest.raises(ValueError, match="Input X contains"):
        fitted.predict(spoilt(X, value))


def test_wrong_widths_are_refused():
    fitted = model(sk.RBF(), optimizer=None).fit(X, Y)
    for method in (fitted.predict, fitted.sample_y):
        with pytest.raises(ValueError, match="X has 1 features, but .* is expecting 2"):
            method(X[:, :1])
    for init in (X[:5, :1], lambda X, m, kernel, rng: X[:m, :1]):
        assert re.search(
            "'inducing_init' .* has 1 columns, but X has 2", names(model(inducing_init=init))
        )
    assert "inconsistent numbers of samples" in names(model(), y=Y[:-1])
    assert "sample_weight.shape" in names(model(), sample_weight=np.ones(59))
    assert "same number of entries as y. (59 != 60)" in names(model(alpha=np.ones(59)))
    assert "Cross-validation" in names(model(alpha=np.ones(59)))
    assert "alpha must be a scalar or an array" in names(model(alpha=[]))
    assert "Expected 2D array" in names(model(), X[:, 0])
    for optimizer in ("fmin_l_bfgs_b", None):
        message = names(model(sk.RBF([1.0, 1.0, 1.0]), optimizer=optimizer))
        assert re.search("length_scale of shape .* have 2 columns", message)


def test_strings_are_refused():
    told = [
        names(model(kernel), [["a"], ["b"]], [0.0, 1.0]) for kernel in (None, sk.ConstantKernel())
    ]
    assert re.search("X of .* contains text, first .a., but must be numbers", told[0])
    assert re.search("numeric arrays.*GaussianProcessRegressor", told[1])


@pytest.mark.parametrize(
    "parameter, value, valid",
    [
        ("bound", "elbo", list(BOUNDS)),
        ("bound", PEP, ["instance"]),
        ("inducing_init", "kmeans", list(BY_NAME)),
        ("inducing_init", None, list(BY_NAME)),
        ("optimizer", "adam", ["fmin_l_bfgs_b", "callable", "None"]),
        ("kernel", "rbf", ["sklearn.gaussian_process.kernels"]),
        *(("n_inducing", wrong, ["an int in the range [1, inf)"]) for wrong in (0, 2.5, True)),
        ("n_inducing", "all", ["auto", "an int in the range [1, inf)"]),
        ("max_iter", -1, ["an int in the range [1, inf)"]),
        ("n_restarts_optimizer", "2", ["an int in the range [0, inf)"]),
        *(("tol", wrong, ["a float in the range [0, inf)"]) for wrong in (-1.0, np.nan)),
        *(("alpha", wrong, ["a float in the range [0, inf)"]) for wrong in (-0.1, "big")),
        ("inducing_init", lambda *given: None, ["return an array of shape (m, 2)"]),
        *(("n_jobs", wrong, ["None or an int other than 0"]) for wrong in (0, "2", 1.5)),
        ("verbose", "yes", ["an int in the range [0, inf)"]),
        ("n_targets", 0, ["an int in the range [1, inf)"]),
        ("normalize_y", 1, ["True or False"]),
        ("optimize_inducing", "no", ["True or False"]),
    ],
)
def test_unknown_parameters_are_refused_and_the_valid_ones_listed(parameter, value, valid):
    message = names(model(**{parameter: value}))
    assert f"The {parameter!r} parameter of SparseGPRegressor must be" in message
    assert all(word in message for word in valid) and "Got " in message


@pytest.mark.parametrize(
    "answer",
    [
        3,
        ([0.0], 1.0),
        ([np.nan, 0.0], 1.0),
        (1.0,),
        ([0.0, 0.0], None),
        ([0.0, 0.0], "x"),
        ([0.0, 0.0], np.array("x")),
        (["a", "b"], 1.0),
        ([0.0, 0.0], np.nan),
        ([0.0, 0.0], [1.0, 2.0]),
    ],
)
def test_answers_of_optimizers_are_judged(answer):
    message = names(model(sk.RBF() + sk.WhiteKernel(), optimizer=lambda *given, **bounds: answer))
    assert "must return (theta, value): theta holds 2" in message and "Got " in message


@pytest.mark.parametrize("answer", [1.0, np.float32(1.0), np.array(1.0), np.array([1.0])])
def test_numbers_of_all_kinds_are_answers_of_optimizers(answer):
    estimator = model(
        sk.RBF() + sk.WhiteKernel(), optimizer=lambda *given, **bounds: ([0.0, 0.0], answer)
    )
    value = estimator.fit(X, Y).log_marginal_likelihood_value_  # not what the optimiser claims
    assert value == pytest.approx(estimator.log_marginal_likelihood(np.zeros(2)), rel=1e-10)


def test_negative_hyperparameters_are_refused():
    assert "must be positive, and correlations below 1. Got RBF" in names(model(sk.RBF(-1.0)))


@pytest.mark.parametrize("alpha", [-0.1, 1.5, np.nan, "half"])
def test_pep_outside_its_range_is_refused(alpha):
    assert "'bound__alpha' parameter" in names(model(bound=PEP(alpha)))


def test_negative_noise_and_weights_are_refused_and_weights_that_are_all_zero():
    assert "not negative" in names(model(alpha=np.full(60, -1.0)))
    assert "negative" in names(model(), sample_weight=np.full(60, -1.0)).lower()
    assert "zero" in names(model(), sample_weight=np.zeros(60))


@pytest.mark.parametrize(
    "kernel", [sk.CompoundKernel([sk.RBF()]), sk.RBF() + sk.CompoundKernel([sk.RBF()])]
)
def test_compound_kernels_are_refused(kernel):
    assert "add or multiply" in names(model(kernel)).lower()


@ROUTES
def test_infinite_bounds_are_fine_without_restarts_only(n_inducing):
    kernel = sk.RBF(1.0, (1e-5, np.inf)) + sk.WhiteKernel()
    standard_sane(model(kernel, n_inducing=n_inducing).fit(X, Y), X)
    restarted = model(kernel, n_inducing=n_inducing, n_restarts_optimizer=1)
    assert "requires that all bounds are finite" in names(restarted)


@pytest.mark.second(share=0.5)
@ROUTES
@pytest.mark.parametrize("constant", [[0], [0, 1]], ids=["one", "all"])
def test_constant_features_say_nothing(n_inducing, constant):
    X_const = X.copy()
    X_const[:, constant] = 5.0
    standard_sane(fitted_quietly(model(n_inducing=n_inducing), X_const, Y), X_const)


@pytest.mark.second(share=0.33)
@ROUTES
@pytest.mark.parametrize("normalize_y", [True, False])
@pytest.mark.parametrize("level", [0.0, 3.0, -1e8])
def test_constant_targets_are_predicted(n_inducing, normalize_y, level):
    estimator = model(n_inducing=n_inducing, normalize_y=normalize_y)
    fitted_quietly(estimator, X, np.full(60, level))
    standard_sane(estimator, X)
    np.testing.assert_allclose(estimator.predict(X), level, rtol=0.01, atol=1e-6)


@ROUTES
def test_one_row_is_enough(n_inducing):
    estimator = fitted_quietly(model(n_inducing=n_inducing), X[:1], Y[:1])
    standard_sane(estimator, X)
    assert estimator.predict(X[:1]) == pytest.approx(Y[0])
    assert estimator.inducing_points_.shape == (1, 2)


def test_fewer_rows_than_inducing_points_are_exact_and_duplicates_count_once():
    repeated = np.repeat(X[:10], 6, axis=0)
    estimator = fitted_quietly(model(), repeated, Y)
    standard_sane(estimator, X)
    np.testing.assert_array_equal(estimator.inducing_points_, np.unique(X[:10], axis=0))
    few = fitted_quietly(model(n_inducing=1000), X[:7], Y[:7])
    assert few.inducing_points_.shape == (7, 2)


@pytest.mark.second(share=0.26)
@ROUTES
@pytest.mark.parametrize("offset, scale", [(1e8, 1.0), (0.0, 1e-12), (0.0, 1e12)])
def test_offsets_and_scales_of_X_do_not_matter(n_inducing, offset, scale):
    moved = X * scale + offset
    estimator = fitted_quietly(model(n_inducing=n_inducing), moved, Y)
    standard_sane(estimator, moved)
    plain = fitted_quietly(model(n_inducing=n_inducing), X, Y)
    # an offset of 1e8 leaves 8 digits of X
    np.testing.assert_allclose(estimator.predict(moved), plain.predict(X), atol=1e-2)


@pytest.mark.second(share=0.1, thin=1)
@ROUTES
@pytest.mark.parametrize("normalize_y", [True, False])
@pytest.mark.parametrize("offset, scale", [(1e8, 1.0), (0.0, 1e-12), (0.0, 1e12)])
def test_offsets_and_scales_of_y_are_given_back(n_inducing, normalize_y, offset, scale):
    if offset and not normalize_y:
        pytest.skip("the offset is then a signal of its own, 1e8 times the rest")
    moved = Y * scale + offset
    estimator = model(n_inducing=n_inducing, normalize_y=normalize_y)
    fitted_quietly(estimator, X, moved)
    standard_sane(estimator, X)
    plain = fitted_quietly(model(n_inducing=n_inducing), X, Y)
    given_back = (estimator.predict(X) - offset) / scale
    np.testing.assert_allclose(given_back, plain.predict(X), atol=0.05)


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_targets_whose_squares_leave_float64_are_standardised(scale):
    estimator = fitted_quietly(model(), X, Y * scale)  # a covariance would leave float64, too
    plain = fitted_quietly(model(), X, Y)
    for ours, theirs in zip(estimator.predict(X, return_std=True), plain.predict(X, True)):
        np.testing.assert_allclose(ours / scale, theirs, atol=0.05)


@pytest.mark.second(share=0.5)
@ROUTES
@pytest.mark.parametrize("scale", [1e-200, 1e-160, 1e160, 1e200])
def test_inputs_whose_squares_leave_float64_are_fitted(n_inducing, scale):
    estimator = fitted_quietly(model(n_inducing=n_inducing), X * scale, Y)
    standard_sane(estimator, X * scale)
    assert estimator.score(X * scale, Y) > 0.9


@pytest.mark.parametrize("scale", [1e-307, 1e305])
def test_inputs_at_the_limits_of_float64_are_refused(scale):
    assert "Rescale X" in names(model(), X * scale)


@ROUTES
def test_queries_of_any_size_are_answered(n_inducing):
    estimator = fitted_quietly(model(n_inducing=n_inducing), X, Y)
    queries = np.array([[1e154, 0.0], [1e160, 1e160], [-1e300, 1.0], [1.7e308, -1.7e308]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mean, std = estimator.predict(queries, return_std=True)
        np.testing.assert_allclose(mean, Y.mean())
        far = estimator.predict([[1e6, 0.0]], return_std=True)[1]
        np.testing.assert_allclose(std, np.repeat(far, 4))
        assert np.isfinite(estimator.sample_y(queries)).all()


def test_predictions_that_overflow_name_the_row():
    estimator = fitted_quietly(model(sk.DotProduct(), n_inducing=100), X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for options in ({"return_std": True}, {"return_cov": True}):
            with pytest.raises(ValueError, match="rows of X, first at row"):
                estimator.predict([[1.0, 1.0], [1e300, 1.0]], **options)
        for unfitted_or_not in (estimator, model(sk.DotProduct())):
            with pytest.raises(ValueError, match="overflow float64|not positive|NaN"):
                unfitted_or_not.sample_y([[1.0, 1.0], [1e200, 1.0]])


@pytest.mark.parametrize(
    "y, words",
    [
        (1e-160 * Y, "underflow float64.*normalize_y=True"),
        (1e200 * Y, "overflow float64.*normalize_y=True"),
    ],
)
@ROUTES
def test_targets_that_are_no_numbers_to_compute_with_are_named(n_inducing, y, words):
    assert re.search(words, names(model(n_inducing=n_inducing, normalize_y=False), X, y))


@ROUTES
@pytest.mark.parametrize("size", [1e-60, 1e60, 1e75, 1e100, 1e140])
def test_unnormalised_targets_are_fitted_or_named(n_inducing, size):
    estimator = model(n_inducing=n_inducing, normalize_y=False)
    if size > 1e70:
        assert "overflow float64" in names(estimator, X, size * Y)
    else:
        assert fitted_quietly(estimator, X, size * Y).score(X, size * Y) > 0.9


@ROUTES
@pytest.mark.parametrize("size, alpha", [(1e160, 1e-10), (1e200, 1e300), (1e-160, 1e-310)])
def test_known_noise_beside_targets_of_any_size(n_inducing, size, alpha):
    estimator = model(sk.RBF(), n_inducing=n_inducing, alpha=alpha)
    fitted_quietly(estimator, X, size * Y, may_explain_nothing=True)
    assert np.isfinite(estimator.predict(X, return_std=True)).all()
    assert "'alpha' parameter" in names(model(sk.RBF(), alpha=0.1), X, 1e-160 * Y)


def test_rows_of_weight_zero_may_hold_anything(monkeypatch):
    monkeypatch.setattr(moments, "_SMALL_TABLE", 0)  # large tables keep such rows
    weight = np.ones(62)
    weight[:2] = 0.0
    table = np.vstack([[1e300, -1e300], [5.0, 5.0], X])  # as large as they are
    y = np.concatenate([[1e100, 5.0], Y])
    for normalize_y in (True, False):
        options = {"normalize_y": normalize_y, "inducing_init": "random"}
        estimator = fitted_quietly(model(**options), table, y, sample_weight=weight)
        assert estimator.score(X, Y) > 0.9
        fitted_quietly(model(**options), table, 0 * y + (weight == 0), sample_weight=weight)


@pytest.mark.parametrize("level", [1e200, -1e-200, 1e307])
def test_constant_targets_of_any_size_are_predicted(level):
    estimator = fitted_quietly(model(), X, np.full(60, level))
    np.testing.assert_allclose(estimator.predict(X), level)


def test_a_target_that_is_missing_is_named():
    y = Y.astype(object)
    y[7] = None
    assert "Input y contains NaN in 1 rows, first in row 7" in names(model(), X, y)
    assert "first in row 7" in names(model(), X, y.tolist())
    assert "first in row 7" in names(model(), X, np.column_stack([Y, y]))


@pytest.mark.parametrize("kind", [csr_matrix, csr_array, coo_matrix])
def test_sparse_inputs_are_refused_with_a_remedy(kind):
    remedy = "X.toarray.*, or set sparse_output=False of OneHotEncoder, sparse_threshold=0"
    fitted, labels = model().fit(X, Y), SparseGPClassifier()
    for of, act in (
        ("SparseGPRegressor", lambda: model().fit(kind(X), Y)),
        ("SparseGPRegressor.partial_fit", lambda: model().partial_fit(kind(X), Y)),
        ("SparseGPRegressor", lambda: fitted.predict(kind(X))),
        ("SparseGPClassifier", lambda: labels.fit(kind(X), Y > 0)),
        ("BayesianGPLVM", lambda: BayesianGPLVM().fit(kind(X))),
    ):
        with pytest.raises(TypeError, match=f"for X of {of}. .*{remedy}"):
            act()


def objects():
    pandas = pytest.importorskip("pandas")
    cut = pandas.cut(X[:, 0], 5)
    return {
        "Interval": [cut, pandas.Series(cut), pandas.DataFrame({"y": cut}), [*cut]],
        "Period": [pandas.period_range("2000", periods=60)],
        "dict": [[{}] * 60],
    }


def test_targets_that_are_objects_are_named():
    fitted = model(optimizer=None).fit(X, Y)
    for kind, targets in objects().items():
        for y in targets:
            told = f"contains objects, first .* must be numbers .*{kind}.*middle of an interval"
            for likelihood in ("gaussian", "student_t"):
                with pytest.raises(TypeError, match=f"y of SparseGPRegressor {told}"):
                    model(likelihood=likelihood).fit(X, y)
            for act in (fitted.score, fitted.log_predictive_density):
                with pytest.raises(TypeError, match=f"y of SparseGPRegressor.* {told}"):
                    act(X, y)
    cut = objects()["Interval"][0]
    model(optimizer=None).fit(X, [one.mid for one in cut])
    SparseGPClassifier(optimizer=None).fit(X, cut.astype(str))
    numbers = Y.astype(object)  # objects that are numbers
    again = model(optimizer=None).fit(X, numbers)
    np.testing.assert_array_equal(again.predict(X), fitted.predict(X))


@pytest.mark.parametrize("n_samples", [-1, 0, 1.5, None, "2"])
def test_numbers_of_samples_are_judged(n_samples):
    with pytest.raises(ValueError, match="'n_samples' parameter of SparseGPRegressor.sample_y"):
        model().sample_y(X, n_samples)


def test_parts_of_names_cannot_be_set():
    with pytest.raises(ValueError, match="'bound__alpha' of SparseGPRegressor.*bound is 'pep'"):
        model(bound="pep").set_params(bound__alpha=0.5)
    with pytest.raises(ValueError, match="kernel is None"):
        model().set_params(kernel__length_scale=0.5)
    estimator = model(bound="pep").set_params(bound=PEP(0.5), bound__alpha=0.2)
    assert estimator.bound.alpha == 0.2


def test_endless_restarts_can_be_stopped():
    seen = []

    def optimizer(objective, theta, bounds):
        seen.append(theta)
        if len(seen) == 3:
            raise KeyboardInterrupt
        return theta, objective(theta, eval_gradient=False)

    with pytest.raises(KeyboardInterrupt):
        model(sk.RBF() + sk.WhiteKernel(), optimizer=optimizer, n_restarts_optimizer=10**30).fit(
            X, Y
        )
    assert len({tuple(theta) for theta in seen}) == 3


@ROUTES
def test_restarts_at_hyperparameters_that_overflow_are_passed_over(n_inducing):
    kernel = sk.DotProduct(1.0, (1e-300, 1e300)) + sk.WhiteKernel(1e-2)
    options = {"n_restarts_optimizer": 4, "n_inducing": n_inducing}
    fitted_quietly(model(kernel, **options), X, Y)


@ROUTES
@pytest.mark.parametrize("far", [1e10, 1e12, 1e20])
def test_one_far_row_leaves_the_others_as_they_are(n_inducing, far):
    table = np.vstack([[[far, 0.0]], X])
    y = np.concatenate([[0.3], Y])
    estimator = fitted_quietly(
        model(sk.RBF(0.5) + sk.WhiteKernel(1e-2), n_inducing=n_inducing), table, y
    )
    assert estimator.score(X, Y) > 0.9


@ROUTES
@pytest.mark.parametrize("offset", [3e6, 1e8])
def test_two_groups_that_are_far_apart_are_two_tables(n_inducing, offset):
    few = np.repeat(np.arange(10.0), 8)[:, None] / 2 + np.linspace(0, 0.4, 80)[:, None] ** 2
    few = np.round(few * 2**10) / 2**10  # so that an offset loses no digit
    y = np.sin(few[:, 0])
    values = []
    for distance in (2.0**10, np.round(offset)):
        moved = few + distance * (np.arange(80) % 2)[:, None]
        kernel = sk.RBF(0.5) + sk.WhiteKernel(0.01)
        estimator = fitted_quietly(
            model(kernel, n_inducing=n_inducing, optimizer=None, inducing_init="k-means++"),
            moved,
            y,
        )
        values.append(estimator.log_marginal_likelihood_value_)
        learned = fitted_quietly(model(kernel, n_inducing=max(n_inducing, 40)), moved, y)
        assert learned.score(moved, y) > 0.95
    if n_inducing == 100:
        np.testing.assert_allclose(values[1], values[0], rtol=1e-9)


@ROUTES
@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_a_kernel_in_other_units_than_X_is_reported_or_explains_by_noise(n_inducing, scale):
    estimator = model(sk.RBF() + sk.WhiteKernel(), n_inducing=n_inducing)
    fitted_quietly(estimator, X * scale, Y, may_explain_nothing=True)
    standard_sane(estimator, X * scale)


@pytest.mark.parametrize("bound", NAMED_BOUNDS)
@pytest.mark.parametrize("optimizer", [None, "fmin_l_bfgs_b"])
def test_duplicate_inducing_points_are_survived(bound, optimizer):
    Z = np.repeat(X[:5], 3, axis=0)
    estimator = model(
        sk.RBF() + sk.WhiteKernel(0.01), inducing_init=Z, optimizer=optimizer, bound=bound
    )
    standard_sane(fitted_quietly(estimator, X, Y), X)
    assert estimator.jitter_ > 0


@ROUTES
@pytest.mark.parametrize("fixed", [True, False])
def test_length_scales_of_1e5_are_survived(n_inducing, fixed):
    kernel = sk.ConstantKernel() * sk.RBF(1e5, "fixed" if fixed else (1e5, 1e6)) + sk.WhiteKernel()
    estimator = fitted_quietly(model(kernel, n_inducing=n_inducing), X, Y, may_explain_nothing=True)
    standard_sane(estimator, X)


def test_jitter_that_had_to_grow_is_seen():
    kernel = sk.DotProduct(sigma_0=1e-3, sigma_0_bounds="fixed")  # rank 3 of 60
    estimator = model(kernel, alpha=0.0, n_inducing=100, optimizer=None)
    standard_sane(fitted_quietly(estimator, 1e4 * X, Y), 1e4 * X)
    assert estimator.jitter_ > 0


@ROUTES
@pytest.mark.parametrize("alpha", [0.0, 1e-10])
def test_hardly_any_noise_is_finite(n_inducing, alpha):
    estimator = model(sk.RBF(), alpha=alpha, n_inducing=n_inducing)
    standard_sane(fitted_quietly(estimator, X, Y), X)


def test_a_kernel_that_is_no_covariance_is_named_as_the_cause():
    negative = sk.ConstantKernel(-1.0, "fixed") * sk.RBF(1.0, "fixed")
    with pytest.raises(np.linalg.LinAlgError, match="positive definite"):
        model(negative, optimizer=None).fit(X, Y)


def test_trouble_is_a_convergence_warning_with_a_remedy_that_exists():
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model(sk.RBF() + sk.WhiteKernel(), max_iter=1).fit(X, Y)
    with pytest.warns(ConvergenceWarning, match="close to the specified upper bound 0.1"):
        model(sk.RBF(0.05, (0.01, 0.1)) + sk.WhiteKernel()).fit(X, Y)


def test_bounds_that_the_user_did_not_choose_are_not_reported():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model(sk.RBF(), n_inducing=100, max_iter=200).fit(X, np.sin(X[:, 0]))
        model(n_inducing=100, max_iter=200).fit(X, np.sin(X[:, 0]))
