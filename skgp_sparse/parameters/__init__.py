"""Parameters of an estimator become objects, and what is asked of a fit becomes a job.

- `choices`: names become objects; kernels with their noise, and initialisers by default
- `default_kernels`: the default kernel, by the types of columns, and its priors
- `mean_functions`, `linear_mean`: other estimators as a mean; a mean as a part of the kernel
- `parameter_checks`: parameters that cannot be used
- `requests`: what is asked of a fit, and the job of its plan
"""
