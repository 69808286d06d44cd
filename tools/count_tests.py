"""Counts the test cases of a `bazel test` and prints "N passed, N failed" as its last line.

Before it stand the ends of the logs of the targets that failed: whoever sees only the end of what
the gate printed should see why.

It reads what --build_event_json_file wrote. Bazel keeps one test.xml for each target: pytest's
cases one by one, a C++ program as one case.
"""

from __future__ import annotations

import argparse
import json
import sys
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

_NUM_LAST_LINES = 40
_MOST_COLUMNS = 400


def main(argv: list[str] | None = None) -> int:
    """Prints the count; returns 0 if `make` was content, no case failed and there was one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("events", type=Path, help="what --build_event_json_file wrote")
    parser.add_argument("--make-exit-code", type=int, default=0, help="how make ended")
    options = parser.parse_args(argv)
    passed = failed = 0
    for label, status, files in results(options.events):
        good, bad = count(files.get("test.xml"))
        if status not in ("PASSED", "FLAKY") and bad == 0:
            # For instance a target that ran out of time: its report tells of the cases before.
            bad = 1
        if bad:
            print(f"{label}: {bad} failed ({status})")
            for line in last_lines(files.get("test.log")):
                print(f"    {line}")
        passed, failed = passed + good, failed + bad
    if options.make_exit_code != 0 and failed == 0:
        print(f"make test ended with exit code {options.make_exit_code}")
        failed = 1
    print(f"{passed} passed, {failed} failed")
    return 0 if failed == 0 and passed > 0 else 1


def results(events: Path) -> Iterator[tuple[str, str, dict[str, Path]]]:
    """Yields label, status and files by name of every test that Bazel ran or had in its cache."""
    for line in events.read_text().splitlines():
        event = json.loads(line)
        if "testResult" in event:
            outputs = event["testResult"].get("testActionOutput", [])
            files = {out["name"]: _path_of(out["uri"]) for out in outputs if "uri" in out}
            yield event["id"]["testResult"]["label"], event["testResult"]["status"], files


def _path_of(uri: str) -> Path:
    return Path(urllib.parse.unquote(urllib.parse.urlparse(uri).path))


def last_lines(log: Path | None) -> list[str]:
    """Returns the last lines of a log that say something; none if there is no log."""
    if log is None or not log.exists():
        return []
    lines = log.read_text(errors="replace").splitlines()
    return [line[:_MOST_COLUMNS] for line in lines if line.strip()][-_NUM_LAST_LINES:]


def count(report: Path | None) -> tuple[int, int]:
    """Returns how many cases of a report passed and failed; none if there is no report."""
    if report is None:
        return 0, 0
    try:
        cases = list(ElementTree.parse(report).getroot().iter("testcase"))
    except (OSError, ElementTree.ParseError):
        return 0, 0
    bad = sum(any(case.find(kind) is not None for kind in ("failure", "error")) for case in cases)
    return len(cases) - bad, bad


if __name__ == "__main__":
    sys.exit(main())
