"""adasumrun --max-restarts: when a job is started again, where, and what is said of it."""

import json
import re
import shlex
import signal
import socket
import time
import uuid

import pytest

from adasumrun import answering_hosts, command_line, requests, restart
from adasumrun.watch import Ended
from tests import programs

LIMIT_SECONDS = 100
RESTARTS = "$TF_ADASUM_RESTARTS"
RANK = programs.RANK


def _shell(ranks, script, *options):
    command = [*programs.ADASUMRUN, "-np", str(ranks), "--timeout=90", *options, "sh", "-c", script]
    return programs.run(command, LIMIT_SECONDS)


def _said(done):
    return [line for line in done.stderr.splitlines() if line.startswith("adasumrun: ")]


def test_a_killed_rank_starts_the_job_again():
    mark = str(uuid.uuid4())
    killed = f"[ {RANK}/{RESTARTS} != 1/0 ] || kill -9 $$"
    others = f"[ {RESTARTS} != 0 ] || sleep 600"
    script = f"{killed}; {others}; echo rank {RANK} start {RESTARTS}; : {mark}"
    done = _shell(3, script, "--max-restarts=2")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"rank {rank} start 1" for rank in range(3)]
    first, last = _said(done)
    assert "start 1 ended with exit code 137 (SIGKILL): restart 1 of 2 in 2 s" in first
    assert "ended after 1 restart (exit codes before: 137 (SIGKILL))" in last
    assert programs.running(mark) == []


@pytest.mark.long
def test_a_stopped_rank_is_lost_and_one_that_has_ended_is_not(monkeypatch):
    """The program is one without MPI: its ranks need not wait for each other."""
    monkeypatch.setenv("TF_ADASUM_TIMEOUT_SECONDS", "1")
    stopped = f"[ {RANK}/{RESTARTS} != 1/0 ] || kill -STOP $$"
    # More than twice as long as adasumrun takes to look again. Its child may be stopped.
    helper = "sleep 9 & kill -STOP $!; sleep 7; kill -KILL $!"
    slow = f"[ {RANK} = 1 ] || {{ {helper}; }}"
    done = _shell(2, f"{stopped}; {slow}; echo rank {RANK} start {RESTARTS}", "--max-restarts=1")
    assert done.returncode == 0, done.stderr
    assert "rank 0 start 1" in done.stdout
    assert "rank 1 start 1" in done.stdout
    assert re.search(
        r"adasumrun: rank 1 \(process \d+\) has been stopped for [1-9]\d* s "
        r"\(TF_ADASUM_TIMEOUT_SECONDS\): ended all ranks of this host",
        done.stderr,
    )


def test_the_last_exit_code_counts_when_restarts_are_used_up():
    done = _shell(2, f"exit $((7 + {RESTARTS}))", "--max-restarts=1")
    assert done.returncode == 8
    assert "not started again: --max-restarts=1. Exit codes of 2 starts: 7, 8" in _said(done)[-1]


@pytest.mark.long
def test_a_program_that_fails_at_once_is_not_started_for_ever():
    done = _shell(1, "exit 5", "--max-restarts=1000")
    assert done.returncode == 5
    *restarts, last = _said(done)
    assert [line.partition(": ")[2].partition(" ")[0] for line in restarts] == ["start"] * 2
    assert "3 starts in a row failed within 10 s" in last


def test_without_the_option_nothing_is_started_again():
    done = _shell(2, f"echo {RESTARTS}; exit 3")
    assert done.returncode == 3
    assert set(done.stdout.split()) == {"0"}
    assert _said(done) == []


def test_a_timeline_is_that_of_the_last_start(tmp_path):
    """Of which not every rank need have got so far."""
    event = f'{{"traceEvents":[{{"name": "start {RESTARTS}"}}]}}'.replace('"', '\\"')
    write = f'[ {RESTARTS}{RANK} = 11 ] || echo "{event}" >$TF_ADASUM_TIMELINE.rank{RANK}.0'
    path = tmp_path / "trace.json"
    done = _shell(2, f"{write}; exit $((1 - {RESTARTS}))", "--max-restarts=1", f"--timeline={path}")
    assert done.returncode == 0, done.stderr
    assert json.loads(path.read_text()) == {"traceEvents": [{"name": "start 1"}]}


@pytest.mark.parametrize(("script", "code"), [("sleep 600", 124), ("exit 0", 0)])
def test_these_ends_are_final(script, code):
    done = _shell(1, script, "--max-restarts=5", "--timeout=2" if code else "--timeout=90")
    assert done.returncode == code
    assert not any("restart" in line for line in _said(done))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_final_also_between_two_starts(number, tmp_path):
    """The second start has failed at once, so that the third waits for 4 s."""
    script = f"touch {tmp_path}/{RESTARTS}; exit 1"
    ranks = ["--max-restarts=9", "-np", "1", "sh", "-c", script]
    started = programs.start([*programs.ADASUMRUN, *ranks])
    end = time.monotonic() + LIMIT_SECONDS
    while not (tmp_path / "1").exists():
        assert time.monotonic() < end
        time.sleep(0.05)
    started.send_signal(number)
    assert started.wait(LIMIT_SECONDS) == 128 + number
    assert not (tmp_path / "2").exists()


