"""From rows, kernel and bound to a fitted posterior.

- `contracts`: what training may ask; parameters as one vector, and how they are looked for
- `stochastic`: training on parts of the rows, by growing samples
- `objectives`: the objectives of regression, and the bound of latent inputs
- `site_objective`, `site_loop`: rows with a likelihood, and the inner loop that finds their sites
- `local_site_objective`: the leave-one-out density of predictions from neighbours
- `optimizers`: L-BFGS that survives failed evaluations, and Anderson acceleration
- `latent_queries`: where the fit of a GP-LVM begins, and where new rows are in its latent space
- `starts`: where fits of few rows begin and end, and periods of kernels
"""
