"""A training on two ranks has the same bits with the arena and without it."""

import re

from tests import programs

LIMIT_SECONDS = 250
# Layers with gradients in the arena, and beside it. Says where a tensor lies, too.
PROGRAM = """
import hashlib
import keras, numpy as np, tensorflow as tf, tf_adasum as adasum
from tf_adasum.collectives import native
keras.utils.set_random_seed(1)
strategy = adasum.AdasumStrategy()
with strategy.scope():
    layers = [keras.layers.Dense(size) for size in (300, 200, 9)]
    model = keras.Sequential([keras.Input([200]), *layers])
    model.compile(adasum.wrap(keras.optimizers.Adam()), "mse")
draw = np.random.default_rng(2)
data = draw.normal(size=[256, 200]), draw.normal(size=[256, 9])
model.fit(*data, batch_size=64, epochs=2, verbose=0)
bits = b"".join(weight.tobytes() for weight in model.get_weights())
in_arena = native.lib.in_arena(np.asarray(tf.ones([300_000])))
print("digest", hashlib.sha256(bits).hexdigest(), "arena", in_arena, flush=True)
"""


def _digests(**variables):
    """Of the weights of all ranks, and whether tensors were in the arena."""
    command = [*programs.ADASUMRUN, "-np", "2", "python", "-c", PROGRAM]
    done = programs.run(command, LIMIT_SECONDS, **variables)
    assert done.returncode == 0, done.stderr
    found = re.findall(r"digest (\w+) arena (\w+)", done.stdout)
    assert len(found) == 2, done.stdout
    return found


def test_weights_are_those_without_the_arena():
    (digest, in_arena), other = _digests()
    assert in_arena == "True" and other == (digest, "True")
    assert _digests(TF_ADASUM_ARENA="0") == [(digest, "False")] * 2
