"""Likelihood of class labels."""

import numpy as np

from skgp_sparse._ground import softmax
from skgp_sparse._ground.typing import Array, Scalars, Triple
from skgp_sparse.likelihoods._base import Domain
from skgp_sparse.likelihoods._binary import ENCODES_LABELS, Labels


class Softmax(Labels):
    r"""Softmax likelihood of class labels, with one latent value for each class.

    The labels are the numbers ``0 ... C - 1``. The latent values of a row are independent,
    ``f_c ~ N(m_c, s_c)``, and the likelihood is ``p(y = k | f) = exp(f_k) / Σ exp(f_c)``. The
    expectations over all classes are exact to about 1e-12. They are integrals over one variable,
    because ``ψ_c(u) = E[exp(-exp(u + f_c))]`` gives

    - ``E[log Σ exp(f_c)] = -γ - ∫ (Π ψ_c(u) - [u < 0]) du``, where γ is Euler's constant;
    - ``E[p(y = k | f)] = -∫ ψ_k'(u) Π_{c≠k} ψ_c(u) du``.

    The first formula holds because ``Π ψ_c(u)`` is the probability that ``log Σ exp(f_c) + g`` does
    not exceed ``-u``, where g is a standard Gumbel variable. The derivative with respect to ``m_k``
    gives the second formula.

    Means and variances of latent values are arrays of shape (C, n).

    Parameters
    ----------
    n_classes : int
        The number C of classes.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse.likelihoods._softmax import Softmax
    >>> likelihood = Softmax(3)
    >>> mean, variance = np.array([[2.0], [0.0], [-1.0]]), np.ones((3, 1))
    >>> likelihood.probability(mean, variance)[:, 0].round(4)
    array([0.7621, 0.1677, 0.0702])
    >>> value, slope, curvature = likelihood.expected(np.zeros(1), mean, variance)
    >>> value.round(4), slope[:, 0].round(4)
    (array([-0.32]), array([ 0.2379, -0.1677, -0.0702]))
    """

    def __init__(self, n_classes: int) -> None:
        self.n_classes = n_classes

    @property
    def n_latent(self) -> int:  # type: ignore[override]
        """Number of latent values of a row, which is the number of classes."""
        return self.n_classes

    @property
    def domain(self) -> Domain:  # type: ignore[override]
        """The labels ``0 ... C - 1``."""
        words, labels = f"the labels 0 ... {self.n_classes - 1}", tuple(range(self.n_classes))
        return Domain(words, only=labels, remedy=ENCODES_LABELS)

    def first_sites(self, y: Array) -> tuple[Array, Array]:
        """Return nearly constant functions, of shape (C, n); see `Likelihood.first_sites`."""
        linear, precision = super().first_sites(y)
        return np.tile(linear, (self.n_classes, 1)), np.tile(precision, (self.n_classes, 1))

    def expected(self, y: Array, mean: Array, variance: Array) -> Triple:
        """Compute the expectation by quadrature; see `Likelihood.expected`.

        Parameters
        ----------
        y : ndarray of shape (n,)
            Labels.
        mean, variance : ndarray of shape (C, n)
            Means and variances of the latent values.

        Returns
        -------
        value : ndarray of shape (n,)
            The expectation of ``log p(y | f)``.
        slope, curvature : ndarray of shape (C, n)
            Its first derivatives with respect to `mean`, and its negative second derivatives with
            respect to one element of `mean` at a time.
        """
        value, slope, curvature = softmax.log_sum_exp(mean, variance)
        at_label = (y.astype(int), np.arange(len(y)))
        value = mean[at_label] - value
        np.negative(slope, out=slope)
        slope[at_label] += 1.0
        return value, slope, curvature

    def tilted(self, y: Array, mean: Array, variance: Array, power: Scalars = 1.0) -> Triple:
        """Raise NotImplementedError; see `probability`."""
        raise NotImplementedError("Softmax has no sites. Use the method probability.")

    def probability(self, mean: Array, variance: Array) -> Array:
        """Compute the probabilities of all classes.

        Parameters
        ----------
        mean, variance : ndarray of shape (C, n)
            Means and variances of the latent values.

        Returns
        -------
        ndarray of shape (C, n)
            Probabilities, with an absolute error of about 1e-11. In each row, they add up to 1.
        """
        return softmax.probabilities(mean, variance)

    def log_density(self, y: Array, mean: Array, variance: Array) -> Array:
        """Compute the log probabilities of labels; see `Likelihood.log_density`.

        They are logarithms of `probability`, so that those below about 1e-11 are inaccurate.

        Parameters
        ----------
        y : ndarray of shape (n,)
            Labels.
        mean, variance : ndarray of shape (C, n)
            Means and variances of the latent values.

        Returns
        -------
        ndarray of shape (n,)
            Log probabilities in nats, which are finite: a probability of zero counts as the
            smallest normal number of float64, whose logarithm is about -708.
        """
        probability = self.probability(mean, variance)[y.astype(int), np.arange(len(y))]
        return np.log(np.maximum(probability, np.finfo(float).tiny))

    def response(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """Raise NotImplementedError: class labels have no mean; see `probability`."""
        raise NotImplementedError("Class labels have no mean. Use the method probability.")

    def sample(self, f: Array, random_state: np.random.RandomState) -> Array:
        """Draw class labels; see `Likelihood.sample`.

        Parameters
        ----------
        f : ndarray of shape (C, ...)
            Latent values.
        random_state : RandomState
            Generator that draws the samples.

        Returns
        -------
        ndarray
            Labels, in the shape of ``f[0]``.
        """
        noise = random_state.gumbel(size=np.shape(f))
        return np.argmax(f + noise, axis=0).astype(float)  # c with its probability
