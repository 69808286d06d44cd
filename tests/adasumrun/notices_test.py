"""What mpirun says ends a job only where it is this job's mpirun that says it."""

import os
import socket
import subprocess
import sys
import types

import pytest

from adasumrun import counted_time, process_tree, rank_output, rank_watch
from adasumrun.notices import ENDS_JOB, LOST_HOST, Finder, Notices
from tests import programs

LIMIT_SECONDS = 60
HERE = socket.gethostname()
STARTED = os.getpid()
# As Open MPI 5.0 and 4.1 write it.
LOST = (
    "-----\n{} has lost communication with a remote daemon.\n\n  HNP daemon   : [{},0] on node a\n"
)
ENDS = """prterun detected that one or more processes exited with non-zero status,
thus causing the job to be terminated. The first process to do so was:

   Process name: [{},1]
"""
OWN = f"prterun-{HERE}-{STARTED}@0"
# A job whose launcher waits for one second where others wait for 15.
IMPATIENT = """
import sys
from adasumrun import cli, watch
watch.ENDING_SECONDS = 1
sys.exit(cli.main())
"""
AGENT = """#!/bin/sh
shift
exec sh -c "$*"
"""


def _noted(text, started=STARTED, size=7):
    source, notify = os.pipe()
    finder = Finder(notify)
    for start in range(0, len(text), size):
        finder.feed(text[start : start + size].encode())
    os.close(notify)
    said = Notices(source, lambda: process_tree.launchers(started))
    taken = {notice: said.take(notice) for notice in (LOST_HOST, ENDS_JOB)}
    assert said.take(LOST_HOST) is None
    os.close(source)
    return taken


@pytest.mark.parametrize("size", [1, 7, 10000])
def test_this_mpirun_is_believed_however_the_bytes_are_cut(size):
    lost, ends = "a\n" + LOST.format("PRTE", OWN) + "b\n", "a\n" + ENDS.format(OWN) + "b\n"
    assert _noted(lost, size=size) == {LOST_HOST: STARTED, ENDS_JOB: None}
    assert _noted(lost * 2 + ends, size=size) == {LOST_HOST: STARTED, ENDS_JOB: STARTED}


def test_an_mpirun_that_a_script_of_a_script_has_started_is_believed():
    said = ENDS.format(OWN)
    for started in (os.getppid(), process_tree.parent(os.getppid())):
        assert _noted(said, started=started) == {LOST_HOST: None, ENDS_JOB: STARTED}


def test_an_mpirun_that_has_ended_is_believed():
    """It was there when its words were looked for before."""
    source, notify = os.pipe()
    there = {STARTED}
    said = Notices(source, lambda: set(there))
    assert said.take(ENDS_JOB) is None
    there.clear()
    Finder(notify).feed(ENDS.format(OWN).encode())
    assert said.take(ENDS_JOB) == STARTED
    for descriptor in (source, notify):
        os.close(descriptor)


