"""Kernels that are products of kernels of one column each."""

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Product

from ._columns import Columns
from ._varying_noise import without_noise


def column_factors(kernel, d):
    """Return the factors of a kernel by column, if it is a product of kernels of one column each.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel expression. Noise that is added to it has no say.
    d : int
        Number of input columns.

    Returns
    -------
    list of list of Kernel, or None
        For each column the kernels, each of this column alone, whose product over all columns is
        the kernel. None if it is no such product.
    """
    kernel = without_noise(kernel)
    if d == 1:
        return [[kernel]]
    if type(kernel) is ConstantKernel:
        return [[kernel], *([] for _ in range(d - 1))]
    if type(kernel) is RBF:
        return [[RBF(scale)] for scale in np.broadcast_to(kernel.length_scale, d)]
    if type(kernel) is Product:
        first, second = column_factors(kernel.k1, d), column_factors(kernel.k2, d)
        if first is None or second is None:
            return None
        return [one + other for one, other in zip(first, second)]
    if type(kernel) is Columns:
        chosen = kernel.chosen(d)
        inside = column_factors(kernel.kernel, len(chosen))
        if inside is None:
            return None
        found = [[] for _ in range(d)]
        for j, factors in zip(chosen, inside):
            found[j] = found[j] + factors
        return found
    return None
