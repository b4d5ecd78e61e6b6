"""From rows, kernel and bound to a fitted posterior.

contracts
    What training may ask of an objective, a model, a method and a solver, and how hyperparameters
    are looked for; named blocks of parameters as one vector, an objective as a function of it.
stochastic
    Training on parts of the rows: samples that grow, and cycles of minibatches.
minibatches
    Random rows, a bounded sample of all that came, and gradients from some of them.
objectives
    The exact and the collapsed objective of regression, and their model; the bound of rows whose
    inputs are latent, or known up to their noise.
local_site_objective
    The leave-one-out density of predictions from neighbours, and rows with a likelihood, whose
    sites are found by sweeps.
site_objective
    Rows with a likelihood: their objective, and their model; how sites are updated: variational
    inference, expectation propagation; their surrogates.
site_loop
    The inner loop, which looks for the sites of all rows; means and precisions in turn where
    variances are large.
optimizers
    L-BFGS with a measured diagonal, which survives failed evaluations; Anderson acceleration with a
    way back.
latent_queries
    Where the fit of a GP-LVM begins; where new rows are in its latent space.
starts
    Fits of few rows: where they begin, restarts included, and where they end; periods of kernels:
    what restarts draw, periodograms, aliases on even rows.
"""
