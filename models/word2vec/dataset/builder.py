"""The builder of the `planted_analogies` data set: sentences drawn from models.word2vec.planted."""

from __future__ import annotations

from collections.abc import Iterator

import tensorflow_datasets as tfds

from models.word2vec import planted

NUM_SENTENCES = 5_000
_SEED = 0


class PlantedAnalogies(tfds.core.GeneratorBasedBuilder):
    """Made-up sentences in which london is to england as paris is to france.

    A sentence has one word of a family (england, london, english; value, values), words that
    stand beside all words of its topic (england-1), words that stand beside all words of its
    relation (capital-2), and words that say nothing (filler-7). See models.word2vec.planted.

    Features: "text", one sentence. All are in the split "train": what is asked of them are
    analogies (models.word2vec.analogies), and those are no sentences.

    Example:
        >>> import tensorflow_datasets as tfds
        >>> import models.word2vec.dataset  # makes the name known
        >>> text = tfds.load("planted_analogies", split="train", data_dir="/tmp/datasets")
    """

    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES = {"1.0.0": "First version."}  # noqa: RUF012 (the base class's form)

    def _info(self) -> tfds.core.DatasetInfo:
        return self.dataset_info_from_configs(
            description="Made-up sentences with planted analogies.",
            features=tfds.features.FeaturesDict({"text": tfds.features.Text()}),
        )

    def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict[str, Iterator]:
        del dl_manager  # nothing is fetched
        return {"train": self._generate_examples()}

    def _generate_examples(self) -> Iterator[tuple[int, dict]]:
        for index, words in enumerate(planted.sentences(NUM_SENTENCES, _SEED)):
            yield index, {"text": " ".join(words)}
