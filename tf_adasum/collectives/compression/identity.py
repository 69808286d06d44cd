"""Tensors travel as they are, by the algorithm that codecs travel by."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from tf_adasum.collectives.compression.compression import Compression


@dataclasses.dataclass(frozen=True)
class Identity(Compression):
    """As the tensors are: what the codecs are compared with.

    Args:
        least_elements: tensors of fewer elements travel as they are.

    Raises:
        ValueError: a setting is out of its range.
        TypeError: a setting is of another type.

    Example:
        >>> import tensorflow as tf, tf_adasum as adasum
        >>> gradient = tf.ones([2000])
        >>> reduced = adasum.allreduce(gradient, compression=adasum.compression.Identity())
        >>> float(reduced[0])
        1.0
    """

    name: ClassVar[str] = "identity"
