"""Converters of both estimators to ONNX, which `skl2onnx` uses once this package is imported.

A model of ONNX predicts without Python and without this library. What stands here writes formulas
of the fitted process as nodes of a graph, in double precision, and the kernel matrices that they
need as constants.

- `_converters`: what is registered; stationary kernels, their sums, products and powers; mean and
  variance of the latent process, and the normal distribution
"""

try:
    import onnx  # noqa: F401
    import skl2onnx  # noqa: F401
except ImportError as error:
    raise ImportError(
        "skgp_sparse.onnx needs onnx and skl2onnx, which are not installed. Install them with "
        "pip install 'skgp-sparse[onnx]'."
    ) from error

from skgp_sparse.onnx._converters import register

__all__ = ["register"]

register()
