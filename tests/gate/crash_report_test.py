"""What a rank that crashed leaves in its log is found, and short."""

import signal
import subprocess
import sys

from tests.runner import crash_report, run_pytest

PROGRAM = """
import faulthandler, os, sys, threading
faulthandler.enable()
threading.Thread(target=threading.Event().wait, daemon=True).start()
print("Check failed: reason\\nfile_test.py ..", end="", file=sys.stderr, flush=True)
def crashes():
    os.abort()
crashes()
"""


def test_real_crash_with_its_reason_and_place():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False
    )
    found = crash_report.excerpt(done.stderr)
    assert "Check failed: reason" in found
    assert "file_test.py ..Fatal Python error: Aborted" in found
    assert any(" in crashes" in line for line in found)
    assert not any("threading.py" in line for line in found)  # the other thread's


NATIVE_PROGRAM = """
import ctypes, faulthandler, os, sys
ctypes.CDLL(sys.argv[1])
log = os.dup(2)
faulthandler.enable(file=log)
os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # as pytest does while a test runs
ctypes.string_at(8)
"""


def test_real_crash_in_native_code():
    """Where bazel test runs this; it builds the library."""
    command = [sys.executable, "-c", NATIVE_PROGRAM, str(run_pytest.NATIVE_STACK)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    found = crash_report.excerpt(done.stderr)
    assert done.returncode == -signal.SIGSEGV
    assert "Fatal Python error: Segmentation fault" in found
    native = found[found.index("Native stack:") :]
    assert any("_ctypes" in line for line in native)


def test_nothing_where_nothing_crashed():
    assert crash_report.excerpt("collected 3 items\n3 passed") == []


def test_deep_stack_is_cut():
    stack = [f'  File "f.py", line {i} in f' for i in range(500)]
    log = "\n".join(["Fatal Python error: Aborted", "", "Current thread 0x1:", *stack])
    assert len(crash_report.excerpt(log)) < 40
