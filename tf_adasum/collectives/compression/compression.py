"""What all codecs have in common."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import tensorflow as tf

from tf_adasum.collectives.checked_numbers import NO_LIMIT, checked_int
from tf_adasum.collectives.choice import Choice
from tf_adasum.collectives.dtypes import FLOATS
from tf_adasum.collectives.refusals import refusal

# Where a scale and a message more cost more than a tensor has.
LEAST_ELEMENTS = 1000


@dataclasses.dataclass(frozen=True)
class Compression(Choice):
    """How floats travel; the codecs are subclasses.

    Args:
        least_elements: tensors of fewer elements travel as they are, and so do integers.

    Raises:
        ValueError: a setting is out of its range.
        TypeError: a setting is of another type.

    Example:
        >>> import tf_adasum as adasum
        >>> isinstance(adasum.compression.Sign(), adasum.compression.Compression)
        True
    """

    least_elements: int = dataclasses.field(default=LEAST_ELEMENTS, kw_only=True)

    argument: ClassVar[str] = "compression"
    kind: ClassVar[str] = "codec"
    instance: ClassVar[str] = "Sign()"
    # As cc/compression registers it.
    name: ClassVar[str]

    def __post_init__(self) -> None:
        checked_int("least_elements", self.least_elements, 0, NO_LIMIT)

    @property
    def codec(self) -> str:
        """What the C++ code is told."""
        return self.name

    @classmethod
    def saved_name(cls) -> str:
        """What a configuration calls the codec."""
        return cls.name

    def encodes(self, tensor: tf.Tensor | tf.Variable) -> bool:
        """Returns whether the tensor travels encoded.

        Raises:
            ValueError: how many elements it has is not known.
        """
        num_elements = tensor.shape.num_elements()
        if num_elements is None:
            expected = "tensors of known shapes, where compression is asked for"
            advice = "Call tensor.set_shape, or tf.ensure_shape."
            raise ValueError(refusal(expected, str(tensor.shape), advice))
        return self.encodes_elements(num_elements, tensor.dtype.name)

    def encodes_elements(self, num_elements: int, dtype: str) -> bool:
        """Returns whether a tensor of so many elements travels encoded."""
        return dtype in FLOATS and num_elements >= max(self.least_elements, 1)


def work_dtype(dtype: str) -> str:
    """The dtype that is encoded and reduced: float64 for itself, float32 for all other floats."""
    return "float64" if dtype == "float64" else "float32"
