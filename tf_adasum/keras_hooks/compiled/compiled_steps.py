"""Steps of Keras with `jit_compile=True`: what is around the exchange is not compiled.

Keras would hand the whole step to XLA, which knows no exchange. `compiled_passes` says what is
compiled in its place.
"""

from __future__ import annotations

import functools

import keras
from keras.src.backend.tensorflow.trainer import TensorFlowTrainer

from tf_adasum.keras_hooks.compiled import compiled_passes
from tf_adasum.keras_hooks.core.guard import require_hooks, require_reads
from tf_adasum.keras_hooks.core.hooked_extended import HookedExtended

require_hooks(TensorFlowTrainer, "_make_function", "distribute_strategy", "jit_compile")
require_reads(TensorFlowTrainer, "_make_function", "jit_compile")
require_reads(TensorFlowTrainer, "jit_compile", "_jit_compile")


def install() -> None:
    """Lets `TensorFlowTrainer._make_function` compile parts of steps only."""
    original = TensorFlowTrainer._make_function

    @functools.wraps(original)
    def make_function(self, step_function):
        if not self.jit_compile or not _has_peers(self):
            return original(self, step_function)
        step = step_function if _exchanges_inside(self) else _compiled(step_function)
        self._jit_compile = False
        try:
            return original(self, step)
        finally:
            self._jit_compile = True

    TensorFlowTrainer._make_function = make_function


def _compiled(step_function):
    def step(data):
        with compiled_passes.step():
            return step_function(data)

    return step


def _has_peers(model: keras.Model) -> bool:
    strategy = model.distribute_strategy
    return isinstance(strategy.extended, HookedExtended) and strategy.num_replicas_in_sync > 1


def _exchanges_inside(model: keras.Model) -> bool:
    """Whether a layer needs the other replicas in the forward pass; a line in the log says so."""
    for layer in model._flatten_layers():
        if isinstance(layer, keras.layers.BatchNormalization) and layer.synchronized:
            compiled_passes.say(
                model,
                f"its layer {layer.name!r} is synchronized and exchanges in the forward pass. Make "
                "it with synchronized=False, or compile the model with jit_compile=False.",
            )
            return True
    return False
