"""What encoding has lost on simulated ranks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tf_adasum.collectives.compression.compression import Compression, work_dtype
from tf_adasum.collectives.compression.state import num_part_elements


class SimulatedState:
    """The residuals of `adasum.simulate`, as NumPy arrays: `State`, of every rank.

    Args:
        inputs: one list per rank, as `simulate` will get them; only shapes and dtypes count.
        compression: as `simulate` will get it.

    Example:
        >>> import numpy as np, tf_adasum as adasum
        >>> inputs = [[np.ones(2000)], [np.ones(2000)]]
        >>> state = adasum.compression.SimulatedState(inputs, adasum.compression.Sign())
        >>> [residual.shape for residual in state.residuals[0]]
        [(2000,)]
    """

    def __init__(self, inputs: Sequence[Sequence[np.ndarray]], compression: Compression):
        Compression.check(compression)
        arrays = [np.asarray(array) for array in inputs[0]] if inputs else []
        encoded = [a for a in arrays if compression.encodes_elements(a.size, a.dtype.name)]
        dtypes = [work_dtype(array.dtype.name) for array in encoded]
        parts = [num_part_elements(array.size, len(inputs)) for array in encoded]
        self.residuals = [
            [np.zeros(array.shape, dtype) for array, dtype in zip(encoded, dtypes)] for _ in inputs
        ]
        self.part_residuals = [
            [np.zeros(part, dtype) for part, dtype in zip(parts, dtypes)] for _ in inputs
        ]
