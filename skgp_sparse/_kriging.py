"""Methods of a fitted regressor in the place of those of geostatistics."""

from __future__ import annotations  # short names of types in help

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from skgp_sparse._ground.typing import Array, MaybeArray
from skgp_sparse.explain.averages import Areas, mean_and_std
from skgp_sparse.explain.variograms import Variogram, variogram_of
from skgp_sparse.parameters.mean_functions import LinearMean
from skgp_sparse.parameters.parameter_checks import check_gaussian
from skgp_sparse.rows import checks


class KrigingMethods:
    """A mixin: the nugget, averages over areas, and the variogram of a fit."""

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

    def predict_average(
        self,
        X: ArrayLike,
        weights: MaybeArray = None,
        groups: MaybeArray = None,
        return_std: bool = False,
    ) -> Array | tuple[Array, Array]:
        """Predict averages of the function over areas, which is block kriging.

        An area is a set of points, such as the nodes of a grid within a polygon. Errors of near
        points are alike, so that the standard deviation of an average is not that of a point, and
        cannot be computed from those of points. It takes O(n²) time for the n points of an area,
        and the memory of some thousand of them at a time.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Points of all areas.
        weights : array-like of shape (n_samples,), default=None
            Weights of the points, such as their share of an area or their population. They are
            divided by their sum in each area. None means that all are equal.
        groups : array-like of shape (n_samples,), default=None
            The area of each point, a number or text. None means that there is one area.
        return_std : bool, default=False
            Whether the standard deviations are returned, too.

        Returns
        -------
        mean : ndarray of shape (n_areas,) or (n_areas, n_targets)
            Averages in units of y, sorted as ``np.unique(groups)`` is.
        std : ndarray of the same shape
            Standard deviations of the averages of the function, without noise. With the posterior
            "neighbors" or "rows", correlations of points are approximate. Only returned when
            `return_std` is True.

        Raises
        ------
        ValueError
            If the likelihood is not Gaussian, or weights or groups do not belong to the points.

        Examples
        --------
        >>> import numpy as np
        >>> from skgp_sparse import SparseGPRegressor
        >>> X = np.linspace(0, 10, 50)[:, None]
        >>> y = X[:, 0] + 0.1 * np.random.RandomState(0).normal(size=50)
        >>> model = SparseGPRegressor(random_state=0).fit(X, y)
        >>> points = np.linspace(0, 10, 101)[:, None]
        >>> mean, std = model.predict_average(points, groups=points[:, 0] > 5, return_std=True)
        >>> mean.round(1), bool(np.all(std < 0.1))
        (array([2.5, 7.5]), True)
        """
        check_is_fitted(self, "kernel_")
        name = f"{type(self).__name__}.predict_average"
        remedy = "Average samples of sample_y over the points of an area."
        check_gaussian(self.likelihood, name, remedy)
        X, view, _ = self._question(X, None)
        areas = Areas.of(weights, groups, len(X), name)
        if not return_std:
            return areas.sums(view.mean(X, latent=True))
        return mean_and_std(view, X, areas)

    def variogram(
        self, X: ArrayLike, y: ArrayLike, n_bins: int = 15, max_distance: float | None = None
    ) -> Variogram:
        """Compare the empirical variogram of rows with that of the fitted kernel.

        Both are averages over the same pairs of rows, so that the kernel may be of any kind. Known
        noise (`alpha`) is not part of the second one. `VariogramDisplay` draws them.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs, of which 2,000 random rows are taken if there are more. Distances are those of
            all columns.
        y : array-like of shape (n_samples,)
            Targets, from which the mean of the fit (`mean_`) is subtracted. A linear one has taken
            a part of the variance, which the fitted variogram lacks, too.
        n_bins : int, default=15
            Number of bins of distance. Those without pairs are left out.
        max_distance : float, default=None
            Largest distance of a pair. None means a third of the diagonal of all inputs.

        Returns
        -------
        Variogram
            A named tuple of arrays, one number for each bin: `distance`, `empirical` and `fitted`
            in units of y², and `n_pairs`.

        Raises
        ------
        ValueError
            If the likelihood is not Gaussian, if there are several targets, or no pairs of rows.

        Examples
        --------
        >>> import numpy as np
        >>> from skgp_sparse import SparseGPRegressor
        >>> X = np.random.RandomState(0).uniform(0, 20, size=(300, 1))
        >>> y = np.sin(X[:, 0])
        >>> found = SparseGPRegressor(random_state=0).fit(X, y).variogram(X, y, n_bins=4)
        >>> found.empirical.round(1)
        array([0.2, 0.9, 0.7, 0.1])
        """
        check_is_fitted(self, "kernel_")
        name = f"{type(self).__name__}.variogram"
        check_gaussian(self.likelihood, name, "A variogram is that of targets with Gaussian noise.")
        X, view, _ = self._question(X, None)
        y = checks.check_truth(y, X, len(view.units.scale), type(self).__name__)
        residual = np.reshape(y, (len(X), -1)) - self._mean_part(X)
        trend = self._drift.columns(X) if isinstance(self._drift, LinearMean) else None
        return variogram_of(view, X, residual, self._n_drift(), trend, n_bins, max_distance, name)
