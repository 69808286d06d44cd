"""A process that ends right after `fit` waits for its iterators, and ends well."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
import threading
import time

import keras

import tf_adasum
from tests.training.replicas import endless_examples, small_model, strategy


is_ending = threading.Event()


def end():
    is_ending.set()
    time.sleep(float(sys.argv[1]))
    print("ended", flush=True)


with strategy(2).scope():
    model = small_model()
    model.compile(tf_adasum.wrap(keras.optimizers.SGD(0.01)), loss="mse")
model.fit(endless_examples(end).batch(4), steps_per_epoch=2, verbose=0)
print("fit", flush=True)
is_ending.wait(60)  # what has not begun to end when the process ends is left alone
"""


@pytest.mark.long
@pytest.mark.parametrize(("seconds", "says_so"), [(2, False), (7, True)])
def test_iterators_end_before_the_process(seconds, says_so):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(seconds)],
        check=False,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["fit", "ended"]
    assert ("waits for tf.data to end its iterators" in done.stderr) == says_so
