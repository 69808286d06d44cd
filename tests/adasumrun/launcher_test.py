"""adasumrun with real ranks: how it starts them, how it ends, what it leaves behind."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
import uuid

import pytest

from tests import programs

LIMIT_SECONDS = 60


def _run(*arguments):
    return programs.run([*programs.ADASUMRUN, *arguments], LIMIT_SECONDS)


def _shell(ranks, script, *options):
    return _run("-np", str(ranks), *options, "sh", "-c", script)


def _started(folder, ranks):
    deadline = time.monotonic() + LIMIT_SECONDS
    while len(list(folder.iterdir())) < ranks:
        assert time.monotonic() < deadline, "the ranks did not start"
        time.sleep(0.05)


@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
def test_starts_the_ranks(ranks):
    done = _shell(ranks, f"echo rank {programs.RANK} of {programs.SIZE}")
    assert done.returncode == 0, done.stderr
    lines = sorted(done.stdout.splitlines())
    assert lines == [f"rank {rank} of {ranks}" for rank in range(ranks)]


@pytest.mark.long
def test_shares_of_the_host_file_reach_the_strategies(tmp_path):
    path = tmp_path / "hosts"
    path.write_text("localhost slots=1 share=1\n127.0.0.1 slots=2 share=3\n")
    program = "import tf_adasum; strategy = tf_adasum.AdasumStrategy(batch_share='hostfile'); "
    program += "print([round(7 * share, 6) for share in strategy.batch_shares])"
    done = _run("--hostfile", str(path), "--timeout=50", sys.executable, "-c", program)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["[1.0, 3.0, 3.0]"] * 3
    done = _run("-np", "2", "--timeout=50", sys.executable, "-c", program)
    assert done.returncode != 0
    assert "Expected share=NUMBER in the host file of adasumrun --hostfile" in done.stderr
    done = _run("--hostfile", str(path), "-np", "4", sys.executable, "-c", program)
    assert done.returncode == 1
    assert "Received: 4 ranks, 3 slots" in done.stderr


def test_exit_code_is_that_of_the_rank_that_failed():
    done = _shell(3, f"[ {programs.RANK} != 2 ] || exit 7; sleep 600")
    assert done.returncode == 7


def test_exit_code_of_a_rank_ended_by_a_signal():
    done = _shell(2, f"[ {programs.RANK} != 1 ] || kill -9 $$; sleep 600")
    assert done.returncode == 128 + signal.SIGKILL


def test_timeout_ends_all_ranks():
    mark = str(uuid.uuid4())
    done = _shell(3, f"trap '' TERM INT; sleep 600; : {mark}", "--timeout", "3")
    assert done.returncode == 124
    assert "ended all ranks after 3 s" in done.stderr
    assert programs.running(mark) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_all_ranks(number, tmp_path):
    mark = str(uuid.uuid4())
    script = f"touch {tmp_path}/{programs.RANK}; sleep 600; : {mark}"
    started = programs.start([*programs.ADASUMRUN, "-np", "3", "sh", "-c", script])
    _started(tmp_path, 3)
    started.send_signal(number)
    assert started.wait(LIMIT_SECONDS) == 128 + number
    assert programs.running(mark) == []


def test_ranks_end_with_a_killed_launcher(tmp_path):
    mark = str(uuid.uuid4())
    script = f"touch {tmp_path}/{programs.RANK}; sleep 600; : {mark}"
    started = programs.start([*programs.ADASUMRUN, "-np", "2", "sh", "-c", script])
    _started(tmp_path, 2)
    started.kill()
    started.wait(LIMIT_SECONDS)
    deadline = time.monotonic() + LIMIT_SECONDS
    while programs.running(mark):
        assert time.monotonic() < deadline, programs.running(mark)
        time.sleep(0.1)


def test_background_process_of_a_rank_ends_with_the_ranks():
    mark = str(uuid.uuid4())
    nap = f"{sys.executable} -c 'import time; time.sleep(600)' {mark}"
    done = _shell(2, f"{nap} >/dev/null 2>&1 & exit 0", "--timeout", "30")
    assert done.returncode == 0
    assert programs.running(mark) == []


def _redirected(redirection, *arguments):
    """Runs adasumrun by a shell; the redirection has "$@" in its place."""
    return programs.run(
        ["sh", "-c", redirection, "sh", *programs.ADASUMRUN, *arguments], LIMIT_SECONDS
    )


@pytest.mark.parametrize("redirection", ['"$@" </dev/null', 'echo hello | "$@"', '"$@" <&-'])
def test_ranks_find_their_input_empty(redirection):
    ranks = ("--timeout=30", "-np", "3", "sh", "-c", "cat; echo end")
    done = _redirected(redirection, *ranks)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["end"] * 3


def test_every_job_has_a_folder_of_its_own(tmp_path):
    """Else an mpirun that gets the process id of a killed one finds its files, and fails."""
    ranks = ("-np", "1", "sh", "-c", "ls $TMPDIR; ls $TMPDIR/*")
    folders = []
    for _ in range(2):
        done = programs.run([*programs.ADASUMRUN, *ranks], LIMIT_SECONDS, TMPDIR=str(tmp_path))
        folder, *files = done.stdout.split()
        assert folder.startswith("adasumrun_")
        assert any(name.startswith("ompi.") for name in files), done.stdout
        assert not (tmp_path / folder).exists()
        folders.append(folder)
    assert folders[0] != folders[1]


def test_rank_0_gets_the_input_if_asked_for():
    ranks = ("-np", "3", "sh", "-c", f"read line; echo {programs.RANK} $line")
    done = _redirected('echo hello | "$@"', "--timeout=30", "--stdin=0", *ranks)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.split("\n")) == ["", "0 hello", "1", "2"]


@pytest.mark.parametrize("redirection", ['"$@" <{path}', 'cat {path} | "$@"', '"$@" </dev/null'])
def test_rank_0_reads_to_the_end(redirection, tmp_path):
    """More than a pipe holds."""
    path = tmp_path / "text"
    path.write_text("a line\n" * 30000)
    ranks = ("-np", "2", "sh", "-c", "wc -l")
    done = _redirected(redirection.format(path=path), "--timeout=30", "--stdin=0", *ranks)
    assert done.returncode == 0, done.stderr
    lines = "0" if "/dev/null" in redirection else "30000"
    assert sorted(done.stdout.split()) == sorted([lines, "0"])


def test_a_socket_is_no_input_that_rank_0_can_open():
    """Node.js gives one to what it starts."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        done = subprocess.run(
            [*programs.ADASUMRUN, "--stdin=0", "-np", "2", "cat"],
            env=programs.environment(),
            stdin=theirs,
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
            check=False,
        )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "Received: a socket. Say: cat | adasumrun --stdin=0 ..." in line


