"""SIGTERM, SIGHUP and SIGUSR1 to adasumrun: what reaches the ranks, and how the job ends."""

import os
import signal
import subprocess
import sys
import time
import uuid

import pytest

from adasumrun import process_tree
from tests import programs

LIMIT_SECONDS = 60
# A rank that listens, as BackupAndRestore lets it, and starts a helper, which does not.
PROGRAM = """
import os, signal, subprocess, sys, time
from adasumrun import requests

folder, how = sys.argv[1:3]
rank, asked = os.environ["RANK"], []
nap = [sys.executable, "-c", "import time; time.sleep(600)", *sys.argv]
helper = subprocess.Popen(nap, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
if how != "deaf":
    for number in (requests.BACK_UP, requests.BACK_UP_AND_END):
        signal.signal(number, lambda number, frame: asked.append(number))
if how == "helpers end":
    signal.signal(signal.SIGTERM, lambda *_: asked.append(requests.BACK_UP_AND_END))
    signal.signal(signal.SIGUSR1, lambda *_: asked.append(requests.BACK_UP))
open(f"{folder}/started{rank}", "w").close()
while requests.BACK_UP_AND_END not in asked or how == "stubborn":
    time.sleep(0.02)
    if requests.BACK_UP in asked:
        open(f"{folder}/saved{rank}", "w").close()
assert helper.poll() is None or how == "helpers end"
time.sleep(0.5)  # as a backup takes
open(f"{folder}/ended{rank}", "w").close()
sys.exit(0 if how == "done" else requests.EXIT_CODE)
"""


# Ranks of this host are known by their environment; without it they are taken for others'.
START = f'export RANK={programs.RANK}; exec "$@"'
START_ELSEWHERE = f"{START.replace('exec', 'unset OMPI_COMM_WORLD_RANK PMI_RANK; exec')}"


class Job:
    """A job of two ranks that have started, and its adasumrun."""

    def __init__(self, folder, how, *options, start=START, before=()):
        self.folder = folder
        self.mark = str(uuid.uuid4())
        program = folder / "program.py"
        program.write_text(PROGRAM)
        rank = ["sh", "-c", start, "sh", sys.executable, str(program), str(folder), how, self.mark]
        self.launcher = subprocess.Popen(
            [*before, *programs.ADASUMRUN, "-np", "2", "--timeout=60", *options, *rank],
            env=programs.environment(),
            stderr=subprocess.PIPE,
            text=True,
        )
        self.wait_for("started0", "started1")

    def wait_for(self, *names):
        end = time.monotonic() + LIMIT_SECONDS
        while not all((self.folder / name).exists() for name in names):
            assert time.monotonic() < end, names
            time.sleep(0.02)

    def says(self):
        """The launcher's next line; what mpirun says is left out."""
        lines = iter(self.launcher.stderr.readline, "")
        return next((line for line in lines if line.startswith("adasumrun: ")), "nothing more")

    def end(self):
        """Its exit code, and what the launcher said; nothing of it is left."""
        _, said = self.launcher.communicate(timeout=LIMIT_SECONDS)
        assert programs.running(self.mark) == []
        return self.launcher.returncode, [
            line for line in said.splitlines() if "adasumrun:" in line
        ]

    def ended_ranks(self):
        return sorted(path.name for path in self.folder.glob("ended*"))


def test_sigterm_lets_ranks_back_up_and_end(tmp_path):
    job = Job(tmp_path, "listens", "--max-restarts=3")
    job.launcher.terminate()
    code, (asked, ended) = job.end()
    assert code == 143
    assert "SIGTERM: asked the ranks to back up and end within 30 s" in asked
    assert "the ranks have ended on SIGTERM" in ended
    assert job.ended_ranks() == ["ended0", "ended1"]


def test_sigterm_to_every_process_lets_ranks_back_up_too(tmp_path):
    """As Slurm's scancel sends it: mpirun does not hear it, and the ranks end in their order."""
    job = Job(tmp_path, "helpers end")
    launcher = job.launcher.pid
    for process in [launcher, *process_tree.descendants(launcher)]:
        os.kill(process, signal.SIGTERM)
    code, (*_, ended) = job.end()
    assert code == 143
    assert "the ranks have ended on SIGTERM" in ended
    assert job.ended_ranks() == ["ended0", "ended1"]


