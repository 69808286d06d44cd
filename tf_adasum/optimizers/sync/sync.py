"""What all choices of when and with whom replicas meet have in common."""

from __future__ import annotations

import abc
import dataclasses
from typing import Any, ClassVar

from tf_adasum.collectives.refusals import refusal, shown
from tf_adasum.optimizers.parts import Exchange


@dataclasses.dataclass(frozen=True)
class Sync(abc.ABC):
    """When and with whom replicas meet; the choices are subclasses. It keeps no state.

    Attributes:
        accumulates: whether it goes with `accumulate`.
        has_modes: whether `mode` says what is exchanged; else the choice does.
    """

    accumulates: ClassVar[bool] = False
    has_modes: ClassVar[bool] = False

    @abc.abstractmethod
    def exchange(self, mode: str) -> Exchange:
        """Returns the part of an optimizer that does it, in `wrap`'s mode if it has modes."""

    def get_config(self) -> dict[str, Any]:
        """Its settings, and which it is; `from_config` makes it again."""
        return {"name": type(self).__name__, **dataclasses.asdict(self)}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Sync:
        """Makes the choice that a configuration describes.

        Raises:
            ValueError: there is none of this name.
        """
        settings = dict(config)
        name = settings.pop("name", None)
        for choice in cls.__subclasses__():
            if choice.__name__ == name:
                return choice(**settings)
        names = sorted(choice.__name__ for choice in cls.__subclasses__())
        advice = "It was saved by another version: update tf_adasum."
        raise ValueError(refusal(f"a sync among {names}", repr(name), advice))

    @classmethod
    def check(cls, sync: Any) -> None:
        """Raises TypeError for what is no such choice."""
        if not isinstance(sync, cls):
            expected = "one of adasum.sync's choices as sync"
            raise TypeError(
                refusal(expected, shown(sync), "Pass one of them, such as GroupAveraging().")
            )
