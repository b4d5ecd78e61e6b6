"""Everything that costs O(n): blocks of rows in, m×m matrices out.

dataset
    The contract of a dataset, and the one way to visit its rows.
array_dataset
    The dataset whose rows are in memory.
target_scaler
    The units of the targets.
per_row
    Numbers of every row, which wait between visits.
chunked_dataset
    The dataset whose rows are chunks that something else reads.
moments
    Means and spreads of columns, which can be merged.
scale_evidence
    The evidence of some rows at several scales; variograms of columns.
basis
    The contract of a basis, and of its features at one kernel.
inducing_basis
    The basis of inducing points.
fourier_basis
    The basis of random Fourier features, and standard draws of their frequencies.
problem
    What an evaluation is asked, and what it answers.
passes
    The forward and the backward pass over the rows: sums, and the gradient.
collapsed
    Value, gradient and posterior of the family of Gaussian objectives in `skgp_sparse.bounds`.
minibatch
    Gradients from some of the rows, with the posterior of the weights held.
running_sums
    Sums over rows that keep coming, in any units of the targets.
normal_inputs, normal_predictions
    The same where inputs have a normal distribution each; predictions at such inputs.
collapsed_sites
    Rows with Gaussian sites: everything O(n) of an inner iteration.
distinct_inputs
    Training rows by distinct input.
exact, exact_sites
    The exact process on few distinct rows; the same with Gaussian sites.
decoupled
    A basis of its own for the mean.
tight_posterior
    Smaller variances given inducing points, by an n × n matrix.
kernel_product, preconditioner, conjugate_gradients
    ``k(X, X)`` times vectors in tiles, a matrix close to it, and linear systems with both.
iterative_posterior
    Predictions given all rows: the mean by a solve, variances by neighbours.
nearest, kriging
    The rows nearest to any points; predictions given a few rows each, many at once.
visited_rows
    The same where rows are not in memory: blocks answer, and answers add up.
local_sites
    Rows with sites, and the places that are near to them.
left_out
    Rows that are left out, one at a time, and predicted by those near to them.
neighbors_posterior
    Predictions given the nearest rows.
sampled_functions
    Functions drawn from a posterior, each the same function in all calls.
additive
    Parts of an additive process: what each set of columns does.
sobol
    Sobol indices of means: how much each column matters.
missing_values
    Predictions of rows that lack values of columns in which no training row lacked one.
evidence
    Bounds of the exact evidence from both sides.
posterior
    The contract of a posterior, and what all of them share.
feature_posterior
    The posterior that is written in features: exact, or in a basis.
prior, independent_posteriors
    The process before any data; posteriors of several independent processes.
metric, posterior_in_metric
    Inputs that are transformed by a metric, and a posterior of these.

The engine does not know the names of bounds, hyperparameters or estimators; whatever differs
between methods reaches it as an argument.
"""
