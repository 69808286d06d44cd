"""The joined report of several ranks tells of every failure and of every rank that got lost."""

from xml.etree import ElementTree

from tests.runner import mpi_results

_PASSED = '<testcase classname="c" name="{name}"/>'
_FAILED = '<testcase classname="c" name="{name}"><failure message="no">trace</failure></testcase>'


def _report(folder, rank, **cases):
    texts = {"passed": _PASSED, "failed": _FAILED}
    body = "".join(texts[outcome].format(name=name) for name, outcome in cases.items())
    (folder / f"rank{rank}.xml").write_text(
        f"<testsuites><testsuite>{body}</testsuite></testsuites>"
    )


def _join(folder, ranks):
    complete = mpi_results.join(folder, ranks, str(folder / "joined.xml"))
    suite = ElementTree.parse(folder / "joined.xml").getroot().find("testsuite")
    return complete, int(suite.get("tests")), int(suite.get("failures")), suite


def test_all_ranks_passed(tmp_path):
    for rank in range(3):
        _report(tmp_path, rank, one="passed", two="passed")
    assert _join(tmp_path, 3)[:3] == (True, 2, 0)


def test_failure_on_one_rank_fails_the_case(tmp_path):
    _report(tmp_path, 0, one="passed", two="passed")
    _report(tmp_path, 1, one="passed", two="failed")
    complete, cases, failures, suite = _join(tmp_path, 2)
    assert (complete, cases, failures) == (True, 2, 1)
    assert suite.find("testcase/failure").get("message") == "rank 1: no"


def test_lost_rank_is_a_failure(tmp_path):
    _report(tmp_path, 0, one="passed")
    complete, cases, failures, suite = _join(tmp_path, 2)
    assert (complete, cases, failures) == (False, 2, 1)
    assert "rank 1" in suite.find("testcase/error").get("message")


def test_ranks_with_different_cases_are_incomplete(tmp_path):
    _report(tmp_path, 0, one="passed", two="passed")
    _report(tmp_path, 1, one="passed")
    assert _join(tmp_path, 2)[0] is False
