"""Predictions given the rows that are near.

nearest, kriging
    The rows nearest to any points; predictions given a few rows each, many at once.
local_sites
    Rows with sites, and the places that are near to them.
left_out
    Rows that are left out, one at a time, and predicted by those near to them.
neighbors_posterior
    Predictions given the nearest rows.
"""
