"""The configurations, small and full."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """What is trained on what.

    Args:
        dataset: of tensorflow_datasets, or of models/; it has a feature "text".
        split: of it.
        min_count: words that are rarer are left out.
        dimension: of a vector.
        window: largest distance of a pair.
        negatives: of each pair.
        subsampling: of frequent words, see models.word2vec.skip_grams; 0: none.
        batch_size: pairs of each worker and step.
        learning_rate: of one pair, as the field counts it; falls to 0 over the training.
        epochs: passes over the text.
    """

    dataset: str
    split: str
    min_count: int
    dimension: int
    window: int
    negatives: int
    subsampling: float
    batch_size: int
    learning_rate: float
    epochs: int


CONFIGURATIONS = {
    "small": Settings("planted_analogies", "train", 1, 32, 5, 5, 0, 32, 0.1, 2),
    # text8 is a part of Wikipedia of 17 million words, and not in tensorflow_datasets.
    "full": Settings("wikipedia/20230601.en", "train[:1%]", 5, 300, 5, 5, 1e-5, 1024, 0.025, 5),
}
