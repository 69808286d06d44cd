"""The checkout is as ruff and clang-format want it; `make format` repairs most that fails."""

import subprocess

import pytest

from tools import lint


@pytest.mark.parametrize("name", sorted(lint.commands()))
def test_linter_is_content(name):
    done = subprocess.run(
        lint.commands()[name],
        cwd=lint.ROOT,
        capture_output=True,
        text=True,
        timeout=lint.TIME_LIMIT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_cxx_sources_are_found():
    names = {source.name for source in lint.cxx_sources()}
    assert {"adasum.cc"} <= names
