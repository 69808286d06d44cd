"""Two ranks that share one GPU train the digits network as they do on the CPU.

Needs a TensorFlow that can use the GPU, and tf_adasum built against it; fails where there is none.
"""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

LIMIT_SECONDS = 250
TOLERANCE = 1e-5
PATHS = {"ipc": {}, "staged": {"TF_ADASUM_CUDA_IPC": "0"}}


def train(device, path, environment):
    command = [sys.executable, "-m", "adasumrun", "-np", "2", "--"]
    command += [sys.executable, "-m", "tests.gpu.train_program", device, str(path)]
    done = subprocess.run(
        [*command, str(path.parent / "datasets")],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "TF_FORCE_GPU_ALLOW_GROWTH": "true",  # or the first rank would take all of it
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(np.load(path))


@pytest.fixture(scope="module")
def on_cpu(tmp_path_factory):
    path = tmp_path_factory.mktemp("cpu") / "trained.npz"
    return train("CPU:0", path, {"CUDA_VISIBLE_DEVICES": "-1"})


@pytest.mark.parametrize("way", PATHS)
def test_two_ranks_on_one_gpu_train_as_on_the_cpu(way, on_cpu, tmp_path):
    on_gpu = train("GPU:0", tmp_path / "trained.npz", {"TF_ADASUM_GPU": "1", **PATHS[way]})
    assert [device[-5:] for device in on_gpu["exchanged"]] == ["GPU:0"]
    assert list(on_cpu["exchanged"]) == ["CPU"]
    assert on_gpu.keys() == on_cpu.keys()
    assert any(name.startswith("weight") for name in on_gpu)
    for name in on_gpu.keys() - {"exchanged"}:
        np.testing.assert_allclose(on_gpu[name], on_cpu[name], rtol=0, atol=TOLERANCE, err_msg=name)


ZEROS = """
import tensorflow as tf
from tf_adasum.collectives.zeros_if import zeros_if

with tf.device("GPU:0"):
    value = tf.range(1.0, 1e6)
for function in (zeros_if, tf.function(zeros_if)):
    for is_zero in (False, True):
        result = function(tf.constant(is_zero), value)
        assert "GPU:0" in result.device
        tf.debugging.assert_equal(result, value * (0.0 if is_zero else 1.0))
"""


def test_zeros_take_a_gradients_place_on_the_gpu():
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", ZEROS]
    subprocess.run(command, env=environment, timeout=LIMIT_SECONDS, check=True)
