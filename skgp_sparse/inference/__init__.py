"""From rows, kernel and bound to a fitted posterior.

contracts
    What training may ask of an objective, a model, a method and a solver.
training
    The stages of a fit, in order.
start
    Hyperparameters from a small exact fit.
near_exact
    The posterior given all rows, and how wrong its variances are.
incremental
    Rows that arrive later: when theta and Z move, and how.
reservoir
    A bounded sample of all rows that came.
solvers
    Ways to find the hyperparameters, and what a fit found.
stochastic
    Training on parts of the rows: samples that grow.
cycles
    Minibatches after these samples, where their size is given.
samples
    Random rows: those held aside, samples of the rest, batches.
minibatches
    Gradients from some rows, and a running posterior.
objectives
    The exact and the collapsed objective of regression, and their model.
site_objective
    Rows with a likelihood: their objective, and their model.
site_loop
    The inner loop, which looks for the sites of all rows.
methods
    How sites are updated: variational inference, expectation propagation.
surrogates
    Gaussian objectives with the gradients of these methods.
fixed_point
    Anderson acceleration with a way back.
parameters
    Named blocks of parameters as one vector, an objective as a function of it.
optimizers
    L-BFGS with a measured diagonal, which survives failed evaluations.
"""
