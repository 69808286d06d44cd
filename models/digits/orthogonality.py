"""How orthogonal the replicas' gradients are, measured while a model trains."""

from __future__ import annotations

from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

import tf_adasum
from models.digits.batches import ShiftedImages
from tf_adasum.collectives.allreduce_replicas import allreduce_replicas

# Batches that a measurement draws for each replica: one alone says little.
_DRAWS = 8


def orthogonality(
    leaves: Sequence[Sequence[tf.Tensor]], communicator: tf_adasum.Communicator | None = None
) -> tf.Tensor:
    """|Adasum(g_1, .., g_N)|^2 / (|g_1|^2 + .. + |g_N|^2), over all variables together.

    It is 1 where the gradients are orthogonal and 1/N where they are parallel and equal.
    Collective: its ranks call it at the same step.

    Args:
        leaves: one list of gradients for each local replica.
        communicator: the ranks that train together; all ranks if None.

    Returns:
        A float32 scalar, the same on these ranks.

    Example:
        >>> float(orthogonality([[tf.constant([3.0, 0.0])], [tf.constant([0.0, 4.0])]]))
        1.0

    Source: Maleki et al., MLSys 2021, section 3.
    """
    combined = allreduce_replicas(leaves, "adasum", communicator, "orthogonality/adasum")
    squares = [[_square(leaf)] for leaf in leaves]
    total = allreduce_replicas(squares, "sum", communicator, "orthogonality/squares")[0]
    return tf.math.divide_no_nan(_square(combined), total)


def _square(tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    return tf.add_n([tf.reduce_sum(tf.square(tensor)) for tensor in tensors])


class GradientOrthogonality:
    """Orthogonality of the replicas' gradients while a model trains.

    Each replica draws batches of its own for a measurement, the same in every run, whatever
    reduction trains the model; the orthogonality is the mean over them.

    Args:
        strategy: the `AdasumStrategy` of the model.
        model: returns logits.
        train: the examples to draw from.
        batch_size: examples in a batch.

    Example:
        >>> measure = GradientOrthogonality(strategy, model, train, 32)
        >>> at_start = measure(0)
    """

    def __init__(
        self,
        strategy: tf_adasum.AdasumStrategy,
        model: keras.Model,
        train: ShiftedImages,
        batch_size: int,
    ):
        self._strategy, self._model, self._train = strategy, model, train
        self._batch_size = batch_size
        self._orthogonality = tf.function(self._orthogonality_of_draw)

    def __call__(self, step: int) -> float:
        """Measures; collective, the same on all ranks. Each step has batches of its own."""
        draws = range(step * _DRAWS, (step + 1) * _DRAWS)
        return float(np.mean([self._orthogonality(tf.constant(draw)) for draw in draws]))

    def _orthogonality_of_draw(self, draw: tf.Tensor) -> tf.Tensor:
        per_replica = self._strategy.run(self._gradients, args=(draw,))
        local = [self._strategy.experimental_local_results(value) for value in per_replica]
        return orthogonality(list(zip(*local)), self._strategy.extended.communicator)

    def _gradients(self, draw: tf.Tensor) -> list[tf.Tensor]:
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        drawn = tf.random.stateless_uniform(
            [self._batch_size], [draw, replica], maxval=len(self._train), dtype=tf.int32
        )
        images, labels = self._train.at(drawn)
        with tf.GradientTape() as tape:
            logits = self._model(images, training=True)
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
            )
        variables = self._model.trainable_variables
        return tape.gradient(loss, [variable.value for variable in variables])
