"""Variables that are to stay as they are in a step: copied before it, and put back behind it."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf


def copies_if(stay: tf.Tensor, variables: Sequence[tf.Variable]) -> list[tf.Tensor]:
    """Returns the values, or nothing of them.

    Args:
        stay: whether the variables stay as they are.
        variables: of one replica, or of several.
    """
    return tf.cond(
        stay,
        lambda: [tf.identity(variable) for variable in variables],
        lambda: [tf.zeros([0], variable.dtype) for variable in variables],
    )


def put_back_if(
    stay: tf.Tensor, variables: Sequence[tf.Variable], copies: Sequence[tf.Tensor]
) -> None:
    """Gives variables their values of before the step, if they stay as they are.

    Args:
        stay: as for `copies_if`.
        variables: the same.
        copies: what it returned.
    """

    def put_back():
        for variable, copy in zip(variables, copies):
            variable.assign(tf.ensure_shape(copy, variable.shape))

    tf.cond(stay, put_back, lambda: None)
