"""Residual networks, version 1.5: the block's second convolution has the stride."""

from __future__ import annotations

from typing import NamedTuple

import keras
from keras import layers

# Of the moving statistics of the normalization, and what is added to its variance.
_MOMENTUM, _EPSILON = 0.9, 1e-5


class Depth(NamedTuple):
    """Of a residual network.

    Args:
        blocks: of each stage.
        width: channels of the first stage.
        bottleneck: whether a block is 1x1, 3x3, 1x1 with 4 times the channels at its end; else it
            is two of 3x3.
    """

    blocks: tuple[int, ...]
    width: int
    bottleneck: bool


RESNET_8 = Depth((1, 1, 1), 8, bottleneck=False)
RESNET_50 = Depth((3, 4, 6, 3), 64, bottleneck=True)


def build(
    image_shape: tuple[int, int, int],
    num_classes: int,
    depth: Depth,
    weight_decay: float = 0.0,
    synchronized: bool = False,
) -> keras.Model:
    """Returns a residual network, not compiled, that makes logits of images.

    A stage doubles the channels and, from the second on, halves the sides of the image. Large
    images are brought to a quarter of their sides first. The last scale of a block starts at zero,
    so that the block starts as the identity.

    Args:
        image_shape: height, width and channels.
        num_classes: of the logits, float32 [batch, num_classes].
        depth: RESNET_8, RESNET_50 or another one.
        weight_decay: the loss has weight_decay / 2 * |w|^2 of each kernel w besides.
        synchronized: whether batch normalization takes its statistics over all replicas; else each
            replica takes those of its own part of the batch ("ghost" batch normalization).

    Example:
        >>> resnet8 = build((12, 12, 3), 10, RESNET_8)

    Source: He et al., "Deep Residual Learning for Image Recognition", CVPR 2016; the stride in the
    3x3 and the scale of zero: Goyal et al., "Accurate, Large Minibatch SGD", 2017, section 5.1.
    """
    blocks, width, bottleneck = depth
    make = Layers(weight_decay, synchronized)
    images = keras.Input(image_shape)
    if image_shape[0] >= 128:
        features = make.convolution(images, width, size=7, stride=2)
        features = layers.ReLU()(make.normalization(features))
        features = layers.MaxPooling2D(3, 2, padding="same")(features)
    else:
        features = make.convolution(images, width, size=3)
        features = layers.ReLU()(make.normalization(features))
    for stage, number in enumerate(blocks):
        for index in range(number):
            stride = 2 if stage > 0 and index == 0 else 1
            features = make.block(features, width * 2**stage, stride, bottleneck)
    pooled = layers.GlobalAveragePooling2D()(features)
    # float32 also under mixed precision: the loss takes exponentials of it.
    logits = layers.Dense(
        num_classes, kernel_regularizer=make.decay(), dtype="float32", name="logits"
    )
    return keras.Model(images, logits(pooled))


class Layers:
    """Makes layers with the same settings."""

    def __init__(self, weight_decay: float, synchronized: bool):
        self._weight_decay, self._synchronized = weight_decay, synchronized

    def block(self, features, channels: int, stride: int, bottleneck: bool):
        """A residual block."""
        shortcut, expanded = features, channels * (4 if bottleneck else 1)
        if stride > 1 or features.shape[-1] != expanded:
            shortcut = self.convolution(features, expanded, size=1, stride=stride)
            shortcut = self.normalization(shortcut)
        if bottleneck:
            features = self.convolution(features, channels, size=1)
            features = layers.ReLU()(self.normalization(features))
        features = self.convolution(features, channels, size=3, stride=stride)
        features = layers.ReLU()(self.normalization(features))
        features = self.convolution(features, expanded, size=1 if bottleneck else 3)
        features = self.normalization(features, first_scale="zeros")
        return layers.ReLU()(layers.Add()([features, shortcut]))

    def convolution(self, features, channels: int, size: int, stride: int = 1):
        """A convolution without bias, since a normalization follows."""
        return layers.Conv2D(
            channels,
            size,
            stride,
            padding="same",
            use_bias=False,
            kernel_initializer="he_normal",
            kernel_regularizer=self.decay(),
        )(features)

    def normalization(self, features, first_scale: str = "ones"):
        """Batch normalization, whose scale starts at ones or zeros."""
        return layers.BatchNormalization(
            momentum=_MOMENTUM,
            epsilon=_EPSILON,
            gamma_initializer=first_scale,
            synchronized=self._synchronized,
        )(features)

    def decay(self) -> keras.regularizers.Regularizer | None:
        """What a kernel adds to the loss."""
        # Keras' L2 has no half.
        return keras.regularizers.L2(self._weight_decay / 2) if self._weight_decay else None
