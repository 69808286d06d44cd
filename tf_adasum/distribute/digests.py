"""Digests of what all replicas of a training must hold, and all ranks' digests on all ranks."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tf_adasum.collectives.allreduce import allreduce
from tf_adasum.collectives.communicator import Communicator
from tf_adasum.distribute.own_variables import common_state
from tf_adasum.keras_hooks.steps.model_optimizers import optimizers_of
from tf_adasum.keras_hooks.variables.made_to_train import made_to_train


def variables_that_agree(model: keras.Model, frozen_too: bool) -> list[keras.Variable]:
    """What is trained, or was made to be, and what of the optimizers all replicas share.

    Args:
        model: whose variables.
        frozen_too: whether those count that were made to be trained, and are frozen.
    """
    variables = made_to_train(model) if frozen_too else list(model.trainable_variables)
    for optimizer in optimizers_of(model):
        variables += common_state(optimizer)
    return variables


def digest(copy: tf.Variable) -> int:
    """64 bits of a variable's values, in one pass over them.

    Args:
        copy: the variable of one replica.
    """
    value = copy.read_value()
    with tf.device("CPU:0"):
        is_byte = value.dtype.size == 1
        data = tf.cast(value, tf.uint8) if is_byte else tf.bitcast(value, tf.uint8)
        fingerprint = tf.raw_ops.Fingerprint(data=tf.reshape(data, [1, -1]), method="farmhash64")
    return int(fingerprint.numpy().view(np.int64)[0, 0])


def digest_of_all(values: Any) -> int:
    """63 bits of what `repr` tells of values; not 0."""
    of_text = hashlib.sha256(repr(values).encode()).digest()
    return int.from_bytes(of_text[:8], "little") >> 1 | 1


def gather_digests(row: Sequence[int], communicator: Communicator, what: str) -> np.ndarray:
    """Every rank's row of int64, on all ranks; collective, one message.

    Args:
        row: as many numbers as on other ranks.
        communicator: whose ranks take part.
        what: whose digests they are, for the name of the message.
    """
    table = np.zeros((communicator.size, len(row)), np.int64)
    table[communicator.rank] = row
    with tf.device("CPU:0"):
        name = f"digests of the {what} of all ranks"
        return allreduce(tf.constant(table), "sum", communicator, name).numpy()
