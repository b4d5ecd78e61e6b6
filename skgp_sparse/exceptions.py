"""Warnings that can be told from others, to filter them or to make errors of them.

Examples
--------
>>> import warnings
>>> from skgp_sparse.exceptions import TextColumnWarning
>>> warnings.simplefilter("error", TextColumnWarning)
"""

from skgp_sparse._ground.warnings import TextColumnWarning

__all__ = ["TextColumnWarning"]
