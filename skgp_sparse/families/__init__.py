"""What rows are: the contract of a family, its three kinds, and what users see of their fits.

- `family`: the contract, and fits of all problems
- `gaussian_noise`: numbers with Gaussian noise, and sums over rows that keep coming
- `responses`: numbers with a likelihood
- `labels`: labels of classes
- `sites`: what responses and labels share, when rows arrive later
- `streams`: rows that arrive later: what is kept, and when hyperparameters move
- `views`: between a process and the user's y
- `priors`: the view before anything is fitted
- `multiclass`: classes become problems, and their answers become one
- `shared_classes`: several classes that begin together
- `requests`: what is asked of a fit, and the job of its plan
- `choices`: names become objects; kernels with their noise, and initialisers by default
- `default_kernels`: the default kernel, by the types of columns, and its priors
- `parameter_checks`: parameters that cannot be used
- `kernel_bounds`: hyperparameters that end close to a bound
- `constant_fits`: fits that explain no more than a constant
- `latent_fits`: columns that share latent inputs
- `evidence_bounds`: bounds of the exact evidence
- `leave_one_out`: what the others say of every training row
- `components`: parts of an additive fit, in units of y
- `gradients`: gradients of predictions with respect to the query
- `uncertain_queries`: predictions at inputs that are known up to their errors
- `intervals`: conformal intervals, from rows that were left out
- `varying_noise`: noise whose variance varies with the inputs, by a second process
"""
