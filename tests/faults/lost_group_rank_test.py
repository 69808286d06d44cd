"""A rank that dies among groups that nobody waits in ends the others, as it does everywhere."""

import sys

import pytest

from tests import programs

LIMIT_SECONDS = 100
# A stopped rank is given up after so long; the others must end because they notice, and not because
# time is up.
SILENCE_SECONDS = 5

PROGRAM = """
import os, signal, sys
import tensorflow as tf
from mpi4py import MPI
import tf_adasum as adasum
from tf_adasum.collectives.partial_allreduce import PartialAllreduce

folder, ending = sys.argv[1:]
MPI.COMM_WORLD.Barrier()  # which has no limit: imports may take unlike long
world = adasum.world()
endings = {
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "raise": lambda: {}["the missing key"],
    "exit": lambda: sys.exit(3),
    "stop": lambda: os.kill(os.getpid(), signal.SIGSTOP),
}
groups = PartialAllreduce(world, "test", 2)
try:
    for call in range(100_000):
        if call == 5 and world.rank == world.size - 1:
            endings[ending]()
        groups.reduce([tf.ones([1000])], ["mean"])
except tf.errors.OpError as error:
    print("ENDED", type(error).__name__, error.message.splitlines()[0], flush=True)
    sys.exit(7)
open(os.path.join(folder, f"finished{world.rank}"), "w").close()
"""
# What the exit code of the job is, and what a rank says where it is not ended before.
ENDINGS = {
    "kill": (programs.KILLED, None),
    "raise": (None, None),
    "exit": (None, "UnavailableError"),
    "stop": (None, "DeadlineExceededError"),
}


@pytest.mark.parametrize(
    ("ending", "ranks", "shared_memory"),
    [
        pytest.param("kill", 3, "1", marks=pytest.mark.long),
        ("raise", 2, "1"),
        pytest.param("exit", 3, "1", marks=pytest.mark.long),
        pytest.param("exit", 4, "0", marks=pytest.mark.long),
        pytest.param("stop", 3, "1", marks=pytest.mark.long),
    ],
)
def test_a_lost_rank_ends_the_others(tmp_path, ending, ranks, shared_memory):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    launcher = [*programs.ADASUMRUN, "-np", str(ranks), "--timeout", "90"]
    done = programs.run(
        [*launcher, sys.executable, str(path), str(tmp_path), ending],
        LIMIT_SECONDS,
        TF_ADASUM_SHARED_MEMORY=shared_memory,
        TF_ADASUM_TIMEOUT_SECONDS=str(SILENCE_SECONDS),
        TF_CPP_MIN_LOG_LEVEL="3",
    )
    codes, error = ENDINGS[ending]
    assert done.returncode not in (0, 124), done.stderr
    assert codes is None or done.returncode in codes
    assert error is None or f"ENDED {error}" in done.stdout + done.stderr
    assert not list(tmp_path.glob("finished*"))
