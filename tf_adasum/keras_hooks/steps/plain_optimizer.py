"""An optimizer that was not wrapped: its gradients are added up, and rank 0 says so."""

from __future__ import annotations

import functools

from keras.src.backend.tensorflow.optimizer import TFOptimizer

from tf_adasum.keras_hooks.core.guard import require_hooks
from tf_adasum.keras_hooks.core.replicas import replica_context_with_peers

require_hooks(TFOptimizer, "_all_reduce_sum_gradients")


def install() -> None:
    """Announces the plain sum; a wrapped optimizer overrides the method and stays silent."""
    original = TFOptimizer._all_reduce_sum_gradients

    @functools.wraps(original)
    def sum_and_say_so(self, grads_and_vars):
        context = replica_context_with_peers()
        if context is not None:
            context.strategy.check_made_here(self)
            context.strategy.say_once(
                f"Optimizer {self.name!r} is not wrapped: its gradients are added up over "
                f"{context.num_replicas_in_sync} replicas, which is their mean if the loss was "
                "divided by that number, as fit divides. Use tf_adasum.wrap(optimizer) for Adasum."
            )
        return original(self, grads_and_vars)

    TFOptimizer._all_reduce_sum_gradients = sum_and_say_so
