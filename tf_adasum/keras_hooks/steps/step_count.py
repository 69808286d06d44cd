"""The count of an optimizer's steps: equal on all ranks by itself, so nothing is sent for it.

Keras keeps it in a variable that takes the first replica's value. That is rank 0's, and would
cost a message in every step, those between the reductions of `steps_per_sync` too.
"""

from __future__ import annotations

import functools

from keras.src.optimizers.base_optimizer import BaseOptimizer

from tf_adasum.keras_hooks.core.guard import require_hooks
from tf_adasum.keras_hooks.core.replicas import replica_context_with_peers

require_hooks(BaseOptimizer, "apply")


def install() -> None:
    """Lets the first replica's value be the rank's own inside of `BaseOptimizer.apply`."""
    original = BaseOptimizer.apply

    @functools.wraps(original)
    def apply(self, *args, **kwargs):
        context = replica_context_with_peers()
        if context is None:
            return original(self, *args, **kwargs)
        with context.strategy.extended.first_replicas_agree.raised():
            return original(self, *args, **kwargs)

    BaseOptimizer.apply = apply
