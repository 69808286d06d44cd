"""What adasumrun advise takes, and what every rank runs by it."""

import sys

import pytest

from adasumrun import command_line


def test_advise_runs_the_script_behind_its_own_program():
    options = command_line.parse(
        ["advise", "-np", "2", "--gbits=10", "python", "train.py", "--plot=x"]
    )
    own = [sys.executable, "-m", "tf_adasum.advise", "--gbits=10.0"]
    assert options.program == [*own, "train.py", "--plot=x"]
    assert options.np == 2
    assert command_line.parse(["-np", "2", "advise"]).program == ["advise"]


@pytest.mark.parametrize(
    ("words", "python", "rest"),
    [
        ("/venv/bin/python train.py -m", "/venv/bin/python", "train.py -m"),
        ("python3.13 train.py", "python3.13", "train.py"),
        ("python3 -m models.train -u", sys.executable, "-m models.train -u"),
        ("python -mmodels.train -u", sys.executable, "-m models.train -u"),
        ("python_train.py -m", sys.executable, "python_train.py -m"),
    ],
)
def test_advise_takes_what_python_runs(words, python, rest):
    options = command_line.parse(["advise", *words.split()])
    assert options.program == [python, "-m", "tf_adasum.advise", *rest.split()]


@pytest.mark.parametrize(
    ("words", "received"),
    [
        ("python -u train.py", "-u"),
        ("python -c 1", "-c"),
        ("python -m", "-m"),
        ("python", "nothing"),
    ],
)
def test_advise_refuses_what_it_does_not_run(words, received, capsys):
    with pytest.raises(SystemExit):
        command_line.parse(["advise", *words.split()])
    said = f"error: expected SCRIPT or -m MODULE behind python. Received: {received}\n"
    assert capsys.readouterr().err.endswith(said)


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "much"])
def test_rates_are_checked_before_anything_is_measured(text, capsys):
    with pytest.raises(SystemExit):
        command_line.parse(["advise", f"--gbits={text}", "train.py"])
    said = f"argument --gbits: expected a number from 1e-06 to 1e+09. Received: {text!r}\n"
    assert capsys.readouterr().err.endswith(said)
    if text == "0":
        assert (
            "--round-us=0.0" in command_line.parse(["advise", "--round-us=0", "train.py"]).program
        )
    else:
        with pytest.raises(SystemExit):
            command_line.parse(["advise", f"--round-us={text}", "train.py"])
