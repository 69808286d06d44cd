"""The first part of Keras' `train_step`, for steps that do it in another way."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf
from keras.src.backend.tensorflow.trainer import TensorFlowTrainer

from tf_adasum.keras_hooks.core.guard import require_reads

require_reads(TensorFlowTrainer, "train_step", "_call_has_training_arg", "_compute_loss")


def scaled_loss(
    model: keras.Model, x: Any, y: Any, sample_weight: Any
) -> tuple[Any, tf.Tensor, tf.Tensor]:
    """Returns outputs, their loss, and what the optimizer makes of it before it is differentiated.

    Args:
        model: that is compiled.
        x: a batch, as `train_step` unpacks it.
        y: the same.
        sample_weight: the same.
    """
    options = {"training": True} if model._call_has_training_arg else {}
    outputs = model(x, **options)
    loss = model._compute_loss(x=x, y=y, y_pred=outputs, sample_weight=sample_weight, training=True)
    return outputs, loss, model.optimizer.scale_loss(loss)
