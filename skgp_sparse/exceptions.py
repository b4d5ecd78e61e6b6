"""Warnings that can be told from others, to filter them or to make errors of them.

Examples
--------
>>> import warnings
>>> from skgp_sparse.exceptions import ConstantFitWarning
>>> warnings.simplefilter("error", ConstantFitWarning)
"""

from skgp_sparse._ground.warnings import ConstantFitWarning, TextColumnWarning

__all__ = ["ConstantFitWarning", "TextColumnWarning"]
