"""No private name of TensorFlow's or Keras' is used that no check at import asks for."""

import ast

from tools.lint import ROOT

# Python's own.
_PUBLIC_ALL_THE_SAME = {"_current_frames", "_fields", "_replace"}
_GUARDS = {"require_hooks", "require_mentions", "require_reads"}


def _nodes():
    for path in sorted((ROOT / "tf_adasum").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            yield path, node


def _names_made(node):
    """What a node of the syntax tree defines, assigns or imports."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        yield node.attr
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from (alias.name.split(".")[-1] for alias in node.names)


def _names_asked_for(node):
    """The strings of a check's arguments, lists and dictionaries of the module's among them."""
    if isinstance(node, ast.Call) and getattr(node.func, "id", None) in _GUARDS:
        for inner in ast.walk(node):
            if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
                yield inner.value


def test_private_names_are_asked_for_at_import():
    known = {"_adasum_base", *_PUBLIC_ALL_THE_SAME}  # of a class that type() makes
    used = []
    for path, node in _nodes():
        known.update(_names_made(node))
        known.update(_names_asked_for(node))
        if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            if not node.attr.startswith("__"):
                used.append((node.attr, f"{path.relative_to(ROOT)}:{node.lineno}"))
    assert len(used) > 1000
    assert [(name, where) for name, where in used if name not in known] == []
