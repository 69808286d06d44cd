"""A rank that dies in the middle ends the others, and adasumrun says so by its exit code."""

import os
import sys
from pathlib import Path

import pytest

from tests import programs

LIMIT_SECONDS = 100
SHARED_MEMORY_FOLDER = "/dev/shm"
# Longer than the test may take: the ranks must end because one is lost, not because time is up.
SILENCE_SECONDS = 600
RANKS = [pytest.param(2, marks=pytest.mark.long), 3]

PROGRAM = """
import os, signal, sys
import tensorflow as tf
import tf_adasum as adasum

folder, ending = sys.argv[1:]
world = adasum.world()
for step in range(50):
    if step == 5 and world.rank == world.size - 1:
        {endings}[ending]()
    adasum.allreduce(tf.ones([1000]), name="step")
open(os.path.join(folder, f"finished{{world.rank}}"), "w").close()
"""
ENDINGS = """{
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "raise": lambda: {}["the missing key"],
    "exit": lambda: sys.exit(3),
}"""


def _launch(folder, ranks, program, *arguments, silence_seconds=SILENCE_SECONDS):
    path = folder / "program.py"
    path.write_text(program)
    launcher = [*programs.ADASUMRUN, "-np", str(ranks), "--timeout", "90"]
    return programs.run(
        [*launcher, sys.executable, str(path), *arguments],
        LIMIT_SECONDS,
        TF_ADASUM_TIMEOUT_SECONDS=str(silence_seconds),
        TF_CPP_MIN_LOG_LEVEL="3",
    )


def _end_one(folder, ranks, ending, silence_seconds=SILENCE_SECONDS):
    """Runs 50 steps, in the midst of which the last rank ends."""
    program = PROGRAM.format(endings=ENDINGS)
    return _launch(folder, ranks, program, str(folder), ending, silence_seconds=silence_seconds)


def _finished(folder: Path):
    return sorted(path.name for path in folder.glob("finished*"))


@pytest.mark.parametrize("ranks", RANKS)
def test_killed_rank_ends_the_others(tmp_path, ranks):
    done = _end_one(tmp_path, ranks, "kill")
    assert done.returncode in programs.KILLED, done.stderr
    assert _finished(tmp_path) == []


# Arrays from and to which the others copy where they lie, or that they wait for, as it comes.
COPIED = """
import os, signal, threading
import numpy as np
import tf_adasum as adasum

world = adasum.world()
arrays = [np.ones(2**22, np.float32)]
for _ in range(10):
    adasum.allreduce_arrays(arrays, "mean")
if world.rank == world.size - 1:
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGKILL)).start()
while True:
    adasum.allreduce_arrays(arrays, "mean")
"""


@pytest.mark.parametrize("ranks", RANKS)
def test_rank_killed_while_others_copy_from_it_ends_them(tmp_path, ranks):
    done = _launch(tmp_path, ranks, COPIED)
    assert done.returncode not in (0, 124), done.stderr


@pytest.mark.long
@pytest.mark.parametrize("ranks", RANKS)
def test_exception_of_one_rank_ends_the_others(tmp_path, ranks):
    done = _end_one(tmp_path, ranks, "raise")
    assert done.returncode not in (0, 124), done.stderr
    assert "KeyError: 'the missing key'" in done.stdout + done.stderr
    assert _finished(tmp_path) == []


@pytest.mark.parametrize(
    ("ranks", "shared_memory"), [(2, "1"), pytest.param(3, "0", marks=pytest.mark.long)]
)
def test_rank_that_leaves_early_ends_the_others(tmp_path, monkeypatch, ranks, shared_memory):
    """Not an error for MPI, which waits for the others to leave as well; they are told."""
    monkeypatch.setenv("TF_ADASUM_SHARED_MEMORY", shared_memory)
    done = _end_one(tmp_path, ranks, "exit")
    assert done.returncode not in (0, 124), done.stderr
    said = done.stdout + done.stderr
    assert "Expected all ranks to take part in 'step'. Received: " in said
    assert f"Received: rank {ranks - 1} has ended." in said
    assert _finished(tmp_path) == []


