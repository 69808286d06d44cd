"""Dimensions of tensors."""

import tensorflow as tf


def swap_axes(tensor: tf.Tensor, axis: int) -> tf.Tensor:
    """Exchanges dimension `axis` with the first one; twice is the tensor as it was."""
    if axis % tensor.shape.rank == 0:
        return tensor
    order = list(range(tensor.shape.rank))
    order[0], order[axis] = order[axis], order[0]
    return tf.transpose(tensor, order)
