"""A count sketch travels, and the values that it shows to be the heaviest."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from tf_adasum.collectives.checked_numbers import checked_float, checked_int
from tf_adasum.collectives.compression.compression import Compression
from tf_adasum.collectives.refusals import refusal


@dataclasses.dataclass(frozen=True)
class Sketch(Compression):
    """The ceil(f n) values that a count sketch shows to be the heaviest; all others are 0.

    n is the number of elements of a rank's part. The sketch has r rows of c = s n / r columns, at
    least one, rounded down:

        table[j, h_j(i)] = sum of s_j(i) x_i,   x_i ~ median over j of s_j(i) table[j, h_j(i)]

    Values follow in the order of their places, which whoever decodes finds in the sketch again. In
    float32 all takes 8 + 4 (s n + f n) bytes: less than `TopK`, whose places take 4 bytes each,
    where s is below f, and then fewer of the heaviest are found.

    The hashes h and s are drawn from a seed that x makes, and which travels. With error feedback
    every call has others, so that no place is hidden for ever by those that share its cells.

    Args:
        fraction: f, of the values, above 0 and at most 1.
        sketch_fraction: s, above 0; with f at most 1, since a code is no larger than its tensor.
        rows: r, from 1 to 101; more find the heaviest more surely.
        least_elements: tensors of fewer elements travel as they are.

    Raises:
        ValueError: a setting is out of its range.
        TypeError: a setting is of another type.

    Example:
        >>> import tensorflow as tf, tf_adasum as adasum
        >>> compression = adasum.compression.Sketch(0.01, 0.05)
        >>> reduced = adasum.allreduce(tf.ones([2000]), compression=compression)

    Source: Charikar, Chen and Farach-Colton, "Finding frequent items in data streams", 2002; Ivkin
    et al., "Communication-efficient distributed SGD with sketching", arXiv:1903.04488.
    """

    fraction: float
    sketch_fraction: float = 0.04
    rows: int = 5
    name: ClassVar[str] = "sketch"

    def __post_init__(self) -> None:
        super().__post_init__()
        checked_float("fraction", self.fraction, 0, 1, above=True)
        checked_float("sketch_fraction", self.sketch_fraction, 0, 1, above=True)
        if self.fraction + self.sketch_fraction > 1:
            expected = "fraction and sketch_fraction of together at most 1"
            received = f"{self.fraction} and {self.sketch_fraction}"
            raise ValueError(refusal(expected, received, "Take TopK, or nothing, for that many."))
        checked_int("rows", self.rows, 1, 101)

    @property
    def codec(self) -> str:
        """What the C++ code is told."""
        fractions = f"{float(self.fraction)!r}:{float(self.sketch_fraction)!r}"
        return f"{self.name}:{fractions}:{self.rows}"
