"""Arrays, threads, memory and checks of values: nothing here knows of processes.

linalg
    Cholesky factorisation with jitter, triangular products, LAPACK and BLAS calls; many small
    matrices at once; the normal density.
parallel
    Threads over blocks and tiles, with one BLAS thread each; memory that is used again; when a fit
    should end.
integrals
    Expectations under one normal distribution per row, or under that times a power of a likelihood;
    expectations of a softmax.
validation
    Checks of parameters, whose errors say what was got and what is right; values as text; types
    that several rooms share; what is private or absent in some versions of scikit-learn.
"""
