"""A choice among classes that a saved configuration names: codecs, and when replicas meet."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from typing_extensions import Self

from tf_adasum.collectives.refusals import refusal, shown


class Choice:
    """The base of a dataclass whose direct subclasses are the choices.

    Attributes:
        argument: that takes one; the module of this name has them.
        kind: what errors call one of them.
        instance: one of them, as a program makes it.
    """

    argument: ClassVar[str]
    kind: ClassVar[str]
    instance: ClassVar[str]

    @classmethod
    def saved_name(cls) -> str:
        """What a configuration calls the class."""
        return cls.__name__

    def get_config(self) -> dict[str, Any]:
        """Its settings, and which it is; `from_config` makes it again."""
        return {"name": self.saved_name(), **dataclasses.asdict(self)}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """Makes what a configuration describes.

        Raises:
            ValueError: there is none of this name.
        """
        settings = dict(config)
        name = settings.pop("name", None)
        choices = {choice.saved_name(): choice for choice in cls.__subclasses__()}
        if name in choices:
            return choices[name](**settings)
        advice = "It was saved by another version: update tf_adasum."
        expected = f"a {cls.kind} among {sorted(choices)}"
        raise ValueError(refusal(expected, repr(name), advice))

    @classmethod
    def check(cls, value: Any) -> None:
        """Raises TypeError for what is none of them."""
        if not isinstance(value, cls):
            expected = f"one of adasum.{cls.argument}'s {cls.kind}s as {cls.argument}"
            advice = f"Pass one of them, such as {cls.instance}."
            raise TypeError(refusal(expected, shown(value), advice))
