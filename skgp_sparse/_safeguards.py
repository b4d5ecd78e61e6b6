"""Safeguards of all estimators: fits that fail leave no trace, and files are read with care."""

import pickle
from contextlib import contextmanager
from types import FunctionType, SimpleNamespace

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.gaussian_process.kernels import Kernel

from skgp_sparse._version import __version__

_KEPT = (
    "kernel",
    "bound",
    "likelihood",
    "mean",
    "alpha",
    "normalize_y",
    "multi_class",
    "categorical_features",
)  # parameters on which sums and sites of earlier rows depend
_OF_VERSION = "skgp_sparse_version"  # in pickles


@contextmanager
def unchanged_on_failure(estimator):
    """Whatever interrupts a fit, the estimator is as it was before."""
    before = vars(estimator).copy()
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise


class VersionedPickle:
    """A mixin: pickles name the version of the package, and another version refuses them."""

    def __getstate__(self):
        return {**super().__getstate__(), _OF_VERSION: __version__}

    def __setstate__(self, state):
        version = state.get(_OF_VERSION, "before 0.1.0")
        if version != __version__:
            raise ValueError(
                f"This pickle of {type(self).__name__} was made by skgp_sparse {version}, and this "
                f"is {__version__}, whose fitted estimators may be different. Install the version "
                "that made it, or fit again."
            )
        super().__setstate__({key: one for key, one in state.items() if key != _OF_VERSION})


def trusted_types(model: object) -> list[str]:
    """List the types that a file of a fitted model names, for loaders that ask whom to trust.

    ``skops.io.load`` takes the list as ``trusted``, MLflow as ``skops_trusted_types``. It has what
    skops does not trust by itself: not scikit-learn's estimators, but its kernels, and kernels,
    bounds and likelihoods of your own.

    Parameters
    ----------
    model : object
        A fitted estimator, or what contains one, such as a pipeline. It must be one that can be
        pickled.

    Returns
    -------
    list of str
        Names of types and functions with their modules, in alphabetical order. They depend on the
        version of the package, and on what the fit has chosen.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse import SparseGPRegressor, trusted_types
    >>> X = np.linspace(0, 6, 30)[:, None]
    >>> names = trusted_types(SparseGPRegressor().fit(X, np.sin(X[:, 0])))
    >>> [name for name in names if name.startswith("sklearn.gaussian_process.kernels.W")]
    ['sklearn.gaussian_process.kernels.WhiteKernel']
    """
    walk = _Walk()
    walk.dump(model)
    return sorted(f"{one.__module__}.{one.__name__}" for one in walk.found if not _is_known(one))


class _Walk(pickle.Pickler):
    """Visits what a pickle would contain, and writes nothing."""

    def __init__(self):
        super().__init__(SimpleNamespace(write=lambda _: None), protocol=5)
        self.found = set()

    def persistent_id(self, part):
        """Note what a file would name: types, functions, and the types of all other objects."""
        if isinstance(part, (type, FunctionType)):
            self.found.add(part)
        elif not hasattr(part, "__qualname__"):  # which methods and compiled functions have
            self.found.add(type(part))

    def reducer_override(self, part):
        """Visit kernels without the rules that users registered, of which skops knows nothing."""
        return part.__reduce_ex__(5) if isinstance(part, Kernel) else NotImplemented


def _is_known(one):
    """Whether skops trusts a type without being asked, as it does public ones of scikit-learn."""
    room, is_public = one.__module__.split(".")[0], not one.__name__.startswith("_")
    if room == "sklearn":
        return is_public and isinstance(one, type) and issubclass(one, BaseEstimator)
    return room in ("builtins", "numpy", "pickle", "scipy")


def kept_parameters(estimator):
    """Parameters that may not change before `partial_fit` goes on, as text."""
    given = estimator.get_params(deep=False)
    return {name: _as_text(given[name]) for name in _KEPT if name in given}


def _as_text(value):
    """A parameter as text; arrays of known noise belong to the rows of one call."""
    return "an array" if np.ndim(value) else repr(value)
