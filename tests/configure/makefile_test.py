"""make does again what another PYTHON or CONFIGURE changes, and nothing else.

Makefile, configure.py and the scripts that install are the real ones. Bazel and Python are scripts
that note what they are asked to do: Python makes environments of itself and runs configure.py and
questions (-c) by the real one, but no pip and nothing of tools/.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIMIT_SECONDS = 100
PARTS = (
    *("Makefile", "configure.py", "third_party/probe.py", "third_party/cuda/find_cuda.py"),
    *("third_party/mpi/find_mpi.py", "third_party/python/find_python.py"),
    *("tools/install_requirements.sh", "tools/install_system.sh", "tf_adasum/versions.py"),
)
PYTHON = """#!/bin/sh
[ "$1" != -c ] || exec '{python}' "$@"
if [ "$1 $2" = "-m pip" ]; then set -- pip; fi
echo "${{0##*/}}" "$@" >>'{log}'
for last; do :; done
case "$*" in
  "-m venv"*)
    [ "$3" != --clear ] || rm -rf "$last"
    mkdir -p "$last/bin" && cp "$0" "$last/bin/python" ;;
  configure.py*) exec '{python}' "$@" ;;
esac
"""
BAZEL = """#!/bin/sh
if [ "$1" = info ]; then echo /out; else echo bazel "$@" >>'{log}'; fi
"""
BUILT = ["bazel build //tf_adasum", "python tools/install_native.py /out"]

# What the requirements ask for, the oldest Keras, and Keras 2, which are taken without their own.
INSTALLED = ["python pip"] * 3


def _configured(*arguments):
    return [" ".join(["python configure.py", *arguments])]


def _set_up(venv, *arguments):
    editable = "python tools/install_editable.py"
    return [venv, *INSTALLED, *_configured(*arguments), editable, *BUILT]


class Checkout:
    """A copy of what `make build` reads, and a log of what it does."""

    def __init__(self, folder):
        self.folder = folder / "checkout"
        self.bin, self.log = folder / "bin", folder / "log"
        self.bin.mkdir()
        for part in PARTS:
            (self.folder / part).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / part, self.folder / part)
        for empty in ("requirements.txt", "tools/install_editable.py", "tools/install_native.py"):
            (self.folder / empty).touch()
        for name, text in (("bazel", BAZEL), ("python3", PYTHON), ("another_python", PYTHON)):
            (self.bin / name).write_text(text.format(python=sys.executable, log=self.log))
            (self.bin / name).chmod(0o755)

    def make(self, *variables):
        """Runs make build with variables; returns the steps that it took, and its exit code."""
        self.log.write_text("")
        done = subprocess.run(
            ["make", "build", *variables],
            cwd=self.folder,
            env={"PATH": f"{self.bin}:{os.environ['PATH']}", "HOME": os.environ["HOME"]},
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
            check=False,
        )
        self.said = done.stdout + done.stderr
        return self.log.read_text().splitlines(), done.returncode

    def written(self):
        return (self.folder / ".bazelrc.user").read_text()


@pytest.fixture
def checkout(tmp_path):
    """A checkout that was built once."""
    checkout = Checkout(tmp_path)
    assert checkout.make() == (_set_up("python3 -m venv .venv"), 0), checkout.said
    return checkout


def test_no_change_repeats_nothing(checkout):
    assert checkout.make() == (BUILT, 0)
    assert checkout.make("CONFIGURE=") == (BUILT, 0)


def test_another_configure_is_heard_and_kept(checkout):
    assert checkout.make("CONFIGURE=--cuda=no") == ([*_configured("--cuda=no"), *BUILT], 0)
    assert "\n# Arguments: --cuda=no\n" in checkout.written()
    assert checkout.make("CONFIGURE='--cuda=no'  ") == (BUILT, 0)
    assert checkout.make() == (BUILT, 0)
    (checkout.folder / "configure.py").touch()
    assert checkout.make() == ([*_configured("--cuda=no"), *BUILT], 0)
    assert checkout.make("CONFIGURE=") == ([*_configured(), *BUILT], 0)
    assert "--cuda=no" not in checkout.written()


def test_configure_by_hand_is_kept_until_another_is_asked_for(checkout):
    command = [sys.executable, "configure.py", "--cuda=no"]
    subprocess.run(command, cwd=checkout.folder, check=True, timeout=LIMIT_SECONDS)
    assert checkout.make() == (BUILT, 0)
    assert checkout.make("CONFIGURE=--cuda=no") == (BUILT, 0)
    assert checkout.make("CONFIGURE=") == ([*_configured(), *BUILT], 0)


def test_a_refused_configure_changes_nothing(checkout):
    before = checkout.written()
    for _ in range(2):
        assert checkout.make("CONFIGURE=--cuda=/nowhere") == (_configured("--cuda=/nowhere"), 2)
        assert "expected a CUDA toolkit in /nowhere" in checkout.said
    assert checkout.written() == before
    assert checkout.make() == (BUILT, 0)


def test_another_python_makes_the_environment_anew(checkout):
    checkout.make("CONFIGURE=--cuda=no")
    stale = checkout.folder / ".venv" / "stale"
    stale.touch()
    anew = _set_up("another_python -m venv --clear .venv", "--cuda=no")
    assert checkout.make("PYTHON=another_python") == (anew, 0)
    assert not stale.exists()
    assert checkout.make("PYTHON=another_python") == (BUILT, 0)
    assert checkout.make() == (BUILT, 0)
    back = _set_up("python3 -m venv --clear .venv", "--cuda=no")
    assert checkout.make("PYTHON=python3") == (back, 0)


def test_an_environment_that_does_not_say_of_what_it_was_made_is_kept(checkout):
    # An older Makefile left its stamp empty.
    stamp = checkout.folder / ".venv" / "stamps" / "system"
    times = stamp.stat().st_atime_ns, stamp.stat().st_mtime_ns
    stamp.write_text("")
    os.utime(stamp, ns=times)  # exactly: the next stamp may be as old
    assert checkout.make() == (BUILT, 0)


def test_spaces_in_the_path_are_refused_before_anything_is_installed(tmp_path):
    (tmp_path / "my files").mkdir()
    checkout = Checkout(tmp_path / "my files")
    assert checkout.make() == ([], 2)
    assert f"expected a path without spaces. Received: {checkout.folder}" in checkout.said
    assert not (checkout.folder / ".venv").exists()
