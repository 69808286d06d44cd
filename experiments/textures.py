"""The task of textures: images that ResNet-8 learns."""

from __future__ import annotations

import functools

import numpy as np
import tensorflow_datasets as tfds

import models.resnet.dataset  # noqa: F401 (makes its name known)
from experiments.tasks import CLASSES, Examples, Task
from models.common import datasets
from models.resnet import network


@functools.cache
def textures() -> Task:
    """Stripes of ten directions and widths, and ResNet-8 (models/resnet)."""
    builder = datasets.prepared("textures")

    def examples(split: str) -> Examples:
        rows = builder.as_dataset(split=split, batch_size=-1, as_supervised=True)
        images, labels = tfds.as_numpy(rows)
        return Examples(np.float32(images / 127.5 - 1), labels.astype(np.int32))

    train, validation, test = (examples(split) for split in ("train", "validation", "test"))
    shape = train.inputs.shape[1:]
    return Task(
        "textures",
        train,
        validation,
        test,
        lambda: network.build(shape, CLASSES, network.RESNET_8),
        compiled_to=1,
    )
