"""The word2vec script as a user starts it: on two real ranks, in one process, and what it saves."""

from __future__ import annotations

import re
import sys

import pytest

from tests import programs

LIMIT_SECONDS = 200
TRAIN = [sys.executable, "-m", "models.word2vec.train"]
# Whoever looks words up needs neither MPI nor tf_adasum.
LOAD = """
import sys
sys.modules["tf_adasum"] = sys.modules["adasumrun"] = None
import keras, numpy, tensorflow
model = keras.models.load_model(sys.argv[1])
rome, italy, paris, france = model(tensorflow.constant("rome italy paris france".split())).numpy()
to_france = france @ (italy - rome + paris)
print("dimension", len(rome), "right" if to_france > paris @ (italy - rome + paris) else "wrong")
"""


def call(command):
    done = programs.run(command, LIMIT_SECONDS, CUDA_VISIBLE_DEVICES="-1")
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("word2vec")


@pytest.mark.long
def test_two_ranks_learn_the_analogies_and_save(folder):
    """One epoch of the small configuration, loaded where there is no tf_adasum."""
    path = folder / "new" / "words.keras"
    flags = [f"--data_dir={folder}", f"--save={path}", "--epochs=1"]
    code, output = call([*programs.ADASUMRUN, "-np", "2", "--", *TRAIN, *flags])
    assert code == 0, output
    assert output.count("adasum: 2 workers x 32 pairs, 35000 words") == 1
    (share,) = re.findall(r"Analogies: ([\d.]+)% of 4416; the text lacks words of 0", output)
    assert float(share) > 20, "a guess among 494 words is right in 0.2 %"
    assert output.count(f"Saved: {path}") == 1
    code, output = call([sys.executable, "-c", LOAD, str(path)])
    assert code == 0 and "dimension 32 right" in output, output


@pytest.mark.long
def test_two_replicas_read_english(folder):
    """A part of the real text, with other settings than the small configuration's."""
    flags = ["--dataset=python_topics", "--split=train[:10%]", f"--data_dir={folder}"]
    flags += ["--workers=2", "--epochs=1", "--min_count=5", "--subsampling=1e-3", "--window=2"]
    code, output = call([*TRAIN, *flags])
    assert code == 0, output
    (asked, lacking) = re.findall(r"Analogies: .*of (\d+); the text lacks words of (\d+)", output)[
        0
    ]
    assert int(lacking) >= 3312, "the countries are not in Python's help"
    assert int(asked) + int(lacking) == 4416


@pytest.mark.long
def test_unknown_data_set_is_told_in_one_line(folder):
    code, output = call([*TRAIN, "--dataset=text8", f"--data_dir={folder}"])
    assert code == 1
    assert "Received: 'text8'" in output and "Traceback" not in output


@pytest.mark.parametrize(
    "flag, path, wanted",
    [
        ("--save", "words", "expected a file that ends in .keras."),
        ("--save", f"{__file__}/words.keras", "expected a file in a folder that is there"),
        ("--questions", "words", "expected a file that"),
    ],
)
def test_files_that_will_not_do_are_refused_before_the_training(flag, path, wanted, folder):
    code, output = call([*TRAIN, f"--data_dir={folder}", f"{flag}={folder / path}"])
    assert code == 1
    assert flag in output and wanted in output
    assert "Traceback" not in output and "pairs" not in output
