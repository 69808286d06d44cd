"""A test target fails when a case fails, is skipped or is not there."""

import os
import subprocess
import sys

import pytest

from tests.runner import run_pytest

FILES = {
    "passes": ("def test_it(): pass", 0),
    "fails": ("def test_it(): assert False", 1),
    "is skipped": ("import pytest\ndef test_it(): pytest.skip('no reason')", 1),
    "is skipped as a file": ("import pytest\npytest.importorskip('no_such_module')", 5),
    "is not there": ("", 5),
}


PRODUCT = """
import pytest

@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize(("mode", "count"), [("delta", 1), ("gradient", 2), ("plain", 3)])
@pytest.mark.parametrize("only", ["value"])
def test_of_several(mode, count, replicas, only):
    print(f"ran {mode} {replicas}")

@pytest.mark.parametrize("replicas", [1, 2])
def test_of_one(replicas):
    print(f"ran {replicas}")
"""

LONG_CASES = """
import pytest

@pytest.mark.long
def test_long():
    print("ran long")

@pytest.mark.parametrize("replicas", [1, pytest.param(2, marks=pytest.mark.long), 3])
def test_of_several(replicas):
    print(f"ran {replicas}")
"""


def _run(file, text, *options):
    file.write_text(text)
    environment = {name: value for name, value in os.environ.items() if name != "XML_OUTPUT_FILE"}
    return subprocess.run(
        [sys.executable, run_pytest.__file__, str(file), *options],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("what", FILES)
def test_exit_code(tmp_path, what):
    text, expected = FILES[what]
    done = _run(tmp_path / "inner_test.py", text)
    assert done.returncode == expected, done.stdout


def _ran(file, text, *options):
    done = _run(file, text, "-s", *options)
    assert done.returncode == 0, done.stdout
    # pytest writes a dot after each case, before the next one's line.
    return {line[line.index("ran") :] for line in done.stdout.splitlines() if "ran " in line}


def test_parts_of_a_product_are_the_whole(tmp_path):
    def ran(*options):
        return _ran(tmp_path / "inner_test.py", PRODUCT, *options)

    even = {"ran delta 1", "ran gradient 2", "ran plain 1", "ran 1"}
    odd = {"ran delta 2", "ran gradient 1", "ran plain 2", "ran 2"}
    assert ran("--part=1/2") == even
    assert ran("--part=2/2") == odd
    thirds = [ran(f"--part={part}/3") for part in (1, 2, 3)]
    assert thirds == [
        {"ran delta 1", "ran plain 2", "ran 1"},
        {"ran delta 2", "ran gradient 1", "ran 2"},
        {"ran gradient 2", "ran plain 1", "ran 1"},  # of two values the first once more
    ]
    assert ran() == even | odd == set().union(*thirds)


@pytest.mark.parametrize("part", ["0/2", "3/2"])
def test_parts_that_are_none_are_refused(tmp_path, part):
    done = _run(tmp_path / "inner_test.py", PRODUCT, f"--part={part}")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert f"Received: {part}." in done.stdout + done.stderr


def test_long_and_short_cases_are_the_whole(tmp_path):
    def ran(*options):
        return _ran(tmp_path / "inner_test.py", LONG_CASES, *options)

    assert ran("--cases=short") == {"ran 1", "ran 3"}
    assert ran("--cases=long") == {"ran long", "ran 2"}
    assert ran("--cases=long", "--part=2/2") == {"ran long", "ran 2"}
    assert ran("--cases=short", "--part=1/2") == {"ran 1", "ran 3"}
    assert ran() == {"ran long", "ran 1", "ran 2", "ran 3"}
