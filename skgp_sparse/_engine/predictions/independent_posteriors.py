"""Posteriors of several independent processes, as of the classes of a softmax."""

from dataclasses import dataclass

import numpy as np

from skgp_sparse._engine.predictions.posterior import LEAVE_ONE_OUT, LeftOut, Posterior


def _shared(name):
    """An attribute of `IndependentPosteriors` that all of them share."""
    return property(lambda self: getattr(self.each[0], name))


@dataclass(frozen=True, eq=False)
class IndependentPosteriors(Posterior):
    """Posteriors of independent processes with the same kernel and features.

    Parameters
    ----------
    each : tuple of ExactPosterior or of SparsePosterior
    """

    each: tuple

    answers = frozenset([LEAVE_ONE_OUT])
    kernel, features, name = map(_shared, ("kernel", "features", "name"))
    width, n_rows_kept, holds_rows = map(_shared, ("width", "n_rows_kept", "holds_rows"))

    def mean(self, X, n_jobs=1):
        """Means (n, k)."""
        return np.hstack([one.mean(X, n_jobs) for one in self.each])

    def mean_and_variance(self, X, n_jobs=1):
        """Means and latent variances, both (n, k)."""
        means, variances = zip(*(one.mean_and_variance(X, n_jobs) for one in self.each))
        return np.hstack(means), np.column_stack(variances)

    def covariance(self, X):
        """Latent covariances (n, n, k)."""
        return np.stack([one.covariance(X) for one in self.each], axis=-1)

    def deviations(self, X, n_samples, random_state):
        """Latent samples minus the means (n, n_samples, k)."""
        draws = [one.deviations(X, n_samples, random_state) for one in self.each]
        return np.stack(draws, axis=-1)

    def leave_one_out(self, rows, chosen, terms, n_jobs=1):
        """`LeftOut` of chosen rows, with means and variances (k, c)."""
        means, variances = zip(
            *(
                one.leave_one_out(
                    rows, chosen, terms._replace(sites=terms.sites[:, k : k + 1]), n_jobs
                )
                for k, one in enumerate(self.each)
            )
        )
        return LeftOut(np.hstack(means), np.column_stack(variances))
