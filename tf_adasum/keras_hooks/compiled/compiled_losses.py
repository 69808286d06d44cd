"""The loss of a step with `jit_compile=True` is compiled by XLA, and its gradient too."""

from __future__ import annotations

import functools

from keras.src.trainers.trainer import Trainer

from tf_adasum.keras_hooks.compiled import compiled_passes
from tf_adasum.keras_hooks.core.guard import require_hooks

require_hooks(Trainer, "_compute_loss", "compute_loss")


def install() -> None:
    """Lets Keras' own steps, and own ones that call `compute_loss`, compile it."""
    for name in ("_compute_loss", "compute_loss"):
        setattr(Trainer, name, _compiled(getattr(Trainer, name)))


def _compiled(original):
    @functools.wraps(original)
    def compute(self, *args, **kwargs):
        if not compiled_passes.are_wanted():
            return original(self, *args, **kwargs)
        try:
            return compiled_passes.run(lambda: original(self, *args, **kwargs))
        except compiled_passes.NotCompiledError as error:
            compiled_passes.say(self, str(error))
            with compiled_passes.none():
                return original(self, *args, **kwargs)

    return compute