def test_a_closed_terminal_lets_ranks_back_up_and_end(tmp_path, monkeypatch):
    files = tmp_path / "files"
    files.mkdir()
    monkeypatch.setenv("TMPDIR", str(files))
    job = Job(tmp_path, "listens", "--max-restarts=3")
    job.launcher.send_signal(signal.SIGHUP)
    code, (asked, ended) = job.end()
    assert code == 129
    assert "SIGHUP: asked the ranks to back up and end within 30 s" in asked
    assert "the ranks have ended on SIGHUP" in ended
    assert job.ended_ranks() == ["ended0", "ended1"]
    assert list(files.iterdir()) == []


def test_a_job_that_nohup_started_goes_on(tmp_path):
    job = Job(tmp_path, "listens", before=["nohup"])
    job.launcher.send_signal(signal.SIGHUP)
    job.launcher.terminate()
    code, (asked, _) = job.end()
    assert code == 143
    assert "SIGTERM: asked the ranks" in asked


def test_ranks_back_up_where_nobody_reads_what_is_said(tmp_path):
    """As where a SIGTERM to every process of `adasumrun ... 2>&1 | tee log` ends tee first."""
    job = Job(tmp_path, "listens")
    job.launcher.stderr.close()
    job.launcher.send_signal(signal.SIGUSR1)
    job.wait_for("saved0", "saved1")
    job.launcher.terminate()
    assert job.launcher.wait(LIMIT_SECONDS) == 143
    assert job.ended_ranks() == ["ended0", "ended1"]
    assert programs.running(job.mark) == []


def test_sigusr1_lets_ranks_back_up_and_go_on(tmp_path):
    job = Job(tmp_path, "listens")
    job.launcher.send_signal(signal.SIGUSR1)
    job.wait_for("saved0", "saved1")
    assert job.launcher.poll() is None
    job.launcher.terminate()
    code, (saved, *_) = job.end()
    assert code == 143
    assert "SIGUSR1: asked the ranks to back up and go on" in saved


def test_sigusr1_to_every_process_lets_ranks_back_up_too(tmp_path):
    """Also mpirun, which hands it on to ranks once more: the job goes on."""
    job = Job(tmp_path, "helpers end")
    launcher = job.launcher.pid
    for process in [launcher, *process_tree.descendants(launcher)]:
        os.kill(process, signal.SIGUSR1)
    job.wait_for("saved0", "saved1")
    assert "SIGUSR1: asked the ranks to back up and go on" in job.says()
    job.launcher.terminate()
    code, (*_, ended) = job.end()
    assert code == 143
    assert "the ranks have ended on SIGTERM" in ended
    assert job.ended_ranks() == ["ended0", "ended1"]


def test_who_does_not_listen_goes_on_and_ends_at_once(tmp_path):
    job = Job(tmp_path, "deaf")
    job.launcher.send_signal(signal.SIGUSR1)
    line = job.says()
    assert "SIGUSR1: expected a fit with adasum.callbacks.BackupAndRestore" in line
    assert job.launcher.poll() is None
    job.launcher.terminate()
    assert job.end() == (143, ["adasumrun: ended all ranks on SIGTERM"])
    assert job.ended_ranks() == []


@pytest.mark.parametrize("how", ["helpers end", "deaf"])
def test_mpirun_hands_signals_on_to_ranks_elsewhere(tmp_path, how):
    agent = tmp_path / "agent"
    agent.write_text('#!/bin/sh\nshift\nexec sh -c "$*"\n')
    agent.chmod(0o755)
    places = ["-H", "elsewhere:2", f"--mpi-args=--prtemca plm_ssh_agent {agent}"]
    job = Job(tmp_path, how, *places, start=START_ELSEWHERE)
    job.launcher.send_signal(signal.SIGUSR1)
    assert "SIGUSR1: asked the ranks" in job.says()
    if how != "deaf":
        job.wait_for("saved0", "saved1")
    job.launcher.terminate()
    code, (_, ended) = job.end()
    assert code == 143
    assert "the ranks have ended on SIGTERM" in ended
    assert job.ended_ranks() == ([] if how == "deaf" else ["ended0", "ended1"])


@pytest.mark.parametrize("insists", [False, True])
def test_ranks_end_when_grace_is_over_or_at_a_second_signal(tmp_path, insists):
    job = Job(tmp_path, "stubborn", "--grace=50" if insists else "--grace=1")
    job.launcher.terminate()
    assert "asked the ranks" in job.says()
    if insists:
        job.launcher.send_signal(signal.SIGINT)
    code, (line,) = job.end()
    assert code == 143
    assert "ended all ranks at once" in line if insists else "1 s after it (--grace)" in line


def test_a_program_that_was_done_is_not_to_be_started_again(tmp_path):
    job = Job(tmp_path, "done")
    job.launcher.terminate()
    code, (_, line) = job.end()
    assert code == 0
    assert "the program had ended by itself" in line
