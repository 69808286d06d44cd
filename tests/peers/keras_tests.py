"""Keras' own tests for distribution strategies, of the installed Keras, with AdasumStrategy.

Keras' wheel brings its tests. They are read from there, not copied: each module is run with
`tf.distribute.MirroredStrategy` replaced, and its test classes become those of a test file here.
"""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType
from unittest import TestCase, mock

import tensorflow as tf

import tf_adasum


def test_classes(name: str, left_out: dict[str, str]) -> dict[str, type[TestCase]]:
    """Returns the test classes of a module of Keras, to run under AdasumStrategy.

    Args:
        name: the module.
        left_out: tests that are removed, by name, each with the reason.

    Raises:
        LookupError: the module has no such test, so that a reason is out of date.
    """
    found = {
        case: value
        for case, value in vars(_module(name)).items()
        if isinstance(value, type) and issubclass(value, TestCase)
    }
    for test in left_out:
        owners = [case for case in found.values() if test in vars(case)]
        if not owners:
            raise LookupError(f"{name} has no test {test}; its reason is out of date.")
        delattr(owners[0], test)
    return {name: _under_adasum(case) for name, case in found.items()}


def _module(name: str) -> ModuleType:
    spec = importlib.util.find_spec(name)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _under_adasum(case: type[TestCase]) -> type[TestCase]:
    class UnderAdasum(case):
        def setUp(self):
            self._make = mock.Mock(side_effect=tf_adasum.AdasumStrategy)
            replaced = mock.patch.object(tf.distribute, "MirroredStrategy", self._make)
            replaced.start()
            self.addCleanup(replaced.stop)
            super().setUp()

        def tearDown(self):
            super().tearDown()
            self._make.assert_called()  # else the test was none of ours

    return type(case.__name__, (UnderAdasum,), {})
