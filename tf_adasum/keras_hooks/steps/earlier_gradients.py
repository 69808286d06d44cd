"""The gradients of a step's batch at earlier weights, for optimizers that compare both.

Keras' `train_step` finds the gradients at the weights as they are. Before it does, the same batch
goes through the model once more, with other values in the place of the weights: layers whose seeds
are Keras' draw the same numbers again, and what layers and metrics keep stays as it is. XLA would
draw others, so that such a step is not compiled.
"""

from __future__ import annotations

import functools

import keras
import tensorflow as tf
from keras.src.backend.tensorflow.trainer import TensorFlowTrainer

from tf_adasum.keras_hooks.compiled import compiled_passes
from tf_adasum.keras_hooks.core.guard import require_hooks
from tf_adasum.keras_hooks.core.idle_replicas import zeros_if
from tf_adasum.keras_hooks.core.replicas import local_replica, replica_context_with_peers
from tf_adasum.keras_hooks.core.scaled_losses import scaled_loss
from tf_adasum.keras_hooks.steps.model_optimizers import compiled_optimizer

require_hooks(TensorFlowTrainer, "train_step")


def install() -> None:
    """Lets `TensorFlowTrainer.train_step` hand an optimizer the gradients that it asks for."""
    original = TensorFlowTrainer.train_step

    @functools.wraps(original)
    def train_step(self, data):
        optimizer = compiled_optimizer(self)
        asked = getattr(optimizer, "earlier_weights", None)
        context = replica_context_with_peers()
        values = None if asked is None or context is None else asked(self.trainable_weights)
        if values is None:
            return original(self, data)
        if compiled_passes.are_wanted():
            compiled_passes.say(self, "it finds the gradients of a batch twice")
        with compiled_passes.none():
            gradients = _gradients(self, data, values)
            is_idle = context.strategy.extended.idle.here()
            if is_idle is not None:
                gradients = zeros_if(is_idle, gradients)
            replica = local_replica(context)
            optimizer.take_earlier_gradients(replica, self.trainable_weights, gradients)
            return original(self, data)

    TensorFlowTrainer.train_step = train_step


def _gradients(model: keras.Model, data, values: list[tf.Tensor]) -> list[tf.Tensor]:
    """Of the model's loss of a batch, where its trainable weights have these values."""
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
    mapping = list(zip(model.trainable_weights, values))
    with tf.GradientTape() as tape:
        tape.watch(values)
        with keras.StatelessScope(state_mapping=mapping, collect_losses=True):
            _, _, scaled = scaled_loss(model, x, y, sample_weight)
    scale = model.optimizer.scale_loss(tf.ones([]))
    zero = tf.UnconnectedGradients.ZERO
    return [
        tf.convert_to_tensor(each) / tf.cast(scale, each.dtype)
        for each in tape.gradient(scaled, values, unconnected_gradients=zero)
    ]
