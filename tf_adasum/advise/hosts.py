"""The hosts that `advise` predicts for, as the user says them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from tf_adasum.collectives.checked_numbers import checked_float, checked_int
from tf_adasum.collectives.refusals import refusal, shown

_MOST_RANKS = 2**20
_LEAST_GBITS, _MOST = 1e-6, 1e9


@dataclasses.dataclass(frozen=True)
class Hosts:
    """The hosts that are predicted for.

    Attributes:
        ranks: on each; None: as many as there are now.
        gbits: rate of each host's link, Gbit/s; where several hosts are there, they are measured.
        round_us: microseconds of a message there and back between hosts.
    """

    ranks: int | None = None
    gbits: float = 25.0
    round_us: float = 30.0


def checked_hosts(given: Any) -> Hosts:
    """Returns them.

    Args:
        given: the argument `hosts` of `advise`.

    Raises:
        TypeError: it is no dict, has another key, or what is no number.
        ValueError: a number is out of range.
    """
    given = {} if given is None else given
    names = [field.name for field in dataclasses.fields(Hosts)]
    if not isinstance(given, Mapping) or not set(given) <= set(names):
        expected = f"hosts to be a dict with any of {', '.join(names)}"
        raise TypeError(refusal(expected, shown(given), "Pass no other key."))
    hosts = Hosts(**given)
    ranks = hosts.ranks
    return Hosts(
        None if ranks is None else checked_int("hosts['ranks']", ranks, 1, _MOST_RANKS),
        checked_float("hosts['gbits']", hosts.gbits, _LEAST_GBITS, _MOST),
        checked_float("hosts['round_us']", hosts.round_us, 0, _MOST),
    )
