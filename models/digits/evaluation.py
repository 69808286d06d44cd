"""Loss and accuracy on the test examples, of which each rank evaluates a share."""

from __future__ import annotations

import keras
import tensorflow as tf

import tf_adasum
from models.digits.batches import ShiftedImages


class Evaluation:
    """Evaluates a model on all test examples. Collective, with the same results on every rank.

    Not `model.evaluate`, which would deal the few images to all replicas of a rank.

    Args:
        model: returns logits; its weights are equal on all ranks.
        test: the examples.
        communicator: the ranks that share the work.

    Example:
        >>> loss, accuracy = Evaluation(model, test, tf_adasum.world())()
    """

    def __init__(
        self, model: keras.Model, test: ShiftedImages, communicator: tf_adasum.Communicator
    ):
        self._model, self._test, self._communicator = model, test, communicator
        self._share = tf.range(communicator.rank, len(test), communicator.size)
        self._sums = tf.function(self._sums_over_share)

    def __call__(self) -> tuple[float, float]:
        """Returns the mean loss and the share of the examples that are told right."""
        sums = tf_adasum.allreduce(self._sums(), "sum", self._communicator, name="evaluation")
        loss, right = (float(total) / len(self._test) for total in sums)
        return loss, right

    def _sums_over_share(self) -> list[tf.Tensor]:
        images, labels = self._test.at(self._share)
        logits = self._model(images, training=False)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        right = tf.cast(tf.argmax(logits, axis=-1) == labels, tf.float32)
        return [tf.reduce_sum(losses), tf.reduce_sum(right)]
