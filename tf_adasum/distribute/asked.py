"""What an optimizer asks of the exchange of its variables."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import tensorflow as tf

from tf_adasum.collectives.compressed_allreduce import Lost
from tf_adasum.collectives.compression import Compression
from tf_adasum.distribute.policy import PlanRow

# Takes the paths of variables, and a float64 tensor [number of paths, 2], as
# `measured_allreduce_replicas` returns it.
Measure = Callable[[Sequence[str], tf.Tensor], None]


class Encoding(Protocol):
    """How changes of variables, or their gradients, travel to other ranks."""

    def compression_of(self, variable: tf.Variable) -> Compression | None:
        """Returns how what is reduced to a variable travels; None: as it is."""

    def chosen(self, num_elements: int, dtype: str, reduction: str) -> Compression | None:
        """Returns how a variable with this reduction will travel; None: as it is."""

    def check_plan(self, rows: Sequence[PlanRow], local_reduction: str) -> None:
        """Raises ValueError for a variable that can't travel as it is to."""

    def lost_of(self, variables: Sequence[tf.Variable]) -> Lost:
        """Returns where what is lost of them is kept, of variables that travel encoded."""


class Asked(threading.local):
    """What is asked for in this thread; on all ranks alike.

    Attributes:
        measure: is told what Adasum keeps of its leaves, once for each batch; None: nobody asks.
        encoding: how tensors travel; None: as they are.
        reduction: of all variables, in the place of what the rules say; None: as the rules say.
    """

    measure: Measure | None = None
    encoding: Encoding | None = None
    reduction: str | None = None

    @contextlib.contextmanager
    def asking(
        self,
        measure: Measure | None = None,
        encoding: Encoding | None = None,
        reduction: str | None = None,
    ) -> Iterator[None]:
        """Inside, in this thread, these are asked for."""
        self.measure, self.encoding, self.reduction = measure, encoding, reduction
        try:
            yield
        finally:
            self.measure, self.encoding, self.reduction = None, None, None

    def compression_of(self, variable: Any) -> Compression | None:
        """Returns how what is reduced to a variable travels; None: as it is."""
        return None if self.encoding is None else self.encoding.compression_of(variable)
