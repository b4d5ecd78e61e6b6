"""Everything that costs O(n): blocks of rows in, m×m matrices out.

data
    Rows and their targets: datasets, the visits to their rows, numbers of every row.
features
    Bases, the features of rows in them, and what an evaluation of an objective is asked.
predictions
    The contract of a posterior; posteriors that are written in features; what is asked of them.
sparse
    Processes that are written in a basis: sums over rows, values, gradients, posteriors.
neighbors
    Predictions given the nearest rows, and objectives that leave rows out.
exact
    Processes given all rows, by factors of matrices or by iterative solves.

Each of these imports from those above it only; `sparse` and `neighbors` do not know each other.

The engine does not know the names of bounds, hyperparameters or estimators; whatever differs
between methods reaches it as an argument.
"""
