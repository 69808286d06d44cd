"""adasumrun where something is missing that every shell has."""

import os
import tempfile

import pytest

from adasumrun import cli
from tests import programs

LIMIT_SECONDS = 60


def test_without_a_home_ranks_have_the_users(monkeypatch):
    """As services of systemd have none; Open MPI's mpirun starts nothing then."""
    monkeypatch.delenv("HOME")
    done = programs.run([*programs.ADASUMRUN, "-np", "2", "sh", "-c", "echo $HOME"], LIMIT_SECONDS)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [os.path.expanduser("~")] * 2


@pytest.mark.parametrize("options", [(), ("--timeline=trace.json",)])
def test_a_working_directory_that_was_removed(options, tmp_path):
    script = 'cd "$0" && rmdir "$0" && exec "$@"'
    launcher = [*programs.ADASUMRUN, "-np", "1", *options, "true"]
    folder = tmp_path / "removed"
    folder.mkdir()
    done = programs.run(["sh", "-c", script, str(folder), *launcher], LIMIT_SECONDS)
    assert done.returncode == 1
    said = "adasumrun: expected a working directory. Received: No such file or directory"
    assert done.stderr.startswith(said)
    assert done.stderr.count("\n") == 1


def test_no_place_for_temporary_files(monkeypatch, capsys):
    monkeypatch.setattr(tempfile, "tempdir", "/no/such/folder")
    assert cli.main(["-np", "1", "true"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("adasumrun: expected a folder for temporary files. Received: ")
    assert line.endswith("Set TMPDIR to a folder that you may write to")
