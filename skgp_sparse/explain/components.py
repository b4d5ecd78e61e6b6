"""Parts of an additive fit, in units of y."""

from typing import NamedTuple

import numpy as np

from skgp_sparse import kernels
from skgp_sparse._engine.predictions import additive
from skgp_sparse._engine.predictions.posterior import PARTS, require
from skgp_sparse._ground.parallel import single_threaded_blas
from skgp_sparse.kernels import OrthogonalAdditive


class Components(NamedTuple):
    """Effects of columns, alone and together; see `SparseGPRegressor.components`.

    Parameters
    ----------
    columns : list of tuple
        The columns of each part, by number or, where they have names, by name.
    mean : ndarray of shape (n_samples, n_components)
        In units of y. Their sum with `constant` is the prediction.
    std : ndarray of shape (n_samples, n_components)
        Standard deviations, without noise.
    share : ndarray of shape (n_components,)
        Variances of the means over these rows, as shares of their sum.
    constant : float
        In units of y.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse import SparseGPRegressor
    >>> from skgp_sparse.kernels import OrthogonalAdditive
    >>> X = np.random.RandomState(0).uniform(-2, 2, size=(100, 2))
    >>> y = 2.0 * np.sin(X[:, 0]) + X[:, 1] ** 2
    >>> model = SparseGPRegressor(OrthogonalAdditive(order=1), random_state=0).fit(X, y)
    >>> parts = model.components(X)
    >>> parts.columns
    [(0,), (1,)]
    >>> parts.mean.shape
    (100, 2)
    """

    columns: list
    mean: np.ndarray
    std: np.ndarray
    share: np.ndarray
    constant: float


def components_of(view, X, names, name):
    """The `Components` of a fit at inputs; raises unless its kernel is additive.

    Parameters
    ----------
    view : TargetView
    X : ndarray of shape (n, d)
    names : sequence
        Names or numbers of the columns.
    name : str
        Of the method, for errors.
    """
    process = view.process
    kernel = kernels.without_noise(process.kernel)
    if type(kernel) is not OrthogonalAdditive:
        raise ValueError(
            f"{name} needs kernel=OrthogonalAdditive() of skgp_sparse.kernels, to which nothing "
            f"but noise is added. Got kernel_={process.kernel}. Fit again with it."
        )
    require(process, PARTS, name)
    if not view.one_column:
        raise ValueError(f"{name} needs one target. Got {len(view.units.mean)}. Fit one at a time.")
    with single_threaded_blas():
        mean, variance, constant = process.additive_parts(kernel, X)
    mean, std = map(view.units.inverse_std, (mean[:, 0], np.sqrt(variance)))
    spread = mean.var(axis=0)
    total = spread.sum()
    share = spread / total if total > 0 else spread
    numbers = additive.sets_of_columns(X.shape[1], kernel.order)
    sets = [tuple(names[j] for j in S) for S in numbers]
    return Components(sets, mean, std, share, float(view.units.inverse(constant)[0]))
