"""The contract of a posterior, and what is asked of one.

posterior
    The contract of a posterior, the process before any data, and several independent processes.
feature_posterior
    The posterior that is written in features: exact, or in a basis; inputs that are normal.
posteriors_around
    Posteriors of inputs in a metric, beside another prediction, and of rows that lack values of
    columns in which no training row lacked one.
sampled_functions
    Functions drawn from a posterior, each the same function in all calls; Sobol indices.
"""
