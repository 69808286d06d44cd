"""The mean, in float64; integers truncate toward zero; for bool whether all are true."""

import numpy as np


def reduce(vectors):
    """Mean of a list of arrays, one per rank."""
    first = np.asarray(vectors[0])
    if first.dtype == bool:
        return np.logical_and.reduce(vectors)
    total = sum(np.asarray(v).astype(np.float64) for v in vectors) / len(vectors)
    return np.trunc(total).astype(first.dtype) if first.dtype.kind == "i" else total
