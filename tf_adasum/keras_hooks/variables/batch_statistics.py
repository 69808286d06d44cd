"""What BatchNormalization keeps of each replica's rows becomes the mean over all replicas.

While a model is trained each replica has moving statistics of its own, unless the layer is
synchronized, which costs messages in every step. With them the model is another one on each
replica: a prediction would depend on the replica that its row goes to, and a file would hold what
rank 0 saw. So they meet where an epoch ends, and where `evaluate` or `predict` begins, in one
message.
"""

from __future__ import annotations

import weakref

import keras
import numpy as np

from tf_adasum.keras_hooks.core import calls
from tf_adasum.keras_hooks.core.guard import require_hooks
from tf_adasum.keras_hooks.core.hooked_extended import HookedExtended
from tf_adasum.keras_hooks.variables.local_copies import local_copies

require_hooks(keras.Model, "_flatten_layers")

_trained: weakref.WeakSet[keras.Model] = weakref.WeakSet()


def install() -> None:
    """Lets replicas' statistics meet before callbacks see what comes of them."""
    calls.before("on_train_batch_begin", lambda call: _trained.add(call.model))
    for turn in ("on_epoch_end", "on_test_begin", "on_predict_begin"):
        calls.before(turn, _meet)


def _meet(call: calls.Call) -> None:
    extended = call.model.distribute_strategy.extended
    if call.model not in _trained or not isinstance(extended, HookedExtended):
        return
    _trained.discard(call.model)
    copies = [local_copies(each.value) for each in _statistics_of(call.model)]
    if not copies or extended.numbers.total == 1:
        return
    # In float64: no mean of equal numbers may differ from them.
    sums = [sum(copy.numpy().astype(np.float64) for copy in each).ravel() for each in copies]
    flat = np.concatenate(sums)
    name = "the statistics of BatchNormalization"
    extended.communicator.allreduce_arrays([flat], "sum", name)
    means = np.split(flat / extended.numbers.total, np.cumsum([each.size for each in sums])[:-1])
    for each, mean in zip(copies, means):
        for copy in each:
            copy.assign(mean.reshape(copy.shape).astype(copy.dtype.as_numpy_dtype))


def _statistics_of(model: keras.Model) -> list[keras.Variable]:
    layers = [
        layer
        for layer in model._flatten_layers()
        if isinstance(layer, keras.layers.BatchNormalization)
        and layer.trainable  # else they stay as they are
        and not layer.synchronized
    ]
    return [each for layer in layers for each in layer.non_trainable_variables]
