"""What all choices of when and with whom replicas meet have in common."""

from __future__ import annotations

import abc
import dataclasses
from typing import ClassVar

from tf_adasum.collectives.choice import Choice
from tf_adasum.optimizers.parts import Exchange


@dataclasses.dataclass(frozen=True)
class Sync(Choice, abc.ABC):
    """When and with whom replicas meet; the choices are subclasses. It keeps no state.

    Attributes:
        accumulates: whether it goes with `accumulate`.
        has_modes: whether `mode` says what is exchanged; else the choice does.
    """

    argument: ClassVar[str] = "sync"
    kind: ClassVar[str] = "choice"
    instance: ClassVar[str] = "GroupAveraging()"
    accumulates: ClassVar[bool] = False
    has_modes: ClassVar[bool] = False

    @abc.abstractmethod
    def exchange(self, mode: str) -> Exchange:
        """Returns the part of an optimizer that does it, in `wrap`'s mode if it has modes."""
