"""Places in Keras and TensorFlow that must know about replicas; each in a file of its own."""

from __future__ import annotations

import functools

from tf_adasum.keras_hooks import (
    device_iterators,
    equal_weights,
    loss_scale,
    losses,
    next_batch,
    num_batches,
    operation_seeds,
    optimizer_scope,
    plain_optimizer,
    seeds,
    step_count,
    symbolic_build,
)

_HOOKS = (
    device_iterators,
    equal_weights,
    loss_scale,
    losses,
    next_batch,
    num_batches,
    operation_seeds,
    optimizer_scope,
    plain_optimizer,
    seeds,
    step_count,
    symbolic_build,
)


@functools.cache
def install() -> None:
    """Installs the hooks, once; without an `AdasumStrategy` in scope they change nothing."""
    for hook in _HOOKS:
        hook.install()
