"""What `add_loss` and `activity_regularizer` add in a step is the replica's own.

Keras keeps it in one list for each layer, and clears the lists as a call of the model begins. The
replicas of a process take turns, in threads, where a layer exchanges: the second would clear what
the first has added, or find it beside its own. So each local replica has lists of its own.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator

import keras

from tf_adasum.keras_hooks.core.guard import require_hooks, require_reads
from tf_adasum.keras_hooks.core.replicas import local_replica, replica_context_with_peers

require_hooks(keras.Layer, "add_loss", "_clear_losses", "_get_own_losses")
require_reads(keras.Layer, "_clear_losses", "_loss_ids", "_losses")
require_reads(keras.Layer, "_get_own_losses", "_losses")

_OF_REPLICAS = "_adasum_losses"


def install() -> None:
    """Lets what layers keep of losses be of the replica that asks."""
    for name in ("add_loss", "_clear_losses", "_get_own_losses"):
        setattr(keras.Layer, name, _with_lists_of_replica(getattr(keras.Layer, name)))


def of(layer: keras.Layer) -> list:
    """Returns what the layer itself has added for this replica."""
    return layer._get_own_losses()


def replace(layer: keras.Layer, losses: Iterable) -> None:
    """Puts losses in the place of what the layer itself has added for this replica."""
    with _lists_of_replica(layer):
        layer._losses[:] = losses


@contextlib.contextmanager
def _lists_of_replica(layer: keras.Layer) -> Iterator[None]:
    """Inside, `layer._losses` and `layer._loss_ids` are this replica's; nothing may exchange."""
    context = replica_context_with_peers()
    is_single = context is None or len(context.strategy.extended.worker_devices) == 1
    number = 0 if is_single else local_replica(context)
    if number == 0:  # has what Keras made
        yield
        return
    kept = vars(layer)  # an attribute that is set would be tracked
    own = kept.setdefault(_OF_REPLICAS, {}).setdefault(number, {"_losses": [], "_loss_ids": set()})
    before = {name: kept[name] for name in own}
    kept.update(own)
    try:
        yield
    finally:
        kept.update(before)


def _with_lists_of_replica(method: Callable) -> Callable:
    @functools.wraps(method)
    def call(self, *args, **kwargs):
        with _lists_of_replica(self):
            return method(self, *args, **kwargs)

    return call
