"""Calls of models in a step with `jit_compile=True`: XLA compiles the outermost ones.

That is for steps of the user's own, however many models they call: what a compiled call
differentiates into is compiled as well. Keras' own `train_step` is in `compiled_train_steps`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import keras
from keras.src import backend

from tf_adasum.keras_hooks.compiled import compiled_passes
from tf_adasum.keras_hooks.core import added_losses
from tf_adasum.keras_hooks.core.guard import require_hooks

require_hooks(keras.Model, "__call__", "_flatten_layers")
require_hooks(backend, "get_keras_mask", "set_keras_mask")


def install() -> None:
    """Lets `keras.Model.__call__` compile where the step asks for it."""
    original = keras.Model.__call__

    @functools.wraps(original)
    def call(self, *args, **kwargs):
        if not compiled_passes.are_wanted():
            return original(self, *args, **kwargs)
        try:
            return run(self, lambda: (original(self, *args, **kwargs), None))[0]
        except compiled_passes.NotCompiledError as error:
            compiled_passes.say(self, str(error))
        with compiled_passes.none():
            return original(self, *args, **kwargs)

    keras.Model.__call__ = call


def run(model: keras.Model, function: Callable[[], tuple[Any, Any]]) -> tuple[Any, Any]:
    """`compiled_passes.run` of a function that calls the model.

    What Keras keeps beside outputs comes out with them: masks, and losses that layers added.

    Args:
        model: the model that the function calls.
        function: returns the model's outputs and other tensors.

    Returns:
        The model's outputs and the other tensors.
    """

    def traced():
        outputs, others = function()
        masks = [backend.get_keras_mask(output) for output in keras.tree.flatten(outputs)]
        return outputs, others, masks, [added_losses.of(layer) for layer in model._flatten_layers()]

    outputs, others, masks, losses = compiled_passes.run(traced)
    for output, mask in zip(keras.tree.flatten(outputs), masks, strict=True):
        if mask is not None:
            backend.set_keras_mask(output, mask)
    for layer, own in zip(model._flatten_layers(), losses, strict=True):
        added_losses.replace(layer, own)
    return outputs, others
