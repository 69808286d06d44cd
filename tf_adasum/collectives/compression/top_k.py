"""The largest values of a tensor travel, and where they are."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from tf_adasum.collectives.checked_numbers import checked_float
from tf_adasum.collectives.compression.compression import Compression


@dataclasses.dataclass(frozen=True)
class TopK(Compression):
    """The ceil(fraction n) values of largest magnitude, with their places; all others are 0.

    n is the number of elements of a rank's part. A value takes 8 bytes in float32: 4 say where.
    With a State (error feedback) what is left out is added to the next tensor.

    Args:
        fraction: of the values, above 0 and at most 1.
        least_elements: tensors of fewer elements travel as they are.

    Raises:
        ValueError: a setting is out of its range.
        TypeError: a setting is of another type.

    Example:
        >>> import tensorflow as tf, tf_adasum as adasum
        >>> compression = adasum.compression.TopK(0.01)
        >>> reduced = adasum.allreduce(tf.ones([2000]), compression=compression)

    Source: Aji and Heafield, EMNLP 2017.
    """

    fraction: float
    name: ClassVar[str] = "top_k"

    def __post_init__(self) -> None:
        super().__post_init__()
        checked_float("fraction", self.fraction, 0, 1, above=True)

    @property
    def codec(self) -> str:
        """What the C++ code is told."""
        return f"{self.name}:{float(self.fraction)!r}"
