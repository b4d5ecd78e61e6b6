"""Every public bound and likelihood can be passed to an estimator; what cannot is private."""

import inspect

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from skgp_sparse import SparseGPClassifier, SparseGPRegressor, bounds, likelihoods


def concrete(module, base):
    """Public classes of a module that are no base classes."""
    named = [one for name, one in vars(module).items() if not name.startswith("_")]
    public = [one for one in named if type(one) is type(base) and issubclass(one, base)]
    return sorted(
        (one for one in public if not inspect.isabstract(one)), key=lambda one: one.__name__
    )


BOUNDS = concrete(bounds, bounds.Bound)
LIKELIHOODS = concrete(likelihoods, likelihoods.Likelihood)
RNG = np.random.RandomState(0)
X = RNG.uniform(-3, 3, (60, 1))
F = np.sin(2 * X[:, 0])


def test_there_is_something_to_pass():
    assert len(BOUNDS) == 6 and len(LIKELIHOODS) == 9
    assert set(likelihoods.__all__) >= {one.__name__ for one in LIKELIHOODS}
    by_name = {**likelihoods.BY_NAME, **likelihoods.OF_LABELS}
    assert {*by_name.values(), likelihoods.Censored} == set(LIKELIHOODS)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_likelihoods_can_be_passed(likelihood):
    is_of_labels = likelihood in likelihoods.OF_LABELS.values()
    make = SparseGPClassifier if is_of_labels else SparseGPRegressor
    y = likelihood().sample(F, np.random.RandomState(1))
    options = {"n_inducing": 5, "optimizer": None, "random_state": 0}
    given = "ordinal" if likelihood is likelihoods.Ordinal else likelihood()
    model = make(RBF(), likelihood=given, **options).fit(X, y)
    assert np.isfinite(model.log_marginal_likelihood_value_)


@pytest.mark.parametrize("name", likelihoods.BY_NAME)
def test_tags_and_checks_follow_the_domain(name):
    likelihood = likelihoods.BY_NAME[name]()
    assert likelihoods.domain_of(name) == likelihoods.domain_of(likelihood) == likelihood.domain
    tags = SparseGPRegressor(likelihood=name).__sklearn_tags__()
    assert tags.target_tags.positive_only == likelihood.domain.is_never_negative
    y = np.array([-1.0, 0.0, 0.5, np.nan])
    outside = np.count_nonzero(~likelihood.domain.includes(y))
    with pytest.raises(ValueError, match=rf"takes .*, but {outside} rows have other values\."):
        likelihood.check(y, "SparseGPRegressor")


def test_anything_else_has_the_domain_of_all_numbers():
    for anything in ("gaussian", "nonsense", None, 3.0):
        assert likelihoods.domain_of(anything) == likelihoods.Domain()
