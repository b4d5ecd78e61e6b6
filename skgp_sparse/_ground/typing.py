"""Names of types that several rooms share.

The shape of an array is not part of its type: docstrings tell it.
"""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
AnyArray = npt.NDArray[Any]  # of any type of numbers, or of labels
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.intp]
Scalars = float | Array  # one number for all rows, or an array of one for each
Triple = tuple[Array, Array, Array]
MaybeArray = npt.ArrayLike | None
Index = slice | Ints  # what selects rows
RandomStateLike = int | np.random.RandomState | None
Limits = tuple[float, float] | Literal["fixed"]  # of a hyperparameter or a parameter
Optimizer = Callable[..., tuple[Any, Any]] | Literal["fmin_l_bfgs_b"] | None

BoundName = Literal[
    "auto",
    "titsias",
    "vfe",
    "titsias_new",
    "artemev",
    "pep",
    "fitc",
    "gfitc-ep",
    "dtc",
]
CountName = Literal["poisson", "negative_binomial"]
RealName = Literal["gaussian", "student_t"]
LikelihoodName = Literal[RealName, CountName, "gamma", "beta"]
SigmoidName = Literal["probit", "logit", "ordinal"]
PosteriorName = Literal["auto", "exact", "fourier", "inducing", "neighbors", "rows"]
SolverName = Literal["auto", "lbfgs", "stochastic"]
InitialiserName = Literal["auto", "k-means", "k-means++", "random", "greedy", "rp-cholesky"]
MetricName = Literal["auto", "ard", "full"]
MeanName = Literal["auto", "linear", "boosting"]
PriorName = Literal["auto", "scaled"]
AutoName = Literal["auto"]
