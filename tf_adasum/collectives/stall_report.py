"""What is said of an operation that waits for ranks: who is there, who is missing, and where."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tf_adasum.collectives.refusals import ranks_in_words

# Calls inside of these say nothing of the program, as in Keras' own filtered tracebacks.
_LIBRARIES = ("/tensorflow/python/", "/keras/src/")
_MOST_STACK_BYTES = 2000
_MOST_OPERATIONS = 5
_MOST_NAME_BYTES = 120


class Answer(NamedTuple):
    """What a rank says of itself when it is asked.

    Attributes:
        operations: names of those that it waits in, oldest first; none, and it is missing.
        seconds: how long the oldest has waited.
        stack: where its main thread is, a line for each call, innermost last.
    """

    operations: list[str]
    seconds: float
    stack: list[str]


def answer(operations: list[str], seconds: float) -> Answer:
    """Returns this rank's answer, short enough for a Mailbox."""
    names = [cut(name, _MOST_NAME_BYTES) for name in operations[:_MOST_OPERATIONS]]
    return Answer(names, seconds, [] if names else _stack())


def cut(text: str, most_bytes: int) -> str:
    """Returns what fits into so many bytes of UTF-8."""
    return text.encode(errors="replace")[:most_bytes].decode(errors="ignore")


def packed(ranks: Iterable[int]) -> str:
    """Returns ranks in few bytes: a bit each, in hexadecimal digits, 3,000 for 12,000 ranks."""
    return format(sum(1 << rank for rank in set(ranks)), "x")


def unpacked(text: str) -> list[int]:
    """Returns the ranks that `packed` was given, in their order."""
    bits = int(text, 16)
    return [rank for rank in range(bits.bit_length()) if bits >> rank & 1]


def stalled(answers: Mapping[int, Answer]) -> tuple[str, float]:
    """Returns the operation that has waited longest, and its seconds; ("", 0) if none waits."""
    waiting = [given for given in answers.values() if given.operations]
    longest = max(waiting, key=lambda given: given.seconds, default=None)
    return ("", 0.0) if longest is None else (longest.operations[0], longest.seconds)


def text(answers: Mapping[int, Answer], ranks: Iterable[int], places: Mapping[int, str]) -> str:
    """Returns the report of a group of ranks.

    Args:
        answers: by rank of the world, of those that have answered.
        ranks: all ranks of the group.
        places: host and process of each rank of the world.
    """
    operation, seconds = stalled(answers)
    of_kind: dict[str, list[int]] = {"there": [], "elsewhere": [], "missing": [], "silent": []}
    for rank in ranks:
        of_kind[_kind(answers.get(rank), operation)].append(rank)
    parts = [
        f"'{operation}' has waited for {seconds:.0f} s",
        f"There: {ranks_in_words(of_kind['there'])}",
    ]
    for rank in of_kind["elsewhere"]:
        others = ", ".join(f"'{name}'" for name in answers[rank].operations)
        parts.append(f"Rank {rank} ({places[rank]}) waits elsewhere, in {others}")
    if of_kind["silent"]:
        silent = _with_places(of_kind["silent"], places)
        parts.append(
            f"No answer: {silent}, stopped, busy outside of Python with its lock held, or cut off"
        )
    if len(of_kind["there"]) == len(answers) and not of_kind["silent"]:
        parts.append("None is missing: it is under way")
    if of_kind["missing"]:
        parts.append(f"Missing: {_with_places(of_kind['missing'], places)}")
    return ". ".join(parts) + "".join(
        f"\n  Rank {rank} is in:" + "".join(f"\n    {line}" for line in answers[rank].stack)
        for rank in of_kind["missing"]
    )


def _kind(given: Answer | None, operation: str) -> str:
    if given is None:
        return "silent"
    if not given.operations:
        return "missing"
    return "there" if operation in given.operations else "elsewhere"


def _with_places(ranks: Iterable[int], places: Mapping[int, str]) -> str:
    return ", ".join(f"rank {rank} ({places[rank]})" for rank in ranks)


def _stack() -> list[str]:
    frame = sys._current_frames().get(threading.main_thread().ident)
    calls = traceback.extract_stack(frame)
    lines = [
        f'File "{call.filename}", line {call.lineno}, in {call.name}'
        for call in calls
        if call is calls[-1] or not any(part in call.filename for part in _LIBRARIES)
    ]
    kept: list[str] = []
    for line in reversed(lines):
        if sum(len(one.encode(errors="replace")) for one in [*kept, line]) > _MOST_STACK_BYTES:
            break
        kept.insert(0, line)
    return kept
