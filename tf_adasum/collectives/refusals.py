"""Errors about what a user passed: which rank, what was expected and received, what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_MOST_CHARACTERS = 200


class _Speaker:
    """The rank that refuses; not known before the ranks have met."""

    rank: int | None = None


_speaker = _Speaker()


def speak_as(rank: int) -> None:
    """Lets the refusals of this process begin with its rank in the world."""
    _speaker.rank = rank


def shown(value: Any) -> str:
    """Returns a value as errors show it: in one line, and not all of a long one.

    Example:
        >>> from tf_adasum.collectives.refusals import shown
        >>> shown([1, 2])
        '[1, 2] of type list'
    """
    try:
        text = " ".join(repr(value).split())
    except Exception as error:  # the user's own
        text = f"a value whose repr raises {type(error).__name__}"
    text = text if len(text) <= _MOST_CHARACTERS else text[:_MOST_CHARACTERS] + "..."
    return f"{text} of type {type(value).__name__}"


def refusal(expected: str, received: str, advice: str) -> str:
    """Returns the line of an error about something that this process alone has found.

    Args:
        expected: what follows "Expected".
        received: what follows "Received".
        advice: a sentence: what to do.
    """
    rank = "" if _speaker.rank is None else f"rank {_speaker.rank}: "
    return f"{rank}Expected {expected}. Received: {received}. {advice}"


def ranks_in_words(ranks: Sequence[int]) -> str:
    """Names ranks in a message.

    Args:
        ranks: in ascending order.

    Example:
        >>> from tf_adasum.collectives.refusals import ranks_in_words
        >>> ranks_in_words([1]), ranks_in_words([0, 2, 3, 4])
        ('rank 1', 'ranks 0, 2 to 4')
    """
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    words = [f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs]
    return f"rank{'' if len(ranks) == 1 else 's'} {', '.join(words)}"


def is_text(value: Any) -> bool:
    """Whether it is a str that libraries in C++ can take: no half of a surrogate pair."""
    try:
        return isinstance(value, str) and (value.isascii() or value.encode() is not None)
    except UnicodeEncodeError:
        return False
