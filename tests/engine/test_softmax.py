"""The softmax likelihood and its quadrature against other rules, limits and stored values."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from conftest import stored_cases
from inside import Softmax, integrals
from numpy.testing import assert_allclose

from skgp_sparse.likelihoods import Logit

GOLDEN = stored_cases("multiclass")
TOLERANCE = 1e-11
DEVIATIONS = [1e-5, 0.03, 0.06, 0.2, 0.5, 1.0, 2.0, 6.0, 20.0, 100.0]


def product_rule(mean, variance, count=121):
    """The three expectations for one row, by a product of trapezoidal rules."""
    z = np.linspace(-9.0, 9.0, count)
    weights = np.exp(-0.5 * z**2) / np.exp(-0.5 * z**2).sum()
    f = np.stack(np.meshgrid(*(m + np.sqrt(s) * z for m, s in zip(mean, variance)), indexing="ij"))
    joint = np.prod(np.meshgrid(*[weights] * len(mean), indexing="ij"), axis=0)
    top = f.max(axis=0)
    total = np.exp(f - top).sum(axis=0)
    p = np.exp(f - top) / total
    axes = tuple(range(1, f.ndim))
    value = (joint * (top + np.log(total))).sum()
    return value, (joint * p).sum(axis=axes), (joint * p * (1.0 - p)).sum(axis=axes)


def one_integral(mean, variance, step=0.2):
    """The three expectations for one row, by an integral of dense sums and the other formula."""
    x, std = mean - mean.max(), np.sqrt(variance)
    left, right = 36.0 + np.minimum(0.5 * variance, 9.0 * std).max(), 4.0 + 9.0 * std.max()
    u = step * np.arange(-np.ceil(left / step), np.ceil(right / step) + 1)
    psi = []
    for m, s in zip(x, std):
        z = np.linspace(-9.0, 9.0, 201 + int(300 * s))
        weights = np.exp(-0.5 * z**2) / np.exp(-0.5 * z**2).sum()
        a = np.exp(np.minimum(u[:, None] + m + s * z, 7.0))
        psi.append([np.exp(-a) @ weights, a * np.exp(-a) @ weights])
        psi[-1].append((a - a * a) * np.exp(-a) @ weights)
    psi, slope, bend = np.moveaxis(np.array(psi), 1, 0)
    others = np.array([np.prod(np.delete(psi, c, axis=0), axis=0) for c in range(len(x))])
    value = (np.exp(-np.exp(np.minimum(u, 7.0))) - np.prod(psi, axis=0)).sum()
    sums = [step * (part * others).sum(axis=1) for part in (slope, bend)]
    return mean.max() + step * value, *sums


def check_rows(mean, variance, rule):
    value, p, curvature = integrals.log_sum_exp(mean, variance)
    for row in range(mean.shape[1]):
        expected = rule(mean[:, row], variance[:, row])
        assert_allclose(value[row], expected[0], rtol=0, atol=TOLERANCE)
        assert_allclose(p[:, row], expected[1], rtol=0, atol=TOLERANCE)
        assert_allclose(curvature[:, row], expected[2], rtol=0, atol=TOLERANCE)


def random_rows(n_classes, n, deviation=1.0, spread=2.0, seed=0):
    rng = np.random.RandomState(seed)
    mean = spread * rng.normal(size=(n_classes, n))
    return mean, deviation**2 * 4.0 ** rng.uniform(-1.0, 1.0, size=(n_classes, n))


@pytest.mark.second(thin=1)
@pytest.mark.parametrize("deviation", [1e-5, 0.03, 0.1, 0.3, 0.6, 1.0])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_expectations_agree_with_a_product_rule(n_classes, deviation):
    check_rows(*random_rows(n_classes, 4, deviation), product_rule)


@pytest.mark.second(share=0.1, thin=1)
@pytest.mark.parametrize("spread", [1.0, 10.0])
@pytest.mark.parametrize("n_classes", [2, 5, 30])
@pytest.mark.parametrize("deviation", [0.03, 0.2, 0.5, 1.0, 2.0])
def test_expectations_agree_with_dense_sums(n_classes, deviation, spread):
    check_rows(*random_rows(n_classes, 2, deviation, spread), one_integral)


def test_expectations_agree_with_dense_sums_for_classes_of_unequal_variances():
    rng = np.random.RandomState(1)
    for n_classes in (2, 4):
        variance = 10.0 ** rng.uniform(-8.0, 2.0, size=(n_classes, 4))
        check_rows(3.0 * rng.normal(size=variance.shape), variance, one_integral)


@pytest.mark.parametrize("deviation", DEVIATIONS)
def test_two_classes_are_the_logit_of_their_difference(deviation):
    mean, variance = random_rows(2, 40, deviation, spread=3.0 * max(1.0, deviation))
    y = np.tile([0.0, 1.0], 20)
    value, slope, curvature = Softmax(2).expected(y, mean, variance)
    sign, both = 1.0 - 2.0 * y, variance.sum(axis=0)
    expected = Logit().expected(sign, mean[0] - mean[1], both)
    scale = max(1.0, deviation)
    assert_allclose(value, expected[0], rtol=0, atol=2 * TOLERANCE * scale)
    assert_allclose(slope, np.stack([expected[1], -expected[1]]), rtol=0, atol=TOLERANCE)
    assert_allclose(curvature, np.tile(expected[2], (2, 1)), rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("deviation", DEVIATIONS)
def test_probabilities_and_curvatures_are_derivatives(deviation):
    mean, variance = random_rows(4, 6, deviation)
    _, p, curvature = integrals.log_sum_exp(mean, variance)
    change = 1e-4 * max(1.0, deviation)
    for c, move in enumerate(change * np.eye(4)[..., None]):
        up, down = (integrals.log_sum_exp(mean + sign * move, variance) for sign in (1.0, -1.0))
        assert_allclose((up[0] - down[0]) / (2 * change), p[c], rtol=1e-7, atol=1e-8)
        assert_allclose((up[1] - down[1])[c] / (2 * change), curvature[c], rtol=1e-7, atol=1e-8)


@pytest.mark.second
def test_extreme_rows_are_finite_and_probabilities_add_up():
    rng = np.random.RandomState(2)
    for n_classes in (2, 3, 30):
        mean = rng.uniform(-1.0, 1.0, size=(n_classes, 8)) * 10.0 ** rng.uniform(-3, 3, size=8)
        variance = 10.0 ** rng.uniform(-10.0, 4.0, size=(n_classes, 8))
        variance[:, 4:] = variance[0, 4:]
        value, p, curvature = integrals.log_sum_exp(mean, variance)
        for array in (value, p, curvature):
            assert np.all(np.isfinite(array))
        assert p.min() >= 0.0 and p.max() <= 1.0 + 1e-15
        assert_allclose(p.sum(axis=0), 1.0, rtol=0, atol=1e-14)
        assert curvature.min() >= 0.0 and curvature.max() <= 0.25 + TOLERANCE
        assert np.all(value >= mean.max(axis=0) - TOLERANCE * np.sqrt(variance.max()))


def test_values_that_are_certain_give_the_softmax():
    mean = np.array([[1.0, 0.0, 1e8], [0.5, -700.0, 0.0], [-2.0, 3.0, 1e-3]])
    value, p, curvature = integrals.log_sum_exp(mean, np.zeros((3, 3)))
    expected = np.exp(mean - mean.max(axis=0))
    expected /= expected.sum(axis=0)
    assert_allclose(value, np.logaddexp.reduce(mean), rtol=1e-14, atol=TOLERANCE)
    assert_allclose(p, expected, rtol=0, atol=TOLERANCE)
    assert_allclose(curvature, expected * (1.0 - expected), rtol=0, atol=TOLERANCE)


def test_no_rows_give_empty_arrays():
    value, p, curvature = integrals.log_sum_exp(np.zeros((3, 0)), np.zeros((3, 0)))
    assert value.shape == (0,) and p.shape == curvature.shape == (3, 0)


def test_rows_do_not_depend_on_other_rows_and_classes_not_on_their_order():
    mean, variance = random_rows(4, 3000, 1.5)
    variance[:, ::7] *= 100.0
    whole = integrals.log_sum_exp(mean, variance)
    for some in (slice(0, 1), slice(100, 400), slice(0, None, 7)):
        for found, expected in zip(integrals.log_sum_exp(mean[:, some], variance[:, some]), whole):
            assert_allclose(found, expected[..., some], rtol=0, atol=TOLERANCE)
    order = [2, 0, 3, 1]
    found = integrals.log_sum_exp(mean[order], variance[order])
    assert_allclose(found[0], whole[0], rtol=0, atol=TOLERANCE)
    assert_allclose(found[1], whole[1][order], rtol=0, atol=1e-12)
    assert_allclose(found[2], whole[2][order], rtol=0, atol=1e-12)


def test_a_shift_of_all_means_moves_only_the_value():
    mean, variance = random_rows(3, 50, 1.0)
    first, second = (integrals.log_sum_exp(m, variance) for m in (mean, mean + 300.0))
    assert_allclose(second[0] - first[0], 300.0, rtol=1e-14)
    assert_allclose(second[1], first[1], rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("method", ["vfe", "new", "new_class"])
@pytest.mark.parametrize("case", GOLDEN)
def test_stored_sites_and_probabilities(case, method):
    ref = {what: array.T for what, array in GOLDEN[case].items()}
    likelihood = Softmax(int(ref["n_classes"]))
    mean, variance = ref[f"{method}_qf_mean_train"], ref[f"{method}_qf_var_train"]
    _, slope, curvature = likelihood.expected(ref["y"], mean, variance)
    linear = curvature * mean + slope
    assert_allclose(curvature, ref[f"{method}_site_precision"], rtol=0, atol=TOLERANCE)
    assert_allclose(linear, ref[f"{method}_site_linear"], rtol=0, atol=TOLERANCE)
    found = likelihood.probability(ref[f"{method}_mean_test"], ref[f"{method}_var_test"])
    assert_allclose(found, ref[f"{method}_prob_test"], rtol=0, atol=3 * TOLERANCE)


def test_labels_are_checked():
    Softmax(3).check(np.array([0.0, 2.0, 1.0]), "estimator")
    for wrong in (3.0, -1.0, 0.5, np.nan):
        with pytest.raises(ValueError, match="estimator.*labels 0 ... 2, but 1 rows"):
            Softmax(3).check(np.array([0.0, wrong]), "estimator")


def test_sites_start_with_one_row_for_each_class():
    linear, precision = Softmax(3).first_sites(np.zeros(5))
    assert linear.shape == precision.shape == (3, 5)
    assert not linear.any() and 0.0 < precision.max() < 1e-20
    assert Softmax(3).n_latent == 3


def test_the_likelihood_of_nothing_is_that_of_class_frequencies():
    y, weight = np.array([0.0, 0.0, 2.0]), np.array([1.0, 2.0, 1.0])
    found = Softmax(3).constant_log_likelihood(y, weight, np.zeros(3))
    assert_allclose(found, 3.0 * np.log(0.75) + np.log(0.25))


def test_samples_have_the_probabilities_of_the_softmax():
    f = np.broadcast_to(np.array([1.0, 0.0, -1.0])[:, None, None], (3, 200, 100))
    y = Softmax(3).sample(f, np.random.RandomState(0))
    assert y.shape == (200, 100)
    expected = np.exp([1.0, 0.0, -1.0]) / np.exp([1.0, 0.0, -1.0]).sum()
    frequency = np.bincount(y.ravel().astype(int), minlength=3) / y.size
    assert_allclose(frequency, expected, rtol=0, atol=0.02)


def test_threads_do_not_disturb_each_other():
    mean, variance = random_rows(3, 4000, 1.0)
    parts = [slice(start, start + 500) for start in range(0, 4000, 500)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda s: integrals.log_sum_exp(mean[:, s], variance[:, s]), parts))
    for some, three in zip(parts, found):
        expected = integrals.log_sum_exp(mean[:, some], variance[:, some])
        for array, same in zip(three, expected):
            assert np.array_equal(array, same)


@pytest.mark.parametrize("scale", [1e8, 1e20, 1e100])
def test_very_wide_rows_do_not_warn_and_have_the_probabilities_of_their_ratios(scale):
    mean, std = np.array([[1.0], [0.0], [-1.0]]), np.array([[1.0], [0.7], [0.5]])
    expected = integrals.log_sum_exp(1e6 * mean, (1e6 * std) ** 2)[1]
    with np.errstate(all="raise", under="ignore"):
        value, p, curvature = integrals.log_sum_exp(scale * mean, (scale * std) ** 2)
    assert_allclose(p, expected, rtol=1e-5)
    assert np.isfinite(value).all() and np.isfinite(curvature).all()
