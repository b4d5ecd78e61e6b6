"""Posterior methods: what a posterior is given, and how each of them is fitted.

- `contract`: what every posterior method does, what it fits, and what is logged of those that are
  tried; held-out rows, which compare models
- `small_fits`: small exact fits, or an earlier fit, at which a search begins
- `exact`: all rows, exactly or by a solve
- `inducing_points`: inducing points, and random features
- `neighbors`: the rows that are nearest to a query, and the search for hyperparameters and metric
- `combination`: neighbours, a mean and a global process, with weights from rows held out
- `selection`: which posterior predicts these rows best
"""
