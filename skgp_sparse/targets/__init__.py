"""Observation models: numbers with Gaussian noise or with a likelihood, and labels of classes.

- `model`: the contract, and fits of all problems
- `streams`: rows that arrive later: what is kept, and when hyperparameters move
- `numbers`: numbers with Gaussian noise or with a likelihood
- `labels`: labels of classes, several of which begin together
"""
