"""What encoding has lost, kept for the next call."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tf_adasum.collectives import native
from tf_adasum.collectives.arguments import checked_group
from tf_adasum.collectives.communicator import Communicator
from tf_adasum.collectives.compression.compression import Compression, work_dtype


class State(tf.Module):
    """The residuals of a list of tensors, as variables: tf.train.Checkpoint saves them.

    Each rank has its own, which are not equal: of each of its tensors, and of the part of each
    result that it reduces for all.

    Args:
        tensors: a (nested) structure of tensors or variables, as `allreduce` will get it; only
            shapes and dtypes count.
        compression: as `allreduce` will get it.
        communicator: as `allreduce` will get it.

    Raises:
        TypeError: `compression` is no codec.

    Example:
        >>> import tensorflow as tf, tf_adasum as adasum
        >>> gradients = [tf.ones([2000])]
        >>> state = adasum.compression.State(gradients, adasum.compression.Sign())
        >>> [variable.shape.as_list() for variable in state.residuals]
        [[2000]]
    """

    def __init__(
        self, tensors: Any, compression: Compression, communicator: Communicator | None = None
    ):
        super().__init__(name="compression_state")
        Compression.check(compression)
        size = checked_group(communicator).size
        flat = [tf.convert_to_tensor(tensor) for tensor in tf.nest.flatten(tensors)]
        encoded = [tensor for tensor in flat if compression.encodes(tensor)]
        self.residuals = [_zeros(tensor.shape, tensor.dtype) for tensor in encoded]
        self.part_residuals = [
            _zeros([num_part_elements(tensor.shape.num_elements(), size)], tensor.dtype)
            for tensor in encoded
        ]


def _zeros(shape: Any, dtype: tf.DType) -> tf.Variable:
    # In host memory, where the op changes it in place.
    with tf.device("CPU:0"):
        return tf.Variable(tf.zeros(shape, work_dtype(dtype.name)), trainable=False)


def encoded_bytes(compression: Compression, num_elements: int, dtype: str, num_ranks: int) -> int:
    """What a tensor takes, encoded part by part for so many ranks."""
    codec, work = compression.codec, work_dtype(dtype)
    return native.lib.encoded_bytes(codec, work, num_elements, num_ranks)


def num_part_elements(num_elements: int, num_ranks: int) -> int:
    """The most elements of a tensor that one of the ranks reduces for all."""
    return native.lib.most_part_elements(num_elements, num_ranks)
