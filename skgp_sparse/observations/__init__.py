"""Observation models: numbers with Gaussian noise or with a likelihood, and labels of classes.

- `observation_model`: the contract, and fits of all problems
- `gaussian_observations`: numbers with Gaussian noise, and sums over rows that keep coming
- `likelihood_observations`: numbers with a likelihood, and what labels share when rows arrive later
- `class_labels`: labels of classes, several of which begin together
- `streams`: rows that arrive later: what is kept, and when hyperparameters move
- `heteroscedastic_noise`: noise whose variance varies with the inputs, by a second process
- `mean_choice`: the mean of a fit, and whether it pays
- `latent_fits`: columns that share latent inputs
"""
