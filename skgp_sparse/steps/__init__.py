"""Steps of a fit beside its search, of which a plan names those that are needed.

- `scales`: where the length scales of the default kernel begin; columns on a scale of logarithms
- `several_classes`: several classes that begin together
- `heteroscedastic_noise`: noise whose variance varies with the inputs, by a second process
- `mean`: a mean beside the process, or a calibration of labels, and whether they pay
- `fit_warnings`: fits that explain no more than a constant; hyperparameters close to a bound
"""
