"""The first batches of a `PyDataset` or a generator, which Keras looks at for their shapes."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator
from typing import Any

from keras.src.trainers.data_adapters import data_adapter_utils
from keras.src.trainers.data_adapters.generator_data_adapter import GeneratorDataAdapter
from keras.src.trainers.data_adapters.py_dataset_adapter import PyDatasetAdapter

from tf_adasum.keras_hooks.core.guard import require_hooks, require_reads

require_hooks(data_adapter_utils, "get_tensor_spec")
for _adapter in (GeneratorDataAdapter, PyDatasetAdapter):
    require_reads(_adapter, "get_tf_dataset", "get_tensor_spec")


class _Noted(threading.local):
    batches: list | None = None


_noted = _Noted()


@functools.cache
def install() -> None:
    """Lets `noted` see what Keras looks at."""
    original = data_adapter_utils.get_tensor_spec

    @functools.wraps(original)
    def note_and_get(batches):
        if _noted.batches is not None:
            _noted.batches.extend(batches)
        return original(batches)

    data_adapter_utils.get_tensor_spec = note_and_get


@contextlib.contextmanager
def noted() -> Iterator[list[Any]]:
    """Inside, the list holds what Keras has looked at so far, on this thread."""
    before, _noted.batches = _noted.batches, []
    try:
        yield _noted.batches
    finally:
        _noted.batches = before


def compared(batches: list[Any]) -> list[Any]:
    """What ranks should have in common of their first batches: the targets, where there are some.

    A program may well change the inputs by chance, on each rank otherwise.
    """
    parts = [batch if isinstance(batch, (list, tuple)) else (batch,) for batch in batches]
    targets = [part[1] for part in parts if len(part) > 1 and part[1] is not None]
    return targets or [part[0] for part in parts if part]