LEAVING = """
import sys, time
import tensorflow as tf
import tf_adasum as adasum

world = adasum.world()
halves = world.split(color=world.rank % 2)
adasum.allreduce(tf.ones([3]), name="all")
adasum.allreduce(tf.ones([3]), name="half", communicator=halves)
if world.rank == 0:
    sys.exit(0)
time.sleep(float(sys.argv[1]))  # the others come when rank 0 has left
if world.rank == 2:
    try:
        adasum.allreduce(tf.ones([3]), name="half again", communicator=halves)
    except tf.errors.UnavailableError as error:
        print("HALF", error.message.splitlines()[0])
try:
    adasum.allreduce_arrays([tf.ones([3]).numpy()], "sum", name="all again")
except RuntimeError as error:
    print("ALL", error)
"""


@pytest.mark.long
def test_ranks_that_come_later_are_told_who_left(tmp_path):
    """Also in a group of some ranks; and who catches the error can end as usual."""
    # Longer than a rank that leaves waits for the others.
    done = _launch(tmp_path, 3, LEAVING, "4")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    (half,) = (line for line in lines if line.startswith("HALF"))
    # The world's number, which is what a user can look for: in the group it is rank 1.
    assert "rank 2: Expected all ranks to take part in 'half again'" in half
    assert "Received: rank 0 has ended" in half
    of_all = [line for line in lines if line.startswith("ALL")]
    assert len(of_all) == 2
    assert all("Received: rank 0 has ended" in line for line in of_all)


SILENT = """
import sys
import tensorflow as tf
from mpi4py import MPI
import tf_adasum as adasum

MPI.COMM_WORLD.Barrier()  # which has no limit: imports may take unlike long
adasum.world()
if adasum.rank() == 0:
    try:
        adasum.allreduce(tf.ones([3]), name="lonely")
    except tf.errors.DeadlineExceededError as error:
        print("DEADLINE", error.message.splitlines()[0])
    try:
        adasum.allreduce(tf.ones([3]), name="next")
    except tf.errors.UnavailableError as error:
        print("UNAVAILABLE", error.message.splitlines()[0])
MPI.COMM_WORLD.Barrier()
"""


def test_silent_rank_is_given_up(tmp_path):
    done = _launch(tmp_path, 2, SILENT, silence_seconds=2)
    assert done.returncode == 0, done.stderr
    said = dict(line.split(" ", 1) for line in done.stdout.splitlines() if line[:1].isupper())
    assert "for rank 1, which said nothing" in said["DEADLINE"]
    assert "TF_ADASUM_TIMEOUT_SECONDS" in said["DEADLINE"]
    assert "can't be used any more" in said["UNAVAILABLE"]


# The last rank is killed by itself from outside of the allreduces, somewhere in their midst.
IN_THE_MIDST = """
import os, signal, sys, threading
import tensorflow as tf
import tf_adasum as adasum

folder, seconds = sys.argv[1], float(sys.argv[2])
world = adasum.world()
tensors = [tf.ones([n]) for n in (300_000, 3, 1_000_000)]
adasum.allreduce(tensors)
with open("/proc/self/maps") as maps:
    files = {line.split(maxsplit=5)[5].strip() for line in maps if "/dev/shm" in line}
with open(os.path.join(folder, f"files{world.rank}"), "w") as listing:
    listing.write("\\n".join(files))
if seconds and world.rank == world.size - 1:
    threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGKILL)).start()
for _ in range(10_000_000 if seconds else 5):
    adasum.allreduce(tensors)
open(os.path.join(folder, f"finished{world.rank}"), "w").close()
"""


def _left_behind(folder):
    """Files in /dev/shm that a rank had mapped and that are still there."""
    listings = list(folder.glob("files*"))
    assert len(listings) == 2
    files = {name for listing in listings for name in listing.read_text().split("\n") if name}
    assert all(name.startswith(SHARED_MEMORY_FOLDER) for name in files)
    return [name for name in files if os.path.exists(name)]


@pytest.mark.long
@pytest.mark.parametrize("shared_memory", ["1", "0"])
def test_rank_killed_in_the_midst_leaves_no_file(tmp_path, monkeypatch, shared_memory):
    monkeypatch.setenv("TF_ADASUM_SHARED_MEMORY", shared_memory)
    done = _launch(tmp_path, 2, IN_THE_MIDST, str(tmp_path), "0.5")
    assert done.returncode in programs.KILLED, done.stderr
    assert _finished(tmp_path) == []
    after_the_kill = _left_behind(tmp_path)
    done = _launch(tmp_path, 2, IN_THE_MIDST, str(tmp_path), "0")
    assert done.returncode == 0, done.stderr
    assert _finished(tmp_path) == ["finished0", "finished1"]
    print(f"after the kill: {after_the_kill}")
    assert after_the_kill == []
    assert _left_behind(tmp_path) == []
