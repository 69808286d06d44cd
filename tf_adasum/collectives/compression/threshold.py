"""The values of a tensor above a threshold travel, and where they are."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from tf_adasum.collectives.checked_numbers import checked_float
from tf_adasum.collectives.compression.compression import Compression


@dataclasses.dataclass(frozen=True)
class Threshold(Compression):
    """Values of at least a threshold's magnitude, at most ceil(fraction n); all others are 0.

    n is the number of elements of a rank's part. The threshold is chosen for every tensor and
    step, from 4,096 of its values: about `fraction` of all lie above. It sends as many bytes as
    `TopK`, looks at fewer values twice, and leaves some out that are a little larger. A value
    takes 8 bytes in float32: 4 say where.

    Args:
        fraction: of the values, above 0 and at most 1.
        least_elements: tensors of fewer elements travel as they are.

    Raises:
        ValueError: a setting is out of its range.
        TypeError: a setting is of another type.

    Example:
        >>> import tensorflow as tf, tf_adasum as adasum
        >>> compression = adasum.compression.Threshold(0.005)
        >>> reduced = adasum.allreduce(tf.ones([2000]), compression=compression)

    Source: Dynamic Communication Thresholding (Gupta et al., KDD 2021), section 3, there with a
    threshold that stays for thousands of steps.
    """

    fraction: float
    name: ClassVar[str] = "threshold"

    def __post_init__(self) -> None:
        super().__post_init__()
        checked_float("fraction", self.fraction, 0, 1, above=True)

    @property
    def codec(self) -> str:
        """What the C++ code is told."""
        return f"{self.name}:{float(self.fraction)!r}"
