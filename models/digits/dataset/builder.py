"""The builder of the `digits` data set: 1,797 images of 8x8 pixels that need no network."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import tensorflow_datasets as tfds

NUM_TEST = 360
_SPLIT_SEED = 0
_BRIGHTEST = 16  # scikit-learn counts the dark pixels of 4x4 blocks


class Digits(tfds.core.GeneratorBasedBuilder):
    """Handwritten digits that come with scikit-learn, in the form of MNIST.

    Splits: "test" has 360 images drawn with a fixed seed, "train" the other 1,437. Features:
    "image", uint8 [8, 8, 1] in [0, 255]; "label", 0 to 9.

    Example:
        >>> import tensorflow_datasets as tfds
        >>> import models.digits.dataset  # makes the name known
        >>> digits = tfds.load("digits", split="train", data_dir="/tmp/datasets")

    Source: E. Alpaydin, C. Kaynak, "Optical Recognition of Handwritten Digits", UCI, 1998.
    """

    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES = {"1.0.0": "First version."}  # noqa: RUF012 (the base class's form)

    def _info(self) -> tfds.core.DatasetInfo:
        return self.dataset_info_from_configs(
            description="Handwritten digits of 8x8 pixels that come with scikit-learn.",
            features=tfds.features.FeaturesDict(
                {
                    "image": tfds.features.Image(shape=(8, 8, 1), dtype=np.uint8),
                    "label": tfds.features.ClassLabel(num_classes=10),
                }
            ),
            supervised_keys=("image", "label"),
            homepage="https://scikit-learn.org/stable/datasets/toy_dataset.html",
        )

    def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict[str, Iterator]:
        del dl_manager  # scikit-learn holds the images
        from sklearn import datasets

        bunch = datasets.load_digits()
        order = np.random.default_rng(_SPLIT_SEED).permutation(len(bunch.target))
        images = np.round(bunch.images * (255 / _BRIGHTEST)).astype(np.uint8)[..., None]
        test, train = order[:NUM_TEST], order[NUM_TEST:]
        return {
            "train": self._generate_examples(images[train], bunch.target[train]),
            "test": self._generate_examples(images[test], bunch.target[test]),
        }

    def _generate_examples(
        self, images: np.ndarray, labels: np.ndarray
    ) -> Iterator[tuple[int, dict]]:
        for index, (image, label) in enumerate(zip(images, labels)):
            yield index, {"image": image, "label": int(label)}
