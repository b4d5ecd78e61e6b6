from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar, overload

import numpy.typing as npt
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.gaussian_process.kernels import Kernel

from skgp_sparse._engine.sampled_functions import SampledFunctions
from skgp_sparse._estimator import SparseGP
from skgp_sparse._ground.typing import (
    AnyArray,
    Array,
    AutoName,
    BoundName,
    InitialiserName,
    LikelihoodName,
    MaybeArray,
    MetricName,
    Optimizer,
    PosteriorName,
    PriorName,
    RandomStateLike,
    SolverName,
)
from skgp_sparse._progress import Run
from skgp_sparse.bounds import Bound
from skgp_sparse.families.components import Components
from skgp_sparse.families.evidence_bounds import EvidenceBounds
from skgp_sparse.families.leave_one_out import LooPrediction
from skgp_sparse.hyperpriors import AnyPrior
from skgp_sparse.inference.contracts import Solver
from skgp_sparse.likelihoods import Likelihood
from skgp_sparse.posteriors import Candidate, Strategy
from skgp_sparse.sources import Source

_Self = TypeVar("_Self", bound="SparseGPRegressor")
_Pair = tuple[Array, Array]
_Four = tuple[Array, Array, Array, Array]

class SparseGPRegressor(MultiOutputMixin, RegressorMixin, SparseGP):
    kernel: Kernel | None
    bound: Any
    likelihood: Any
    posterior: Any
    n_inducing: int | AutoName
    inducing_init: InitialiserName | npt.ArrayLike | Callable[..., Any]
    optimize_inducing: bool
    alpha: MaybeArray
    noise: Literal["auto", "constant", "learned"]
    optimizer: Optimizer
    solver: Any
    n_restarts_optimizer: int
    max_iter: int
    metric: MetricName | int
    prior: Any
    time_limit: float | None
    tol: float | AutoName
    normalize_y: bool
    n_targets: int | None
    categorical_features: npt.ArrayLike | None
    random_state: RandomStateLike
    n_jobs: int | None
    verbose: int
    convergence_: list[Run]
    inducing_points_: Array
    n_inducing_: int
    metric_: Array | None
    variance_factor_: float
    posterior_: str
    likelihood_: Likelihood | None
    selection_: list[Candidate]
    n_samples_seen_: float
    categories_: Mapping[Any, Any]
    n_features_in_: int
    feature_names_in_: AnyArray

    def __init__(
        self,
        kernel: Kernel | None = None,
        *,
        bound: BoundName | Bound = "auto",
        likelihood: LikelihoodName | Likelihood = "gaussian",
        posterior: PosteriorName | Strategy = "auto",
        n_inducing: int | AutoName = "auto",
        inducing_init: InitialiserName | npt.ArrayLike | Callable[..., Any] = "auto",
        optimize_inducing: bool = True,
        alpha: MaybeArray = None,
        noise: Literal["auto", "constant", "learned"] = "auto",
        optimizer: Optimizer = "fmin_l_bfgs_b",
        solver: SolverName | Solver = "auto",
        n_restarts_optimizer: int = 0,
        max_iter: int = 1000,
        metric: MetricName | int = "auto",
        prior: PriorName | AnyPrior | list[AnyPrior] | None = "auto",
        time_limit: float | None = None,
        tol: float | AutoName = "auto",
        normalize_y: bool = True,
        n_targets: int | None = None,
        categorical_features: npt.ArrayLike | None = "from_dtype",
        random_state: RandomStateLike = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None: ...
    def __sklearn_tags__(self) -> Any: ...
    def fit(
        self: _Self,
        X: npt.ArrayLike | Source,
        y: MaybeArray = None,
        sample_weight: MaybeArray = None,
        offset: MaybeArray = None,
        X_std: MaybeArray = None,
        groups: MaybeArray = None,
    ) -> _Self: ...
    def partial_fit(
        self: _Self,
        X: npt.ArrayLike,
        y: MaybeArray = None,
        sample_weight: MaybeArray = None,
        classes: MaybeArray = None,
        offset: MaybeArray = None,
    ) -> _Self: ...
    # the mean; with a standard deviation or a covariance; and with gradients
    @overload
    def predict(
        self,
        X: npt.ArrayLike,
        return_std: Literal[False] = False,
        return_cov: Literal[False] = False,
        latent: bool = False,
        offset: MaybeArray = None,
        X_std: MaybeArray = None,
        return_gradient: Literal[False] = False,
    ) -> Array: ...
    @overload
    def predict(
        self,
        X: npt.ArrayLike,
        return_std: Literal[True],
        return_cov: Literal[False] = False,
        latent: bool = False,
        offset: MaybeArray = None,
        X_std: MaybeArray = None,
        return_gradient: Literal[False] = False,
    ) -> _Pair: ...
    @overload
    def predict(
        self,
        X: npt.ArrayLike,
        return_std: Literal[False] = False,
        *,
        return_cov: Literal[True],
        latent: bool = False,
        offset: MaybeArray = None,
        X_std: MaybeArray = None,
        return_gradient: Literal[False] = False,
    ) -> _Pair: ...
    @overload
    def predict(
        self,
        X: npt.ArrayLike,
        return_std: Literal[False] = False,
        return_cov: Literal[False] = False,
        latent: bool = False,
        offset: MaybeArray = None,
        X_std: MaybeArray = None,
        *,
        return_gradient: Literal[True],
    ) -> _Pair: ...
    @overload
    def predict(
        self,
        X: npt.ArrayLike,
        return_std: Literal[True],
        return_cov: Literal[False] = False,
        latent: bool = False,
        offset: MaybeArray = None,
        X_std: MaybeArray = None,
        *,
        return_gradient: Literal[True],
    ) -> _Four: ...
    @overload
    def predict(
        self,
        X: npt.ArrayLike,
        return_std: bool = False,
        return_cov: bool = False,
        latent: bool = False,
        offset: MaybeArray = None,
        X_std: MaybeArray = None,
        return_gradient: bool = False,
    ) -> Any: ...
    def predict_quantiles(
        self,
        X: npt.ArrayLike,
        quantiles: npt.ArrayLike = (0.025, 0.5, 0.975),
        offset: MaybeArray = None,
    ) -> Array: ...
    def predict_interval(
        self,
        X: npt.ArrayLike,
        coverage: float = 0.9,
        method: Literal["model", "conformal"] = "model",
        side: Literal["both", "lower", "upper"] = "both",
        groups: MaybeArray = None,
        offset: MaybeArray = None,
    ) -> _Pair: ...
    def log_predictive_density(
        self, X: npt.ArrayLike, y: npt.ArrayLike, offset: MaybeArray = None
    ) -> Array: ...
    def sample_y(
        self,
        X: npt.ArrayLike,
        n_samples: int = 1,
        random_state: RandomStateLike = 0,
        latent: bool = False,
        offset: MaybeArray = None,
    ) -> Array: ...
    def sample_functions(
        self, n_functions: int = 1, random_state: RandomStateLike = 0, n_frequencies: int = 1024
    ) -> SampledFunctions: ...
    def components(self, X: npt.ArrayLike) -> Components: ...
    def noise_std(self, X: npt.ArrayLike) -> Array: ...
    def loo_predict(self) -> LooPrediction: ...
    def evidence_bounds(
        self,
        X: MaybeArray = None,
        y: MaybeArray = None,
        sample_weight: MaybeArray = None,
    ) -> EvidenceBounds: ...
    def score(
        self,
        X: npt.ArrayLike,
        y: npt.ArrayLike,
        sample_weight: MaybeArray = None,
        offset: MaybeArray = None,
    ) -> float: ...
    @property
    def X_train_(self) -> AnyArray: ...
    @property
    def y_train_(self) -> Array: ...
