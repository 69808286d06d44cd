"""Why there is no advice: one sentence, the same on all ranks."""

from __future__ import annotations

from tf_adasum.collectives.communicator import Communicator
from tf_adasum.collectives.gathered import gather_bytes


class NoAdviceError(ValueError):
    """What was given can't be measured; the sentence says what was expected and what to do."""


def refuse_together(own: str, communicator: Communicator, what: str) -> None:
    """Raises on all ranks alike if any of them has found something.

    Args:
        own: the sentence of this rank, empty if all is well.
        communicator: the ranks; all call it.
        what: was looked at; equal on all ranks.

    Raises:
        NoAdviceError: with the sentence of the first rank that has one.
    """
    sentences = gather_bytes(own.encode(), communicator, f"advise: {what}")
    found = [(rank, sentence.decode()) for rank, sentence in enumerate(sentences) if sentence]
    if found:
        rank, sentence = found[0]
        raise NoAdviceError(f"{communicator.in_words(rank)}: {sentence}")
