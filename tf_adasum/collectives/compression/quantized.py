"""Tensors travel in a few bits a value, rounded at random."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from tf_adasum.collectives.checked_numbers import checked_int
from tf_adasum.collectives.compression.compression import Compression
from tf_adasum.collectives.refusals import refusal, shown

_BITS = (2, 4, 8)


@dataclasses.dataclass(frozen=True)
class Quantized(Compression):
    """b bits a value, with one scale s = max |x| for a rank's part.

        q = s / L floor(x L / s + u),   L = 2^(b-1) - 1,   u in [0, 1) at random

    so that q is x on average. u is drawn from the high bits of x: the same tensors give the same
    codes.

    Args:
        bits: b, which is 2 (the signs and zero), 4 or 8.
        least_elements: tensors of fewer elements travel as they are.

    Raises:
        ValueError: for another number of bits, or `least_elements` is out of its range.
        TypeError: `bits` or `least_elements` is no int.

    Example:
        >>> import tensorflow as tf, tf_adasum as adasum
        >>> compression = adasum.compression.Quantized(4)
        >>> reduced = adasum.allreduce(tf.ones([2000]), compression=compression)

    Source: QSGD (Alistarh et al., NeurIPS 2017), section 3, there with the norm as scale.
    """

    bits: int = 4
    name: ClassVar[str] = "quantized"

    def __post_init__(self) -> None:
        super().__post_init__()
        bits = checked_int("bits", self.bits, min(_BITS), max(_BITS))
        if bits not in _BITS:
            raise ValueError(refusal("bits to be 2, 4 or 8", shown(self.bits), "Pass 4, say."))
        object.__setattr__(self, "bits", bits)  # frozen, and told to the C++ code as it is written

    @property
    def codec(self) -> str:
        """What the C++ code is told."""
        return f"{self.name}:{self.bits}"
