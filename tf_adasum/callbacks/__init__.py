"""Keras callbacks, one file each."""

from tf_adasum.callbacks.learning_rate_warmup import LearningRateWarmup

__all__ = ["LearningRateWarmup"]
