"""Gradients of an idle replica are zero: Adasum's identity.

They are made zero before anything looks at them: whether they are finite, or how long.
"""

from __future__ import annotations

import functools

import keras
from keras.src.optimizers.base_optimizer import BaseOptimizer

from tf_adasum.keras_hooks.core.guard import require_hooks
from tf_adasum.keras_hooks.core.idle_replicas import zeros_if
from tf_adasum.keras_hooks.core.replicas import replica_context_with_peers

require_hooks(BaseOptimizer, "apply")
require_hooks(keras.optimizers.LossScaleOptimizer, "apply")


def install() -> None:
    """Lets `apply` of all optimizers begin with zeros on an idle replica.

    What an optimizer assigns is the same on all replicas, and not left out.
    """
    _begin_with_zeros(BaseOptimizer)
    _begin_with_zeros(keras.optimizers.LossScaleOptimizer)


def _begin_with_zeros(optimizer_class: type) -> None:
    original = optimizer_class.apply

    @functools.wraps(original)
    def apply(self, grads, *args, **kwargs):
        context = replica_context_with_peers()
        idle = None if context is None else context.strategy.extended.idle
        is_idle = None if idle is None else idle.here()
        if is_idle is None:
            return original(self, grads, *args, **kwargs)
        grads = list(grads)
        zeros = iter(zeros_if(is_idle, [grad for grad in grads if grad is not None]))
        grads = [None if grad is None else next(zeros) for grad in grads]
        with idle.nothing_left_out():
            return original(self, grads, *args, **kwargs)

    optimizer_class.apply = apply
