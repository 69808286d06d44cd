"""Tensors travel as signs, with one scale for all."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from tf_adasum.collectives.compression.compression import Compression


@dataclasses.dataclass(frozen=True)
class Sign(Compression):
    """One bit a value: x becomes |x| / sqrt(n) sign(x), n the number of elements of a rank's part.

    With a State (error feedback) nothing is lost for ever; without one it mostly does not
    converge.

    Args:
        least_elements: tensors of fewer elements travel as they are.

    Raises:
        ValueError: a setting is out of its range.
        TypeError: a setting is of another type.

    Example:
        >>> import tensorflow as tf, tf_adasum as adasum
        >>> gradient = tf.ones([2000])
        >>> reduced = adasum.allreduce(gradient, compression=adasum.compression.Sign())
        >>> float(reduced[0])
        1.0

    Source: 1-bit Adam (Tang et al., ICML 2021), section 3.
    """

    name: ClassVar[str] = "sign"
