"""What N workers of one process exchange, encoded as it would be between N ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

import tf_adasum as adasum
from tf_adasum.collectives.compressed_simulation import arriving
from tf_adasum.collectives.compression import Compression
from tf_adasum.collectives.compression.state import encoded_bytes
from tf_adasum.optimizers.sketch_exchange import num_candidates


class EncodedExchange:
    """What arrives of the workers' tensors, and of what they are reduced to, in a traced step.

    The allreduce of tensors that travel encoded, but for its messages: `simulate` has them, and
    takes ten times as long.

    Args:
        number: N, of the workers.
        weights: what is exchanged has their shapes.
        compression: how it travels.
        keeps_lost: whether what is lost is added to what travels next (error feedback).
    """

    def __init__(
        self,
        number: int,
        weights: Sequence[tf.Variable],
        compression: Compression,
        keeps_lost: bool = True,
    ):
        self._number, self._weights = number, weights
        self._compression, self._keeps_lost = compression, keeps_lost
        self.reset()

    def reset(self) -> None:
        """Forgets what was lost."""
        shapes = [tuple(weight.shape) for weight in self._weights]
        self._of_workers = [self._nothing((self._number, *shape)) for shape in shapes]
        self._of_results = [self._nothing((1, *shape)) for shape in shapes]

    def _nothing(self, shape: tuple[int, ...]) -> np.ndarray | list[None]:
        return np.zeros(shape, np.float32) if self._keeps_lost else [None] * shape[0]

    def arriving(self, stacked: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """What arrives of tensors that are stacked over the workers."""
        return self._traced(lambda *arrays: self._arriving(arrays, self._of_workers), stacked)

    def results(self, reduced: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """What arrives of the results."""
        stacked = [tensor[None] for tensor in reduced]
        traced = self._traced(lambda *arrays: self._arriving(arrays, self._of_results), stacked)
        return [tensor[0] for tensor in traced]

    def _traced(self, function: Callable, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        results = tf.numpy_function(function, tensors, [each.dtype for each in tensors])
        return [tf.ensure_shape(each, old.shape) for each, old in zip(results, tensors)]

    def _arriving(self, arrays: Sequence[np.ndarray], lost: Sequence) -> list[np.ndarray]:
        return [
            np.stack([self._one(*pair) for pair in zip(array, kept)])
            for array, kept in zip(arrays, lost)
        ]

    def _one(self, array: np.ndarray, kept: np.ndarray | None) -> np.ndarray:
        if not self._compression.encodes_elements(array.size, array.dtype.name):
            return array
        return arriving(self._compression, array, self._number, kept)


def share_of_bytes(
    weights: Sequence[tf.Variable],
    compression: Compression | None,
    number: int,
) -> float:
    """What weights take, encoded part by part for so many ranks, of what they take as they are."""
    plain = encoded = 0
    for weight in weights:
        n, dtype = weight.shape.num_elements(), weight.dtype.name
        own = n * weight.dtype.size
        plain += own
        if compression is not None and compression.encodes_elements(n, dtype):
            own = encoded_bytes(compression, n, dtype, number)
        encoded += own
    return encoded / plain


def share_of_sketches(
    weights: Sequence[tf.Variable], optimizer: adasum.optimizers.SketchedSGD
) -> float:
    """What tables and values of Sketched SGD take, of what weights take as they are."""
    plain = sent = 0
    for weight in weights:
        n, sketch = weight.shape.num_elements(), optimizer.sketch_of(weight)
        plain += n
        if sketch is not None:
            values = num_candidates(sketch, optimizer.num_exchanged(sketch))
            n = sketch.rows * sketch.columns + values
        sent += n
    return sent / plain
