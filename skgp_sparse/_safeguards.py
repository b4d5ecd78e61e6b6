"""Safeguards of all estimators: fits that fail leave no trace, and files are read with care."""

from contextlib import contextmanager

import numpy as np

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


def kept_parameters(estimator):
    """Parameters that may not change before `partial_fit` goes on, as text."""
    given = estimator.get_params(deep=False)
    known = {name: given[name] for name in _KEPT if name in given}
    return {name: "an array" if np.ndim(one) else repr(one) for name, one in known.items()}
