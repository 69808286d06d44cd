"""Which logs of a step have a value for each row of its batch.

Ranks have other rows, and may have unlike numbers of them: a mean over ranks means nothing there.
"""

from __future__ import annotations

import functools
import weakref
from typing import Any

import keras
import tensorflow as tf
from keras.src.backend.tensorflow.trainer import TensorFlowTrainer

from tf_adasum.keras_hooks.core.guard import require_hooks
from tf_adasum.keras_hooks.core.hooked_extended import HookedExtended
from tf_adasum.keras_hooks.idle.empty_batches import num_rows

require_hooks(TensorFlowTrainer, "_make_function")

# Of a model, where in the logs of its steps they are.
_places: weakref.WeakKeyDictionary[keras.Model, set[tuple]] = weakref.WeakKeyDictionary()


def places(model: keras.Model) -> set[tuple]:
    """Paths of such logs among those of the steps that were traced, or run, last."""
    return _places.get(model, set())


def install() -> None:
    """Lets steps of `fit` and `evaluate` look at the shapes of what they return."""
    original = TensorFlowTrainer._make_function

    @functools.wraps(original)
    def make_noting(self, step_function):
        if not isinstance(self.distribute_strategy.extended, HookedExtended):
            return original(self, step_function)

        def step(data):
            logs = step_function(data)
            own = _places.setdefault(self, set())
            for path, leaf in keras.tree.flatten_with_path(logs):
                (own.add if _has_each_row(leaf, num_rows(data)) else own.discard)(path)
            return logs

        return original(self, step)

    TensorFlowTrainer._make_function = make_noting


def _has_each_row(leaf: Any, rows: int | tf.Tensor | None) -> bool:
    """Whether a length is unknown where a step is traced, or is that of the batch."""
    shape = tf.TensorShape(getattr(leaf, "shape", ()))
    if shape.rank == 0:
        return False
    return not shape.is_fully_defined() or (isinstance(rows, int) and shape[0] == rows)
