"""Messages that are given up over MPI and go on late meet memory that is nobody else's."""

import sys
from pathlib import Path

import pytest

from tests import programs

HERE = Path(__file__).absolute().parent  # not resolved: what Bazel built is beside the link
RANK_1_STOPS_SECONDS = 6  # in the midst of a large message; rank 0 gives up meanwhile
RANK_0_WAITS_SECONDS = 2
RANK_1_WAITS_SECONDS = 10

# The loopback device, as between hosts: within one, MPI copies a message at one go.
PROGRAM = """
import os, sys, time
from adasumrun import job
rank = int(job.rank())
os.environ["TF_ADASUM_TIMEOUT_SECONDS"] = sys.argv[2 + rank]
import numpy as np
import tensorflow as tf
from mpi4py import MPI
import tf_adasum as adasum

COUNT = 2**24
MPI.COMM_WORLD.Barrier()  # which has no limit: imports may take unlike long
part = adasum.world().split(0)

def broadcast():
    adasum.broadcast(tf.fill([COUNT], rank + 1.0), root=1, communicator=part)

def allreduce():
    adasum.allreduce(tf.fill([COUNT], rank + 1.0), communicator=part)

def arrays():
    adasum.allreduce_arrays([np.full(COUNT, rank + 1, np.float32)], communicator=part)

adasum.allreduce(tf.ones([3]), communicator=part)
try:
    locals()[sys.argv[1]]()
    print(f"RANK{rank} done")
except (tf.errors.OpError, TimeoutError, RuntimeError) as error:  # or the other has given up
    print(f"RANK{rank} {error}".replace("\\n", " "))
part.close()
del part
others = [np.full(COUNT, 7, np.float32) for _ in range(6)]  # where memory was given back
barrier = MPI.COMM_WORLD.Ibarrier()
while not barrier.Test():  # what is late arrives in MPI's progress
    time.sleep(0.01)
print(f"RANK{rank} {sum(int((other != 7).sum()) for other in others)} elements changed")
MPI.COMM_WORLD.Barrier()
"""


@pytest.mark.parametrize("collective", ["broadcast", "allreduce", "arrays"])
def test_late_message_changes_nobodys_memory(tmp_path, collective):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    settings = {
        "TF_ADASUM_SHARED_MEMORY": "0",
        "OMPI_MCA_btl": "self,tcp",
        "OMPI_MCA_pml": "ob1",
        "STALLED_WIRE_SECONDS": str(RANK_1_STOPS_SECONDS),
        "STALLED_WIRE_RANK": "1",
        # Its thread would move the message on.
        "TF_ADASUM_STALL_WARNING_SECONDS": "0",
        "LD_PRELOAD": str(HERE / "stalled_wire.so"),
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    waits = [str(RANK_0_WAITS_SECONDS), str(RANK_1_WAITS_SECONDS)]
    rank = ["env", *(f"{name}={value}" for name, value in settings.items()), sys.executable]
    launcher = [*programs.ADASUMRUN, "-np", "2", "--timeout", "120"]
    done = programs.run([*launcher, *rank, str(program), collective, *waits], 130)
    said = sorted(line for line in done.stdout.splitlines() if line.startswith("RANK"))
    assert done.returncode == 0, done.stdout + done.stderr
    # It was given up, and while the other was in its midst.
    assert any("RANK0" in line and "for rank 1, which said nothing" in line for line in said)
    assert [line for line in said if "changed" in line] == [
        f"RANK{rank} 0 elements changed" for rank in (0, 1)
    ]
