"""The configurations: ResNet-8 on textures, and ResNet-50 on ImageNet."""

from __future__ import annotations

from dataclasses import dataclass

from models.resnet import network


@dataclass(frozen=True)
class Settings:
    """What is trained on what.

    Args:
        dataset: of tensorflow_datasets, or of models/, with images and labels.
        evaluated: the split that judges.
        depth: of the network.
        epochs: passes over the images.
        batch_size: images of each worker and step.
        optimizer: momentum or lars.
        learning_rate: after the warm-up; a cosine to 0 follows. One worker's, however many there
            are.
        warmup_epochs: in which the rate grows linearly from 0.
        weight_decay: of the kernels.
        label_smoothing: share of the label's weight that all classes get alike.
        mixed_precision: whether layers compute in bfloat16, with float32 weights.
    """

    dataset: str
    evaluated: str
    depth: network.Depth
    epochs: int
    batch_size: int
    optimizer: str
    learning_rate: float
    warmup_epochs: float
    weight_decay: float
    label_smoothing: float
    mixed_precision: bool


CONFIGURATIONS = {
    "small": Settings(
        dataset="textures",
        evaluated="test",
        depth=network.RESNET_8,
        epochs=6,
        batch_size=16,
        optimizer="momentum",
        learning_rate=0.1,
        warmup_epochs=0.5,
        weight_decay=1e-4,
        label_smoothing=0.1,
        mixed_precision=False,
    ),
    # Rate and decay for 256 images: Goyal et al., 2017; cosine and smoothing: He et al., "Bag of
    # Tricks for Image Classification", CVPR 2019.
    "full": Settings(
        dataset="imagenet2012",
        evaluated="validation",
        depth=network.RESNET_50,
        epochs=90,
        batch_size=256,
        optimizer="momentum",
        learning_rate=0.1,
        warmup_epochs=5,
        weight_decay=1e-4,
        label_smoothing=0.1,
        mixed_precision=True,
    ),
}
