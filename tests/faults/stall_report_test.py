"""What is said when an operation waits for ranks: once, who is missing, and where they are."""

import json
import re
import sys
import threading

import pytest

from tests import programs

LIMIT_SECONDS = 100

PROGRAM = """
import os, signal, sys, threading, time
from pathlib import Path
import numpy as np
import tf_adasum as adasum

world = adasum.world()

def reduce(name, communicator=None):
    adasum.allreduce_arrays(np.ones(10), "sum", communicator, name)

def linger(*names):
    # Until one of these operations was told of, which the test notes in a file.
    end = time.monotonic() + float(os.environ.get("LINGER", 60))
    files = [Path(__file__).with_name(name) for name in names]
    while time.monotonic() < end and not any(file.exists() for file in files):
        time.sleep(0.05)

def stop():
    # Another process has to wake it.
    if os.fork() == 0:
        linger("stopped")
        os.kill(os.getppid(), signal.SIGCONT)
        os._exit(0)
    os.kill(os.getpid(), signal.SIGSTOP)

def late():
    if world.rank == world.size - 1:
        linger("late")
        time.sleep(3)  # what was told goes to the timelines of all ranks that wait
    reduce("late")

def stopped():
    if world.rank == 0:
        stop()
    reduce("stopped")

def elsewhere():
    names = ["second", "first"] if world.rank == 1 else ["first", "second"]
    threads = [threading.Thread(target=reduce, args=(name,)) for name in names]
    threads[0].start()
    linger("first", "second")
    threads[1].start()
    for thread in threads:
        thread.join()

def parts():
    part = world.split(world.rank % 2, name="part")
    if world.rank == 2:
        linger("in part")
        linger("after part")
    reduce("in part", part)
    reduce("after part")

for _ in range(3):
    reduce("quick")
for how in sys.argv[1:]:
    globals()[how]()
print("done")
"""


def _run(folder, *hows, options=(), **variables):
    path = folder / "program.py"
    path.write_text(PROGRAM)
    launcher = [*programs.ADASUMRUN, "-np", "3", "--timeout", "90", *options]
    said = folder / "said"
    said.touch()
    keep = ["sh", "-c", 'exec "$@" 2>"$0"', str(said)]
    command = [*keep, *launcher, sys.executable, str(path), *hows]
    is_over = threading.Event()
    thread = threading.Thread(target=_note_what_is_told, args=(said, is_over))
    thread.start()
    try:
        done = programs.run(command, LIMIT_SECONDS, TF_CPP_MIN_LOG_LEVEL="3", **variables)
    finally:
        is_over.set()
        thread.join()
    done.stderr = said.read_text()
    return done


def _note_what_is_told(said, is_over):
    """Makes a file of the name of each operation that was told of: its ranks linger no longer."""
    while not is_over.wait(0.05):
        for name in re.findall("'(.*)' has waited", said.read_text()):
            (said.parent / name).touch()


def _reports(done):
    """What was said of each operation, and only once."""
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("done") == 3
    lines = [line for line in done.stderr.splitlines() if line.startswith("tf_adasum: rank")]
    reports = {line.split("'")[1]: line for line in lines}
    assert len(reports) == len(lines), lines
    return reports


def test_missing_ranks_are_named_once_and_with_their_stacks(tmp_path):
    timeline = tmp_path / "timeline.json"
    options = ["--stall-warning=1", f"--timeline={timeline}"]
    done = _run(tmp_path, "late", "elsewhere", "parts", options=options)
    reports = _reports(done)
    # All of the world.
    assert re.match(
        r"tf_adasum: rank 0: 'late' has waited for \d+ s\. There: ranks 0, 1\. "
        r"Missing: rank 2 \(host \S+, process \d+\)",
        reports.pop("late"),
    )
    stack = done.stderr.partition("  Rank 2 is in:\n")[2]
    assert re.search(r'File ".*program.py", line \d+, in linger', stack), done.stderr
    # Ranks that wait for each other.
    unlike = reports.pop("first", None) or reports.pop("second")
    assert re.search(r"Rank \d \(host .*\) waits elsewhere, in '(first|second)'", unlike)
    # A part of the world, of ranks 0 and 2. Rank 1, alone in the other, waits for both meanwhile.
    assert "There: rank 0. Missing: rank 2 (host" in reports.pop("in part")
    assert "There: rank 1. Missing: rank 0 (host" in reports.pop("after part")
    assert not reports
    events = json.loads(timeline.read_text())["traceEvents"]
    stalls = [event for event in events if event["name"].startswith("stall: 'late'")]
    assert sorted(event["pid"] for event in stalls) == [0, 1]
    assert all("Missing: rank 2" in event["name"] for event in stalls)
    assert all(event["dur"] > 1e6 for event in stalls)


@pytest.mark.long
def test_a_rank_that_is_stopped_does_not_answer(tmp_path):
    """Rank 0, which would say it: rank 1 does in its place."""
    options = ["--stall-warning=1"]
    done = _run(tmp_path, "stopped", options=options, TF_ADASUM_SHARED_MEMORY="0")
    report = _reports(done)["stopped"]
    assert report.startswith("tf_adasum: rank 1: 'stopped' has waited for")
    assert "There: ranks 1, 2. No answer: rank 0 (host" in report


@pytest.mark.long
def test_nothing_is_said_where_nobody_wants_it(tmp_path):
    assert _reports(_run(tmp_path, "late", options=["--stall-warning=0"], LINGER="3")) == {}


@pytest.mark.long
def test_a_limit_that_is_no_number_is_refused(tmp_path):
    done = _run(tmp_path, "late", TF_ADASUM_STALL_WARNING_SECONDS="soon")
    assert done.returncode == 1
    assert (
        "Expected a number of seconds from 0 on in TF_ADASUM_STALL_WARNING_SECONDS. "
        "Received: 'soon'. Set it so, or unset it." in done.stderr
    )
