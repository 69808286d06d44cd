"""Adasum in NumPy float64, straight from the formula (Maleki et al., MLSys 2021, section 3)."""

import numpy as np

from tests.reference.tree import reduce_tree

SMALLEST_NORMAL = np.finfo(np.float64).tiny


def combine(a, b):
    """(1 - a.b / (2|a|^2)) a + (1 - a.b / (2|b|^2)) b; a vector without a norm is added as is."""
    dot, a2, b2 = np.vdot(a, b), np.vdot(a, a), np.vdot(b, b)
    ca = 1.0 if a2 < SMALLEST_NORMAL else 1.0 - dot / (2.0 * a2)
    cb = 1.0 if b2 < SMALLEST_NORMAL else 1.0 - dot / (2.0 * b2)
    return ca * a + cb * b


def reduce(vectors):
    """Adasum of a list of arrays, one per rank."""
    return reduce_tree([np.asarray(v).astype(np.float64) for v in vectors], combine)
