"""
One row: EP and variational inference
=====================================

A row with a likelihood that is not Gaussian gets a Gaussian site in its place. Above: the prior of
the latent value times the likelihood (grey: the tilted distribution), and its Gaussian
approximations. Expectation propagation has its mean and its variance (Minka 2001; Rasmussen and
Williams 2006, section 3.6). The variational approximation is the one of least KL divergence from q
to it, which is narrower. Below: the likelihood of the row, and the sites, each scaled so that prior
times site has the integral ``Z`` that its method reports.

The printed numbers are those of fitted estimators beside numerical integrals. With a single row,
expectation propagation is exact in ``log Z``, mean and variance.
"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.integrate import trapezoid
from scipy.special import expit, ndtr
from scipy.stats import norm
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skgp_sparse import SparseGPClassifier, SparseGPRegressor
from skgp_sparse.likelihoods import Poisson

VARIANCE = 9.0  # of the prior, whose mean is zero
LIKELIHOODS = {
    "probit": (r"probit, $y = 1$", ndtr),
    "logit": (r"logit, $y = 1$", expit),
    "poisson": (r"Poisson, $y = 0$", lambda f: np.exp(-np.exp(f))),
}
METHODS = {"gfitc-ep": "expectation propagation", "titsias": "variational"}
COLOURS = {"gfitc-ep": "#30638e", "titsias": "#d1495b"}
F = np.linspace(-24.0, 24.0, 4801)


def fit_row(name, bound):
    """``log Z`` of one row, or its bound, and mean and variance of the latent value.

    A classifier needs two labels: the second row is the mirror image, far away.
    """
    kernel = ConstantKernel(VARIANCE) * RBF(1.0)
    if name == "poisson":
        likelihood = Poisson(level=0.0, level_bounds="fixed")
        model = SparseGPRegressor(kernel, likelihood=likelihood, bound=bound, optimizer=None)
        mean, std = model.fit([[0.0]], [0]).predict([[0.0]], return_std=True, latent=True)
        return model.log_marginal_likelihood_value_, mean[0], std[0] ** 2
    model = SparseGPClassifier(kernel, likelihood=name, bound=bound, optimizer=None)
    model.fit([[0.0], [1000.0]], [1, 0])
    mean, variance = model.latent_mean_and_variance([[0.0]])
    return model.log_marginal_likelihood_value_ / 2, mean[0], variance[0]


def tilted(likelihood):
    """``log Z``, mean and variance of prior times likelihood, and its density on the grid."""
    density = norm.pdf(F, 0.0, np.sqrt(VARIANCE)) * likelihood(F)
    total = trapezoid(density, F)
    density /= total
    mean = trapezoid(F * density, F)
    return np.log(total), mean, trapezoid((F - mean) ** 2 * density, F), density


def site(log_z, mean, variance):
    """The site that turns the prior into q, scaled so that prior times site has the integral Z."""
    q, prior = norm.logpdf(F, mean, np.sqrt(variance)), norm.logpdf(F, 0.0, np.sqrt(VARIANCE))
    return np.exp(log_z + q - prior)


def fit_all():
    """``log Z``, mean and variance, by likelihood and bound."""
    return {(name, bound): fit_row(name, bound) for name in LIKELIHOODS for bound in METHODS}


def print_table(fits):
    """Numerical integrals and what the estimators found."""
    print(f"{'likelihood':<10} {'':<24} {'log Z':>8} {'mean':>8} {'variance':>9}")
    for name, (_, likelihood) in LIKELIHOODS.items():
        rows = {"numerical integral": tilted(likelihood)[:3]}
        rows |= {method: fits[name, bound] for bound, method in METHODS.items()}
        for title, (log_z, mean, variance) in rows.items():
            print(f"{name:<10} {title:<24} {log_z:>8.4f} {mean:>8.4f} {variance:>9.4f}")


def draw(fits):
    """Densities above, sites below."""
    figure, axes = plt.subplots(
        2, 3, figsize=(12, 6), sharex="col", sharey="row", layout="constrained"
    )
    for column, (name, (title, likelihood)) in zip(axes.T, LIKELIHOODS.items()):
        above, below = column
        above.plot(F, norm.pdf(F, 0.0, np.sqrt(VARIANCE)), "k:", linewidth=1, label="prior")
        above.fill_between(F, tilted(likelihood)[3], color="#bbbbbb", label="tilted", linewidth=0)
        below.plot(F, likelihood(F), color="black", linewidth=1.2, label="likelihood")
        for bound, method in METHODS.items():
            log_z, mean, variance = fits[name, bound]
            density = norm.pdf(F, mean, np.sqrt(variance))
            above.plot(F, density, color=COLOURS[bound], label=method)
            below.plot(F, site(log_z, mean, variance), color=COLOURS[bound], label="its site")
        above.set(title=title, ylim=(0, 0.27))
        below.set(xlabel="latent value f", xlim=(-9, 9), ylim=(0, 1.5))
    for axis in axes[:, 0]:
        axis.legend(fontsize=8, loc="upper left")
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, help="picture file; without it, a window opens")
    output = parser.parse_args().output
    fits = fit_all()
    print_table(fits)
    figure = draw(fits)
    figure.savefig(output, dpi=110) if output else plt.show()


if __name__ == "__main__":
    main()
