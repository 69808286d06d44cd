"""What XLA compiles can exchange nothing: it has no kernels of ours."""

from __future__ import annotations

import tensorflow as tf
from tensorflow.python.ops import control_flow_util

from tf_adasum.collectives.refusals import refusal
from tf_adasum.keras_hooks.core.guard import require_hooks

require_hooks(control_flow_util, "GraphOrParentsInXlaContext")


def refuse_in_xla() -> None:
    """Raises a ValueError in a function that XLA compiles."""
    if control_flow_util.GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph()):
        expected = "AdasumStrategy to exchange tensors outside of functions that XLA compiles"
        received = "a tf.function(jit_compile=True) around the exchange"
        advice = (
            "Compile the one that finds gradients, inside of strategy.run, and apply them outside."
        )
        raise ValueError(refusal(expected, received, advice))
