"""Processes that are written in a basis: sums over rows, and what follows from them.

passes
    The forward and the backward pass over the rows: sums, and the gradient.
collapsed
    Value, gradient and posterior of the family of Gaussian objectives in `skgp_sparse.bounds`;
    sums over rows that keep coming.
collapsed_sites
    Rows with Gaussian sites: everything O(n) of an inner iteration, and gradients from some rows.
decoupled
    A basis of its own for the mean.
normal_inputs
    Sums over rows, and their gradient, where inputs have a normal distribution each.
"""
