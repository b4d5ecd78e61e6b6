"""A source that cuts arrays, as a user may write one."""

from skgp_sparse.sources import Chunk


class Arrays:
    """Chunks of arrays with the same rows, None for columns that are absent."""

    def __init__(self, X, y, sample_weight=None, offset=None, *, chunk_size=65_536):
        self.columns, self.size = (X, y, sample_weight, offset), chunk_size
        starts = range(0, len(X), chunk_size)
        self.chunk_sizes = [min(chunk_size, len(X) - start) for start in starts]

    def chunk(self, k):
        rows = slice(k * self.size, (k + 1) * self.size)
        return Chunk(*(None if one is None else one[rows] for one in self.columns))
