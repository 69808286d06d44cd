"""Losses of `fit` and `evaluate`: for wrapped optimizers Keras leaves out its division by N.

Keras divides mean losses and what layers add by the number of replicas N, for optimizers that sum
the replicas' gradients, and multiplies by N again for the log. Of a sum, or of a loss that the
user computes, it does not know what it is: some would be divided and some not. A wrapped
optimizer needs the gradient of its replica's own loss, so nothing is divided for it.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import keras
import tensorflow as tf
from keras.src.backend.tensorflow.optimizer import TFOptimizer
from keras.src.losses import loss as loss_module

from tf_adasum.keras_hooks.core.around_steps import run_steps_by
from tf_adasum.keras_hooks.core.guard import require_hooks
from tf_adasum.keras_hooks.core.replicas import replica_context_with_peers
from tf_adasum.keras_hooks.steps.model_optimizers import is_wrapped, wrapped_optimizers_of

require_hooks(TFOptimizer, "_backend_apply_gradients")
require_hooks(loss_module, "scale_loss_for_distribution", "unscale_loss_for_distribution")


def install() -> None:
    """Makes Keras' division by N depend on the optimizers of the model that takes the step."""
    run_steps_by(_marking)
    for name in ("scale_loss_for_distribution", "unscale_loss_for_distribution"):
        setattr(loss_module, name, _unless_undivided(getattr(loss_module, name)))
    _divide_for_plain_optimizers()


def in_undivided_step() -> bool:
    """Whether a step of Keras runs, or is traced, in which losses are not divided by N."""
    flag = getattr(tf.distribute.get_strategy().extended, "undivided_losses", None)
    return flag is not None and flag.on


def scaled(gradients: Sequence, factor: float | tf.Tensor) -> list:
    """Returns the gradients, tensors or `tf.IndexedSlices`, times `factor`."""
    return [_scaled(gradient, factor) for gradient in gradients]


def _scaled(gradient, factor: float | tf.Tensor):
    if isinstance(gradient, tf.IndexedSlices):
        values = _scaled(gradient.values, factor)
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    if isinstance(factor, float):
        return gradient * tf.constant(factor, gradient.dtype)
    return gradient * tf.cast(factor, gradient.dtype)


def _marking(model, step_function, data):
    context = replica_context_with_peers()
    if context is None or not _wants_undivided(model):
        return step_function(data)
    with context.strategy.extended.undivided_losses.raised():
        return step_function(data)


def _unless_undivided(original):
    @functools.wraps(original)
    def scale_or_keep(value):
        return value if in_undivided_step() else original(value)

    return scale_or_keep


def _divide_for_plain_optimizers() -> None:
    """An optimizer beside a wrapped one averages the gradients as it does without."""
    original = TFOptimizer._backend_apply_gradients

    @functools.wraps(original)
    def apply_divided(self, grads, trainable_variables):
        if in_undivided_step() and not is_wrapped(self):
            number = tf.distribute.get_strategy().num_replicas_in_sync
            grads = scaled(grads, 1 / number)
        return original(self, grads, trainable_variables)

    TFOptimizer._backend_apply_gradients = apply_divided


def _wants_undivided(model: keras.Model) -> bool:
    """Whether the model has a wrapped optimizer to which its losses don't come divided."""
    return any(not each._adasum_divided_loss for each in wrapped_optimizers_of(model))
