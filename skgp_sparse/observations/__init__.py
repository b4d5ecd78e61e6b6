"""Observation models: numbers with Gaussian noise or with a likelihood, and labels of classes.

- `observation_model`: the contract, and fits of all problems; rows that arrive later: what is kept,
  and when hyperparameters move
- `number_observations`: numbers with Gaussian noise or with a likelihood, of rows that keep coming,
  too
- `class_labels`: labels of classes, several of which begin together
- `heteroscedastic_noise`: noise whose variance varies with the inputs, by a second process
- `mean_choice`: the mean of a fit, and whether it pays
- `latent_fits`: columns that share latent inputs
"""
