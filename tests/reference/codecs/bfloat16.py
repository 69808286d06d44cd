"""Rounded to bfloat16."""

import ml_dtypes
import numpy as np


def q(x):
    """The nearest bfloat16 of the nearest float32, ties to even."""
    return x.astype(np.float32).astype(ml_dtypes.bfloat16).astype(x.dtype)
