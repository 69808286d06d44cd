"""Processes of any name, adasumrun's or others of the machine, are no hindrance to a job.

Linux keeps 15 bytes of a name, which may end inside of a letter.
"""

import os
import shutil
import signal
import subprocess
import time

import pytest

from adasumrun import process_tree, requests

LIMIT_SECONDS = 30


@pytest.fixture
def named_process(tmp_path):
    program = shutil.copy(shutil.which("sleep"), tmp_path / "тренировка-сети")
    process = subprocess.Popen([program, "600"])
    try:
        end = time.monotonic() + LIMIT_SECONDS
        while not _is_cut(process.pid):  # it gets its name a moment after it has begun
            assert time.monotonic() < end
            time.sleep(0.01)
        yield process.pid
    finally:
        process.kill()
        process.wait()


def _is_cut(process):
    with open(f"/proc/{process}/comm", "rb") as file:
        name = file.read()
    try:
        name.decode()
    except UnicodeDecodeError:
        return True
    return False


def test_a_name_that_is_cut_inside_of_a_letter(named_process):
    assert named_process in process_tree.descendants(os.getpid())
    assert process_tree.parent(named_process) == os.getpid()
    assert not process_tree.is_stopped(named_process)


def test_signals_that_such_a_process_catches(named_process):
    assert not requests.catches(named_process, signal.SIGTERM)
