"""Steps of a fit beside its search, of which a plan names those that are needed.

- `initial_values`: where a fit begins: length scales of the default kernel, skewed columns on a
  scale of logarithms, next to no noise, several classes together
- `heteroscedastic_noise`: noise whose variance varies with the inputs, by a second process
- `mean`: a mean beside the process, or a calibration of labels, and whether they pay
- `deviations`: a factor of all deviations, or a calibration of labels, where hyperparameters are
  nearly as many as rows, or more
- `global_process`: a global process beside neighbours and their mean
- `fit_warnings`: fits that explain no more than a constant; hyperparameters close to a bound
"""
