"""Counts the test cases of the last `bazel test` and prints "N passed, N failed" as its last line.

Bazel keeps one test.xml for each target: pytest's cases one by one, a C++ program as one case.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent


def main(argv: list[str] | None = None) -> int:
    """Prints the count; returns 0 if `make` was content, no case failed and there was one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--targets", type=Path, help="file with the labels that were tested")
    parser.add_argument("--make-exit-code", type=int, default=0, help="how make ended")
    options = parser.parse_args(argv)
    labels = options.targets.read_text().split() if options.targets.exists() else []
    passed = failed = 0
    for label in labels:
        good, bad = count(report_of(label))
        passed, failed = passed + good, failed + bad
    if options.make_exit_code != 0 and failed == 0:
        print(f"make test ended with exit code {options.make_exit_code}", file=sys.stderr)
        failed = 1
    print(f"{passed} passed, {failed} failed")
    return 0 if failed == 0 and passed > 0 else 1


def report_of(label: str) -> Path:
    """Returns where Bazel puts the report of the target //folder:name."""
    folder, _, name = label.removeprefix("//").partition(":")
    return ROOT / "bazel-testlogs" / folder / name / "test.xml"


def count(report: Path) -> tuple[int, int]:
    """Returns how many cases of a report passed and failed; no report is one failure."""
    try:
        cases = list(ElementTree.parse(report).getroot().iter("testcase"))
    except (OSError, ElementTree.ParseError):
        return 0, 1
    bad = sum(any(case.find(kind) is not None for kind in ("failure", "error")) for case in cases)
    return len(cases) - bad, bad


if __name__ == "__main__":
    sys.exit(main())