# Runs prted here, in the name of another host, until that is taken to be down.
AGENT = """#!/bin/sh
[ ! -e {folder}/down ] || exit 255
shift
exec sh -c "$*"
"""


KILL_RANK, KILL_HOST = "kill -9 $$", "kill -9 $PPID; sleep 600"


@pytest.mark.parametrize(
    ("lost", "least", "code"),
    [(KILL_RANK, "2", 0), (KILL_HOST, "2", 0), (KILL_RANK, "3", 137), (KILL_HOST, None, 1)],
)
def test_a_host_that_does_not_answer_is_left_out(tmp_path, lost, least, code):
    """Open MPI's mpirun ends with 0 when its process on another host is gone."""
    agent = tmp_path / "agent"
    agent.write_text(AGENT.format(folder=tmp_path))
    agent.chmod(0o755)
    mark = str(uuid.uuid4())
    lost = f"if [ {RANK}/{RESTARTS} = 2/0 ]; then touch {tmp_path}/down; {lost}; fi"
    script = f": {mark}; {lost}; [ {RESTARTS} != 0 ] || sleep 600; echo of {programs.SIZE}"
    least = [f"--min-ranks={least}"] if least else []
    hosts = ["-H", "localhost:2,elsewhere:1", f"--mpi-args=--prtemca plm_ssh_agent {agent}"]
    done = _shell(3, script, "--max-restarts=2", *least, *hosts)
    assert done.returncode == code, done.stderr
    assert programs.running(mark) == []
    said = " ".join(_said(done))
    if code == 0:
        assert done.stdout.split("\n")[:2] == ["of 2"] * 2
        assert "no answer from elsewhere:1 within 10 s: goes on with 2 ranks on localhost" in said
    else:
        assert "2 of 3 ranks have a place" in said


@pytest.mark.parametrize(
    ("words", "variables", "agent"),
    [
        ("--mca btl tcp", {}, answering_hosts._SSH),
        ("--prtemca plm_ssh_agent '/opt/agent -q : rsh'", {}, ["/opt/agent", "-q"]),
        ("", {"OMPI_MCA_plm_rsh_agent": "ssh -p 2222"}, ["ssh", "-p", "2222"]),
    ],
)
def test_hosts_are_asked_as_mpirun_reaches_them(words, variables, agent):
    assert answering_hosts.agent(shlex.split(words), variables) == agent


def test_who_does_not_answer(monkeypatch, tmp_path):
    monkeypatch.setattr(answering_hosts, "LIMIT_SECONDS", 3)
    agent = tmp_path / "agent"
    agent.write_text("#!/bin/sh\ncase $1 in up) exit;; silent) sleep 60;; *) exit 255;; esac\n")
    agent.chmod(0o755)
    listed = ["up:2", "silent", socket.gethostname(), "down:1", "localhost:3"]
    left = ["up:2", socket.gethostname(), "localhost:3"]
    assert answering_hosts.answering(listed, [str(agent)]) == left
    assert answering_hosts.answering(["up"], ["/no/such/agent"]) == []


def test_ranks_share_the_places_that_are_left(monkeypatch):
    """Six ranks on four slots; two of those are left, and three ranks."""
    monkeypatch.setattr(answering_hosts, "answering", lambda listed, agent: ["b:2"])
    monkeypatch.setattr(requests.Requests, "sleep", lambda self, seconds: None)
    words = ["-np", "6", "-H", "a:2,b:2", "--max-restarts=1", "--min-ranks=3", "sh"]
    seen, ends = [], iter([Ended(1, is_final=False), Ended(0, is_final=False)])

    def start(places, num_restarts):
        seen.append((*places, num_restarts))
        return next(ends)

    assert restart.run(command_line.parse(words), start, requests.Requests()) == 0
    assert seen == [(6, "a:2,b:2", 0), (3, "b:2", 1)]


def test_one_rank_is_one(monkeypatch, capfd):
    monkeypatch.setattr(answering_hosts, "answering", lambda listed, agent: ["b"])
    monkeypatch.setattr(requests.Requests, "sleep", lambda self, seconds: None)
    words = ["-H", "a,b", "--max-restarts=1", "--min-ranks=1", "sh"]
    ends = iter([Ended(1, is_final=False), Ended(0, is_final=False)])
    assert restart.run(command_line.parse(words), lambda *_: next(ends), requests.Requests()) == 0
    assert "goes on with 1 rank on b\n" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["--max-restarts=-1"], "-1"),
        (["--max-restarts=many"], "many"),
        (["--min-ranks=2"], "--max-restarts"),
        (["--max-restarts=1", "-np", "2", "--min-ranks=3"], "-np 2"),
        (["--grace=0"], "0"),
    ],
)
def test_wrong_numbers_are_refused(words, what, capsys):
    with pytest.raises(SystemExit) as refused:
        command_line.parse([*words, "sh"])
    assert refused.value.code == 2
    assert what in capsys.readouterr().err.splitlines()[-1]


def test_help_says_what_is_done(capsys):
    with pytest.raises(SystemExit):
        command_line.parse(["--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert "waits 2^k seconds" in said
    assert "SIGUSR1 lets them back up" in said


def test_a_missing_script_is_not_started():
    command = [*programs.ADASUMRUN, "-np", "1", "--max-restarts=2", "no_such_script.py"]
    done = programs.run(command, LIMIT_SECONDS)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "Received: no_such_script.py" in line
