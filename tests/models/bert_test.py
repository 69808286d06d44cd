"""BERT's masking, sizes and schedule, and the training script on two real ranks."""

from __future__ import annotations

import re
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from models.bert import network, pieces
from models.bert.schedule import WarmupThenLinear
from models.bert.settings import CONFIGURATIONS
from tests import programs

LIMIT_SECONDS = 200
TRAIN = [sys.executable, "-m", "models.bert.train"]
TEXTS = ["The model trains on every rank, and all ranks have one model."] * 20
# Whoever uses the model needs neither MPI nor tf_adasum.
LOAD = """
import sys
sys.modules["tf_adasum"] = sys.modules["adasumrun"] = None
import keras, numpy
model = keras.models.load_model(sys.argv[1], compile=False)
inputs = {"pieces": numpy.ones((2, 20), "int32"), "positions": numpy.zeros((2, 3), "int32")}
print("logits", model(inputs).shape)
"""


def _masked(rows, length, vocabulary, seed=(0, 0)):
    random = np.random.default_rng(0)
    given = random.integers(3, vocabulary, (rows, length)).astype(np.int32)
    shown, labels = pieces.masked(tf.constant(given), vocabulary, tf.constant(seed, tf.int64))
    return given, shown["pieces"].numpy(), shown["positions"].numpy(), labels.numpy()


def test_fifteen_percent_are_masked_in_three_ways():
    given, shown, positions, labels = _masked(2_000, 40, 1_000)
    assert positions.shape == labels.shape == (2_000, 6)
    assert np.all(np.diff(positions, axis=1) > 0), "different positions in their order"
    np.testing.assert_array_equal(np.take_along_axis(given, positions, 1), labels)
    at = np.take_along_axis(shown, positions, 1)
    is_mask, stays = at == 2, at == labels
    # Of 12,000: five standard deviations are 0.018 and 0.014.
    assert is_mask.mean() == pytest.approx(0.8, abs=0.018)
    assert stays.mean() == pytest.approx(0.1, abs=0.014)
    others = at[~is_mask & ~stays]
    assert len(np.unique(others)) > 500 and others.min() >= 3
    np.put_along_axis(shown, positions, labels, 1)
    np.testing.assert_array_equal(shown, given)
    # Every position is as likely as any other.
    assert np.bincount(positions.ravel(), minlength=40).min() > 200


def test_other_seeds_mask_other_pieces_and_the_same_seed_the_same():
    first, again, other = (_masked(4, 40, 1_000, seed)[2] for seed in ((1, 0), (1, 0), (1, 1)))
    assert np.array_equal(first, again) and not np.array_equal(first, other)


def test_pieces_spell_the_text():
    tokenizer = pieces.train_tokenizer(TEXTS, 60)
    encoded = tokenizer.encode(TEXTS[0])
    assert tokenizer.decode(encoded.ids) == TEXTS[0].lower()
    assert tokenizer.encode("☃").tokens == [pieces.UNKNOWN]
    rows = pieces.sequences(tokenizer, TEXTS, 16)
    np.testing.assert_array_equal(rows.ravel()[: len(encoded.ids)], encoded.ids)
    assert rows.size == len(encoded.ids) * 20 // 16 * 16


@pytest.mark.long
def test_the_large_model_has_its_parameters():
    """As many as its layers have, by their shapes; counted without making the weights."""
    with keras.StatelessScope():
        model = network.build(30_522, network.LARGE)
    h, i, v, p = 1024, 4096, 30_522, 512
    layer = 4 * (h * h + h) + 2 * h * i + h + i + 4 * h
    assert model.count_params() == 24 * layer + (v + p + 2) * h + h * h + h + 2 * h


def test_only_asked_positions_are_answered():
    model = network.build(50, network.TINY)
    given = np.random.default_rng(0).integers(3, 50, (2, 12)).astype(np.int32)
    all_positions = np.tile(np.arange(12, dtype=np.int32), (2, 1))
    everywhere = model({"pieces": given, "positions": all_positions}).numpy()
    some = model({"pieces": given, "positions": all_positions[:, [3, 7]]}).numpy()
    np.testing.assert_allclose(some, everywhere[:, [3, 7]], atol=1e-5)
    # A piece at another place is another piece.
    moved = model({"pieces": given[:, ::-1].copy(), "positions": all_positions[:, ::-1].copy()})
    assert np.abs(moved.numpy() - everywhere).max() > 1e-3


def test_the_rate_grows_and_falls():
    rates = [float(WarmupThenLinear(1.0, 2, 6)(step)) for step in range(8)]
    assert rates == [0.0, 0.5, 1.0, 0.75, 0.5, 0.25, 0.0, 0.0]


def test_both_configurations_end_with_the_longest_sequences():
    for settings in CONFIGURATIONS.values():
        assert settings.phases[-1].length == settings.size.positions
        assert sum(phase.epochs for phase in settings.phases) == pytest.approx(1)


@pytest.mark.long
def test_two_ranks_train_an_epoch_and_save(tmp_path):
    path = tmp_path / "bert.keras"
    command = [*programs.ADASUMRUN, "-np", "2", "--", *TRAIN, f"--data_dir={tmp_path}"]
    done = programs.run(
        [*command, "--epochs=1", f"--save={path}"], LIMIT_SECONDS, CUDA_VISIBLE_DEVICES="-1"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("adasum: 2 workers x 16 sequences of 32 pieces, adam 0.002") == 1
    assert done.stdout.count("adasum: 2 workers x 8 sequences of 64 pieces, adam 0.001") == 1
    losses = [float(value) for value in re.findall(r"val_loss: ([\d.]+)", done.stdout)]
    assert len(losses) == 2 and max(losses) < 6.0, "less than a guess, ln 1000 = 6.9"
    done = programs.run([sys.executable, "-c", LOAD, str(path)], LIMIT_SECONDS)
    assert done.returncode == 0 and "logits (2, 3, 1000)" in done.stdout, done.stdout + done.stderr
