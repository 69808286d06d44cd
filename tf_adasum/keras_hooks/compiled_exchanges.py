"""An exchange in a part of a step that XLA compiles is refused in a sentence.

With several local replicas TensorFlow would only say that `merge_call` is in another graph.
"""

from __future__ import annotations

import functools

from tensorflow.python.distribute import distribute_lib

from tf_adasum.keras_hooks import compiled_passes
from tf_adasum.keras_hooks.guard import require_hooks

require_hooks(distribute_lib.ReplicaContext, "merge_call")


def install() -> None:
    """Lets `ReplicaContext.merge_call` look where it is called."""
    original = distribute_lib.ReplicaContext.merge_call

    @functools.wraps(original)
    def merge_outside(self, *args, **kwargs):
        if compiled_passes.is_inside():
            raise ValueError(
                "Expected no exchange between replicas in a forward pass that XLA compiles. "
                "Received: jit_compile=True, and a layer, loss or variable with an aggregation "
                "that exchanges there. Set supports_jit = False on the layer, or compile the "
                "model with jit_compile=False."
            )
        return original(self, *args, **kwargs)

    distribute_lib.ReplicaContext.merge_call = merge_outside
