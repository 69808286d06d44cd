"""Batches of images: small ones whole, photographs cropped at random."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf
import tensorflow_datasets as tfds

_PHOTO_SIDE = 224
# Of a photograph's shorter side, what the square of the evaluation takes.
_CENTRAL = 0.875
# A small set is held in memory and shuffled as a whole.
_MOST_SHUFFLED = 16_384


class Images:
    """A data set of labelled images, as batches of pixels from -1 to 1 and one-hot labels.

    Args:
        builder: a prepared data set of tensorflow_datasets.
        label_smoothing: share of the label's weight that all classes get alike, in training.

    Attributes:
        shape: of an image: height, width and channels.
        num_classes: of the labels.
    """

    def __init__(self, builder: tfds.core.DatasetBuilder, label_smoothing: float):
        features = builder.info.features
        self._builder, self._smoothing = builder, label_smoothing
        height, width, channels = features["image"].shape
        self._are_photos = height is None or width is None
        self.shape = (_PHOTO_SIDE,) * 2 + (3,) if self._are_photos else (height, width, channels)
        self.num_classes = features["label"].num_classes

    def count(self, split: str) -> int:
        """Number of images of a split."""
        return self._builder.info.splits[split].num_examples

    def shuffled(self, batch_size: int, seed: int) -> tf.data.Dataset:
        """Batches of the training split, in another order in every epoch, without end."""
        rows = self._read("train", tfds.ReadConfig(shuffle_seed=seed), shuffle_files=True)
        rows = rows.shuffle(min(self.count("train"), _MOST_SHUFFLED), seed=seed).repeat()
        crop = _random_crop if self._are_photos else _whole
        return self._batches(rows, crop, batch_size, self._smoothing, drop_remainder=True)

    def in_order(self, split: str, batch_size: int) -> tf.data.Dataset:
        """Batches of a split, every image once."""
        rows = self._read(split, tfds.ReadConfig(), shuffle_files=False)
        crop = _central_crop if self._are_photos else _whole
        return self._batches(rows, crop, batch_size, smoothing=0, drop_remainder=False)

    def _read(self, split: str, config: tfds.ReadConfig, shuffle_files: bool) -> tf.data.Dataset:
        rows = self._builder.as_dataset(
            split=split,
            read_config=config,
            shuffle_files=shuffle_files,
            # What is cropped need not be decoded as a whole.
            decoders={"image": tfds.decode.SkipDecoding()} if self._are_photos else None,
        )
        rows = rows.map(lambda row: (row["image"], row["label"]))
        return rows if self._are_photos else rows.cache()

    def _batches(
        self,
        rows: tf.data.Dataset,
        crop: Callable,
        batch_size: int,
        smoothing: float,
        drop_remainder: bool,
    ) -> tf.data.Dataset:
        classes = self.num_classes

        def example(image, label):
            pixels = tf.cast(crop(image), tf.float32) / 127.5 - 1
            weights = tf.one_hot(label, classes) * (1 - smoothing) + smoothing / classes
            return pixels, weights

        rows = rows.map(example, num_parallel_calls=tf.data.AUTOTUNE)
        return rows.batch(batch_size, drop_remainder).prefetch(tf.data.AUTOTUNE)


def _whole(image: tf.Tensor) -> tf.Tensor:
    return image


def _random_crop(encoded: tf.Tensor) -> tf.Tensor:
    """A random part of 8 to 100 % of the area, of 3:4 to 4:3, half of them mirrored."""
    begin, size, _ = tf.image.sample_distorted_bounding_box(
        tf.io.extract_jpeg_shape(encoded),
        tf.zeros([1, 0, 4]),
        area_range=(0.08, 1.0),
        aspect_ratio_range=(3 / 4, 4 / 3),
        use_image_if_no_bounding_boxes=True,
    )
    return tf.image.random_flip_left_right(_cut(encoded, begin[:2], size[:2]))


def _central_crop(encoded: tf.Tensor) -> tf.Tensor:
    sides = tf.io.extract_jpeg_shape(encoded)[:2]
    square = tf.cast(_CENTRAL * tf.cast(tf.reduce_min(sides), tf.float32), tf.int32)
    return _cut(encoded, (sides - square) // 2, tf.stack([square, square]))


def _cut(encoded: tf.Tensor, begin: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    window = tf.concat([begin, size], axis=0)
    image = tf.image.decode_and_crop_jpeg(encoded, window, channels=3)
    image = tf.image.resize(image, (_PHOTO_SIDE, _PHOTO_SIDE), method="bicubic")
    return tf.clip_by_value(image, 0, 255)
