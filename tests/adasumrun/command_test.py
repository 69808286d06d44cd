"""What adasumrun hands to mpirun: the command line."""

import io
import os
import shutil
import subprocess
import sys

import pytest

from adasumrun import cli, command_line, host_file, hosts, inputs, mpirun

CORES = hosts.physical_cores()
RANK_THREADS = [cli.sys.executable, "-m", "adasumrun.rank_threads"]


@pytest.fixture(autouse=True)
def no_scheduler(monkeypatch):
    for name in hosts._SCHEDULERS:
        monkeypatch.delenv(name, raising=False)


def _command(monkeypatch, family, *argv, environment=None):
    monkeypatch.setattr(mpirun, "family_of", lambda mpirun: family)
    return mpirun.command_line("/opt/mpirun", command_line.parse(argv), environment or {})


def test_ranks_are_not_bound(monkeypatch):
    command = _command(monkeypatch, "openmpi", "-np", "1", "sh", "-c", "true")
    assert command == [
        *("/opt/mpirun", "-np", "1", "--bind-to", "none", "--stdin", "none"),
        *("sh", "-c", "true"),
    ]


@pytest.mark.parametrize(("ranks", "expected"), [(CORES, False), (CORES + 1, True)])
def test_oversubscribes_when_ranks_exceed_cores(monkeypatch, ranks, expected):
    command = _command(monkeypatch, "openmpi", "-np", str(ranks), "sh")
    assert ("--oversubscribe" in command) is expected


