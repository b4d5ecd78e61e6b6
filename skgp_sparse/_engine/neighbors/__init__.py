"""Predictions given the rows that are near.

nearest
    The rows nearest to any points.
left_out
    Rows that are left out, and predicted by those near to them: many small systems at once.
neighbors_posterior
    Predictions given the nearest rows, and places that are near to rows with sites.
"""
