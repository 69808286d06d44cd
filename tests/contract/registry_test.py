"""Each reduction has its C++ file, its Python file and its reference, under one name."""

import importlib
from pathlib import Path

import pytest

from tf_adasum.collectives import native, reductions

# Not resolved: under Bazel the files are links, and what is not declared must not be found.
ROOT = Path(__file__).absolute().parents[2]


def _names(folder, suffix, apart=()):
    files = (ROOT / folder).glob(f"*{suffix}")
    return {file.name.removesuffix(suffix) for file in files} - set(apart)


def test_library_and_python_know_the_same_names():
    assert native.lib.reduction_names() == reductions.names()
    assert {"adasum", "max", "mean", "min", "product", "sum"} <= set(reductions.names())


def test_one_cxx_file_each():
    assert _names("cc/reductions", ".cc", ["reduction"]) == set(reductions.names())


def test_one_python_file_each():
    assert _names("tf_adasum/collectives/reductions", ".py", ["__init__"]) == set(
        reductions.names()
    )


@pytest.mark.parametrize("name", reductions.names())
def test_one_reference_each(name):
    assert callable(importlib.import_module(f"tests.reference.{name}").reduce)
    lines = (ROOT / "tests" / "reference" / f"{name}.py").read_text().splitlines()
    assert len(lines) <= 30


@pytest.mark.parametrize("name", reductions.names())
def test_registered_by_its_name(name):
    reduction = reductions.ALL[name]
    assert reduction.name == name
