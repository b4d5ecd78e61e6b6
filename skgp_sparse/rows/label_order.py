"""The order of labels: that of a category, that of numbers, or the one that a user names."""

import numpy as np

from skgp_sparse._ground.plain_text import as_text
from skgp_sparse.rows.missing import is_frame


def order_of(y):
    """Labels of an ordered category of pandas or polars, lowest first; None: y is none."""
    if is_frame(y) and np.shape(y)[1:] == (1,):
        y = y[y.columns[0]]
    dtype = getattr(y, "dtype", None)
    is_ordered = getattr(dtype, "ordered", False) or type(dtype).__name__ == "Enum"
    return [*dtype.categories] if is_ordered else None


def ranks_of(classes, named, known, name):
    """The place of each class among all of them, in their order.

    Parameters
    ----------
    classes : ndarray of shape (n_classes,)
        Sorted labels.
    named : array-like or None
        Labels in the order of `ordinal_classes`; those without rows are left out.
    known : list or None
        Labels in the order of a category, or of earlier rows.
    name : str
        Of the estimator, for errors.

    Returns
    -------
    tuple of int
    """
    order = known if named is None else _named(named, name)
    if order is None:
        if classes.dtype.kind not in "biuf":
            raise ValueError(
                f"{name}: likelihood='ordinal' needs the order of the labels, and labels such as "
                f"{as_text(classes[0])} have none. Pass all of them, lowest first, as "
                "ordinal_classes, or y as an ordered category of pandas or an Enum of polars."
            )
        return tuple(range(len(classes)))
    place = {label: k for k, label in enumerate(order)}
    without = [label for label in classes.tolist() if label not in place]
    if without:
        raise ValueError(
            f"{name}: the label {as_text(without[0])} is not in the order of the labels, "
            f"{as_text([*place])}. Pass all labels, lowest first, as ordinal_classes."
        )
    places = [place[label] for label in classes.tolist()]
    return tuple(np.argsort(np.argsort(places)).tolist())


def _named(named, name):
    """Labels that a user names, as a list; raises unless they are distinct."""
    labels = np.asarray(named, dtype=object)
    listed = labels.tolist() if labels.ndim == 1 else []
    if len(listed) < 2 or len(set(listed)) < len(listed):
        raise ValueError(
            f"The 'ordinal_classes' parameter of {name} must be None or a list of distinct labels, "
            f"lowest first. Got {as_text(named)} instead."
        )
    return listed
