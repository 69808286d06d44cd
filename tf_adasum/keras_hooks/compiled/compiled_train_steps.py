"""Keras' `train_step` with `jit_compile=True`: one compiled function from inputs to gradients."""

from __future__ import annotations

import functools

import keras
import tensorflow as tf
from keras.src.backend.tensorflow.trainer import TensorFlowTrainer
from keras.src.losses import loss as loss_module

from tf_adasum.keras_hooks.compiled import compiled_calls, compiled_passes
from tf_adasum.keras_hooks.core.guard import require_hooks, require_reads
from tf_adasum.keras_hooks.core.scaled_losses import scaled_loss

require_hooks(TensorFlowTrainer, "train_step")
require_reads(
    TensorFlowTrainer,
    "train_step",
    "_loss_tracker",
    "compute_metrics",
    "unscale_loss_for_distribution",
)


def install() -> None:
    """Lets `TensorFlowTrainer.train_step` compile where it is asked to.

    A step of the user's own that calls `super().train_step` comes here too.
    """
    original = TensorFlowTrainer.train_step

    @functools.wraps(original)
    def train_step(self, data):
        if not compiled_passes.are_wanted() or not self.trainable_weights:
            return original(self, data)
        try:
            return _train_step(self, *keras.utils.unpack_x_y_sample_weight(data))
        except compiled_passes.NotCompiledError as error:
            compiled_passes.say(self, str(error))
        with compiled_passes.none():
            return original(self, data)

    TensorFlowTrainer.train_step = train_step


def _train_step(model: keras.Model, x, y, sample_weight):
    """The steps of Keras' own, of which the first is compiled: pass, loss, update, metrics."""
    weights = model.trainable_weights

    def passes():
        with tf.GradientTape() as tape:
            outputs, loss, scaled = scaled_loss(model, x, y, sample_weight)
        return outputs, (loss, tape.gradient(scaled, weights))

    outputs, (loss, gradients) = compiled_calls.run(model, passes)
    first = next(part for part in keras.tree.flatten(x) if part is not None)
    model._loss_tracker.update_state(
        loss_module.unscale_loss_for_distribution(loss), sample_weight=tf.shape(first)[0]
    )
    model.optimizer.apply_gradients(zip(gradients, weights))
    return model.compute_metrics(x, y, outputs, sample_weight=sample_weight)
