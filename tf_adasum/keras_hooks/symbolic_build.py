"""Building a model from its first batch: shapes are learned locally, nothing is exchanged.

Keras reduces the first batch with MEAN before it builds. Batches differ in length between
ranks and may hold strings or images, which no reduction takes; only shapes are needed.
"""

from __future__ import annotations

import functools

from keras.src.backend.tensorflow.trainer import TensorFlowTrainer

from tf_adasum.keras_hooks.guard import require_hooks
from tf_adasum.keras_hooks.hooked_extended import HookedExtended

require_hooks(TensorFlowTrainer, "_maybe_symbolic_build", "distribute_strategy")


def install() -> None:
    """Lets `TensorFlowTrainer._maybe_symbolic_build` look at local values only."""
    original = TensorFlowTrainer._maybe_symbolic_build

    @functools.wraps(original)
    def build_from_local_batch(self, *args, **kwargs):
        extended = self.distribute_strategy.extended
        if not isinstance(extended, HookedExtended):
            return original(self, *args, **kwargs)
        with extended.symbolic_build():
            return original(self, *args, **kwargs)

    TensorFlowTrainer._maybe_symbolic_build = build_from_local_batch
