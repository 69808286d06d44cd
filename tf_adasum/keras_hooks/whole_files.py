"""What callbacks save by Keras is whole under its name: it is written beside, then renamed.

Keras begins by emptying the file that it is about to write. A process that is killed then has lost
both saves.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable

import keras

# Keras goes by them, and with others it writes folders.
_ENDINGS = (".weights.h5", ".h5", ".keras")


def save(original: Callable, model: keras.Model, filepath, *arguments, **options) -> None:
    """Does what `original`, `Model.save` or `Model.save_weights`, does.

    Args:
        original: that method.
        model: whose it is.
        filepath: where to save.
        *arguments: further arguments. With others than overwrite=True, which may ask the user or
            make several files, Keras writes in place.
        **options: the same by name.
    """
    partial = _beside(os.fspath(filepath))
    if partial is None or arguments or options not in ({}, {"overwrite": True}):
        original(model, filepath, *arguments, **options)
        return
    try:
        original(model, partial, overwrite=True)
        os.replace(partial, filepath)
    finally:
        with contextlib.suppress(OSError):
            os.remove(partial)


def _beside(path: str) -> str | None:
    """Returns "folder/name.partial.keras" for "folder/name.keras"; None where that won't do."""
    if "://" in path:  # no local file
        return None
    ending = next((each for each in _ENDINGS if path.endswith(each)), None)
    return None if ending is None else f"{path.removesuffix(ending)}.partial{ending}"
