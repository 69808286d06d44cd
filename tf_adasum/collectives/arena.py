"""NumPy arrays in memory that the other ranks of the host read in place."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence

import numpy as np

from tf_adasum.collectives import native
from tf_adasum.collectives.refusals import refusal, shown

_MOST_ELEMENTS = 2**63 - 1  # in one dimension of an array


def empty(shape: int | Sequence[int], dtype: np.typing.DTypeLike = np.float32) -> np.ndarray:
    """Returns a new array, without initial values, that other ranks of the host can read in place.

    Where ranks share memory, what is reduced is first copied to where the others can read it, or
    across by the system. Arrays made here lie there from the start. Ranks of adasumrun have large
    tensors there too.

    Args:
        shape: a number, or a list of them.
        dtype: of its elements.

    Returns:
        A C-contiguous array: of `np.empty`, where that memory is used up, switched off
        (TF_ADASUM_ARENA=0) or a forked child asks for it, and for dtypes of Python's objects.

    Raises:
        ValueError: if a dimension is negative or beyond 64 bits.
        TypeError: if a dimension is no number, or there is no such dtype.

    Example:
        >>> import tf_adasum as adasum
        >>> gradient = adasum.empty([2, 3])
        >>> gradient[:] = 1
        >>> adasum.allreduce_arrays(gradient)
        >>> gradient.shape
        (2, 3)
    """
    dtype = np.dtype(dtype)
    dimensions = _checked_shape(shape)
    if dtype.hasobject:
        return np.empty(dimensions, dtype)
    array = native.lib.empty_in_arena(dimensions, dtype)
    return np.empty(dimensions, dtype) if array is None else array


def _checked_shape(shape: int | Sequence[int]) -> list[int]:
    expected = "a shape, a whole number from 0 on or a list of them"
    try:
        dimensions = _whole_numbers(shape)
    except TypeError as error:
        raise TypeError(refusal(expected, shown(shape), "Pass [2, 3], say.")) from error
    if min(dimensions, default=0) < 0 or max(dimensions, default=0) > _MOST_ELEMENTS:
        raise ValueError(refusal(expected, shown(shape), "Pass [2, 3], say."))
    return dimensions


def _whole_numbers(shape: int | Sequence[int]) -> list[int]:
    if isinstance(shape, (str, bytes, Mapping)):
        raise TypeError("made of characters or keys")
    try:
        return [operator.index(shape)]
    except TypeError:
        return [operator.index(size) for size in shape]
