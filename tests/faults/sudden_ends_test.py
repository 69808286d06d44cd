"""One rank of three ends suddenly, in all ways and at all points: the others end soon after it.

Nothing is left: no process, no file of Open MPI's or in /dev/shm, no half-written backup under its
name. A host that vanishes is in //tests/hosts, a full disk in full_disk_test, restarts in
//tests/adasumrun:restart_test and resumed_job_test.
"""

from __future__ import annotations

import concurrent.futures
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import h5py
import pytest

from tests import programs

RANKS = 3
REQUIRED_SECONDS = 30
SILENCE_SECONDS = 8  # after which a rank that is stopped is taken for lost
LIMIT_SECONDS = 200

PROGRAM = """
import os, signal, sys, threading, time
from adasumrun import job

folder, point, end, victim = sys.argv[1:]
rank = int(job.rank())

def note(name):
    hidden = f"{folder}/.{name}.{rank}"
    with open(hidden, "x") as file:
        file.write(repr(time.time()))
    os.link(hidden, f"{folder}/{name}")  # whole: the rank may be killed at any moment

def raise_error():
    raise KeyError("the missing key")

def send(number):
    os.kill(os.getpid(), number)

ENDS = {
    "sys.exit(3)": lambda: sys.exit(3),
    "sys.exit(0)": lambda: sys.exit(0),
    "os._exit(3)": lambda: os._exit(3),
    "os._exit(0)": lambda: os._exit(0),
    "exception": raise_error,
    "SIGKILL": lambda: send(signal.SIGKILL),
    "SIGSEGV": lambda: send(signal.SIGSEGV),
    "SIGSTOP": lambda: send(signal.SIGSTOP),
}

def end_here(*_):
    note("ended")
    ENDS[end]()

def at(here):
    if here == point and rank == int(victim) and not os.path.exists(f"{folder}/ended"):
        end_here()

at("before import")
import keras, numpy as np, tensorflow as tf
import tf_adasum as adasum
from tf_adasum.callbacks.training_file import TrainingWriter
from tf_adasum.callbacks.replica_state import ReplicaState

at("after import")
note(f"arrived{rank}")

def exchange():
    world, tensors = adasum.world(), [tf.ones([n]) for n in (300_000, 3, 1_000_000)]
    adasum.allreduce(tensors)
    if rank == int(victim):
        if end.startswith("sys") or end == "exception":  # in the main thread, while it waits
            signal.signal(signal.SIGALRM, end_here)
            signal.setitimer(signal.ITIMER_REAL, 0.5)
        else:
            threading.Timer(0.5, end_here).start()
    while True:
        adasum.allreduce(tensors)

class Train(keras.callbacks.Callback):
    stops_nothing = True
    saves = False

    def on_train_batch_end(self, batch, logs=None):
        if batch == 3:
            at("between steps")
            Train.saves = True  # the second save is the one that is disturbed

add, collect = TrainingWriter.add, ReplicaState.collect

def add_and_end(self, group, path, value):
    add(self, group, path, value)
    if Train.saves and "kernel" in path:
        at("writing a save")

def collect_and_end(self, variable):
    if Train.saves and "kernel" in variable.path:
        at("sending for a save")
    return collect(self, variable)

TrainingWriter.add, ReplicaState.collect = add_and_end, collect_and_end
if point == "in an exchange":
    exchange()
keras.utils.set_random_seed(3)
with adasum.AdasumStrategy().scope():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8)])
    at("making variables")
    model.add(keras.layers.Dense(8))
    model.compile(adasum.wrap(keras.optimizers.Adam(0.01)), loss="mse")
x = np.random.default_rng(0).normal(size=(96, 4)).astype("float32")
y = np.repeat(np.sin(x), 2, axis=1)
backup = adasum.callbacks.BackupAndRestore(f"{folder}/backup", save_freq=2)
model.fit(x, y, batch_size=12, epochs=2, verbose=0, callbacks=[Train(), backup])
at("after fit")
"""

# Which rank ends: rank 0 is the one that writes saves.
VICTIMS = {
    "before import": 1,
    "after import": 1,
    "making variables": 0,
    "between steps": 2,
    "in an exchange": 1,
    "writing a save": 0,
    "sending for a save": 1,
    "after fit": 1,
}
SAVED = {"between steps", "writing a save", "sending for a save"}  # there is one before
ENDS = ("sys.exit(3)", "sys.exit(0)", "os._exit(3)", "os._exit(0)", "exception")
ENDS += ("SIGKILL", "SIGSEGV", "SIGSTOP")
# Of a program that is done, sys.exit is no sudden end.
CELLS = [(p, e) for p in VICTIMS for e in ENDS if p != "after fit" or not e.startswith("sys")]
SOME = [  # the others run with make test-full
    ("before import", "sys.exit(0)"),
    ("after import", "SIGSTOP"),
    ("between steps", "os._exit(0)"),
    ("writing a save", "SIGKILL"),
]


class Ended(NamedTuple):
    """How a job ended.

    Attributes:
        code: exit code of adasumrun.
        said: on stdout and stderr.
        seconds: from the rank's end, or from when the last of the others came to MPI's start.
        processes: that are left.
        files: that are left, of Open MPI's and in /dev/shm.
        backup: the files in the backup's folder.
        header: of the file under its name, if there is one.
    """

    code: int
    said: str
    seconds: float
    processes: list[str]
    files: list[str]
    backup: list[str]
    header: dict


