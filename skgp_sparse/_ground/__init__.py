"""Arrays, threads, memory and warnings: nothing here knows of processes.

deadline
    When a fit should end.
distinct
    Distinct rows, where missing values are equal.
linalg
    Cholesky factorisation with jitter, triangular products, LAPACK and BLAS calls.
normal
    The normal density.
parallel
    Threads over blocks and tiles, with one BLAS thread each; memory that is used again.
plain_text
    Values of users as text, for messages.
quadrature
    Expectations under one normal distribution per row, or under that times a power of a likelihood.
sklearn_compat
    What is private or absent in some versions of scikit-learn.
softmax
    Expectations of a softmax, by one-dimensional integrals.
small_matrices
    Linear algebra of many small matrices at once.
typing
    Names of types that several rooms share.
validation
    Checks of parameters, whose errors say what was got and what is right.
warnings
    Warnings that name their problem, at the line of the user.
"""
