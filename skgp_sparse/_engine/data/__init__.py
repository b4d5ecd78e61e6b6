"""Rows and their targets: datasets, the visits to their rows, and what is known of every row.

dataset
    The contract of a dataset, and the one way to visit its rows.
array_dataset
    The dataset whose rows are in memory; numbers of every row, and rows by distinct input.
chunked_dataset
    The dataset whose rows are chunks that something else reads.
moments
    Means and spreads of columns, which can be merged; the units of the targets.
"""
