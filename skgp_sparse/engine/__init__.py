"""Everything that costs O(n): blocks of rows in, m×m matrices out.

basis
    The contract of a basis, that of inducing points and that of random Fourier features; what an
    evaluation of an objective is asked.
posterior, feature_posterior, posteriors_around
    The contract of a posterior, and the process before any data; posteriors that are written in
    features; those of inputs in a metric, beside another prediction, and of missing values.
functions
    Functions drawn from a posterior, each the same function in all calls; Sobol indices.
collapsed, normal_inputs
    Processes that are written in a basis: the passes over the rows; value, gradient and posterior
    of a bound, also with a basis of its own for the mean; rows with a normal distribution each.
neighbors
    The nearest rows, and predictions given these; rows that are left out.
exact, collapsed_sites, iterative
    Processes given all rows, by factors of matrices; rows with Gaussian sites, in a basis or
    exactly; all rows by iterative solves.

Each of these imports from those above it and beside it only; those of a basis and those of the
nearest rows do not know each other.

The engine does not know the names of bounds, hyperparameters or estimators; whatever differs
between methods reaches it as an argument.
"""
