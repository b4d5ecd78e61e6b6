"""Checks of parameters, whose errors say what was got and what is right.

Beside them stand what they need: values of users as text, in which numbers are plain, whatever
library they are of; types that several rooms share; and functions of scikit-learn that are private
or absent in some versions.
"""

from collections.abc import Callable
from inspect import signature
from numbers import Integral
from typing import Any, Literal, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.gaussian_process.kernels import Kernel as Kernel  # for all rooms
from sklearn.utils.validation import _check_sample_weight

BOOLS = (bool, np.bool_)


def require(is_right: object, parameter: str, value: object, name: str, must: str) -> None:
    """Raise unless the value of a parameter is right; `must` says what it must be."""
    if not is_right:
        raise ValueError(
            f"The {parameter!r} parameter of {name} must be {must}. Got {as_text(value)} instead."
        )


def is_auto(value: object) -> bool:
    """Whether a choice is left to the package."""
    return is_name(value, "auto")


def is_name(value: object, *names: str) -> TypeGuard[str]:
    """Whether the value of a parameter is one of some names, and not an object or an array."""
    return isinstance(value, str) and value in names


def check_number(
    value: Any, parameter: str, name: str, kind: type, low: float, high: float = np.inf
) -> None:
    """Raise unless the parameter is a number of that kind between low and high."""
    is_number = isinstance(value, kind) and not isinstance(value, BOOLS)
    noun = "an int" if kind is Integral else "a float"
    must = f"{noun} in the range [{low}, {high}{')' if high == np.inf else ']'}"
    require(is_number and low <= value <= high and value < np.inf, parameter, value, name, must)


_IS_LONG = int(np.__version__.split(".")[0]) >= 2  # NumPy 1 has no long form of numbers


def as_text(value: object) -> str:
    """The repr of a value, in which numbers of NumPy, inside it too, look as those of Python."""
    with np.printoptions(legacy="1.25" if _IS_LONG else False):
        return repr(value)


Array = NDArray[np.float64]
AnyArray = NDArray[Any]  # of any type of numbers, or of labels
Bools = NDArray[np.bool_]
Ints = NDArray[np.intp]
Scalars = float | Array  # one number for all rows, or an array of one for each
Pair = tuple[Array, Array]
Triple = tuple[Array, Array, Array]
MaybeArray = ArrayLike | None
Index = slice | Ints  # what selects rows
Rng = np.random.RandomState
RandomStateLike = int | Rng | None
Limits = tuple[float, float] | Literal["fixed"]  # of a hyperparameter or a parameter
Optimizer = Callable[..., tuple[Any, Any]] | Literal["fmin_l_bfgs_b"] | None

BoundName = Literal[
    "auto", "titsias", "vfe", "titsias_new", "artemev", "pep", "fitc", "gfitc-ep", "dtc"
]
LikelihoodName = Literal["gaussian", "student_t", "poisson", "negative_binomial", "gamma", "beta"]
SigmoidName = Literal["probit", "logit", "ordinal"]
PosteriorName = Literal["auto", "exact", "fourier", "inducing", "neighbors", "rows"]
InitialiserName = Literal["auto", "k-means", "k-means++", "random", "greedy", "rp-cholesky"]
AutoName = Literal["auto"]


_ALLOW = "allow_all_zero_weights"  # a parameter of some versions, which refuse them otherwise
_ZEROS = {_ALLOW: True} if _ALLOW in signature(_check_sample_weight).parameters else {}

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn < 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in for scikit-learn's mixin, which came with 1.9."""

    def with_callbacks(method: Callable) -> Any:
        """Leave the method as it is: there are no callbacks to manage."""
        return method


def check_sample_weight(sample_weight: object, X: AnyArray, all_rows: bool = True) -> Array | None:
    """Weights as float64 (n,), none negative, of all rows not all zero; None stays None."""
    if sample_weight is None:
        return None
    options = {"dtype": float, "ensure_non_negative": True} | ({} if all_rows else _ZEROS)
    weight = _check_sample_weight(sample_weight, X, **options)
    if all_rows:
        check_any_weight(weight.any())
    return weight


def check_any_weight(found: object) -> None:
    """Raise unless there is a positive weight."""
    if not found:
        raise ValueError("sample_weight is zero for every row. Make at least one positive.")


def has_callbacks(estimator: object) -> bool:
    """Whether scikit-learn's callbacks were set."""
    return bool(getattr(estimator, "_skl_callbacks", None))


# How many runs there will be is not known in advance: a poor optimum is tried again from other
# starts. Does nothing for an estimator without callbacks, whose problems may be fitted in several
# threads; with callbacks, all calls come from one thread.
class IterationReporter:
    """Tells scikit-learn's callbacks of a fit, its runs of the optimiser and their iterations."""

    def __init__(self, estimator: BaseEstimator, X: object, y: object, max_iter: int) -> None:
        self.task = {"estimator": estimator, "X": X, "y": y}
        self.max_iter = max_iter
        self.context, self.run, self.iteration = None, None, 0
        if has_callbacks(estimator):
            self.context = estimator._init_callback_context(max_subtasks=None)
            self.context.call_on_fit_task_begin(**self.task)

    # A number that does not go on from the last one begins another run; `about` names it.
    def report(self, iteration: int, about: str = "") -> bool:
        """Tell that an iteration of a run is over; returns whether a callback asks to stop."""
        if self.context is None:
            return False
        if iteration <= self.iteration or self.run is None:
            self._end_run()
            name = f"optimize {about}" if about else "optimize"
            self.run = self._begin(self.context, name, self.max_iter + 1)
        self.iteration = iteration
        return bool(self._begin(self.run, "iteration", 0).call_on_fit_task_end(**self.task))

    def end(self) -> None:
        """The fit is over, and the estimator fitted."""
        if self.context is not None:
            self._end_run()
            self.context.call_on_fit_task_end(**self.task, reconstruction_attributes={})

    def _begin(self, parent: Any, name: str, max_subtasks: int) -> Any:
        context = parent.subcontext(task_name=name, max_subtasks=max_subtasks)
        context.call_on_fit_task_begin(**self.task)
        return context

    def _end_run(self) -> None:
        if self.run is not None:
            self.run.call_on_fit_task_end(**self.task)