def test_processes_below_a_rank_start_no_mpirun_of_this_job():
    script = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"
    below = "import os; print(os.getpid(), flush=True); input()"
    environment = {**os.environ, "OMPI_COMM_WORLD_RANK": "0"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    command = [sys.executable, "-c", script, below]
    for given, is_found in ((None, True), (environment, False)):
        with subprocess.Popen(command, env=given, **pipes) as child:
            process = int(child.stdout.readline())
            found = process_tree.launchers(os.getpid())
            child.communicate(b"\n", timeout=LIMIT_SECONDS)
        assert (process in found, child.pid in found) == (is_found, is_found)


def test_open_mpi_4_names_no_process():
    assert _noted(LOST.format("ORTE", "[36291,0]")) == {LOST_HOST: 0, ENDS_JOB: None}


@pytest.mark.parametrize("name", [f"prterun-{HERE}-1@0", f"prterun-not{HERE}-{STARTED}@0"])
def test_other_jobs_are_not(name):
    text = LOST.format("PRTE", name) + ENDS.format(name)
    assert _noted(text) == {LOST_HOST: None, ENDS_JOB: None}


def test_a_sentence_alone_is_not():
    text = (
        "PRTE has lost communication with a remote daemon.\nthus causing the job to be terminated\n"
    )
    assert _noted(text) == {LOST_HOST: None, ENDS_JOB: None}


def test_ranks_that_write_much_of_it_are_not_kept_waiting():
    """Nobody reads here; a pipe holds 64 KiB."""
    source, notify = os.pipe()
    finder = Finder(notify)
    for _ in range(5000):
        finder.feed(ENDS.format(OWN).encode())
    for descriptor in (source, notify):
        os.close(descriptor)


def test_the_process_that_copies_notes_what_was_said():
    taken, given = os.pipe()
    process, into, source = rank_output.start_filter(given)
    os.close(given)
    said = Notices(source, lambda: {STARTED})
    assert said.take(ENDS_JOB) is None
    os.write(into, ENDS.format(OWN).encode())
    os.close(into)
    with os.fdopen(taken, "r") as kept:
        assert kept.read() == ENDS.format(OWN)
    assert os.waitpid(process, 0) == (process, 0)
    assert said.take(ENDS_JOB) == STARTED
    os.close(source)


@pytest.mark.parametrize(("size", "lacks"), [(1, False), (2, True)])
def test_ranks_of_this_host_are_counted(size, lacks):
    variables = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_LOCAL_SIZE": str(size)}
    program = [sys.executable, "-c", "print(flush=True); input()"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(program, env={**os.environ, **variables}, **pipes) as rank:
        rank.stdout.readline()
        assert rank_watch.lacks_rank(os.getpid()) == lacks
        rank.kill()
        rank.wait(LIMIT_SECONDS)
    assert rank_watch.lacks_rank(os.getpid())


def test_the_time_in_which_a_process_was_stopped_is_no_wait(monkeypatch):
    times = iter([10.0, 10.5, 3610.5, 3611.0])
    monkeypatch.setattr(counted_time, "time", types.SimpleNamespace(monotonic=times.__next__))
    waited = counted_time.CountedTime()
    assert [waited.seconds() for _ in range(3)] == [0.5, 1.5, 2.0]


def _run(*arguments):
    return programs.run([sys.executable, "-c", IMPATIENT, *arguments], LIMIT_SECONDS)


def test_a_rank_may_log_the_end_of_another_job():
    text = LOST.format("PRTE", "prterun-b-12@0") + ENDS.format("prterun-b-12@1")
    text += "ORTE has lost communication with a remote daemon.\n"
    text += LOST.format("ORTE", "[36291,0]")
    script = 'echo "$0" >&2; sleep 3; echo done'
    done = _run("-np", "2", "sh", "-c", script, text)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "done\n" * 2
    assert text in done.stderr


def test_a_rank_may_run_a_job_that_fails():
    inner = f"{sys.executable} -m adasumrun -np 2 sh -c 'exit 3'"
    script = f"[ {programs.RANK} = 1 ] || {inner}; echo $?; sleep 3; echo done"
    done = _run("-np", "2", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.split()) == ["0", "3", "done", "done"]
    assert "thus causing the job to be terminated" in done.stderr


@pytest.mark.long
def test_a_job_ends_whose_rank_failed_while_a_host_is_silent(tmp_path):
    agent = tmp_path / "agent"
    agent.write_text(AGENT)
    agent.chmod(0o755)
    hosts = ["-H", "localhost:1,elsewhere:1", f"--mpi-args=--prtemca plm_ssh_agent {agent}"]
    silent = f"kill -STOP $PPID; touch {tmp_path}/silent; sleep 600"
    fails = f"until [ -e {tmp_path}/silent ]; do sleep 0.1; done; exit 3"
    script = f"if [ {programs.RANK} = 1 ]; then {silent}; else {fails}; fi"
    done = _run("-np", "2", "--timeout=50", *hosts, "sh", "-c", script)
    assert done.returncode == 1, done.stderr
    assert "a rank failed, and mpirun did not end within 1 s" in done.stderr
