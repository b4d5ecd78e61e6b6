"""The drift of a process: a mean that is linear in some columns, as a part of the kernel.

    f(x) = g(x) + β_0 + β' h(x),        β ~ N(0, B I)

with a wide prior of the coefficients has the predictions of universal kriging, which are those of
B to infinity: generalised least squares, whose uncertainty is part of the variance (Rasmussen and
Williams 2006, section 2.7). Where h is the prediction of another model, it is kriging with external
drift.
"""

from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct, Product, Sum, WhiteKernel

from skgp_sparse import kernels
from skgp_sparse.kernels import Columns, HeteroscedasticNoise

_WIDE = 1000.0  # B, in units of the variance of the targets and of the columns


def with_drift(kernel, variance, rows, columns, is_default):
    """A kernel of all columns, with a drift of the last ones where there are some.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Of the other columns.
    variance : float
        Of the targets.
    rows : Dataset
        With the columns of the drift, which are standardised.
    columns : ColumnTable
    is_default : bool
        Whether the kernel chooses columns already.
    """
    if not columns.n_drift:
        return kernel
    labels = [columns.label(j) for j in range(rows.n_features)]
    own, last = labels[: -columns.n_drift], labels[-columns.n_drift :]
    signal = kernel if is_default else _on_columns(kernel, own)
    linear = ConstantKernel(_WIDE * variance, "fixed") * DotProduct(1.0, "fixed")
    return kernels.named(signal + Columns(linear, last), columns.names)


def _on_columns(kernel, labels):
    """The kernel of some columns, beside its noise."""
    if type(kernel) is Sum:
        return _on_columns(kernel.k1, labels) + _on_columns(kernel.k2, labels)
    stays = isinstance(kernel, (WhiteKernel, HeteroscedasticNoise))
    return kernel if stays else Columns(kernel, labels)


def variance_of_drift(kernel):
    """The prior variance B of the coefficients of a drift, the last one of a kernel."""
    parts = [one for one in kernel.get_params().values() if isinstance(one, Product)]
    drifts = [one for one in parts if isinstance(one.k2, DotProduct)]
    return drifts[-1].k1.constant_value
