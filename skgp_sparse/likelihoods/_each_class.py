"""Likelihood of labels where a process of each class tells it from all others."""

from collections.abc import Callable

import numpy as np

from skgp_sparse._ground.typing import Array, Scalars, Triple
from skgp_sparse.likelihoods._base import Domain
from skgp_sparse.likelihoods._binary import ENCODES_LABELS, Binary, Labels


class EachClass(Labels):
    r"""Product of the likelihoods of several binary problems, each one class against all others.

    The latent values of a row are independent, and ``p(y | f) = Π_c s(t_c f_c)`` with the sigmoid
    ``s``, where ``t_c`` is 1 for the class of the row and -1 for the other classes. The objective
    of inference is the sum of those of the problems.

    Means and variances of latent values are arrays of shape (C, n).

    Parameters
    ----------
    sigmoid : Binary
        Likelihood of each problem.
    n_classes : int
        The number C of problems. A label from C on is that of a class that has none: the row is one
        of the others in all problems.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse.likelihoods import Probit
    >>> from skgp_sparse.likelihoods._each_class import EachClass
    >>> likelihood = EachClass(Probit(), 2)
    >>> mean, variance = np.array([[1.0, 1.0], [0.0, 0.0]]), np.ones((2, 2))
    >>> likelihood.expected(np.array([0.0, 2.0]), mean, variance)[0].round(3)
    array([-1.359, -3.232])
    """

    def __init__(self, sigmoid: Binary, n_classes: int) -> None:
        self.sigmoid = sigmoid
        self.n_classes = n_classes

    @property
    def n_latent(self) -> int:  # type: ignore[override]
        """Number of latent values of a row, which is the number of problems."""
        return self.n_classes

    @property
    def domain(self) -> Domain:  # type: ignore[override]
        """The labels ``0 ... C``."""
        words, labels = f"the labels 0 ... {self.n_classes}", tuple(range(self.n_classes + 1))
        return Domain(words, only=labels, remedy=ENCODES_LABELS)

    def constant_log_likelihood(self, y: Array, weight: Array, offset: Array) -> float:
        """Compute the sum of those of the problems; see the base class."""
        each = self._of_problems(y)
        return sum(self.sigmoid.constant_log_likelihood(one, weight, offset) for one in each)

    def first_sites(self, y: Array) -> tuple[Array, Array]:
        """Return those of the problems, of shape (C, n); see `Likelihood.first_sites`."""
        linear, precision = self.sigmoid.first_sites(self._of_problems(y).ravel())
        return linear.reshape(self.n_classes, -1), precision.reshape(self.n_classes, -1)

    def expected(self, y: Array, mean: Array, variance: Array) -> Triple:
        """Compute the sum (n,) of the expectations of the problems; see `Likelihood.expected`.

        Slopes and curvatures have shape (C, n), as means and variances have.
        """
        value, slope, curvature = self._each(self.sigmoid.expected, y, mean, variance)
        return value.sum(axis=0), slope, curvature

    def log_density(self, y: Array, mean: Array, variance: Array) -> Array:
        """Compute the sum of those of the problems; see `Likelihood.log_density`."""
        return self._each(self.sigmoid.tilted, y, mean, variance)[0].sum(axis=0)

    def tilted(self, y: Array, mean: Array, variance: Array, power: Scalars = 1.0) -> Triple:
        """Raise NotImplementedError; see `log_density`."""
        raise NotImplementedError("EachClass has no sites. Use those of its problems.")

    def response(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """Raise NotImplementedError: class labels have no mean."""
        raise NotImplementedError("Class labels have no mean. Use the probabilities.")

    def sample(self, f: Array, random_state: np.random.RandomState) -> Array:
        """Raise NotImplementedError: the problems may contradict each other."""
        raise NotImplementedError("Several problems have no common labels. Draw those of each.")

    def _of_problems(self, y: Array) -> Array:
        """Labels ±1 of all problems (C, n)."""
        return np.where(np.arange(self.n_classes)[:, None] == y, 1.0, -1.0)

    def _each(
        self, function: Callable[..., tuple[Array, ...]], y: Array, mean: Array, variance: Array
    ) -> tuple[Array, ...]:
        """Arrays (C, n) that a function of a binary problem returns, for all problems."""
        columns = function(self._of_problems(y).ravel(), mean.ravel(), variance.ravel())
        return tuple(column.reshape(mean.shape) for column in columns)
