"""Laws of the bounds as functions of one row: slopes, limits, order, scikit-learn's protocol."""

import numpy as np
import pytest
from conftest import BOUNDS, agree
from sklearn.base import clone

from skgp_sparse.bounds import DTC, FITC, PEP, Artemev, Bound, Titsias, TitsiasNew

RATIOS = np.array([0.0, 1e-12, 1e-3, 0.4, 1.0, 7.0, 1e3, 1e8])
EVERY = {**BOUNDS, "pep_0": PEP(0.0), "pep_1": PEP(1.0)}


def total_penalty(bound, x):
    """What the bound subtracts for rows of ratio x."""
    return bound.reduce(bound.penalty(x)[0].sum(), float(len(x)))[0]


def central(function, at, step):
    return (function(at + step) - function(at - step)) / (2 * step)


@pytest.mark.parametrize("name", EVERY)
def test_slope_is_the_derivative_of_the_penalty(name):
    x = RATIOS[3:7]
    slope = EVERY[name].penalty(x)[1]
    found = central(lambda ratios: EVERY[name].penalty(ratios)[0], x, 1e-5 * x)
    agree(np.broadcast_to(slope, x.shape), found, 1e-9)


@pytest.mark.parametrize("name", EVERY)
def test_reduced_slope_is_the_derivative_of_the_reduction(name):
    for total in (0.1, 3.0, 200.0):
        slope = EVERY[name].reduce(total, 20.0)[1]
        found = central(lambda t: EVERY[name].reduce(t, 20.0)[0], total, 1e-4 * total)
        agree(slope, found, 1e-8)


@pytest.mark.parametrize("name", EVERY)
def test_penalties_are_finite_non_negative_and_rise(name):
    phi, slope = EVERY[name].penalty(RATIOS)
    assert phi.shape == RATIOS.shape and np.ndim(slope) in (0, 1)
    assert np.isfinite(phi).all() and np.isfinite(slope).all()
    assert np.all(phi >= 0) and np.all(np.diff(phi) >= 0) and np.all(slope >= 0)


def test_titsias_subtracts_most_and_titsias_new_least():
    for x in (RATIOS, RATIOS[2:6], np.full(3, 2.0)):
        most, middle, least = (total_penalty(b, x) for b in (Titsias(), Artemev(), TitsiasNew()))
        assert least <= middle * (1 + 1e-14) and middle <= most * (1 + 1e-14)
    agree(middle, least, 1e-14)  # equal ratios: the two bounds coincide


@pytest.mark.parametrize("x", RATIOS[:7])
def test_pep_is_titsias_in_the_limit_and_fitc_at_one(x):
    ratio = np.array([x])
    for mine, its in zip(PEP(1e-10).penalty(ratio), Titsias().penalty(ratio), strict=True):
        agree(mine, its, 1e-6)
    for mine, its in zip(PEP(0).penalty(ratio), Titsias().penalty(ratio), strict=True):
        np.testing.assert_array_equal(mine, its)
    for mine, its in zip(PEP(1).penalty(ratio), FITC().penalty(ratio), strict=True):
        agree(mine, its, 1e-15)
    assert PEP(1).noise_share == FITC().noise_share == 1
    assert PEP(0).noise_share == Titsias().noise_share == 0


def test_lower_bounds_count_no_residual_as_noise():
    for bound in BOUNDS.values():
        assert bound.noise_share == 0 or not bound.is_lower_bound
    assert [type(b) for b in (Titsias(), TitsiasNew(), Artemev()) if not b.is_lower_bound] == []
    assert not any(b.is_lower_bound for b in (DTC(), FITC(), PEP()))


def test_the_power_of_pep_is_a_parameter():
    assert PEP().get_params() == {"alpha": 0.5}
    bound = PEP().set_params(alpha=0.3)
    assert bound.noise_share == 0.3 and clone(bound).alpha == 0.3


def test_a_bound_without_penalty_is_refused():
    with pytest.raises(TypeError, match="penalty"):
        Bound()
