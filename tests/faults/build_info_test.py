"""Importing tf_adasum next to what it was not built for fails with one line."""

import os
import subprocess
import sys

LIMIT_SECONDS = 100

OTHER_VERSION = """
import sys, types
info = types.ModuleType("tf_adasum._build_info")
info.TENSORFLOW_VERSION, info.MPI_LIBRARY, info.MPIRUN = "2.20.0", None, None
sys.modules["tf_adasum._build_info"] = info
import tf_adasum
"""

NOT_BUILT = """
import sys
sys.modules["tf_adasum._build_info"] = None
import tf_adasum
"""


def _last_line(program):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )
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
