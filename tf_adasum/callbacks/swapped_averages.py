"""Which SwapEMAWeights have averages in the model where its weights are at other times."""

from __future__ import annotations

import keras

from tf_adasum.collectives.refusals import refusal
from tf_adasum.keras_hooks.core import calls
from tf_adasum.keras_hooks.core.guard import require_reads

require_reads(keras.callbacks.SwapEMAWeights, "on_epoch_begin", "_ema_weights_in_model")


def swapped() -> list[bool]:
    """Returns whether each of the callbacks of `fit` has; with `swap_on_epoch`, between epochs."""
    return [each._ema_weights_in_model for each in _swaps()]


def set_swapped(there: list[bool]) -> None:
    """Lets them know what they have in a model that was restored.

    Args:
        there: what `swapped` returned when it was saved.

    Raises:
        ValueError: it holds averages, and other callbacks would leave them there.
    """
    swaps = _swaps()
    if any(there) and len(there) != len(swaps):
        expected = f"{len(there)} SwapEMAWeights in callbacks, as when the backup was saved"
        advice = "Pass them again: it was saved with averages in the place of the weights."
        raise ValueError(refusal(expected, str(len(swaps)), advice))
    for each, is_swapped in zip(swaps, there):
        each._ema_weights_in_model = is_swapped


def _swaps() -> list[keras.callbacks.SwapEMAWeights]:
    return [each for each in calls.callbacks() if isinstance(each, keras.callbacks.SwapEMAWeights)]
