"""Docstrings of everything public: complete by numpydoc's rules, and their examples run."""

import doctest
import importlib
import inspect
import pkgutil

import pytest

import skgp_sparse
import skgp_sparse.dask as on_cluster
import skgp_sparse.onnx as in_onnx
from skgp_sparse import (
    BayesianGPLVM,
    SparseGPClassifier,
    SparseGPRegressor,
    bounds,
    hyperpriors,
    inducing,
    kernels,
    likelihoods,
    metrics,
    posteriors,
    solvers,
    sources,
    testing,
)
from skgp_sparse.kernels import _nodes

validate = pytest.importorskip("numpydoc.validate").validate

MODULES = [
    "skgp_sparse",
    *(m.name for m in pkgutil.walk_packages(skgp_sparse.__path__, "skgp_sparse.")),
]
CLASSES = [
    BayesianGPLVM,
    SparseGPRegressor,
    SparseGPClassifier,
    on_cluster.DaskSparseGPRegressor,
    on_cluster.DaskSparseGPClassifier,
    bounds.Bound,
    bounds.Titsias,
    bounds.TitsiasNew,
    bounds.Artemev,
    bounds.PEP,
    bounds.FITC,
    bounds.DTC,
    hyperpriors.LogNormalLengthScales,
    likelihoods.Likelihood,
    likelihoods.Binary,
    likelihoods.Probit,
    likelihoods.Logit,
    likelihoods.Poisson,
    likelihoods.NegativeBinomial,
    likelihoods.Gamma,
    likelihoods.StudentT,
    likelihoods.Domain,
    likelihoods.LogConcave,
    kernels.KernelRule,
    *(getattr(posteriors, name) for name in posteriors.__all__),
    *(getattr(solvers, name) for name in solvers.__all__),
    sources.Chunk,
    sources.Arrays,
    sources.Files,
    sources.Stream,
]
FUNCTIONS = [
    metrics.mean_log_predictive_density,
    metrics.log_predictive_density_scorer,
    *inducing.BY_NAME.values(),
    in_onnx.register,
    kernels.register,
    likelihoods.expect,
    sources.is_source,
    testing.check_bound,
    testing.check_kernel_rule,
    testing.check_likelihood,
    testing.check_source,
]
IGNORED = {
    "RT02",  # scikit-learn: names of returned values are helpful
    "GL01",  # scikit-learn: the summary starts right after the quotes
    "GL02",  # scikit-learn: no blank line before the closing quotes
    "SS05",  # takes nouns in the plural ("Rows of ...") for verbs
    "SA01",  # siblings stand side by side in one module, whose docstring relates them
    "ES01",  # a summary that says everything needs no second paragraph
}
IGNORED_IN_METHODS = {"EX01"}  # scikit-learn: the example of the class shows its methods
IGNORED_IN_PROPERTIES = {"PR02", "GL08"}  # scikit-learn
IGNORED_IN_OVERRIDES = {"PR01", "RT01"}  # the contract stands once, in the base class
STEPS_OF_STRATEGIES = {"learn", "go_on", "objective"}  # "auto" goes on between them
REQUIRED_OF_ESTIMATORS = {"SA01", "ES01"}


def path_of(thing):
    """Importable dotted name; what the package exports goes by the shorter one."""
    if inspect.isclass(thing) and hasattr(skgp_sparse, thing.__name__):
        return f"skgp_sparse.{thing.__name__}"
    return f"{thing.__module__}.{thing.__qualname__}"


def public_methods(cls):
    """Public methods and properties that the class itself defines."""
    return [
        name
        for name, value in vars(cls).items()
        if not name.startswith("_") and (inspect.isfunction(value) or isinstance(value, property))
    ]


def ignored_for_method(cls, name):
    ignored = IGNORED | IGNORED_IN_METHODS
    if isinstance(vars(cls)[name], property):
        ignored |= IGNORED_IN_PROPERTIES
    bases = [base for base in cls.__mro__[1:] if base.__module__.startswith("skgp_sparse")]
    if name in STEPS_OF_STRATEGIES or any(hasattr(base, name) for base in bases):
        ignored |= IGNORED_IN_OVERRIDES
    return ignored


def defects(path, ignored):
    return [(code, text) for code, text in validate(path)["errors"] if code not in ignored]


METHODS = [(cls, name) for cls in CLASSES for name in public_methods(cls)]


@pytest.mark.parametrize("cls", CLASSES, ids=path_of)
def test_docstrings_of_classes_are_complete(cls):
    is_estimator = issubclass(cls, (BayesianGPLVM, SparseGPRegressor, SparseGPClassifier))
    required = REQUIRED_OF_ESTIMATORS if is_estimator else set()
    assert defects(path_of(cls), IGNORED - required) == []


@pytest.mark.parametrize("cls, name", METHODS, ids=lambda part: getattr(part, "__name__", part))
def test_docstrings_of_methods_are_complete(cls, name):
    assert defects(f"{path_of(cls)}.{name}", ignored_for_method(cls, name)) == []


@pytest.mark.parametrize("function", FUNCTIONS, ids=path_of)
def test_docstrings_of_functions_are_complete(function):
    assert defects(path_of(function), IGNORED) == []


@pytest.mark.parametrize("module", MODULES)
def test_examples_run(module, monkeypatch):
    monkeypatch.setattr(_nodes, "_BUILDERS", dict(_nodes._BUILDERS))  # one example registers
    assert doctest.testmod(importlib.import_module(module)).failed == 0
