"""What Keras' optimizers keep for themselves, and layers above read."""

from __future__ import annotations

import keras
import tensorflow as tf
from keras.src.backend.tensorflow.optimizer import TFOptimizer
from keras.src.optimizers.base_optimizer import BaseOptimizer

from tf_adasum.keras_hooks.core.guard import require_reads

require_reads(TFOptimizer, "__init__", "_distribution_strategy")
require_reads(BaseOptimizer, "iterations", "_iterations")
require_reads(BaseOptimizer, "build", "_accumulated_gradients")


def strategy_of(optimizer: keras.optimizers.Optimizer) -> tf.distribute.Strategy:
    """Returns the strategy in whose scope the optimizer was made, or TensorFlow's default one."""
    return optimizer._distribution_strategy


def batches_seen(optimizer: keras.optimizers.Optimizer) -> keras.Variable:
    """Returns the counter of its calls; `iterations` counts steps, of one or more calls."""
    return optimizer._iterations


def sums_of_gradients(optimizer: keras.optimizers.Optimizer) -> list[keras.Variable]:
    """Returns those of Keras' own accumulation, in the order of the variables; most have none."""
    return getattr(optimizer, "_accumulated_gradients", None) or []
