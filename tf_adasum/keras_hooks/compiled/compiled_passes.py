"""Which parts of a step XLA compiles: those between which replicas may exchange.

No exchange runs inside of a function that XLA compiles. `model.compile(jit_compile=True)` so
compiles what comes before the exchange: forward and backward pass, each part in a function of its
own, while the rest of the step stays as it is.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from tensorflow.python.eager import record

from tf_adasum.keras_hooks.core.guard import require_hooks
from tf_adasum.keras_hooks.core.replicas import replica_context_with_peers
from tf_adasum.keras_hooks.core.said_once import SaidOnce

require_hooks(record, "could_possibly_record")

_LOOPS = {"While", "StatelessWhile"}
_LOOP = (
    "it has a loop, and XLA takes its backward pass together with the forward pass only. Leave "
    "train_step to Keras, or compile the model with jit_compile=False."
)
# XLA gives these numbers of its own, which are the same in every process. Keras' are stateless.
_STATEFUL_RANDOM = {
    "Multinomial",
    "RandomShuffle",
    "RandomStandardNormal",
    "RandomUniform",
    "RandomUniformInt",
    "TruncatedNormal",
}
_RANDOM = (
    "XLA would draw the same numbers on every rank. Draw them with keras.random in place of "
    "tf.random, or compile the model with jit_compile=False."
)
_said = SaidOnce()
_thread = threading.local()


class NotCompiledError(Exception):
    """XLA can't take this part, or would make something else of it; the text says why."""


def step():
    """Inside, this thread runs, or traces, a step whose parts `run` compiles."""
    return _state("wanted")


def none():
    """Inside, no part of the step is compiled."""
    return _state(None)


def are_wanted() -> bool:
    """Whether the next part of this thread is to be compiled; inside of one, no other is."""
    return getattr(_thread, "state", None) == "wanted"


def is_inside() -> bool:
    """Whether this thread traces a part that XLA compiles."""
    return getattr(_thread, "state", None) == "inside"


def run(function: Callable[[], Any]) -> Any:
    """Returns what `function` does, from a compiled function.

    Tensors that `function` takes from outside become inputs of the compiled function, with
    gradients. It is made anew in each trace of a step: replicas and steps share none.

    Raises:
        NotCompiledError: there is an operation of `tf.random`, or a loop while a gradient tape is
            open: its backward pass would need what can't leave XLA. Nothing has been done then.
    """
    has_tape = record.could_possibly_record()

    def compiled_part():
        with _state("inside"):
            results = function()
        operations = _operations(tf.compat.v1.get_default_graph())
        if operations & _STATEFUL_RANDOM:
            raise NotCompiledError(_RANDOM)
        if has_tape and operations & _LOOPS:
            raise NotCompiledError(_LOOP)
        return results

    context = replica_context_with_peers()
    with context.strategy.extended.idle.read_once():
        return tf.function(compiled_part, jit_compile=True, autograph=False)()


def say(model: keras.Model, text: str) -> None:
    """Says once, on rank 0, what of a model is not compiled, and why."""
    is_rank_0 = model.distribute_strategy.extended.communicator.rank == 0
    if is_rank_0:
        _said.warn(
            model, f"Model {model.name!r} runs without XLA, in spite of jit_compile=True: {text}"
        )


@contextlib.contextmanager
def _state(value: str | None):
    before = getattr(_thread, "state", None)
    _thread.state = value
    try:
        yield
    finally:
        _thread.state = before


def _operations(graph: tf.Graph) -> set[str]:
    """The types of the operations, those in functions too."""
    definition = graph.as_graph_def()
    functions = [function.node_def for function in definition.library.function]
    return {node.op for nodes in [definition.node, *functions] for node in nodes}