def test_scheduler_decides_how_many_ranks_fit(monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    assert "--oversubscribe" not in _command(monkeypatch, "openmpi", "-np", "999", "sh")


def test_hosts_and_their_slots(monkeypatch):
    fits = _command(monkeypatch, "openmpi", "-H", "a:2,b:2", "-np", "4", "sh")
    assert fits[fits.index("-H") + 1] == "a:2,b:2"
    assert "--oversubscribe" not in fits
    assert "--oversubscribe" in _command(monkeypatch, "openmpi", "-H", "a,b", "-np", "3", "sh")


@pytest.mark.parametrize("text", ["", "a,,b", "a:0", "a:-1", "a:two", "-oProxyCommand=sh", "a b"])
def test_hosts_are_names(text, capsys):
    """What looks like an option would be one of ssh's."""
    with pytest.raises(SystemExit):
        command_line.parse([f"-H={text}" if text else "-H", *([] if text else [""]), "sh"])
    assert "expected HOST or HOST:RANKS. Received: " in capsys.readouterr().err


@pytest.mark.parametrize("text", ["::1", "[::1]:2", "fe80::1:2"])
def test_addresses_that_mpirun_would_cut_are_refused(text, capsys):
    with pytest.raises(SystemExit):
        command_line.parse([f"-H=a,{text}", "sh"])
    wanted = f"Received: {text!r}. Give an IPv6 address a name, in /etc/hosts for instance\n"
    assert capsys.readouterr().err.endswith(wanted)


def test_a_host_may_be_named_by_a_number():
    assert hosts.slots("1001,1002:3") == 4
    assert host_file.shares_of_ranks(None, "1001,1002:2", {"1001": 1.0, "1002": 2.0}) == [1, 2, 2]


@pytest.mark.parametrize(
    "words",
    [
        ("-H", "a"),
        ("--mpi-args=--hostfile h",),
        ("--mpi-args=-host=a,b",),
        ("--mpi-args=--mca orte_default_hostfile h",),
    ],
)
def test_variables_travel_to_other_hosts(monkeypatch, words):
    environment = {"PYTHONPATH": "/p", "TF_X": "1", "SECRET": "no"}
    command = _command(monkeypatch, "openmpi", *words, "sh", environment=environment)
    assert [command[i + 1] for i, word in enumerate(command) if word == "-x"] == [
        "PYTHONPATH",
        "TF_X",
    ]


def test_variables_travel_in_a_schedulers_allocation(monkeypatch):
    monkeypatch.setenv("PBS_JOBID", "7")
    command = _command(monkeypatch, "openmpi", "sh", environment={"KERAS_HOME": "/k"})
    assert command[-6:] == ["-x", "KERAS_HOME", *RANK_THREADS, "sh"]


@pytest.mark.parametrize(
    ("names", "here"),
    [(None, 4), ("localhost:4", 4), ("localhost,127.0.0.1:3", 4), ("localhost,elsewhere", None)],
)
def test_ranks_on_this_host(names, here):
    assert hosts.ranks_on_this_host(4, names) == here


def test_options_after_the_program_are_the_programs(monkeypatch):
    command = _command(monkeypatch, "openmpi", "sh", "-np", "3", "--timeout", "1")
    assert command[-5:] == ["sh", "-np", "3", "--timeout", "1"]


def test_hydra_has_its_own_words(monkeypatch):
    command = _command(monkeypatch, "hydra", "-np", "99", "-H", "a,b", "sh")
    hosts, unbound = ["-hosts", "a,b"], ["-bind-to", "none"]
    without_input = ["sh", "-c", 'exec "$0" "$@" </dev/null']
    assert command == [
        *("/opt/mpirun", "-np", "99", *hosts, *unbound),
        *(*without_input, *RANK_THREADS, "sh"),
    ]


@pytest.mark.parametrize(
    ("words", "rank", "expected"),
    [((), "0", ""), ((), "1", ""), (("--stdin=0",), "0", "hello"), (("--stdin=0",), "1", "")],
)
def test_hydras_ranks_get_their_input_by_a_shell(monkeypatch, tmp_path, words, rank, expected):
    (tmp_path / "input").write_text("hello")
    command = _command(
        monkeypatch, "hydra", "-np", "2", *words, "sh", "-c", 'cat; echo "$1"', "x", "a b"
    )
    launchers = f"/proc/{os.getpid()}/fd/0"
    own = [word.replace(launchers, f"{tmp_path}/input") for word in command[command.index("sh") :]]
    assert _said_by_rank(rank, own) == expected + "a b\n"


@pytest.mark.parametrize(
    ("stdin", "rank", "expected"), [("none", "0", ""), ("0", "0", "hello"), ("0", "1", "")]
)
def test_hydras_ranks_elsewhere_get_what_mpirun_hands_on(monkeypatch, stdin, rank, expected):
    command = _command(monkeypatch, "hydra", "-np", "2", "-H", "a,b", f"--stdin={stdin}", "cat")
    own = command[command.index("sh") : command.index(RANK_THREADS[0])]
    assert _said_by_rank(rank, [*own, "cat"]) == expected


def _said_by_rank(rank, command):
    """What a command says as a rank of Hydra's, with "hello" for input."""
    done = subprocess.run(
        command,
        env={**os.environ, "PMI_RANK": rank},
        input="hello",
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout


def test_a_terminal_is_no_input(monkeypatch):
    opened, terminal = os.openpty()
    with os.fdopen(opened), os.fdopen(terminal) as stdin:
        monkeypatch.setattr(cli.sys, "stdin", stdin)
        inputs.check(command_line.parse(["sh"]))
        with pytest.raises(mpirun.LaunchError, match="Received: a terminal"):
            inputs.check(command_line.parse(["--stdin=0", "sh"]))


@pytest.mark.parametrize(
    "words",
    [
        *("python", "python3.11 -", "/usr/bin/python3 -u", "python -uB -", "python - --epochs 3"),
        *("pypy3 -i", "python -X dev", "python -Wonce -"),
    ],
)
def test_a_script_on_stdin_is_refused(words):
    """Ranks would find an empty one, and end well."""
    with pytest.raises(mpirun.LaunchError, match=f"Received: {words}"):
        inputs.check(command_line.parse(words.split()))


@pytest.mark.parametrize(
    "words",
    [
        *("python x.py", "python -c pass", "python -m x -", "python -V", "python -Wonce x", "sh"),
        *("python -X dev x.py -", "--stdin=0 python -", "python --version", "ipython x.py"),
    ],
)
def test_what_has_its_script_elsewhere_is_not_refused(words, monkeypatch):
    monkeypatch.setattr(inputs.sys, "stdin", io.StringIO())
    inputs.check(command_line.parse(words.split()))


def test_further_arguments_of_mpirun(monkeypatch):
    command = _command(monkeypatch, "openmpi", "-np", "1", "--mpi-args=--mca btl 'tcp,self'", "sh")
    assert command[-4:] == ["--mca", "btl", "tcp,self", "sh"]


def test_further_arguments_are_words_of_a_shell(capsys):
    with pytest.raises(SystemExit) as ended:
        command_line.parse(["-np", "1", "--mpi-args=--mca btl 'tcp", "sh"])
    assert ended.value.code == 2
    said = "argument --mpi-args: expected words as a shell takes them. Received: "
    assert said + '"--mca btl \'tcp" (No closing quotation)\n' in capsys.readouterr().err


def test_python_is_this_python(monkeypatch, tmp_path):
    script = tmp_path / "train.py"
    script.touch()
    for words in (["python", str(script)], [str(script)]):
        assert _command(monkeypatch, "openmpi", *words)[-2:] == [
            cli.sys.executable,
            *words[-1:],
        ]


def test_unknown_program_is_named(monkeypatch):
    assert shutil.which("no-such-program") is None
    with pytest.raises(mpirun.LaunchError, match="Received: no-such-program"):
        _command(monkeypatch, "openmpi", "no-such-program")


def test_a_file_that_is_not_executable_is_named(monkeypatch, tmp_path):
    script = tmp_path / "train.sh"
    script.touch(0o644)
    said = f"Received: {script}, a file that is not executable. Run: chmod \\+x {script}"
    with pytest.raises(mpirun.LaunchError, match=said):
        _command(monkeypatch, "openmpi", str(script))


def test_a_folder_is_no_program(monkeypatch, tmp_path):
    with pytest.raises(mpirun.LaunchError, match=f"Received: {tmp_path}, a folder"):
        _command(monkeypatch, "openmpi", str(tmp_path))


def test_unknown_mpi_is_named(tmp_path):
    other = tmp_path / "mpirun"
    other.write_text("#!/bin/sh\necho mpirun of Mars\n")
    other.chmod(0o755)
    with pytest.raises(mpirun.LaunchError, match=r"expected Open MPI.*Mars"):
        mpirun.command_line(str(other), command_line.parse(["sh"]), {})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("#!/no/such/interpreter\n", "expected {} --version to run"),
        ("#!/bin/sh\necho no library >&2; exit 127\n", "Received: {} says 'no library'"),
    ],
)
def test_an_mpirun_that_does_not_tell_its_version_is_named(tmp_path, text, said):
    broken = tmp_path / "mpirun"
    broken.write_text(text)
    broken.chmod(0o755)
    with pytest.raises(mpirun.LaunchError, match=said.format(broken)):
        mpirun.family_of(str(broken))


