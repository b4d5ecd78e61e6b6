"""Posterior methods: what a posterior is given, and how each of them is fitted.

- `contract`: what every posterior method does, what it fits, and what is logged of those that are
  tried; held-out rows, which compare models
- `exact`: all rows, exactly or by a solve
- `inducing_points`: inducing points, and random features
- `neighbors`: the rows that are nearest to a query, also where rows have a likelihood
- `neighbor_search`: the search for its hyperparameters, metric and smoothness
- `selection`: which posterior predicts these rows best
"""
