"""Importing tf_adasum next to what it was not built for fails with one line."""

import sys

from tests import programs

LIMIT_SECONDS = 100

OTHER_VERSION = """
import sys, types
info = types.ModuleType("adasumrun._build_info")
info.TENSORFLOW_VERSION, info.MPI_LIBRARY, info.MPIRUN = "2.20.0", None, None
sys.modules["adasumrun._build_info"] = info
import tf_adasum
"""

NOT_BUILT = """
import sys
sys.modules["adasumrun._build_info"] = None
import tf_adasum
"""


def _last_line(program):
    done = programs.run([sys.executable, "-c", program], LIMIT_SECONDS)
    assert done.returncode == 1
    return done.stderr.strip().splitlines()[-1]


def test_other_tensorflow():
    import tensorflow as tf

    # The whole of the message in the last line: one line.
    assert _last_line(OTHER_VERSION) == (
        "ImportError: tf_adasum was built against TensorFlow 2.20.0. Received: TensorFlow "
        f"{tf.__version__}. Install that version, or build again with "
        "`./configure.py && make build`."
    )


def test_not_built():
    last = _last_line(NOT_BUILT)
    assert last.startswith("ImportError: tf_adasum was not built")
    assert "make build" in last
