"""What likelihoods of labels share."""

import numpy as np

from skgp_sparse.likelihoods._base import Likelihood


class Labels(Likelihood):
    """A likelihood of labels, of which a small sample should contain all."""

    latent_variance = (1e-2, 50.0)  # probabilities saturate beyond

    def kinds(self, y):
        """Return the labels: rows with the same label form a group."""
        return y

    def constant_log_likelihood(self, y, weight, offset):
        """Compute the log likelihood of the label frequencies; see `Likelihood.constant_log_likelihood`."""
        count = np.array([weight @ (y == label) for label in np.unique(y)])
        return count @ np.log(count / count.sum())
