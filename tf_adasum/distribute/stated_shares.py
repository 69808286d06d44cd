"""What a program or a host file says of the ranks' parts of each global batch, checked."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from tf_adasum.collectives.communicator import Communicator
from tf_adasum.collectives.gathered import first_unlike, gather_bytes, in_words_of_two
from tf_adasum.collectives.refusals import refusal, shown

MEASURED = "measured"
HOSTFILE = "hostfile"
# Of each rank of the world; adasumrun sets it.
VARIABLE = "TF_ADASUM_BATCH_SHARES"
_MOST_CHARACTERS = 80  # of a rank's shares, in an error


def resolved(share: Any, communicator: Communicator) -> Any:
    """Returns the numbers for "hostfile", and anything else as it is.

    Args:
        share: of `AdasumStrategy`.
        communicator: the ranks.

    Raises:
        ValueError: the host file says nothing of shares, or the ranks are not all that there are.
    """
    if not (isinstance(share, str) and share == HOSTFILE):
        return share
    text = os.environ.get(VARIABLE)
    if text is None:
        expected = "share=NUMBER in the host file of adasumrun --hostfile"
        raise ValueError(refusal(expected, f"no {VARIABLE}", "Pass a list of shares instead."))
    try:
        numbers = [float(number) for number in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != communicator.size:
        expected = f"one number a rank in {VARIABLE}, {communicator.size} in all"
        raise ValueError(refusal(expected, shown(text), "Pass a list of shares instead."))
    return numbers


def check_alike(share: Any, communicator: Communicator) -> None:
    """Raises ValueError on all ranks where they pass unlike shares; collective.

    Args:
        share: of `AdasumStrategy`; None, too.
        communicator: the ranks.
    """
    if communicator.size == 1:
        return
    texts = gather_bytes(_whole_text(share).encode(), communicator, "batch_share")
    if rank := first_unlike(texts):
        first, other = (texts[each].decode()[:_MOST_CHARACTERS] for each in (0, rank))
        received = in_words_of_two(first, other, rank, communicator)
        advice = "Pass the shares of all ranks on each."
        raise ValueError(refusal("the same batch_share on all ranks", received, advice))


def _whole_text(share: Any) -> str:
    """Not cut short, as `shown` would for many ranks; a list and a tuple are alike."""
    if share is None or isinstance(share, str):
        return str(share)
    try:
        return str(np.array(share, np.float64).tolist())
    except (TypeError, ValueError):
        return shown(share)


def checked(share: Any, communicator: Communicator) -> np.ndarray:
    """Returns one positive number for each rank.

    Args:
        share: as `resolved` returns it, and not "measured".
        communicator: the ranks.

    Raises:
        ValueError: it is something else.
    """
    wanted = f"one positive number a rank, {communicator.size} in all"
    expected = f"batch_share to be 'measured', 'hostfile' or {wanted}"
    error = ValueError(refusal(expected, shown(share), "Pass such a batch_share."))
    if isinstance(share, str):
        raise error
    try:
        numbers = np.array(share, np.float64)
    except (TypeError, ValueError):
        raise error from None
    is_well = numbers.shape == (communicator.size,) and np.isfinite(numbers).all()
    if not is_well or not (numbers > 0).all():
        raise error
    return numbers
