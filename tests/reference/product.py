"""The product, in float64 or the integers' own type, which wraps; for bool whether all are true."""

import numpy as np


def reduce(vectors):
    """Product of a list of arrays, one per rank."""
    first = np.asarray(vectors[0])
    if first.dtype == bool:
        return np.logical_and.reduce(vectors)
    wide = first.dtype if first.dtype.kind == "i" else np.float64
    return np.multiply.reduce([np.asarray(v).astype(wide) for v in vectors], dtype=wide)
