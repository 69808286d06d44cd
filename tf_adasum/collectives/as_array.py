"""Arrays of what a program passes."""

from typing import Any

import numpy as np


def as_array(value: Any) -> np.ndarray:
    """Returns a value as an array: of a tensor, of what NumPy takes, or of numbers.

    Example:
        >>> from tf_adasum.collectives.as_array import as_array
        >>> as_array([1, 2]).shape
        (2,)
    """
    # NumPy 2.4 makes no array of a bfloat16 tensor without dimensions.
    return np.asarray(value.numpy() if hasattr(value, "numpy") else value)
