"""Processes given all rows, by factors of matrices or by iterative solves.

exact, exact_sites
    The exact process on few distinct rows; the same with Gaussian sites.
tight_posterior
    Smaller variances given inducing points, by an n × n matrix.
kernel_product, preconditioner, conjugate_gradients
    ``k(X, X)`` times vectors in tiles, a matrix close to it, and linear systems with both.
iterative_posterior
    Predictions given all rows: the mean by a solve, variances by neighbours.
evidence
    Bounds of the exact evidence from both sides.
scale_evidence
    The evidence of some rows at several scales; variograms of columns.
"""
