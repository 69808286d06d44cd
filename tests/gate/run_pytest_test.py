"""A test target fails when a case fails, is skipped or is not there."""

import os
import subprocess
import sys

import pytest

from tests import run_pytest

FILES = {
    "passes": ("def test_it(): pass", 0),
    "fails": ("def test_it(): assert False", 1),
    "is skipped": ("import pytest\ndef test_it(): pytest.skip('no reason')", 1),
    "is skipped as a file": ("import pytest\npytest.importorskip('no_such_module')", 5),
    "is not there": ("", 5),
}


@pytest.mark.parametrize("what", FILES)
def test_exit_code(tmp_path, what):
    text, expected = FILES[what]
    file = tmp_path / "inner_test.py"
    file.write_text(text)
    environment = {name: value for name, value in os.environ.items() if name != "XML_OUTPUT_FILE"}
    done = subprocess.run(
        [sys.executable, run_pytest.__file__, str(file)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == expected, done.stdout
