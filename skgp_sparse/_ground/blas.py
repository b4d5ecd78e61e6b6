"""BLAS routines that NumPy lacks, called outside the interpreter lock.

``scipy.linalg.blas`` holds the lock, so that threads over blocks of rows would wait for each other.
The same routines are called here by the addresses that SciPy gives to Cython code
(``scipy.linalg.cython_blas``), as Numba does.
"""

from ctypes import (
    CFUNCTYPE,
    POINTER,
    PYFUNCTYPE,
    byref,
    c_char_p,
    c_double,
    c_int,
    c_void_p,
    py_object,
    pythonapi,
)

import numpy as np
from scipy.linalg import cython_blas

_name_of = PYFUNCTYPE(c_char_p, py_object)(("PyCapsule_GetName", pythonapi))
_pointer_of = PYFUNCTYPE(c_void_p, py_object, c_char_p)(("PyCapsule_GetPointer", pythonapi))


def _routine(name, *arguments):
    """A subroutine of BLAS, whose arguments are all addresses."""
    capsule = cython_blas.__pyx_capi__[name]
    return CFUNCTYPE(None, *arguments)(_pointer_of(capsule, _name_of(capsule)))


_CHAR, _INT, _DOUBLE, _ARRAY = c_char_p, POINTER(c_int), POINTER(c_double), c_void_p
_dtrmm = _routine(
    "dtrmm", *[_CHAR] * 4, _INT, _INT, _DOUBLE, _ARRAY, _INT, _ARRAY, _INT
)  # side, triangle, transposition, diagonal, rows, columns, factor, T and A with their strides


def multiply_by_triangle(A, T, transposed):
    """``A ← A T``, or ``A ← A Tᵀ``, in place, for lower triangular T.

    Parameters
    ----------
    A : ndarray of shape (n, m), float64, C-contiguous
    T : ndarray of shape (m, m)
        What is above the diagonal is not read.
    transposed : bool
    """
    n, m = A.shape
    T = np.ascontiguousarray(T, dtype=np.float64)
    if not (A.flags.carray and A.dtype == np.float64 and T.shape == (m, m)):
        raise ValueError(
            "An in-place product needs a C-ordered array of float64 whose shape matches T."
        )
    # Fortran reads rows as columns: it sees Aᵀ and the upper triangle Tᵀ.
    op = b"T" if transposed else b"N"
    width = byref(c_int(m))
    one, n = byref(c_double(1.0)), byref(c_int(n))
    _dtrmm(b"L", b"U", op, b"N", width, n, one, T.ctypes.data, width, A.ctypes.data, width)