def _run(cell: tuple[str, str]) -> Ended:
    point, end = cell
    with tempfile.TemporaryDirectory(prefix="ends", dir="/tmp") as name:  # short, for sockets
        folder = Path(name)
        (folder / "tmp").mkdir()
        (folder / "program.py").write_text(PROGRAM)
        shared = set(os.listdir("/dev/shm"))
        launcher = [*programs.ADASUMRUN, "-np", str(RANKS), "--timeout=120", sys.executable]
        run = programs.run(
            [*launcher, str(folder / "program.py"), name, point, end, str(VICTIMS[point])],
            LIMIT_SECONDS,
            TF_ADASUM_TIMEOUT_SECONDS=str(SILENCE_SECONDS),
            TF_CPP_MIN_LOG_LEVEL="3",
            TMPDIR=str(folder / "tmp"),
        )
        return _ended(run, time.time(), folder, shared)


def _ended(run: subprocess.CompletedProcess, now: float, folder: Path, shared: set) -> Ended:
    times = [float(path.read_text()) for path in folder.glob("arrived*")]
    assert (folder / "ended").exists(), run.stdout + run.stderr
    times.append(float((folder / "ended").read_text()))
    files = [str(path) for path in (folder / "tmp").rglob("*")]
    # Twice: what a job that begins has just made it is about to map.
    files += _unused(_unused(set(os.listdir("/dev/shm")) - shared))
    backup, header = folder / "backup", {}
    if (backup / "training.h5").exists():
        with h5py.File(backup / "training.h5") as file:
            header = json.loads(file["header"][()].tobytes())
            assert len(file["state"]) == len(header["state"])
    return Ended(
        run.returncode,
        run.stdout + run.stderr,
        now - max(times),
        programs.running(str(folder)),
        files,
        sorted(os.listdir(backup)) if backup.exists() else [],
        header,
    )


def _unused(names: set[str]) -> set[str]:
    """Those files in /dev/shm that no process has mapped: other jobs' go on, or end meanwhile."""
    maps = b""
    for path in Path("/proc").glob("[0-9]*/maps"):
        try:
            maps += path.read_bytes()
        except OSError:
            continue  # it has just ended
    return {name for name in names if name.encode() not in maps and Path("/dev/shm", name).exists()}


@pytest.fixture(scope="module")
def jobs(request):
    """All cells that are asked for, two at a time: they wait for most of their time."""
    items = [item for item in request.session.items if "jobs" in item.fixturenames]
    cells = [item.callspec.params["cell"] for item in items]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        yield {cell: pool.submit(_run, cell) for cell in cells}


def _expected_codes(end: str) -> set[int]:
    """Who is first decides: the one that ended, or those that were told and failed by it."""
    if end in ("SIGKILL", "SIGSEGV"):
        return {128 + signal.Signals[end]}
    return {1, 3} if "3" in end else {1}


def _expected_words(point: str, end: str) -> str:
    """A regular expression of what is said to the user."""
    victim, is_stopped = VICTIMS[point], end == "SIGSTOP"
    is_early = point in ("before import", "after import")
    start = r"Expected all ranks to start MPI.* within 8 s \(TF_ADASUM_TIMEOUT_SECONDS\)"
    stopped = rf"adasumrun: rank {victim} \(process .* stopped for .* s \(TF_ADASUM_TIMEOUT_SECONDS"
    # The second is mpirun's, if another rank was faster.
    before = r"adasumrun: another rank has ended before it started MPI|exiting\s+improperly"
    cases = [
        (end == "exception", "'the missing key'"),  # what goes wrong with a file is an OSError
        (is_stopped and is_early, start),
        (is_stopped and point == "after fit", stopped),
        (is_stopped, f"rank {victim}, which said nothing"),
        (is_early and "(0)" in end, before),
        (not is_early and "sys" in end, f"Received: rank {victim} has ended"),
        (True, "^prterun "),
    ]
    return next(words for applies, words in cases if applies)


def _check(cell: tuple[str, str], ended: Ended) -> None:
    point, end = cell
    print(f"CELL {point} | {end} | {ended.code} | {ended.seconds:.1f} s")
    assert ended.code in _expected_codes(end), ended.said
    assert re.search(_expected_words(point, end), ended.said, re.MULTILINE), ended.said
    assert ended.processes == []
    assert ended.files == []
    assert ended.seconds < REQUIRED_SECONDS
    kept = [name for name in ended.backup if name != "training.h5.partial"]
    assert kept == (["training.h5"] if point in SAVED else [])
    assert point not in SAVED or ended.header["batch"] in (2, 4)


@pytest.mark.parametrize("cell", SOME, ids=" by ".join)
def test_sudden_end(jobs, cell):
    """Found out by adasumrun, by the limit of MPI's start, and by mpirun."""
    _check(cell, jobs[cell].result())


@pytest.mark.parametrize("cell", [cell for cell in CELLS if cell not in SOME], ids=" by ".join)
def test_every_other_sudden_end(jobs, cell):
    _check(cell, jobs[cell].result())
