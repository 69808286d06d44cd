"""Joins the pytest reports of several ranks into one: a case fails if it failed on any rank."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree


def join(folder: Path, ranks: int, output: str | None) -> bool:
    """Joins folder/rank0.xml, rank1.xml, ... into `output`.

    Args:
      folder: where the ranks wrote their reports.
      ranks: number of ranks.
      output: path of the joined report; None writes none.

    Returns:
      Whether every rank wrote a report and all hold the same cases.
    """
    cases: dict[tuple[str, str], ElementTree.Element] = {}
    names = []
    for rank in range(ranks):
        report = folder / f"rank{rank}.xml"
        if not report.exists():
            _lost(cases, rank, ranks)
            names.append(None)
            continue
        found = list(ElementTree.parse(report).getroot().iter("testcase"))
        names.append([_key(case) for case in found])
        for case in found:
            _add(cases, case, rank)
    if output:
        _write(list(cases.values()), output)
    return all(name is not None and name == names[0] for name in names)


def _key(case: ElementTree.Element) -> tuple[str, str]:
    return case.get("classname", ""), case.get("name", "")


def _add(cases: dict, case: ElementTree.Element, rank: int) -> None:
    joined = cases.setdefault(_key(case), ElementTree.Element("testcase", case.attrib))
    for problem in case:
        if problem.tag in ("failure", "error", "skipped"):
            problem.set("message", f"rank {rank}: {problem.get('message', '')}")
            joined.append(problem)


def _lost(cases: dict, rank: int, ranks: int) -> None:
    key = ("mpi", f"rank {rank} of {ranks} wrote its report")
    case = cases[key] = ElementTree.Element("testcase", classname=key[0], name=key[1])
    ElementTree.SubElement(case, "error", message=f"rank {rank} ended before it wrote a report")


def _write(cases: list[ElementTree.Element], output: str) -> None:
    bad = sum(case.find("failure") is not None or case.find("error") is not None for case in cases)
    suite = ElementTree.Element(
        "testsuite", name="pytest", tests=str(len(cases)), failures=str(bad), errors="0"
    )
    suite.extend(cases)
    root = ElementTree.Element("testsuites")
    root.append(suite)
    ElementTree.ElementTree(root).write(output, encoding="utf-8", xml_declaration=True)
