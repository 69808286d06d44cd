"""The gate's last line counts what Bazel's reports say, and no failure gets lost on the way."""

import json

import pytest

from tools import count_tests

CASES = {
    "passed": '<testcase name="a"/>',
    "failed": '<testcase name="b"><failure message="no"/></testcase>',
    "broken": '<testcase name="c"><error message="no"/></testcase>',
}


@pytest.fixture
def events(tmp_path):
    """Returns a function that adds a target's result to a file of events and returns the file."""
    path = tmp_path / "events.json"
    path.touch()

    def add(status, *cases):
        number = len(path.read_text().splitlines())
        report = tmp_path / f"test {number}.xml"
        body = "".join(CASES[case] for case in cases)
        report.write_text(f"<testsuites><testsuite>{body}</testsuite></testsuites>")
        log = tmp_path / f"test {number}.log"
        log.write_text("\n\n".join(f"line {i} of test {number}" for i in range(100)))
        outputs = [{"name": "test.xml", "uri": report.as_uri()}] if cases else []
        outputs.append({"name": "test.log", "uri": log.as_uri()})
        event = {
            "id": {"testResult": {"label": f"//t:{number}"}},
            "testResult": {"status": status, "testActionOutput": outputs},
        }
        with path.open("a") as file:
            file.write(json.dumps(event) + "\n")
        return path

    return add


def _last_line(capsys):
    return capsys.readouterr().out.splitlines()[-1]


def test_all_passed(events, capsys):
    events("PASSED", "passed", "passed")
    assert count_tests.main([str(events("PASSED", "passed"))]) == 0
    assert _last_line(capsys) == "3 passed, 0 failed"


def test_failures_and_errors(events, capsys):
    path = events("FAILED", "passed", "failed", "broken")
    assert count_tests.main([str(path), "--make-exit-code=2"]) == 1
    assert _last_line(capsys) == "1 passed, 2 failed"


def test_ends_of_the_logs_of_failed_targets_are_shown(events, capsys):
    events("PASSED", "passed")
    count_tests.main([str(events("FAILED", "failed")), "--make-exit-code=2"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2] == "    line 99 of test 1"
    assert not any("of test 0" in line or line.endswith("line 0 of test 1") for line in lines)


@pytest.mark.parametrize("cases", [(), ("passed",)])
def test_target_without_a_failed_case_that_did_not_pass(events, capsys, cases):
    assert count_tests.main([str(events("TIMEOUT", *cases)), "--make-exit-code=2"]) == 1
    assert _last_line(capsys) == f"{len(cases)} passed, 1 failed"


def test_make_failed_before_the_tests(tmp_path, capsys):
    path = tmp_path / "events.json"
    path.touch()
    assert count_tests.main([str(path), "--make-exit-code=2"]) == 1
    assert _last_line(capsys) == "0 passed, 1 failed"


def test_make_failed_beside_tests_that_passed(events, capsys):
    assert count_tests.main([str(events("PASSED", "passed")), "--make-exit-code=2"]) == 1
    assert _last_line(capsys) == "1 passed, 1 failed"


def test_no_test_at_all_is_no_success(tmp_path, capsys):
    path = tmp_path / "events.json"
    path.touch()
    assert count_tests.main([str(path)]) == 1
    assert _last_line(capsys) == "0 passed, 0 failed"
