"""Tensors travel as float16."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from tf_adasum.collectives.compression.compression import Compression


@dataclasses.dataclass(frozen=True)
class Float16(Compression):
    """16 bits a value: 11 bits of precision; above 65504 it becomes an infinity, as float16's do.

    Sums, means and Adasum are computed in float32.

    Args:
        least_elements: tensors of fewer elements travel as they are.

    Raises:
        ValueError: a setting is out of its range.
        TypeError: a setting is of another type.

    Example:
        >>> import tensorflow as tf, tf_adasum as adasum
        >>> gradient = tf.ones([2000])
        >>> reduced = adasum.allreduce(gradient, compression=adasum.compression.Float16())
        >>> float(reduced[0])
        1.0
    """

    name: ClassVar[str] = "float16"
