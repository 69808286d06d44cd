"""Data sets: the text that Python has, and what a user hears whose set is not to be had."""

from __future__ import annotations

import socket
from pydoc_data.topics import topics

import pytest
import tensorflow_datasets as tfds

import models.common.python_topics  # noqa: F401 (makes its name known)
from models.common import datasets


@pytest.fixture(scope="module")
def paragraphs(tmp_path_factory):
    """Topic and text of every paragraph, by split."""
    builder = datasets.prepared("python_topics", str(tmp_path_factory.mktemp("datasets")))
    splits = {name: tfds.as_numpy(builder.as_dataset(split=name)) for name in builder.info.splits}
    return {
        name: [(row["topic"].decode(), row["text"].decode()) for row in split]
        for name, split in splits.items()
    }


def test_a_topic_lies_in_one_split_only(paragraphs):
    names = {split: {topic for topic, _ in rows} for split, rows in paragraphs.items()}
    assert set(names) == {"train", "validation", "test"}
    assert sum(map(len, names.values())) == len(set.union(*names.values())) == len(topics)
    assert len(names["train"]) > 0.75 * len(topics)


def test_the_paragraphs_are_the_text(paragraphs):
    def letters(texts):
        return sorted("".join(texts).replace(" ", "").replace("\n", ""))

    rows = [row for split in paragraphs.values() for row in split]
    for name in ("assert", "class", "operator-summary"):
        assert letters(text for topic, text in rows if topic == name) == letters([topics[name]])
    assert sum(len(text) for _, text in rows) > 300_000


def test_unknown_name_is_told_in_one_line(tmp_path):
    with pytest.raises(datasets.DatasetError, match=r"expected a data set .*'minst'") as told:
        datasets.prepared("minst", str(tmp_path))
    assert "\n" not in str(told.value)


def test_what_a_data_set_lacks_is_told_in_one_line(tmp_path):
    builder = datasets.prepared("python_topics", str(tmp_path))
    datasets.check(builder, ["text", "topic"], ["train", "train[:10%]+validation"])
    with pytest.raises(datasets.DatasetError, match=r"with 'image'\. .* 'text' and 'topic'\.$"):
        datasets.check(builder, ["image"], ["train"])
    for split in ("held_out", "train[10**9:]", "train[1%", ""):
        with pytest.raises(datasets.DatasetError, match=r"expected a split of python_t") as told:
            datasets.check(builder, [], ["train", split])
        assert f"Received: {split!r}: " in str(told.value)
        assert "\n" not in str(told.value)


@pytest.mark.parametrize("name", ["mnist", "imagenet2012", "wikipedia/20230601.en"])
def test_missing_data_without_network_is_told_in_one_line(name, tmp_path, monkeypatch):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound but not listening: connections are refused
        port = unused.getsockname()[1]
        monkeypatch.setattr(datasets, "_PROBE_URL", f"http://127.0.0.1:{port}")
        with pytest.raises(datasets.DatasetError, match=f"{name} is not prepared .*--data_dir"):
            datasets.prepared(name, str(tmp_path))


def test_a_folder_that_cannot_be_written_to_is_told_in_one_line(tmp_path):
    taken = tmp_path / "file"
    taken.touch()
    with pytest.raises(datasets.DatasetError, match=r"/file/python_topics.*--data_dir") as told:
        datasets.prepared("python_topics", str(taken))
    assert "\n" not in str(told.value)


def test_a_connection_that_breaks_is_not_told_as_a_folders_fault(tmp_path, monkeypatch):
    def broken(*_, **__):
        raise ConnectionError("the host went away")

    monkeypatch.setattr(tfds.core.DatasetBuilder, "download_and_prepare", broken)
    with pytest.raises(datasets.DatasetError, match=r"went away\.$"):
        datasets.prepared("python_topics", str(tmp_path))


def test_network_that_swallows_everything_is_given_up(tmp_path, monkeypatch):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()  # accepts, and never answers
        monkeypatch.setattr(datasets, "_PROBE_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(datasets.DatasetError, match=r"does not answer within 5 s"):
            datasets.prepared("mnist", str(tmp_path))
