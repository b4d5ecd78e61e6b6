"""The contract of a posterior, and what is asked of one.

posterior
    The contract of a posterior, the process before any data, and several independent processes.
feature_posterior
    The posterior that is written in features: exact, or in a basis; inputs that are normal.
posterior_in_metric
    A posterior of inputs that are transformed by a metric.
posterior_with_mean
    The posterior whose mean is weighted with another prediction, or added to it.
missing_values
    Predictions of rows that lack values of columns in which no training row lacked one.
sampled_functions
    Functions drawn from a posterior, each the same function in all calls; Sobol indices.
"""
