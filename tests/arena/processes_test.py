"""In ranks of adasumrun: processes that they fork and start have nothing to do with the arena."""

import ctypes
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf

from tf_adasum.collectives import native

LIBRARY = "_arena.so"
LIMIT_SECONDS = 100


def _tensor(value, size=1 << 20):
    tensor = tf.fill([size], np.uint8(value))
    view = np.asarray(tensor)
    assert native.lib.in_arena(view)
    return tensor, view


def _in_child(body):
    """Runs it in a forked child, and returns the child's exit code."""
    child = os.fork()
    if child == 0:
        code = 99
        try:
            code = body()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_this_process_has_preloaded_it():
    assert LIBRARY in Path("/proc/self/maps").read_text()
    assert "LD_PRELOAD" not in os.environ
    assert ctypes.CDLL(None).tf_adasum_arena_1 is not None


def test_what_a_child_writes_does_not_reach_its_parent():
    tensor, view = _tensor(7)

    def write():
        ctypes.memset(view.ctypes.data, 1, view.nbytes)
        return int(view.sum() == view.nbytes)

    assert _in_child(write) == 1
    assert (view == 7).all()
    del tensor


def test_a_child_frees_and_makes_tensors_and_forks():
    tensor, view = _tensor(7)

    def use():
        nonlocal tensor, view
        total = int(view[:100].sum())
        del tensor, view
        own = np.ones(1 << 22, np.uint8)
        return _in_child(lambda: total // 100 + int(own[5]))

    assert _in_child(use) == 8
    assert (view == 7).all()


def _read(view):
    return int(view.astype(np.int64).sum())


def test_multiprocessing_forks():
    _, view = _tensor(3)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map_async(_read, [view] * 4).get(LIMIT_SECONDS) == [3 << 20] * 4


def test_multiprocessing_spawns_without_it():
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        maps = pool.apply_async(Path.read_text, (Path("/proc/self/maps"),)).get(LIMIT_SECONDS)
        variable = pool.apply_async(os.getenv, ("LD_PRELOAD", "none")).get(LIMIT_SECONDS)
    assert "python" in maps and LIBRARY not in maps
    assert variable == "none"


def test_programs_start_without_it():
    program = "import os; print(open('/proc/self/maps').read(), os.environ.get('LD_PRELOAD'))"
    for environment in (None, dict(os.environ)):
        command = [sys.executable, "-c", program]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=60, check=True
        )
        assert LIBRARY not in done.stdout and done.stderr == ""
    shell = subprocess.run(
        "echo ${LD_PRELOAD:-none}; cat /proc/self/maps",
        shell=True,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert shell.stdout.startswith("none\n") and LIBRARY not in shell.stdout
