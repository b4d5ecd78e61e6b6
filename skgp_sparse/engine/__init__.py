"""Everything that costs O(n): blocks of rows in, m×m matrices out.

- `basis`: inducing points and random Fourier features; what an evaluation of an objective is asked
- `posterior`: the contract of a posterior
- `functions`: functions drawn from a posterior, and Sobol indices
- `feature_posterior`, `posteriors_around`: posteriors that are written in features; posteriors
  beside another prediction, and of missing values
- `collapsed`, `normal_inputs`: a bound by two visits to the rows; rows with a normal distribution
  each
- `neighbors`: the nearest rows, predictions given these, and rows that are left out
- `exact`, `collapsed_sites`, `iterative`: all rows by factors of matrices, rows with Gaussian
  sites, and all rows by iterative solves

Each of these imports from those above it and beside it only; those of a basis and those of the
nearest rows do not know each other. The engine does not know the names of bounds, hyperparameters
or estimators; whatever differs between methods reaches it as an argument.
"""
