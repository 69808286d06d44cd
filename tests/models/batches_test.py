"""Shifts, standardisation, and that an epoch holds every example once."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from models.digits.batches import ShiftedImages
from models.digits.image_set import Split

HEIGHT, WIDTH, CHANNELS = 4, 5, 2


@pytest.fixture
def split():
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (7, HEIGHT, WIDTH, CHANNELS), np.uint8)
    return Split(images, np.arange(7))


def shifted(image, down, right):
    """The image moved by whole pixels; what moves in is black."""
    moved = np.zeros_like(image)
    target = moved[max(down, 0) : HEIGHT + down, max(right, 0) : WIDTH + right]
    source = image[max(-down, 0) : HEIGHT - down, max(-right, 0) : WIDTH - right]
    target[: source.shape[0], : source.shape[1]] = source
    return moved


@pytest.mark.parametrize("shift", [0, 1, 2])
def test_every_image_in_every_displacement_once(split, shift):
    examples = ShiftedImages(split, shift)
    moves = range(-shift, shift + 1)
    assert len(examples) == 7 * len(moves) ** 2
    pixels, labels = examples.at(tf.range(len(examples)))
    pixels = pixels.numpy() * split.images.std() + split.images.mean()
    got = {(int(n), np.round(p).astype(np.uint8).tobytes()) for n, p in zip(labels, pixels)}
    want = {
        (n, shifted(image, down, right).tobytes())
        for n, image in enumerate(split.images)
        for down in moves
        for right in moves
    }
    assert got == want


def test_pixels_are_standardised_by_the_training_split(split):
    pixels, _ = ShiftedImages(split).at(tf.range(7))
    assert abs(np.mean(pixels)) < 1e-6 and abs(np.std(pixels) - 1) < 1e-6
    brighter = Split(split.images // 2 + 100, split.labels)
    test_pixels, _ = ShiftedImages(brighter, statistics=split).at(tf.range(7))
    want = (brighter.images - split.images.mean()) / split.images.std()
    np.testing.assert_allclose(test_pixels, want, rtol=1e-5, atol=1e-5)


def test_an_epoch_holds_every_example_once_in_a_new_order(split):
    examples = ShiftedImages(split, 1)
    batches = examples.shuffled(9)
    assert len(batches) == 7

    def epoch():
        return [tuple(row.numpy().ravel()) for images, _ in batches for row in images]

    first, second = epoch(), epoch()
    whole = [tuple(row.numpy().ravel()) for row in examples.at(tf.range(len(examples)))[0]]
    assert sorted(first) == sorted(second) == sorted(whole)
    assert first not in (second, whole)


def test_odd_rest_is_left_out_of_training_but_not_of_testing(split):
    examples = ShiftedImages(split, 1)
    assert [len(labels) for _, labels in examples.shuffled(25)] == [25, 25]
    assert [len(labels) for _, labels in examples.in_order(25)] == [25, 25, 13]
