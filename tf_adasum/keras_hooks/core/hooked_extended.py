"""What the hooks tell the `extended` of a strategy while Keras' code runs, and ask of it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any, Protocol

import tensorflow as tf

from tf_adasum.collectives.communicator import Communicator
from tf_adasum.collectives.replica_numbers import ReplicaNumbers
from tf_adasum.keras_hooks.core.idle_replicas import IdleReplicas
from tf_adasum.keras_hooks.core.lent_generator import LentGenerator
from tf_adasum.keras_hooks.core.plain_variable import make_plain_zeros
from tf_adasum.keras_hooks.core.replicas_flag import ReplicasFlag


def peers_of(strategy: tf.distribute.Strategy | None) -> Communicator | None:
    """Returns the ranks that a strategy is on, if it is ours; None if this one has no others."""
    extended = getattr(strategy, "extended", None)
    has_peers = isinstance(extended, HookedExtended) and extended.communicator.size > 1
    return extended.communicator if has_peers else None


class ChecksRounds(Protocol):
    """What the hooks ask of the rounds of a `BatchShare`."""

    def check(self, optimizer: Any, num_calls: int | None) -> None:
        """Is told after how many calls an optimizer exchanges that a step applies."""


class CountsRows(Protocol):
    """What the hooks ask of the `BatchShare` of a strategy."""

    rounds: ChecksRounds

    def step(self, replica: int, num_rows: Any) -> contextlib.AbstractContextManager:
        """Around a training step of a local replica, of so many rows."""

    def mean_weight(self, replica: int) -> tf.Tensor:
        """Returns what a local replica's gradients are to be multiplied by in a mean."""

    def computed(self, values: Any) -> None:
        """Is told what a step has computed, before it is exchanged."""

    def renew(self) -> None:
        """Is told that an epoch begins, on all ranks."""


class HookedExtended:
    """Mixin of an `extended` whose replicas have peers in other processes.

    The hooks act where a strategy has one of these, and nowhere else.

    Attributes:
        communicator: the processes of the strategy.
        numbers: of their replicas.
        idle: which local replicas have no row in the step under way.
        generator: of what replicas draw without a seed.
        batch_share: which part of each batch a rank trains on; None: all alike.
        undivided_losses: while it is on, the losses of replicas are their own: nothing divides
            them by N.
        first_replicas_agree: while it is on, all ranks assign equal values to variables that take
            the first replica's.
        rows_in_order: while it is on, data are dealt to ranks by rows, and not by files.
        files_are_dealt: whether ranks were dealt files of the data that were distributed last.
        number_is_known: a variable, whether the ranks know how many batches `fit` has.
        see_variable: is called with path, shape and dtype of each Keras variable to be trained
            that is made in the strategy's scope.
    """

    communicator: Communicator
    numbers: ReplicaNumbers
    idle: IdleReplicas

    def __init__(self, *args, **kwargs):
        self._thread = threading.local()
        self.generator = LentGenerator()
        self.undivided_losses = ReplicasFlag()
        self.first_replicas_agree = ReplicasFlag()
        self.rows_in_order = ReplicasFlag()
        self.batch_share: CountsRows | None = None
        self.files_are_dealt = False
        self.number_is_known = make_plain_zeros([], "bool")
        self.see_variable: Callable[[str, tuple[int, ...], str], None] = lambda *described: None
        super().__init__(*args, **kwargs)

    @property
    def is_building(self) -> bool:
        """Whether this thread is inside of `symbolic_build`."""
        return getattr(self._thread, "is_building", False)

    @contextlib.contextmanager
    def symbolic_build(self):
        """Inside, a MEAN is answered with the first local value, without communication.

        Keras asks for the mean of the first batch only to learn its shapes and dtypes.
        """
        self._thread.is_building = True
        try:
            yield
        finally:
            self._thread.is_building = False

    @property
    def is_alone(self) -> bool:
        """Whether this thread is inside of `alone`."""
        return getattr(self._thread, "is_alone", False)

    @contextlib.contextmanager
    def alone(self):
        """Inside, variables start with this rank's own values: no other rank makes them."""
        self._thread.is_alone = True
        try:
            yield
        finally:
            self._thread.is_alone = False

    @property
    def plain_name(self) -> str | None:
        """The name that `plain_values_are` gave in this thread, None outside of it."""
        return getattr(self._thread, "plain_name", None)

    @contextlib.contextmanager
    def plain_values_are(self, name: str):
        """Inside, a reduction of one value per process goes by this name."""
        self._thread.plain_name = name
        try:
            yield
        finally:
            self._thread.plain_name = None
