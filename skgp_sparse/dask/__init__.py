"""Estimators for dask arrays and dataframes, whose partitions stay on the workers of a cluster.

`DaskSparseGPRegressor` and `DaskSparseGPClassifier` have the parameters of the plain estimators and
`client`. The optimiser runs in the process of the user. An evaluation sends the kernel and matrices
(m, m) to the workers and receives sums, so that neither rows nor arrays (rows, m) travel.

- `_distributed_rows`: collections become parts on the workers, what workers do with a part, and the
  table whose rows are these parts
- `_cluster_estimators`: the two estimators, with the signature and the docstring of the plain ones,
  and predictions that are dask arrays
"""

try:
    import dask.array  # noqa: F401
    import distributed  # noqa: F401
except ImportError as error:
    raise ImportError(
        "skgp_sparse.dask needs dask and distributed, which are not installed. Install them with "
        "pip install 'skgp-sparse[dask]'."
    ) from error

from skgp_sparse.dask._cluster_estimators import DaskSparseGPClassifier, DaskSparseGPRegressor

__all__ = ["DaskSparseGPClassifier", "DaskSparseGPRegressor"]
