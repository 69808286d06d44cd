"""An exchange in a part of a step that XLA compiles is refused in a sentence.

With several local replicas TensorFlow would only say that `merge_call` is in another graph.
"""

from __future__ import annotations

import functools

from tensorflow.python.distribute import distribute_lib

from tf_adasum.collectives.refusals import refusal
from tf_adasum.keras_hooks.compiled import compiled_passes
from tf_adasum.keras_hooks.core.guard import require_hooks

require_hooks(distribute_lib.ReplicaContext, "merge_call")


def install() -> None:
    """Lets `ReplicaContext.merge_call` look where it is called."""
    original = distribute_lib.ReplicaContext.merge_call

    @functools.wraps(original)
    def merge_outside(self, *args, **kwargs):
        if compiled_passes.is_inside():
            expected = "no exchange between replicas in a forward pass that XLA compiles"
            received = "jit_compile=True, and a layer, loss or variable that exchanges there"
            advice = "Set supports_jit = False on the layer, or compile with jit_compile=False."
            raise ValueError(refusal(expected, received, advice))
        return original(self, *args, **kwargs)

    distribute_lib.ReplicaContext.merge_call = merge_outside
