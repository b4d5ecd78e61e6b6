"""Labels of classes in the units of the user: probabilities, decisions, latent moments."""

from typing import NamedTuple

import numpy as np

from skgp_sparse.explain import multiclass


class LabelView(NamedTuple):
    """The processes of a classifier: one for each problem, or those of a softmax together."""

    latent: list  # of `TargetView`, in their own units
    likelihoods: list
    n_classes: int
    multi_class: str
    calibration: object = None  # of the probabilities, by a `Calibration`
    ranks: object = None  # place of each class (n_classes,) where one process has their order

    def on_threads(self, n_jobs):
        """A copy of the view that processes blocks of rows on so many threads."""
        return self._replace(latent=[view.on_threads(n_jobs) for view in self.latent])

    def with_process(self, change):
        """A copy of the view, whose processes are replaced by a function of each."""
        return self._replace(latent=[view.with_process(change) for view in self.latent])

    def decide(self, X):
        """Index of the class (n,) of every row."""
        if self.calibration is not None or self.ranks is not None:
            return np.argmax(self.probabilities(X), axis=1)
        if self.n_classes == 2:
            return (self.latent[0].mean(X) > 0).astype(int)
        probabilities = self._by_problem(X)
        if self.multi_class == "one_vs_one":
            return multiclass.votes(probabilities, self.n_classes)
        return np.argmax(probabilities, axis=1)

    def probabilities(self, X):
        """Probabilities of all classes (n, n_classes)."""
        probabilities = self.of_classes(self._by_problem(X))
        if self.calibration is None:
            return probabilities
        return self.calibration.at(probabilities, np.asarray(X, np.float64))

    def of_classes(self, probabilities):
        """Class probabilities (n, n_classes) from those of the problems; see `_by_problem`."""
        if self.ranks is not None:
            return probabilities[:, list(self.ranks)]
        if self.n_classes == 2:
            return np.hstack([1.0 - probabilities, probabilities])
        if self.multi_class == "one_vs_one":
            return multiclass.coupled(probabilities, self.n_classes)
        return (
            probabilities if self.multi_class == "softmax" else multiclass.normalised(probabilities)
        )

    def latent_moments(self, X):
        """Mean and variance of the latent process (n,), or of those of a softmax (n, n_classes)."""
        if self.multi_class == "softmax":
            return self.latent[0].moments(X)
        mean, std = self.latent[0].mean_and_std(X, latent=False)
        return mean, std**2

    def _by_problem(self, X):
        """Probabilities of classes (n, n_classes) by softmax, or of positive ones (n, problems).

        The latter has one column for each binary problem. Those of classes in an order have it.
        """
        if self.multi_class == "softmax":
            mean, variance = self.latent[0].moments(X)
            return self.likelihoods[0].probability(mean.T, variance.T).T
        columns = []
        for view, likelihood in zip(self.latent, self.likelihoods):
            mean, std = view.mean_and_std(X, latent=False)
            columns.append(likelihood.probability(mean, std**2).T)
        return np.column_stack(columns)
