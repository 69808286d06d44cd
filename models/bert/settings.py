"""The configurations: two layers on Python's help texts, and BERT-Large on Wikipedia."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from models.bert import network


class Phase(NamedTuple):
    """A part of the training with sequences of one length.

    Args:
        length: of a sequence, in word pieces.
        epochs: share of all passes over the text.
        learning_rate: largest rate, over that of the settings.
        warmup: share of the steps in which the rate grows from 0; then it falls to 0.
    """

    length: int
    epochs: float
    learning_rate: float
    warmup: float


@dataclass(frozen=True)
class Settings:
    """What is trained on what.

    Args:
        dataset: of tensorflow_datasets, or of models/, with a feature "text".
        split: that trains.
        evaluated: the split that judges.
        vocabulary: most word pieces.
        tokenizer_texts: so many texts of the split make the word pieces.
        size: of the network.
        phases: one after the other.
        epochs: passes over the text.
        batch_size: sequences of each worker and step in the first phase; where they are longer
            there are fewer, so that a step has as many pieces.
        learning_rate: the largest.
        optimizer: adam (AdamW) or lamb.
        weight_decay: of what is no bias and no normalization.
        mixed_precision: whether layers compute in bfloat16, with float32 weights.
    """

    dataset: str
    split: str
    evaluated: str
    vocabulary: int
    tokenizer_texts: int
    size: network.Size
    phases: tuple[Phase, ...]
    epochs: float
    batch_size: int
    learning_rate: float
    optimizer: str
    weight_decay: float
    mixed_precision: bool


CONFIGURATIONS = {
    "small": Settings(
        dataset="python_topics",
        split="train",
        evaluated="validation",
        vocabulary=1_000,
        tokenizer_texts=10_000,
        size=network.TINY,
        phases=(Phase(32, 0.9, 1.0, 0.1), Phase(64, 0.1, 0.5, 0.1)),
        epochs=2,
        batch_size=16,
        learning_rate=2e-3,
        optimizer="adam",
        weight_decay=0.01,
        mixed_precision=False,
    ),
    # Nine tenths of the epochs with 128 pieces: You et al., "Large Batch Optimization for Deep
    # Learning: Training BERT in 76 minutes", ICLR 2020, section 4.1. The rate is one worker's.
    "full": Settings(
        dataset="wikipedia/20230601.en",
        split="train[1%:]",
        evaluated="train[:1%]",
        vocabulary=30_522,
        tokenizer_texts=500_000,
        size=network.LARGE,
        phases=(Phase(128, 0.9, 1.0, 0.2), Phase(512, 0.1, 0.5, 0.2)),
        epochs=40,
        batch_size=256,
        learning_rate=4e-4,
        optimizer="lamb",
        weight_decay=0.01,
        mixed_precision=True,
    ),
}
