"""Processes given all rows, by factors of matrices or by iterative solves.

exact, exact_sites
    The exact process on few distinct rows, evidence at several scales, and smaller variances given
    inducing points; the process with Gaussian sites.
iterative_posterior
    Predictions given all rows: ``k(X, X)`` times vectors in tiles, a matrix close to it, linear
    systems with both, and bounds of the evidence. Variances are those given neighbours.
"""
