"""The builder of the `textures` data set: ten classes of stripes that need no network."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import tensorflow_datasets as tfds

SIDE = 12
NUM_CLASSES = 10
SPLITS = {"train": 4_000, "validation": 1_000, "test": 2_000}
# Standard deviations: of the stripes' direction in degrees, and of a pixel, of 255.
_DIRECTION_NOISE, _PIXEL_NOISE = 5.0, 48.0


class Textures(tfds.core.GeneratorBasedBuilder):
    """Stripes in five directions, wide or narrow: ten classes of images 12 x 12 in two colours.

    Direction d and width w are class 2 d + w. An image's phase, its two colours and a bright spot
    somewhere say nothing of the class; the direction is off by a few degrees, and noise lies over
    all. So no pixel by itself tells anything, and filters must be learnt.

    Splits: "train" 4,000, "validation" 1,000, "test" 2,000 images, all classes alike often.
    Features: "image", uint8 [12, 12, 3]; "label", 0 to 9.

    Example:
        >>> import tensorflow_datasets as tfds
        >>> import models.resnet.dataset  # makes the name known
        >>> textures = tfds.load("textures", split="train", data_dir="/tmp/datasets")
    """

    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES = {"1.0.0": "First version."}  # noqa: RUF012 (the base class's form)

    def _info(self) -> tfds.core.DatasetInfo:
        return self.dataset_info_from_configs(
            description="Stripes of ten directions and widths.",
            features=tfds.features.FeaturesDict(
                {
                    "image": tfds.features.Image(shape=(SIDE, SIDE, 3), dtype=np.uint8),
                    "label": tfds.features.ClassLabel(num_classes=NUM_CLASSES),
                }
            ),
            supervised_keys=("image", "label"),
        )

    def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict[str, Iterator]:
        del dl_manager  # they are drawn
        return {
            name: self._generate_examples(np.random.default_rng(seed), number)
            for seed, (name, number) in enumerate(SPLITS.items())
        }

    def _generate_examples(
        self, random: np.random.Generator, number: int
    ) -> Iterator[tuple[int, dict]]:
        for index in range(number):
            label = index % NUM_CLASSES
            yield index, {"image": draw(random, label), "label": label}


def draw(random: np.random.Generator, label: int) -> np.ndarray:
    """Returns an image of a class, uint8 [12, 12, 3]."""
    direction, is_narrow = divmod(label, 2)
    angle = np.radians(36 * direction + _DIRECTION_NOISE * random.standard_normal())
    period = random.uniform(3.0, 4.0) if is_narrow else random.uniform(5.5, 7.5)
    y, x = np.mgrid[:SIDE, :SIDE]
    along = x * np.cos(angle) + y * np.sin(angle)
    phase = random.uniform(0, 2 * np.pi)
    share = 0.5 + 0.5 * np.sin(2 * np.pi * along / period + phase)
    # Two colours, near to each other in some images.
    first, second = random.uniform(40, 215, (2, 3))
    image = share[..., None] * first + (1 - share[..., None]) * second
    row, column = random.uniform(0, SIDE, 2)
    spot = np.exp(-((x - column) ** 2 + (y - row) ** 2) / 8)
    image += 120 * random.uniform(-1, 1, 3) * spot[..., None]
    image += _PIXEL_NOISE * random.standard_normal(image.shape)
    return np.clip(image, 0, 255).astype(np.uint8)
