"""Everything that costs O(n): blocks of rows in, m×m matrices out. Pure functions.

rows
    The training table by reference, and its blocks.
prior
    ``Kuu`` factorised, with its derivative.
collapsed
    Value, gradient and posterior of the family of Gaussian objectives in `skgp_sparse.bounds`.
exact
    The exact Gaussian process on few distinct rows.
posterior
    Mean, variance, covariance and samples. There is no second predict anywhere.

The engine does not know the names of bounds, hyperparameters or estimators; whatever differs
between methods reaches it as an argument.
"""
