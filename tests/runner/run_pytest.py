"""Runs pytest on the files named on the command line, as the main program of a Bazel test."""

from __future__ import annotations

import collections
import ctypes
import gc
import os
import sys
from pathlib import Path

import pytest

# There in Bazel's runs; without it a crash shows Python's frames alone.
NATIVE_STACK = Path(__file__).parent / "native_stack.so"
CASE_TIME_LIMIT_SECONDS = 500


class NoSilentSkips:
    """A skipped case fails the run: what cannot run here belongs in a tagged target of its own."""

    def __init__(self) -> None:
        self.skipped: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Notes skipped cases."""
        if report.skipped and not hasattr(report, "wasxfail"):
            self.skipped.append(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Notes skipped files."""
        if report.skipped:
            self.skipped.append(report.nodeid)


class PartOfEachProduct:
    """Option --part=K/N: of a case's combinations of parameters every N-th, beginning at the K-th.

    Those whose indices add up to K - 1, modulo N: as on a checkerboard, so that each value of a
    parameter still meets about an N-th of the others' values. The N parts are the whole product. A
    product of fewer sums than N has no part without a combination: parts have some in common.
    Cases without parameters, or of one value, always run.
    """

    def pytest_addoption(self, parser: pytest.Parser) -> None:
        """Adds the option."""
        parser.addoption("--part", help="run this part of each product, e.g. 1/3")

    @pytest.hookimpl(tryfirst=True)  # before -k, since a case's parameters follow from its position
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list) -> None:
        """Takes the other parts out."""
        text = config.getoption("--part")
        if text is None:
            return
        part, num_parts = (int(number) for number in text.split("/"))
        if not 1 <= part <= num_parts:
            raise pytest.UsageError(f"Expected --part=K/N with 1 <= K <= N. Received: {text}.")
        seen: collections.Counter = collections.Counter()
        rest = []
        for item in items:
            function = getattr(item, "function", None)
            if not self._is_chosen(item, seen[function], part - 1, num_parts):
                rest.append(item)
            seen[function] += 1
        config.hook.pytest_deselected(items=rest)
        items[:] = [item for item in items if item not in rest]

    def _is_chosen(self, item: pytest.Item, position: int, part: int, num_parts: int) -> bool:
        """Whether the case is chosen that stands at `position` among those of its function."""
        sizes = [len(mark.args[1]) for mark in item.iter_markers("parametrize")]
        total = 0
        for size in reversed(sizes):  # the last parameter changes first
            position, index = divmod(position, size)
            total += index
        num_sums = sum(size - 1 for size in sizes) + 1
        return total % num_parts == part % min(num_parts, num_sums)


class LongCases:
    """Option --cases=short: not the cases marked long. --cases=long: these only. Else all run."""

    def pytest_addoption(self, parser: pytest.Parser) -> None:
        """Adds the option."""
        parser.addoption("--cases", choices=["short", "long"], help="run these cases only")

    def pytest_configure(self, config: pytest.Config) -> None:
        """Makes the mark known."""
        config.addinivalue_line("markers", "long: a case that the gate runs, `make test` does not")

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list) -> None:
        """Takes the others out."""
        cases = config.getoption("--cases")
        if cases is None:
            return
        marked = [item for item in items if item.get_closest_marker("long")]
        rest = marked if cases == "short" else [item for item in items if item not in marked]
        config.hook.pytest_deselected(items=rest)
        items[:] = [item for item in items if item not in rest]


class FrozenImports:
    """Leaves what the tests have imported, TensorFlow's million objects, to no later collection."""

    def pytest_collection_finish(self) -> None:
        """Takes a tenth off the time of a test that trains."""
        gc.freeze()


def main(arguments: list[str]) -> int:
    """Runs the files and returns the exit code; no cases and skipped cases count as failure."""
    if NATIVE_STACK.exists():
        ctypes.CDLL(str(NATIVE_STACK))  # before pytest's faulthandler, which passes signals on
    skips = NoSilentSkips()
    xml = os.environ.get("XML_OUTPUT_FILE")
    options = [
        # The tree is read-only under Bazel, and rank-shared under MPI.
        "-p",
        "no:cacheprovider",
        # Modules are found as the ranks find them: from the repository's root on sys.path.
        "--import-mode=importlib",
        "--tb=short",
        "--color=no",
        f"--override-ini=faulthandler_timeout={CASE_TIME_LIMIT_SECONDS}",
        "--override-ini=faulthandler_exit_on_timeout=true",
        f"--rootdir={os.getcwd()}",
    ]
    if xml:
        options.append(f"--junit-xml={xml}")
    plugins = [skips, PartOfEachProduct(), LongCases(), FrozenImports()]
    code = int(pytest.main(options + arguments, plugins=plugins))
    if code == pytest.ExitCode.NO_TESTS_COLLECTED:
        print("run_pytest: expected at least one test case. Received: none. Check the names.")
    if code == 0 and skips.skipped:
        print(f"run_pytest: skipped cases count as failures: {', '.join(skips.skipped)}")
        return 1
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
