"""Answers about a fitted model, in the units of y, which are the same for every posterior.

- `views`: between a process and the user's y, labels of several problems, and before any fit
- `weighted_means`: processes beside another prediction, and calibrated probabilities
- `leave_one_out`: predictions of training rows, each given all others; conformal intervals
- `questions`: gradients of predictions with respect to the query; bounds of the exact evidence
"""
