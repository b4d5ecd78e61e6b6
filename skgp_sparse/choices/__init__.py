"""Parameters of an estimator become objects, and the plan says how a fit goes.

- `choices`: names become objects; the default kernel, by the types of columns, and its priors;
  kernels with their noise, or with a linear mean; initialisers by default
- `parameter_checks`: parameters that cannot be used
- `plan`: which posterior a fit has, and from where it starts; posterior methods by their names
"""
