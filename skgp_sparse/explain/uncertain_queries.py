"""Predictions at inputs that are known up to their errors."""

from skgp_sparse._engine.predictions.posterior import NORMALS, require
from skgp_sparse.rows.checks import check_std


def at_uncertain_inputs(view, X, X_std, latent, return_cov, name):
    """Means and standard deviations (n,) or (n, p), where they are known.

    Parameters
    ----------
    view : TargetView or ResponseView
    X : ndarray of shape (n, d)
    X_std : array-like of shape (n, d)
        Standard deviations of the errors of X.
    latent : bool
        Whether standard deviations leave out the noise of the kernel.
    return_cov : bool
        Whether a covariance was asked for.
    name : str
        Of the method, for errors.
    """
    X_std = check_std(X_std, X, "X_std", name)
    if return_cov:
        raise ValueError(f"{name}: X_std and return_cov cannot be combined. Use return_std.")
    if not view.takes_normals:
        raise ValueError(f"{name}: X_std needs likelihood='gaussian'. Leave X_std out.")
    require(view.process, NORMALS, f"{name}: X_std")
    return view.expected_mean_and_std(X, X_std, latent)
