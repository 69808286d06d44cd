"""Waits in groups of ranks: errors name ranks of the world, and no wait outlives whom it is for."""

import re

import pytest

from tests import programs

LIMIT_SECONDS = 100
# Nobody waits so long but in the case that is about it.
SILENCE_SECONDS = 30

HEAD = """
import os, resource, signal, sys, threading, time
import numpy as np, tensorflow as tf
from mpi4py import MPI
import tf_adasum as adasum

MPI.COMM_WORLD.Barrier()  # which has no limit: imports may take unlike long
world = adasum.world()

def total(communicator):
    communicator.allreduce_arrays(np.ones(3), "sum", "total")

def say(what):
    begin = time.monotonic()
    try:
        what()
    except BaseException as error:
        text = " ".join(str(error).split())
        seconds = int(time.monotonic() - begin)
        print("SAID", world.rank, seconds, type(error).__name__, text, flush=True)
"""


def _said(folder, body, ranks=3, **variables) -> list[tuple[int, int, str]]:
    """Who said what, and after how many seconds, in the order of ranks."""
    path = folder / "program.py"
    path.write_text(HEAD + body)
    command = [*programs.ADASUMRUN, "-np", str(ranks), "--timeout", "90", "python", str(path)]
    variables = {"TF_ADASUM_TIMEOUT_SECONDS": str(SILENCE_SECONDS), **variables}
    done = programs.run(command, LIMIT_SECONDS, TF_CPP_MIN_LOG_LEVEL="3", **variables)
    lines = re.findall(r"^SAID (\d) (\d+) (.*)$", done.stdout, re.MULTILINE)
    assert lines, done.stdout + done.stderr
    return sorted((int(rank), int(seconds), text) for rank, seconds, text in lines)


SILENT = """
color = 0 if world.rank > 0 else None
groups = [
    world.split(color, name=f"group {shared}", options={"shared_memory": shared})
    for shared in (True, False)
]
if world.rank == 1:
    for group in groups:
        say(lambda: total(group))
else:
    time.sleep(20)
"""


def test_a_wait_in_a_group_names_the_rank_of_the_world(tmp_path):
    """World rank 2 is number 1 of its group: the one who waits is that in the world."""
    said = _said(tmp_path, SILENT, TF_ADASUM_TIMEOUT_SECONDS="6")
    assert [rank for rank, _, _ in said] == [1, 1]
    assert all("for rank 2, which said nothing" in text for _, _, text in said)


CLOSING = """
group = world.split(0 if world.rank > 0 else None)
unlike = world.split(0 if world.rank > 0 else None)
if world.rank > 0:
    say(lambda: unlike.allreduce_arrays(np.ones(world.rank), "sum", "total"))
if world.rank == 2:
    group.close()
    say(lambda: total(group))
elif world.rank == 1:
    say(lambda: total(group))
"""


def test_other_errors_of_a_group_name_the_rank_of_the_world_too(tmp_path):
    said = [(rank, text) for rank, _, text in _said(tmp_path, CLOSING)]
    unlike = "float64 tensors [1] from 1 replicas; rank 2 passed allreduce(sum) of 1 "
    assert [unlike in text for _, text in said].count(True) == 2, said
    for rank in (1, 2):
        (text,) = (text for of, text in said if of == rank and unlike not in text)
        assert f" rank {rank}: " in text
        assert rank == 2 or "Received: rank 2 has closed this communicator" in text


LACKING = """
total(world)
world.split(0).close()
if world.rank == 1:
    num_bytes = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (num_bytes + (1 << 20), most))
    done = threading.Event()
    try:
        # The C library keeps stacks of threads that have ended: these threads take them all.
        while True:
            threading.Thread(target=done.wait, daemon=True).start()
    except RuntimeError:
        say(lambda: world.split(0, name="group"))
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    done.set()
    total(world)
else:
    group = world.split(0, name="group")
    say(lambda: total(group))
    total(world)
"""


def test_a_rank_that_cannot_join_a_group_is_not_waited_for(tmp_path):
    """For want of a thread, and so when the others have their end of the group already."""
    first, lacking, last = _said(tmp_path, LACKING)
    assert "Expected a thread for rank 1" in lacking[2]
    for _, seconds, text in (first, last):
        assert "for rank 1, which takes part in nothing more" in text
        assert seconds < SILENCE_SECONDS


# World rank 2 is number 0 of the group, and 1 is number 1.
TRAINING = """
import keras
from tf_adasum.collectives.allreduce_replicas import allreduce_replicas

group = world.split(0 if world.rank > 0 else None, key=-world.rank)

def fit(epochs=1):
    x = np.zeros((8, 3), np.float32)
    model.fit(x, x[:, :1], batch_size=4, epochs=epochs, verbose=0)

def unlike_weights():
    fit()
    if world.rank == 1:
        model.layers[0].bias.assign([7.0])
    fit()

def rows_of_a_dataset():
    tf.random.set_seed(world.rank)
    rows = tf.data.Dataset.range(8).shuffle(8).batch(4)
    strategy.experimental_distribute_dataset(rows)

if group is not None:
    strategy = adasum.AdasumStrategy(communicator=group)
    with strategy.scope():
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        model.compile(adasum.wrap(keras.optimizers.SGD(0.1)), "mse")
    say(lambda: fit(epochs=world.rank))
    say(unlike_weights)
    say(rows_of_a_dataset)
    say(lambda: adasum.AdasumStrategy(communicator=group, batch_share=[1, world.rank]))
    leaves = [[tf.ones([3])]]
    say(lambda: allreduce_replicas(leaves, "sum", group, "counts", replica_counts=[2, 2]))
"""


def test_errors_of_a_training_in_a_group_name_ranks_of_the_world(tmp_path):
    expected = (
        "epochs on all ranks when fit begins. Received: 2 on rank 2, 1 on rank 1",
        "differ on rank 1, while rank 2's are as all ranks had them",
        "rank 1 shuffles it by seeds of its own, [(1, ",
        "[1.0, 2.0] on rank 2, [1.0, 1.0] on rank 1",
        "with 1 for rank {rank}. Received: [2, 2]",
    )
    said = _said(tmp_path, TRAINING)
    for rank in (1, 2):
        texts = [text for of, _, text in said if of == rank]
        assert len(texts) == len(expected), texts
        for text in expected:
            own = text.replace("{rank}", str(rank))
            assert any(f" rank {rank}: Expected" in each and own in each for each in texts), said


# Rank 0 sends to rank 2, which is interrupted, and receives from rank 1 alone.
INTERRUPTED = """
rows = 1 << 8
splits = {0: [0, 0, rows], 1: [rows, 0, 0], 2: [0, 0, 0]}[world.rank]
values = tf.zeros([sum(splits), 1 << 18])
adasum.alltoall(values[:0], splits=[0, 0, 0])
if world.rank == 2:
    threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    say(lambda: (adasum.alltoall(values, splits=splits), time.sleep(60)))
else:
    say(lambda: (adasum.alltoall(values, splits=splits), total(world)))
"""


@pytest.mark.long
def test_who_sends_to_a_rank_that_left_is_not_waited_for(tmp_path):
    variables = {"OMPI_MCA_btl": "tcp,self", "TF_ADASUM_SHARED_MEMORY": "0"}
    *others, interrupted = _said(tmp_path, INTERRUPTED, **variables)
    assert interrupted[2].startswith("KeyboardInterrupt")
    assert len(others) == 2
    for _, seconds, text in others:
        assert "takes part in nothing more" in text
        assert seconds < SILENCE_SECONDS
