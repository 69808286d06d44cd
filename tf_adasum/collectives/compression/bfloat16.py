"""Tensors travel as bfloat16."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from tf_adasum.collectives.compression.compression import Compression


@dataclasses.dataclass(frozen=True)
class BFloat16(Compression):
    """16 bits a value: 8 bits of precision, and the range of float32.

    Sums, means and Adasum are computed in float32.

    Args:
        least_elements: tensors of fewer elements travel as they are.

    Raises:
        ValueError: a setting is out of its range.
        TypeError: a setting is of another type.

    Example:
        >>> import tensorflow as tf, tf_adasum as adasum
        >>> gradient = tf.ones([2000])
        >>> reduced = adasum.allreduce(gradient, compression=adasum.compression.BFloat16())
        >>> float(reduced[0])
        1.0
    """

    name: ClassVar[str] = "bfloat16"
