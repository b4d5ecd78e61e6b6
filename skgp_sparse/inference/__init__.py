"""From rows, kernel and bound to a fitted posterior.

objectives
    The exact and the collapsed objective behind one interface.
parameters
    theta and Z as one flat vector.
optimizers
    L-BFGS that survives failed evaluations and says how it ended.
start
    Hyperparameters from a small exact fit.
training
    The stages of a fit, in order.
"""
