"""What encoding has lost on simulated ranks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tf_adasum.collectives.as_array import as_array
from tf_adasum.collectives.compression.compression import Compression, work_dtype
from tf_adasum.collectives.compression.state import num_part_elements


class SimulatedState:
    """The residuals of `adasum.simulate`, as NumPy arrays: `State`, of every rank.

    Args:
        inputs: one list per rank, as `simulate` will get them; only shapes and dtypes count.
        compression: as `simulate` will get it.

    Raises:
        TypeError: `compression` is no codec.

    Example:
        >>> import numpy as np, tf_adasum as adasum
        >>> inputs = [[np.ones(2000)], [np.ones(2000)]]
        >>> state = adasum.compression.SimulatedState(inputs, adasum.compression.Sign())
        >>> [residual.shape for residual in state.residuals[0]]
        [(2000,)]
    """

    def __init__(self, inputs: Sequence[Sequence[np.ndarray]], compression: Compression):
        Compression.check(compression)
        self.residuals, self.part_residuals = (
            [[np.zeros(shape, dtype) for shape, dtype in kinds] for _ in inputs]
            for kinds in kept_kinds(inputs, compression)
        )


Kinds = list[tuple[tuple[int, ...], str]]


def kept_kinds(
    inputs: Sequence[Sequence[np.ndarray]], compression: Compression
) -> tuple[Kinds, Kinds]:
    """The shapes and dtypes of each rank's residuals, and of those of its parts."""
    arrays = [as_array(array) for array in inputs[0]] if inputs else []
    encoded = [a for a in arrays if compression.encodes_elements(a.size, a.dtype.name)]
    dtypes = [work_dtype(array.dtype.name) for array in encoded]
    parts = [(num_part_elements(array.size, len(inputs)),) for array in encoded]
    return list(zip([a.shape for a in encoded], dtypes)), list(zip(parts, dtypes))
