"""Numbers in messages are plain: none of them says ``np.float64(-1.0)``."""

import traceback
import warnings

import numpy as np
import pytest
from inside import as_text
from sklearn.gaussian_process.kernels import RBF

from skgp_sparse import (
    BayesianGPLVM,
    SparseGPClassifier,
    SparseGPRegressor,
    bounds,
    hyperpriors,
    kernels,
    likelihoods,
    metrics,
    posteriors,
    solvers,
)
from skgp_sparse.displays import CoverageDisplay, EffectDisplay

pytestmark = [pytest.mark.second, pytest.mark.filterwarnings("ignore")]
X = np.linspace(-1, 1, 12)[:, None]
Y = np.arange(12) % 3
BAD = {
    "a number": np.float64(-1.5),
    "a whole number": np.int64(-3),
    "single precision": np.float32(-0.5),
    "nan": np.float64(np.nan),
    "a list": [np.float64(-1.0), np.int64(2), np.float64(-4.0)],
    "a tuple": (np.float64(3.0), np.float64(1.0)),
    "objects": np.array([np.float64(-1.0), None], dtype=object),
    "an array": np.array([-1.0, 2.0]),
    "text": np.str_("nonsense"),
    "a truth": np.bool_(True),
}
QUICK = {"optimizer": None, "n_inducing": 4}
ESTIMATORS = {
    SparseGPRegressor: {"noise": "constant"},
    SparseGPClassifier: {},
    BayesianGPLVM: {"n_components": 1, "max_iter": 1},
}
PARTS = {  # objects of the user, and the parameter that takes them
    "bound": [bounds.PEP()],
    "likelihood": [
        likelihoods.Poisson(),
        likelihoods.StudentT(),
        likelihoods.NegativeBinomial(),
        likelihoods.Gamma(),
    ],
    "solver": [solvers.Stochastic(), solvers.Minibatches()],
    "posterior": [
        posteriors.InducingPoints(),
        posteriors.Neighbors(),
        posteriors.FourierFeatures(),
        posteriors.IterativeExact(),
    ],
    "prior": [hyperpriors.LogNormalLengthScales(), hyperpriors.CorrelationPrior()],
    "kernel": [
        kernels.Columns(RBF(), 0),
        kernels.Categorical(),
        kernels.Missing(RBF()),
        kernels.LogScale(RBF(), 0),
        kernels.Sphere(RBF()),
    ],
}


def is_plain(call):
    """Call something, and check what it says; returns whether it was refused."""
    error = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            call()
        except Exception as refused:  # of any type: its words are looked at
            error = refused
    told = [str(one.message) for one in caught]
    if error is not None and not _is_of_others(error):
        told.append(str(error))
    for text in told:
        assert not any(f"np.{kind}" in text for kind in ("float", "int", "str", "bool")), text
    return error is not None


def _is_of_others(error):
    """Whether NumPy or scikit-learn chose the words."""
    raised_in = traceback.extract_tb(error.__traceback__)[-1].filename
    return "skgp_sparse" not in raised_in or str(error).startswith("could not convert")


def parameters_of(kind):
    return [(kind, name) for name in kind().get_params(deep=False)]


@pytest.mark.parametrize(
    "kind, name", [pair for kind in ESTIMATORS for pair in parameters_of(kind)]
)
def test_parameters_of_estimators_are_refused_in_plain_numbers(kind, name):
    if name in ("verbose", "random_state"):
        return
    given = ESTIMATORS[kind] | (QUICK if "optimizer" in kind().get_params() else {})
    refused = [
        is_plain(lambda value=value: kind(**{**given, name: value}).fit(X, Y[:, None][:, 0]))
        for value in BAD.values()
    ]
    assert sum(refused) > 0


OBJECTS = [
    (where, part, name)
    for where, parts in PARTS.items()
    for part in parts
    for name in part.get_params(deep=False)
    if name not in ("kernel", "numbers")
]


@pytest.mark.parametrize(
    "where, part, name", OBJECTS, ids=[f"{type(part).__name__}-{name}" for _, part, name in OBJECTS]
)
def test_parameters_of_parts_are_refused_in_plain_numbers(where, part, name):
    given = (
        QUICK if where in ("bound", "kernel", "likelihood") else {"n_inducing": 4, "max_iter": 1}
    )
    given = given | {"noise": "constant", where: part}
    for value in BAD.values():
        changed = type(part)(**{**part.get_params(deep=False), name: value})
        is_plain(lambda c=changed: SparseGPRegressor(**{**given, where: c}).fit(X, Y + 1.0))
        if where in ("bound", "likelihood"):  # refused beside another parameter
            for other in ({"posterior": "rows"}, {"metric": np.int64(1)}):
                is_plain(
                    lambda c=changed, o=other: SparseGPRegressor(**{**given, where: c, **o}).fit(
                        X, Y
                    )
                )


def test_other_arguments_are_refused_in_plain_numbers():
    model = SparseGPRegressor(noise="constant", **QUICK).fit(X, Y)
    two = SparseGPClassifier(**QUICK).partial_fit(X, Y, classes=np.arange(3))
    for value in BAD.values():
        assert is_plain(lambda v=value: model.predict_quantiles(X, v)) or np.ndim(value) == 0
        is_plain(lambda v=value: model.predict_interval(X, coverage=v))
        is_plain(lambda v=value: model.sample_y(X, n_samples=v))
        is_plain(lambda v=value: model.sample_functions(v))
        is_plain(lambda v=value: model.log_marginal_likelihood(v))
        is_plain(lambda v=value: SparseGPRegressor(**QUICK).fit(X, Y, sample_weight=v))
        is_plain(lambda v=value: model.predict(X, offset=v))
        is_plain(lambda v=value: SparseGPRegressor(likelihood="poisson").fit(X, Y, offset=v))
        is_plain(lambda v=value: two.partial_fit(X, Y, classes=v))
        is_plain(lambda v=value: metrics.interval_score(Y, Y - 1.0, Y + 1.0, coverage=v))
        is_plain(lambda v=value: kernels.register(v, v))
        is_plain(lambda v=value: EffectDisplay.from_estimator(model, X, 0, target=v))
        is_plain(lambda v=value: EffectDisplay.from_estimator(model, X, v))
        is_plain(lambda v=value: CoverageDisplay(np.array([0.5])).plot(kind=v))
        is_plain(lambda v=value: SparseGPRegressor(**QUICK, optimizer=lambda *a: v).fit(X, Y))


@pytest.mark.parametrize("name", BAD)
def test_values_as_text_are_those_of_python(name):
    text = as_text(BAD[name])
    assert "np." not in text
    assert as_text({"a": [BAD[name]]}).count("np.") == 0
    plain = {"a number": "-1.5", "a list": "[-1.0, 2, -4.0]", "text": "'nonsense'", "nan": "nan"}
    assert text == plain.get(name, text)


def test_objects_as_text_are_those_of_python():
    assert as_text(bounds.PEP(alpha=np.float64(0.3))) == "PEP(alpha=0.3)"
    assert as_text("a") == "'a'" and as_text(None) == "None"
    assert repr(np.float64(1.0)) in ("np.float64(1.0)", "1.0")  # of NumPy 2 and 1, as before
