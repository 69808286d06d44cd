"""Ranks' callbacks end a turn together, or make the same call of `fit`, `evaluate` or `predict`.

When a turn is over the ranks tell each other what they want, a number each. A callback that makes
a call tells it there too: ranks that make none, or another one, hear of it, where each would wait
for the other until the limit.
"""

from __future__ import annotations

import numpy as np

from tf_adasum.collectives.gathered import first_unlike, in_words_of_two
from tf_adasum.collectives.refusals import refusal
from tf_adasum.keras_hooks.core import calls
from tf_adasum.keras_hooks.files import written_files

# Beside 0 and 1, a rank's answers when a turn is over.
_CALLED = {2: "fit", 3: "evaluate", 4: "predict"}
_WANTS = {method: number for number, method in _CALLED.items()}


def install() -> None:
    """Lets ranks tell each other what callbacks call, also in the last turn of a call."""
    calls.at_begin_in_turn(_tell)
    for stage in ("train", "test", "predict"):
        calls.after(f"on_{stage}_end", lambda call, _: ranks_with(call, False))


def ranks_with(call: calls.Call, mine: bool) -> list[int]:
    """Returns the ranks for which something holds, when a turn is over; collective.

    Args:
        call: whose turn it was.
        mine: whether it holds for this rank.

    Raises:
        ValueError: on all ranks, if a callback of some calls a method of Keras.
    """
    return np.flatnonzero(_told(call, int(mine))).tolist()


def _tell(call: calls.Call, inner: calls.Call) -> None:
    _told(call, _WANTS[inner.name])


def _told(call: calls.Call, mine: int) -> list[int]:
    """What every rank tells; one message of a few bytes."""
    numbers = np.zeros(call.communicator.size, np.int32)
    numbers[call.communicator.rank] = mine
    written_files.meet(call.communicator)
    call.communicator.allreduce_arrays([numbers], "sum", f"{call.name}: what callbacks want")
    written_files.met(call.communicator)
    told = numbers.tolist()
    called = [_CALLED.get(number, "none") for number in told]
    if rank := first_unlike(called):
        expected = "callbacks of all ranks to call the same of fit, evaluate and predict in a turn"
        received = in_words_of_two(called[0], called[rank], rank, call.communicator)
        advice = "Give all ranks the callback, or let it call the model, which asks no rank."
        raise ValueError(refusal(expected, received, advice))
    return told
