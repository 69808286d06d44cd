"""The largest, element by element, NaN where one is; for bool whether any is true."""

import numpy as np


def reduce(vectors):
    """Max of a list of arrays, one per rank."""
    first = np.asarray(vectors[0])
    wide = np.float64 if first.dtype.kind not in "bi" else first.dtype
    return np.maximum.reduce([np.asarray(v).astype(wide) for v in vectors])
