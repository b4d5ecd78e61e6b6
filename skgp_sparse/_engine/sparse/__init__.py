"""Processes that are written in a basis: sums over rows, and what follows from them.

passes
    The forward and the backward pass over the rows: sums, and the gradient.
collapsed
    Value, gradient and posterior of the family of Gaussian objectives in `skgp_sparse.bounds`.
collapsed_sites
    Rows with Gaussian sites: everything O(n) of an inner iteration.
decoupled
    A basis of its own for the mean.
minibatch
    Gradients from some of the rows, with the posterior of the weights held.
running_sums
    Sums over rows that keep coming, in any units of the targets.
normal_inputs
    Sums over rows, and their gradient, where inputs have a normal distribution each.
"""
