"""Estimators for dask arrays and dataframes, whose partitions stay on the workers of a cluster.

`DaskSparseGPRegressor` and `DaskSparseGPClassifier` have the parameters of the plain estimators and
`client`. The optimiser runs in the process of the user. An evaluation sends the kernel and matrices
(m, m) to the workers and receives sums, so that neither rows nor arrays (rows, m) travel.

- `_reader`: what the user passes becomes a table; small ones come to the client
- `_collections`: collections become parts on the workers, all of which are valid
- `_partitions`: futures of these parts, and the one way to ask for something
- `_tasks`: what workers do with a part
- `_distributed_rows`: the table whose rows are these parts
- `_cluster_estimators`: the two estimators
- `_inherited`: their signature and their docstring, from those of the plain estimators
- `_lazy_predictions`: predictions that are dask arrays
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
