"""Bases, the features of rows in them, and what an evaluation of an objective is asked.

basis
    The contract of a basis, and of its features at one kernel.
inducing_basis
    The basis of inducing points; what an evaluation is asked, and what it answers.
fourier_basis
    The basis of random Fourier features, and standard draws of their frequencies.
"""
