"""Tensors of 3 GiB lie in the arena where it has room for them, else where they would without."""

import pytest

from tests import programs

LIMIT_SECONDS = 300
PROGRAM = """
import numpy as np, tensorflow as tf, tf_adasum as adasum
from tf_adasum.collectives import native
size = 3 << 30
tensor = tf.fill([size], np.uint8(3))
view = np.asarray(tensor)
assert view[0] == view[size // 2] == view[-1] == 3
print("arena", native.lib.in_arena(view))
"""


@pytest.mark.parametrize(("setting", "expected"), [("5G", "True"), ("1G", "False"), ("0", "False")])
def test_is_served_or_falls_back(setting, expected):
    command = [*programs.ADASUMRUN, "-np", "1", "python", "-c", PROGRAM]
    done = programs.run(command, LIMIT_SECONDS, TF_ADASUM_ARENA=setting)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["arena", expected]
