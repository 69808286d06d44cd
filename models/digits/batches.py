"""Batches of shifted images: every image in all small displacements, made as they are needed."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from models.digits.image_set import Split


class ShiftedImages:
    """The examples of a split, (2s+1)^2 displaced variants of each image, standardised.

    Example i is image i mod n, displaced by variant i div n of the (2s+1)^2; what moves in is
    black. Pixels are x = (p - mean) / deviation of `statistics`, so that the learning rate fits
    bright and dark sets alike.

    Args:
        split: the images and labels.
        shift: s, the largest displacement in pixels; 0 for the images as they are.
        statistics: the split whose mean and deviation to use; None: `split` itself. For a test
            split give the training split.

    Example:
        >>> examples = ShiftedImages(split, shift=1)
        >>> images, labels = examples.at(tf.range(32))
    """

    def __init__(self, split: Split, shift: int = 0, statistics: Split | None = None):
        pixels = (statistics or split).images
        self._mean, self._deviation = float(pixels.mean()), max(float(pixels.std()), 1e-6)
        self._shift, self._count = shift, len(split.images)
        self._height, self._width = split.images.shape[1:3]
        border = (shift, shift)
        padded = np.pad(split.images, ((0, 0), border, border, (0, 0)))
        with tf.device("CPU:0"):
            # Rows of an image one after the other, so that one gather moves it both ways.
            self._pixels = tf.constant(padded.reshape(self._count, -1, padded.shape[-1]))
            self._labels = tf.constant(split.labels)

    def __len__(self) -> int:
        return self._count * (2 * self._shift + 1) ** 2

    def at(self, indices: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns images, float32 [b, height, width, channels], and labels, int64 [b].

        Args:
            indices: integers [b] in [0, len).
        """
        indices = tf.cast(indices, tf.int64)
        image, variant = indices % self._count, indices // self._count
        side = 2 * self._shift + 1
        rows = tf.range(self._height, dtype=tf.int64) + (variant // side)[:, None]
        columns = tf.range(self._width, dtype=tf.int64) + (variant % side)[:, None]
        pixel = rows[:, :, None] * (self._width + 2 * self._shift) + columns[:, None, :]
        moved = tf.gather(tf.gather(self._pixels, image), pixel, batch_dims=1)
        pixels = (tf.cast(moved, tf.float32) - self._mean) / self._deviation
        return pixels, tf.gather(self._labels, image)

    def shuffled(self, batch_size: int) -> tf.data.Dataset:
        """Batches for training, in a new order in every epoch; the odd rest is left out."""
        order = tf.data.Dataset.range(len(self)).shuffle(len(self))
        return self._batches(order.batch(batch_size, drop_remainder=True))

    def in_order(self, batch_size: int) -> tf.data.Dataset:
        """Batches for testing: every example once."""
        return self._batches(tf.data.Dataset.range(len(self)).batch(batch_size))

    def _batches(self, indices: tf.data.Dataset) -> tf.data.Dataset:
        options = tf.data.Options()
        # A rank was seen to wait for a minute at the end of `fit` for the thread that tunes.
        options.autotune.enabled = False
        return indices.map(self.at).prefetch(2).with_options(options)
