"""The builder of the `python_topics` data set: about 460 kB of English that every Python has."""

from __future__ import annotations

from collections.abc import Iterator

import tensorflow_datasets as tfds

# One topic in so many validates; the last of so many tests.
_PARTS = 10


class PythonTopics(tfds.core.GeneratorBasedBuilder):
    """The paragraphs of Python's help, `pydoc_data.topics`: the reference manual's prose and code.

    A topic lies in one split as a whole: of ten topics in alphabetical order the ninth is in
    "validation", the tenth in "test", the others in "train". The text is this Python's, and
    differs somewhat from version to version.

    Features: "text", one paragraph; "topic", its name in `help()`.

    Example:
        >>> import tensorflow_datasets as tfds
        >>> import models.common.python_topics  # makes the name known
        >>> topics = tfds.load("python_topics", split="train", data_dir="/tmp/datasets")
    """

    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES = {"1.0.0": "First version."}  # noqa: RUF012 (the base class's form)

    def _info(self) -> tfds.core.DatasetInfo:
        text = tfds.features.Text
        return self.dataset_info_from_configs(
            description="Paragraphs of the help texts that come with Python.",
            features=tfds.features.FeaturesDict({"text": text(), "topic": text()}),
            homepage="https://docs.python.org/3/reference/",
        )

    def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict[str, Iterator]:
        del dl_manager  # Python holds the texts
        from pydoc_data.topics import topics

        names: dict[str, list[str]] = {"train": [], "validation": [], "test": []}
        for index, name in enumerate(sorted(topics)):
            part = {_PARTS - 2: "validation", _PARTS - 1: "test"}.get(index % _PARTS, "train")
            names[part].append(name)
        return {
            part: self._generate_examples({name: topics[name] for name in members})
            for part, members in names.items()
        }

    def _generate_examples(self, topics: dict[str, str]) -> Iterator[tuple[str, dict]]:
        for name, text in topics.items():
            paragraphs = filter(None, (part.strip() for part in text.split("\n\n")))
            for number, paragraph in enumerate(paragraphs):
                yield f"{name} {number}", {"text": paragraph, "topic": name}
