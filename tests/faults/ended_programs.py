"""What the tests of ends share: programs of ranks that are well when they begin."""

import sys

from tests import programs

LIMIT_SECONDS = 100
HEAD = """
import multiprocessing, os, signal, sys, threading, time
import numpy as np, tensorflow as tf
import tf_adasum as adasum

world = adasum.world()
def total(communicator=None, name="total"):
    array = np.ones(3)
    adasum.allreduce_arrays(array, "sum", communicator, name)
    return array[0]
assert total() == world.size
"""


def launch(folder, body, ranks=2, head=HEAD, **variables):
    """Runs `head` and `body` on ranks of adasumrun; returns what they said."""
    path = folder / "program.py"
    path.write_text(head + body)
    command = [*programs.ADASUMRUN, "-np", str(ranks), "--timeout", "90", sys.executable, str(path)]
    done = programs.run(command, LIMIT_SECONDS, TF_CPP_MIN_LOG_LEVEL="3", **variables)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
