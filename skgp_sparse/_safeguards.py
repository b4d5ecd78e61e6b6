"""What all estimators share: fits that fail leave no trace, and pickles name their version."""

from contextlib import contextmanager

from skgp_sparse._version import __version__

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
