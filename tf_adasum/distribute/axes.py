"""Dimensions of tensors."""

import tensorflow as tf


def swap_axes(tensor: tf.Tensor, axis: int) -> tf.Tensor:
    """Exchanges dimension `axis` with the first one; twice is the tensor as it was."""
    rank = tensor.shape.rank
    if axis == 0 or (rank is not None and axis % rank == 0):
        return tensor
    if rank is None:  # as of what tf.py_function returns
        rank = tf.rank(tensor)
        axis = axis % rank
        order = tf.tensor_scatter_nd_update(tf.range(rank), [[0], [axis]], [axis, 0])
        return tf.transpose(tensor, order)
    order = list(range(rank))
    order[0], order[axis] = order[axis], order[0]
    return tf.transpose(tensor, order)
