"""An MPI that gives less than MPI_THREAD_MULTIPLE is refused, in words."""

import sys

from tests import programs

PROGRAM = """
import mpi4py
mpi4py.rc.thread_level = "funneled"
import tf_adasum
tf_adasum.world()
"""


def test_less_than_thread_multiple_is_refused():
    done = programs.run([*programs.ADASUMRUN, "-np", "1", sys.executable, "-c", PROGRAM], 100)
    assert done.returncode != 0
    last = done.stderr.strip().splitlines()
    (line,) = [text for text in last if text.startswith("RuntimeError")]
    assert "Expected an MPI that gives MPI_THREAD_MULTIPLE" in line
    assert "Received: thread level 1" in line
