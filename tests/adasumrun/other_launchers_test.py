"""Options of launchers that users come from: adasumrun says what stands for them."""

import pytest

from adasumrun import command_line


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--min-np 1", "--min-np. --min-np is --max-restarts=N --min-ranks=K here"),
        (
            "--timeline-filename=x",
            "--timeline-filename=x. --timeline-filename is --timeline=FILE here",
        ),
        ("--oversubscribe", "--oversubscribe. --oversubscribe is not needed here"),
        ("--mpi", "--mpi. --mpi is not needed here: the ranks always use MPI"),
        ("-m pkg.train", "-m. -m belongs to python here: python -m MODULE"),
        ("--slower", "--slower"),
    ],
)
def test_unknown_options(words, said, capsys):
    with pytest.raises(SystemExit):
        command_line.parse([*words.split(), "python", "train.py"])
    assert capsys.readouterr().err.endswith(f"error: unrecognized arguments: {said}\n")


def test_a_program_keeps_options_of_that_name():
    words = ["python", "train.py", "--min-np", "1"]
    assert command_line.parse(words).program == words


def test_hosts_may_be_named_as_for_mpirun():
    assert command_line.parse(["--host", "a:2,b", "train.py"]).hosts == "a:2,b"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-np", "2"], "the following arguments are required: program"),
        (
            ["--check-build"],
            "the following arguments are required: program. --check-build is not needed here: "
            "`import tf_adasum` says what is missing",
        ),
        (["-np", "2", ""], "expected a program. Received: ''. Is a variable empty?"),
    ],
)
def test_a_program_is_asked_for(words, said, capsys):
    with pytest.raises(SystemExit):
        command_line.parse(words)
    assert capsys.readouterr().err.endswith(f"error: {said}\n")
