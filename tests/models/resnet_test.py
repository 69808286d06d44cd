"""Residual networks and their textures, and the training script on two real ranks."""

from __future__ import annotations

import re
import sys

import keras
import numpy as np
import pytest

import models.resnet.dataset  # noqa: F401 (makes its name known)
from models.common import datasets
from models.resnet import network
from models.resnet.dataset import builder as textures
from models.resnet.images import Images
from tests import programs

LIMIT_SECONDS = 200
TRAIN = [sys.executable, "-m", "models.resnet.train"]
# Whoever uses the model needs neither MPI nor tf_adasum.
LOAD = """
import sys
sys.modules["tf_adasum"] = sys.modules["adasumrun"] = None
import keras, numpy
model = keras.models.load_model(sys.argv[1], compile=False)
print("logits", model(numpy.zeros((2, 12, 12, 3), numpy.float32)).shape)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("resnet")


@pytest.fixture(scope="module")
def prepared(folder):
    return datasets.prepared("textures", str(folder))


def test_resnet_50_has_the_published_parameters():
    """25,557,032 with the scales and shifts: torchvision's table for ResNet50_Weights."""
    model = network.build((224, 224, 3), 1000, network.RESNET_50)
    assert sum(int(np.prod(w.shape)) for w in model.trainable_weights) == 25_557_032
    strides = {
        (layer.kernel_size[0], layer.strides[0])
        for layer in model.layers
        if isinstance(layer, keras.layers.Conv2D) and layer.strides[0] > 1
    }
    # The first convolution, the blocks' second ones and the shortcuts'.
    assert strides == {(7, 2), (3, 2), (1, 2)}
    halving = [layer for layer in model.layers if getattr(layer, "strides", None) == (2, 2)]
    assert sorted(layer.kernel_size[0] for layer in halving if hasattr(layer, "filters")) == [
        *[1] * 3,
        *[3] * 3,
        7,
    ]


def test_a_block_starts_as_the_identity():
    inputs = keras.Input((4, 4, 8))
    outputs = network.Layers(0.0, synchronized=False).block(inputs, 8, 1, bottleneck=False)
    image = np.abs(np.random.default_rng(0).standard_normal((2, 4, 4, 8))).astype(np.float32)
    np.testing.assert_array_equal(keras.Model(inputs, outputs)(image), image)


def test_weight_decay_is_half_the_square():
    model = network.build((12, 12, 3), 10, network.RESNET_8, weight_decay=0.1)
    kernels = [w for w in model.trainable_weights if w.path.endswith("kernel")]
    expected = 0.05 * sum(np.sum(np.square(w.numpy(), dtype=np.float64)) for w in kernels)
    assert float(sum(model.losses)) == pytest.approx(expected, rel=1e-5)


def test_classes_are_alike_often_and_splits_differ(prepared):
    images = Images(prepared, label_smoothing=0.1)
    assert images.shape == (12, 12, 3) and images.num_classes == 10
    seen = set()
    for split, number in textures.SPLITS.items():
        pixels, weights = zip(*images.in_order(split, 500))
        counts = np.bincount(np.concatenate(weights).argmax(1), minlength=10)
        assert set(counts) == {number // 10}
        rows = {row.tobytes() for row in np.concatenate(pixels)}
        assert len(rows) == number and not seen & rows
        seen |= rows


def test_training_labels_are_smoothed(prepared):
    (pixels, weights) = next(iter(Images(prepared, 0.1).shuffled(32, seed=1)))
    assert np.abs(pixels).max() <= 1 and pixels.shape == (32, 12, 12, 3)
    np.testing.assert_allclose(np.sort(weights, axis=1), [[0.01] * 9 + [0.91]] * 32, atol=1e-6)


@pytest.mark.long
def test_two_ranks_train_an_epoch_and_save(folder, prepared):
    path = folder / "model.keras"
    command = [*programs.ADASUMRUN, "-np", "2", "--", *TRAIN, f"--data_dir={folder}"]
    done = programs.run(
        [*command, "--epochs=1", "--norm=synchronized", f"--save={path}"],
        LIMIT_SECONDS,
        CUDA_VISIBLE_DEVICES="-1",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("adasum: 2 workers x 16 images, momentum 0.1, 1 epochs of 125") == 1
    (accuracy,) = re.findall(r"val_accuracy: ([\d.]+)", done.stdout)
    assert 0.1 < float(accuracy) < 0.6, "it has begun to learn, and one epoch does not solve it"
    done = programs.run([sys.executable, "-c", LOAD, str(path)], LIMIT_SECONDS)
    assert done.returncode == 0 and "logits (2, 10)" in done.stdout, done.stdout + done.stderr
