"""Warnings that a program would hear with every call are said once for each model."""

from __future__ import annotations

import logging
import weakref

import keras

_log = logging.getLogger("tf_adasum")


class SaidOnce:
    """Remembers what it has said."""

    def __init__(self):
        self._said: weakref.WeakKeyDictionary[keras.Model, set[str]] = weakref.WeakKeyDictionary()

    def warn(self, model: keras.Model, message: str) -> None:
        """Logs a warning, if it is the first in these words about the model."""
        said = self._said.setdefault(model, set())
        if message not in said:
            said.add(message)
            _log.warning(message)
