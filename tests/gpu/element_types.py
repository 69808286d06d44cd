"""Elements of the device's dtypes from and to float64, bfloat16 included, by NumPy alone."""

from __future__ import annotations

import numpy as np

FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("int32", "int64", "bool")
BYTES = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8, "int32": 4, "int64": 8, "bool": 1}
# Half the distance of neighbours, relative: 2^-(mantissa bits + 1).
ROUNDOFF = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24, "float64": 2.0**-53}


def encode(dtype: str, values: np.ndarray) -> np.ndarray:
    """Returns values as elements of the dtype, rounded to nearest even; bfloat16 as uint16."""
    if dtype != "bfloat16":
        return np.ascontiguousarray(values).astype(dtype)
    bits = np.ascontiguousarray(values).astype(np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def decode(dtype: str, elements: np.ndarray) -> np.ndarray:
    """Returns elements, given as bytes or in their type, as float64 (integers as they are)."""
    if dtype != "bfloat16":
        numbers = elements.view(dtype)
        return numbers.astype(np.float64) if dtype in FLOATS else numbers
    wide = elements.view(np.uint16).astype(np.uint32) << 16
    return wide.view(np.float32).astype(np.float64)
