"""Communication hides behind the backward pass: buckets leave as soon as their gradients exist.

Real ranks train a model of 10 layers with `fit`. Each layer has 1 MiB of gradients, which a
slowed-down MPI (slow_wire.cc) carries in 8 ms. The last gradient of the backward pass waits until
those of the others are sent. Printed besides: the time of a step whose backward pass sleeps 10 ms
in each layer.
"""

import json
import sys
from pathlib import Path

import pytest

from tests import programs

HERE = Path(__file__).absolute().parent  # not resolved: what Bazel built is beside the link
LAYERS = 10
BACKWARD_SECONDS = 0.100
COMMUNICATION_SECONDS = 0.080
LAYER_BYTES = 2**20
RANKS = 2  # each sends as many bytes as it has


@pytest.fixture(scope="module")
def measured():
    program = [str(HERE / "overlap_program.py"), str(BACKWARD_SECONDS / LAYERS), str(LAYERS)]
    settings = {
        "TF_ADASUM_SHARED_MEMORY": "0",
        "SLOW_WIRE_BYTES_PER_SECOND": str(LAYERS * LAYER_BYTES / COMMUNICATION_SECONDS),
        "LD_PRELOAD": str(HERE / "slow_wire.so"),
    }
    launcher = [*programs.ADASUMRUN, "-np", str(RANKS), "--timeout", "150"]
    # Only the ranks get the settings: the launcher is no MPI program.
    rank = ["env", *(f"{name}={value}" for name, value in settings.items()), sys.executable]
    done = programs.run([*launcher, *rank, *program], 160)
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("{")]
    print(line)
    return json.loads(line)


def test_the_wire_is_as_slow_as_it_should_be(measured):
    assert measured["seconds"]["communication"] >= COMMUNICATION_SECONDS


@pytest.mark.parametrize("mode", ["gradient", "delta"])
def test_buckets_leave_before_the_last_gradient_exists(measured, mode):
    assert measured["bytes sent early"][f"{mode} bucketed"] >= (LAYERS - 1) * LAYER_BYTES


@pytest.mark.parametrize("mode", ["gradient", "delta"])
def test_one_bucket_waits_for_the_whole_backward_pass(measured, mode):
    # What the tests above would see if nothing overlapped. The first bucket closes at 1 MiB anyhow.
    assert measured["bytes sent early"][f"{mode} whole"] < 2 * LAYER_BYTES
    assert measured["seconds"][f"{mode} whole"] >= BACKWARD_SECONDS + COMMUNICATION_SECONDS
