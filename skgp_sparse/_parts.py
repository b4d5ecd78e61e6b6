"""Parts of what a fitted regressor predicts."""

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from skgp_sparse._ground.typing import Array
from skgp_sparse.parameters.parameter_checks import check_gaussian


class PartsOfPredictions:
    """A mixin: parts of a mean, of the process and of noise."""

    def predict_parts(self, X: ArrayLike) -> tuple[Array, Array]:
        """Predict the part of the mean, and that of the process.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Query points.

        Returns
        -------
        mean, process : ndarray of shape (n_samples,) or (n_samples, n_targets)
            Parts that sum to ``predict(X, latent=True)``, which is ``predict(X)`` with Gaussian
            noise. The first one is zero where `mean_` is None.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.gaussian_process.kernels import RBF
        >>> from sklearn.linear_model import LinearRegression
        >>> from skgp_sparse import SparseGPRegressor
        >>> X = np.linspace(0, 10, 50)[:, None]
        >>> y = 2 * X[:, 0] + np.sin(3 * X[:, 0])
        >>> model = SparseGPRegressor(RBF(), mean=LinearRegression(), random_state=0)
        >>> model = model.fit(X, y)
        >>> mean, process = model.predict_parts(X)
        >>> bool(np.allclose(mean + process, model.predict(X)))
        True
        """
        check_is_fitted(self, "kernel_")
        X, view, _ = self._question(X, None)
        predicted = view.mean(X, latent=True)
        shape = len(predicted), len(view.units.scale)
        mean = np.array(np.broadcast_to(self._mean_part(X), shape)).reshape(predicted.shape)
        return mean, predicted - mean

    def noise_std(self, X: ArrayLike) -> Array:
        """Standard deviation of the noise that the fit has learned.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_targets)
            In units of y. Known noise (`alpha`) is not part of it.

        Raises
        ------
        ValueError
            If the likelihood is not "gaussian", whose noise is no number beside the mean.

        Examples
        --------
        Noise that grows from left to right:

        >>> import numpy as np
        >>> from skgp_sparse import SparseGPRegressor
        >>> rng = np.random.RandomState(0)
        >>> X = rng.uniform(0, 4, size=(400, 1))
        >>> y = np.sin(2 * X[:, 0]) + 0.1 * (1 + X[:, 0]) * rng.normal(size=400)
        >>> model = SparseGPRegressor(random_state=0).fit(X, y)
        >>> model.noise_std([[0.5], [2.0], [3.2]]).round(1)
        array([0.2, 0.3, 0.4])
        """
        check_is_fitted(self, "kernel_")
        name = f"{type(self).__name__}.noise_std"
        check_gaussian(self.likelihood, name, "Use predict(X, return_std=True) or sample_y.")
        X, view = self._answered(X)
        return view.noise_std(X)
