"""`inducing_init`: a name, an array or a callable becomes a function of the rows."""

import numpy as np
from sklearn.utils import check_array

from skgp_sparse import inducing

_SAMPLE_ROWS = 10_000  # rows that an initialiser looks at, or ten per inducing point


def resolve_inducing(init, n_inducing, n_features, name):
    """Initialiser ``(rows, kernel, random_state) -> Z``, and whether Z is the user's own."""
    if isinstance(init, str) and init in inducing.BY_NAME:
        return _from_sample(inducing.BY_NAME[init], n_inducing), False
    if callable(init):
        return _from_callable(init, n_inducing, name), False
    if isinstance(init, str) or np.ndim(init) == 0:
        raise ValueError(
            f"The 'inducing_init' parameter of {name} must be one of {sorted(inducing.BY_NAME)}, "
            f"an array of shape (m, n_features) or a callable. Got {init!r} instead."
        )
    Z = _check_inducing(init, n_features, name)
    return lambda rows, kernel, random_state: Z, True


def _from_sample(function, n_inducing):
    def initialise(rows, kernel, random_state):
        few = rows.sampled(rows.sample(max(_SAMPLE_ROWS, 10 * n_inducing), random_state))
        X = few.everything().X
        return function(X, n_inducing, kernel, random_state, sample_weight=few.weight)

    return initialise


def _from_callable(function, n_inducing, name):
    def initialise(rows, kernel, random_state):
        Z = function(rows.inputs(), n_inducing, kernel, random_state)
        return _check_inducing(Z, rows.n_features, name)

    return initialise


def _check_inducing(Z, n_features, name):
    if np.ndim(Z) != 2:
        raise ValueError(
            f"The 'inducing_init' parameter of {name} must be or return an array of shape (m, "
            f"{n_features}). Got {Z!r} instead."
        )
    Z = check_array(Z, dtype=float, copy=True, input_name="inducing_init")
    if Z.shape[1] != n_features:
        raise ValueError(
            f"The 'inducing_init' parameter of {name} has {Z.shape[1]} columns, but X has "
            f"{n_features} features."
        )
    return Z
