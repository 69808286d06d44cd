"""Every link of a document leads to a file of the checkout, and to a heading there."""

import re

from tools.lint import ROOT

_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)
_LEFT_OUT = {"third_party", "node_modules"}


def _documents():
    found = [
        *ROOT.glob("*.md"),
        *(path for folder in ROOT.iterdir() if _is_ours(folder) for path in folder.rglob("*.md")),
    ]
    assert ROOT / "README.md" in found
    assert ROOT / "docs/usage.md" in found
    return found


def _is_ours(folder):
    hidden_or_built = folder.name.startswith((".", "bazel-")) or folder.name in _LEFT_OUT
    return folder.is_dir() and not folder.is_symlink() and not hidden_or_built


def _anchors(text):
    """Those that GitHub makes of headings: small letters, digits, - and _; a space is a -."""
    without_code = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in _HEADING.findall(without_code)
    }


def _wrong_links(document, text):
    wrong = []
    for link in _LINK.findall(text):
        path, _, anchor = link.partition("#")
        target = (document.parent / path) if path else document
        if "://" in link or link.startswith("mailto:"):
            continue
        is_there = target.exists()
        if not is_there or (anchor and anchor not in _anchors(target.read_text())):
            wrong.append(f"{document.relative_to(ROOT)}: {link}")
    return wrong


def test_links_lead_to_files_and_headings():
    wrong = [
        line for document in _documents() for line in _wrong_links(document, document.read_text())
    ]
    assert wrong == []


def test_a_link_to_nowhere_is_found():
    document = ROOT / "docs/usage.md"
    text = "[a](no_such_file.md) [b](guarantees.md#no-such-heading) [c](#what-is-combined-and-how)"
    assert _wrong_links(document, text) == [
        "docs/usage.md: no_such_file.md",
        "docs/usage.md: guarantees.md#no-such-heading",
    ]
