"""How orthogonal the replicas' gradients are, measured while a model trains."""

from __future__ import annotations

from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

import tf_adasum
from models.digits.batches import ShiftedImages
from tf_adasum.collectives.allreduce import allreduce_replicas

# Batches that a measurement draws for each replica: one alone says little.
_DRAWS = 8


def orthogonality(leaves: Sequence[Sequence[tf.Tensor]]) -> tf.Tensor:
    """|Adasum(g_1, .., g_N)|^2 / (|g_1|^2 + .. + |g_N|^2), over all variables together.

    It is 1 where the gradients are orthogonal and 1/N where they are parallel and equal.
    Collective: all ranks call it at the same step.

    Args:
        leaves: one list of gradients for each local replica.

    Returns:
        A float32 scalar, the same on all ranks.

    Example:
        >>> float(orthogonality([[tf.constant([3.0, 0.0])], [tf.constant([0.0, 4.0])]]))
        1.0

    Source: Maleki et al., MLSys 2021, section 3.
    """
    combined = allreduce_replicas(leaves, "adasum", name="orthogonality/adasum")
    squares = [[_square(leaf)] for leaf in leaves]
    total = allreduce_replicas(squares, "sum", name="orthogonality/squares")[0]
    return tf.math.divide_no_nan(_square(combined), total)


def _square(tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    return tf.add_n([tf.reduce_sum(tf.square(tensor)) for tensor in tensors])


class Curve(keras.callbacks.Callback):
    """Records orthogonality and test accuracy at step 0 and every few steps.

    Each replica draws batches of its own for a measurement, the same in every run, whatever
    reduction trains the model; the orthogonality is the mean over them.

    Args:
        strategy: the `AdasumStrategy` of the model.
        train: the examples to draw from.
        test: the examples of the accuracy.
        batch_size: examples in a batch.
        every: steps from one measurement to the next.

    Attributes:
        points: list of `{"step", "orthogonality", "accuracy"}`, filled on every rank.
    """

    def __init__(
        self,
        strategy: tf_adasum.AdasumStrategy,
        train: ShiftedImages,
        test: ShiftedImages,
        batch_size: int,
        every: int,
    ):
        super().__init__()
        self.points: list[dict[str, float]] = []
        self._strategy, self._train, self._test = strategy, train, test
        self._batch_size, self._every, self._step = batch_size, every, 0
        self._orthogonality = tf.function(self._orthogonality_of_draw)
        self._accuracy = tf.function(self._test_accuracy)

    def on_train_begin(self, logs=None) -> None:
        """Measures the untrained model."""
        self._record()

    def on_train_batch_end(self, batch: int, logs=None) -> None:
        """Measures after every `every` steps."""
        self._step += 1
        if self._step % self._every == 0:
            self._record()

    def on_train_end(self, logs=None) -> None:
        """Measures the trained model."""
        if self._step % self._every:
            self._record()

    def _record(self) -> None:
        draws = range(self._step * _DRAWS, (self._step + 1) * _DRAWS)
        self.points.append(
            {
                "step": self._step,
                "orthogonality": float(
                    np.mean([self._orthogonality(tf.constant(draw)) for draw in draws])
                ),
                "accuracy": float(self._accuracy()),
            }
        )

    def _orthogonality_of_draw(self, draw: tf.Tensor) -> tf.Tensor:
        per_replica = self._strategy.run(self._gradients, args=(draw,))
        local = [self._strategy.experimental_local_results(value) for value in per_replica]
        return orthogonality(list(zip(*local)))

    def _test_accuracy(self) -> tf.Tensor:
        images, labels = self._test.at(tf.range(len(self._test)))
        right = tf.argmax(self.model(images, training=False), axis=-1) == labels
        return tf.reduce_mean(tf.cast(right, tf.float32))

    def _gradients(self, draw: tf.Tensor) -> list[tf.Tensor]:
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        drawn = tf.random.stateless_uniform(
            [self._batch_size], [draw, replica], maxval=len(self._train), dtype=tf.int32
        )
        images, labels = self._train.at(drawn)
        with tf.GradientTape() as tape:
            logits = self.model(images, training=True)
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
            )
        variables = self.model.trainable_variables
        return tape.gradient(loss, [variable.value for variable in variables])
