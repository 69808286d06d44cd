"""Places in Keras that must know about replicas on other ranks; each in a file of its own."""

from __future__ import annotations

import functools

from tf_adasum.keras_hooks import (
    equal_weights,
    loss_scale,
    next_batch,
    optimizer_scope,
    plain_optimizer,
    seeds,
    symbolic_build,
)


@functools.cache
def install() -> None:
    """Installs the hooks, once; without an `AdasumStrategy` in scope they change nothing."""
    for hook in (
        equal_weights,
        loss_scale,
        next_batch,
        optimizer_scope,
        plain_optimizer,
        seeds,
        symbolic_build,
    ):
        hook.install()