@pytest.mark.parametrize(
    ("words", "known"),
    [
        (("-np", "4"), True),
        (("-np", "4", "-H", "localhost:4"), True),
        (("-np", "4", "--mpi-args=--mca btl tcp"), True),
        ((), False),
        (("-np", "4", "-H", "a:2,b:2"), False),
        (("-np", "4", "--mpi-args=--hostfile h"), False),
    ],
)
def test_where_the_launcher_does_not_know_ranks_find_their_limits(monkeypatch, words, known):
    command = _command(monkeypatch, "openmpi", *words, "sh")
    assert (command[-4:-1] == RANK_THREADS) is not known
    options = command_line.parse([*words, "sh"])
    environment = mpirun.rank_environment({}, mpirun.number_here(options))
    assert ("TF_NUM_INTRAOP_THREADS" in environment) is known
    assert ("UCX_MEM_EVENTS" in environment) is known


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5", ""])
def test_numbers_are_checked(text, capsys):
    for option in ("-np", "--timeout", "--min-ranks", "--grace"):
        with pytest.raises(SystemExit):
            command_line.parse([option, text, "sh"])
        assert f"expected a whole number above 0. Received: {text!r}\n" in capsys.readouterr().err
    if text != "0":
        with pytest.raises(SystemExit):
            command_line.parse(["--max-restarts", text, "sh"])
        assert f"expected a whole number from 0 on. Received: {text!r}\n" in capsys.readouterr().err


def test_the_number_of_ranks_has_the_names_that_mpiruns_give_it():
    for words in (("-np", "3"), ("-n", "3"), ("--np", "3"), ("--np=3",), ("-np=3",)):
        assert command_line.parse([*words, "sh"]).np == 3


def test_the_command_starts_without_tensorflow():
    imports = [sys.executable, "-X", "importtime", "-c", "import adasumrun.cli"]
    done = subprocess.run(imports, capture_output=True, text=True, timeout=60, check=True)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "adasumrun.mpirun" in imported
    assert not {"tf_adasum", "tensorflow", "keras", "numpy", "mpi4py"} & imported