@pytest.mark.parametrize("redirection", ['"$@" 2>&-', '"$@" 2>&- <&-'])
def test_starts_where_stderr_is_closed(redirection):
    done = _redirected(redirection, "-np", "2", "sh", "-c", "echo on; echo off >&2")
    assert done.returncode == 0
    assert done.stdout.split() == ["on"] * 2


OUTPUT_NOT_BLOCKING = """
import os, subprocess, sys
os.set_blocking(1, False)
subprocess.run(sys.argv[1:], check=True)
os.write(2, str(os.get_blocking(1)).encode())
"""


def test_what_ranks_print_is_whole_where_stdout_would_not_wait():
    """mpirun drops what does not fit into a pipe that another program made so."""
    words = ["-np", "1", sys.executable, "-c", "print('x' * 500000)"]
    done = programs.run(
        [sys.executable, "-c", OUTPUT_NOT_BLOCKING, *programs.ADASUMRUN, *words], LIMIT_SECONDS
    )
    assert (done.returncode, done.stderr) == (0, "True")
    assert len(done.stdout) == 500001


@pytest.mark.parametrize("places", [(), ("-H", "localhost:2")])
def test_every_word_of_a_program_is_its_own(places, tmp_path):
    """To mpirun `:` begins another program, to env a name with `=` is a variable."""
    program = tmp_path / "rate=0.1"
    program.write_text('#!/bin/sh\nfor word; do echo "<$word>"; done\n')
    program.chmod(0o755)
    words = ["a", ":", "-np", "3", "--mca", "x", "y", "", "two words", "it's", "--help", "--"]
    done = _run("-np", "2", *places, str(program), *words)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == sorted(2 * [f"<{word}>" for word in words])


@pytest.mark.parametrize("executable", [False, True])
def test_a_python_file_needs_no_first_line(tmp_path, monkeypatch, executable):
    script = tmp_path / "train.py"
    script.write_text("import sys\nprint(sys.executable)\n")
    script.chmod(0o755 if executable else 0o644)
    monkeypatch.chdir(tmp_path)
    for name in ("train.py", str(script)):
        done = _run("-np", "2", name)
        assert done.returncode == 0, done.stderr
        assert done.stdout.split() == [sys.executable] * 2


def test_help_and_missing_program():
    assert "-np" in _run("--help").stdout
    done = _run("-np", "2", "no-such-program")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "no-such-program" in done.stderr


def test_an_environment_that_is_too_long_is_said_in_a_line():
    """Of adasumrun it is not, but it puts a folder in front of PATH for the ranks."""
    longest = "x" * (32 * os.sysconf("SC_PAGE_SIZE") - len("PATH=") - 1)  # Linux' limit
    command = [*programs.ADASUMRUN, "-np", "1", sys.executable, "-c", ""]
    done = programs.run(command, LIMIT_SECONDS, PATH=longest)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("adasumrun: expected ")
    assert "Argument list too long" in line
    assert line.endswith("Shorten the environment, and start again")


STUCK = """
import subprocess, sys
from adasumrun import process_tree
process_tree.GRACE_SECONDS = process_tree._STUCK_SECONDS = 0
process_tree._signal = lambda processes, number: None  # processes in state D do not hear it
command = ["sh", "-c", "sleep 3 >/dev/null 2>&1 & exit 4"]
print(process_tree.run(command, {}, lambda child, _: child.wait()))
"""


def test_what_does_not_end_is_left_behind():
    done = programs.run([sys.executable, "-c", STUCK], LIMIT_SECONDS)
    assert done.stdout == "(4, False)\n", done.stderr
    (line,) = done.stderr.splitlines()
    assert "expected all processes to end within 0 s of SIGKILL" in line
    assert re.search(r"Received: \d+ in state [A-Z]\. They are left behind", line)


def test_verbose_prints_the_command():
    done = _shell(1, "true", "--verbose")
    assert "mpirun" in done.stderr
    assert "--bind-to none" in done.stderr


@pytest.mark.parametrize(("level", "kept"), [("1", False), ("0", True)])
def test_tensorflows_first_lines_are_dropped_unless_asked_for(monkeypatch, level, kept):
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", level)
    done = _shell(2, "echo 'I0000 00:00:17.5 1 port.cc:153] on' >&2; echo mine >&2; exit 3")
    assert done.returncode == 3
    assert ("port.cc" in done.stderr) is kept
    assert done.stderr.count("mine") >= 1


def test_starts_without_tensorflow():
    python, *launcher = programs.ADASUMRUN
    done = programs.run([python, "-X", "importtime", *launcher, "--help"], LIMIT_SECONDS)
    assert done.returncode == 0
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "argparse" in imported
    assert not imported & {"tensorflow", "keras", "numpy", "mpi4py"}
