"""Names of posteriors become objects, whose parameters are checked."""

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone

from skgp_sparse._ground.validation import BOOLS, check_number, require
from skgp_sparse.posteriors._contract import PosteriorMethod
from skgp_sparse.posteriors._exact import Exact
from skgp_sparse.posteriors._fourier_features import FourierFeatures
from skgp_sparse.posteriors._inducing_points import InducingPoints
from skgp_sparse.posteriors._iterative_exact import IterativeExact
from skgp_sparse.posteriors._job import Job, WarmStart
from skgp_sparse.posteriors._neighbors import Neighbors
from skgp_sparse.posteriors._variants import LargerMean, TightVariance
from skgp_sparse.solvers import Fit


class Auto(PosteriorMethod):
    """The choice of a posterior, which is left to the plan."""

    name = "auto"
    uses_bound = takes_learned_noise = True
    is_exact_for_few = True

    def fit(self, job: Job, random_state: np.random.RandomState) -> Fit:
        """Raise NotImplementedError: the plan names another method."""
        raise NotImplementedError

    def refuses_later_rows(self) -> str | None:
        """None: rows that arrive later are learned with inducing points."""
        return None

    def resume(self, *given: Any, **known: Any) -> tuple[Fit, WarmStart]:
        """Fit and warm start that `InducingPoints.resume` returns."""
        return InducingPoints().resume(*given, **known)


BY_NAME = {
    "auto": Auto,
    "exact": Exact,
    "fourier": FourierFeatures,
    "inducing": InducingPoints,
    "neighbors": Neighbors,
    "rows": IterativeExact,
}


def resolve_posterior(posterior: PosteriorMethod | str, name: str) -> PosteriorMethod:
    """The method of a name or an instance; raises where its parameters cannot be used."""
    if isinstance(posterior, str) and posterior in BY_NAME:
        return BY_NAME[posterior]()
    must = f"one of {sorted(BY_NAME)} or an object (no class) such as posteriors.InducingPoints()"
    require(isinstance(posterior, PosteriorMethod), "posterior", posterior, name, must)
    found: PosteriorMethod = clone(posterior)
    found.check_parameters(name)
    return _of_options(found, name) if isinstance(found, InducingPoints) else found


def _of_options(points: InducingPoints, name: str) -> PosteriorMethod:
    """Inducing points, or what their options make of them."""
    n_mean, tight = points.n_mean, points.tight_variance
    require(isinstance(tight, BOOLS), "posterior__tight_variance", tight, name, "True or False")
    if n_mean is None:
        return TightVariance() if tight else points
    check_number(n_mean, "posterior__n_mean", name, Integral, low=1)
    if tight:
        raise ValueError(
            f"{name}: tight_variance=True needs one basis of inducing points, but n_mean={n_mean} "
            "is a second one for the mean. Set n_mean to None, or tight_variance to False."
        )
    return LargerMean(n_mean)
