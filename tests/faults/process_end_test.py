"""Ends that are not the rank's own, or not its last, and ranks that MPI does not know of."""

import re
import sys

import pytest

from tests import programs
from tests.faults.ended_programs import HEAD, LIMIT_SECONDS, launch

# Children of rank 0, one after the other, while all ranks go on. `ending` is what a child does.
FORKING = """
def use():
    try:
        total()
    except RuntimeError as error:
        print("USE", error, flush=True)

def ended(child):
    for _ in range(3000):
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    return f"hangs: {os.waitpid(child, 0)}"

def lose():
    raise KeyError("of the child")

codes = {}
for ending in (use, lambda: sys.exit(5), lose):
    child = os.fork() if world.rank == 0 else -1
    if child == 0:
        ending()
        break
    assert total() == world.size
    if child > 0:
        codes[len(codes)] = ended(child)
    assert total() == world.size
else:
    if world.rank == 0:
        with multiprocessing.get_context("fork").Pool(2) as pool:
            print("POOL", pool.map(abs, range(-3, 0)))
        print("CODES", codes)
    assert total() == world.size
    print("RIGHT")
"""


@pytest.mark.long
def test_forked_children_do_not_speak_for_their_rank(tmp_path):
    said = launch(tmp_path, FORKING).splitlines()
    assert "POOL [3, 2, 1]" in said
    # Returns from the main program, sys.exit(5), an exception.
    assert "CODES {0: 0, 1: 5, 2: 1}" in said
    assert said.count("RIGHT") == 2
    (refused,) = (line for line in said if line.startswith("USE"))
    assert "rank 0: Expected the process that joined the group" in refused
    assert "a child that was forked" in refused


# A program that a rank starts has the launcher's variables, and is no rank all the same.
STARTING = """
import subprocess
child = [sys.executable, "-c", "import tf_adasum as adasum; print('TAKEN FOR', adasum.rank())"]
done = subprocess.run(child, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
print(done.stdout.splitlines()[-1].replace(str(os.getpid()), "PARENT"))
assert total() == world.size
print("RIGHT")
"""


@pytest.mark.long
def test_programs_that_a_rank_starts_do_not_join_as_that_rank(tmp_path):
    said = launch(tmp_path, STARTING).splitlines()
    assert said.count("RIGHT") == 2
    for rank in range(2):
        start = f"RuntimeError: Expected rank {rank}'s own process, PARENT. Received: "
        assert sum(line.startswith(start) for line in said) == 1, said


# The program's own mpi4py, before tf_adasum asks for it.
UNSTARTED = "import mpi4py; mpi4py.rc.initialize = False\n"
ENDED = """
from mpi4py import MPI
MPI.Finalize()
import tf_adasum as adasum
try:
    adasum.rank()
except RuntimeError as error:
    print(error)
"""


@pytest.mark.long
def test_mpi_that_nobody_started_is_started(tmp_path):
    said = launch(tmp_path, "print('RIGHT')", head=UNSTARTED + HEAD)
    assert said.splitlines().count("RIGHT") == 2


def test_mpi_that_has_ended_is_refused(tmp_path):
    said = launch(tmp_path, "", head=ENDED).splitlines()
    assert sum(line.startswith("Expected MPI that is not finalized.") for line in said) == 2, said


SIZE = [sys.executable, "-c", "import tf_adasum as adasum; print('SIZE', adasum.size())"]


def test_ranks_that_mpi_does_not_know_of_are_missed():
    """As of `srun --mpi=pmi2`, or another MPI's mpirun: every rank would be rank 0 of 1."""
    unknown = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "3"}
    done = programs.run(SIZE, LIMIT_SECONDS, **unknown)
    assert done.returncode == 1 and done.stdout == ""
    *_, said = done.stderr.splitlines()
    start = "RuntimeError: Expected 3 ranks, as the launcher of this process says. Received: 1, "
    assert said.startswith(start) and said.endswith("or by the mpirun of that MPI."), said


@pytest.mark.parametrize(("task", "lines"), [("0", 1), ("1", 0)])
def test_tasks_of_srun_without_mpi_are_told(task, lines):
    tasks = {"SLURM_STEP_NUM_TASKS": "3", "SLURM_PROCID": task}
    done = programs.run(SIZE, LIMIT_SECONDS, **tasks)
    assert done.stdout == "SIZE 1\n" and done.returncode == 0, done.stderr
    assert done.stderr.count("srun has started 3 tasks of this program without MPI") == lines


FINALIZING = """
from mpi4py import MPI
part = world.split(world.rank % 2)
MPI.Finalize()
for call in (total, lambda: adasum.allreduce(tf.ones([3])), lambda: world.split(0)):
    try:
        call()
    except (RuntimeError, tf.errors.UnavailableError) as error:
        print("CLOSED" if "closed" in str(error) else error)
part.close()
print("END")
"""


@pytest.mark.long
def test_finalized_mpi_closes_communicators(tmp_path):
    for shared_memory in ("1", "0"):
        said = launch(tmp_path, FINALIZING, TF_ADASUM_SHARED_MEMORY=shared_memory).splitlines()
        assert said.count("CLOSED") == 6, said
        assert said.count("END") == 2


# Rank 0 ends while a thread of it waits for rank 1, which comes later.
LEAVING = """
import contextlib
part = world.split(0)
def step():
    adasum.allreduce_arrays(np.ones(10**5), "sum", part, "step")
def ended_step():
    # A daemon thread that prints an error while Python ends may abort it: Python's own limit.
    with contextlib.suppress(RuntimeError):
        step()
step()
if world.rank == 0:
    threading.Thread(target=ended_step, daemon=True).start()
    time.sleep(0.5)
    sys.exit()
time.sleep(2)
try:
    step()
except RuntimeError as error:
    print("SAID", error, flush=True)
"""


@pytest.mark.parametrize("shared_memory", ["1", pytest.param("0", marks=pytest.mark.long)])
def test_a_rank_that_ends_in_the_midst_of_a_wait_is_not_waited_for(tmp_path, shared_memory):
    said = launch(tmp_path, LEAVING, TF_ADASUM_SHARED_MEMORY=shared_memory)
    (line,) = re.findall("^SAID (.*)$", said, re.MULTILINE)
    assert "for rank 0, which takes part in nothing more" in line


EVALUATING = """
import keras

with adasum.AdasumStrategy().scope():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile(adasum.wrap(keras.optimizers.SGD(0.1)), "mse")
x, y = np.ones((4, 2)), np.ones((4, 1))
model.fit(x, y, verbose=0)
if world.rank == 0:
    try:
        model.evaluate(x, y, verbose=0)
    except Exception as error:
        print("SAID", str(error).replace(os.linesep, " "), flush=True)
"""


def test_a_rank_evaluates_when_another_has_ended(tmp_path):
    (said,) = re.findall("^SAID (.*)$", launch(tmp_path, EVALUATING), re.MULTILINE)
    assert "rank 1 has ended" in said and "the next fit, evaluate or predict" in said
