"""The convolutional network for small images."""

from __future__ import annotations

import keras

from models.digits import settings


def build(image_shape: tuple[int, int, int], num_classes: int) -> keras.Model:
    """Two convolutions with max-pooling, then two dense layers; returns logits.

    Args:
        image_shape: height, width and channels of an image.
        num_classes: number of logits.

    Returns:
        A built, not compiled, model: float32 [batch, *image_shape] to [batch, num_classes].

    Example:
        >>> model = build((8, 8, 1), 10)
    """
    layers = [keras.Input(image_shape)]
    for filters in settings.FILTERS:
        layers.append(
            keras.layers.Conv2D(filters, settings.KERNEL_SIZE, padding="same", activation="relu")
        )
        layers.append(keras.layers.MaxPooling2D())
    layers.append(keras.layers.Flatten())
    if settings.HIDDEN_UNITS:
        layers.append(keras.layers.Dense(settings.HIDDEN_UNITS, activation="relu"))
    layers.append(keras.layers.Dense(num_classes))
    return keras.Sequential(layers)
