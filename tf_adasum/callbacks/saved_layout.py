"""The dtypes and shapes of what a backup holds, and of what a model is restored to."""

from __future__ import annotations

import keras

from tf_adasum.collectives.refusals import refusal
from tf_adasum.distribute.own_variables import StateVariable

MOVE_AWAY = "Move it away to begin anew."


def check_alike(
    saved: list[dict], variables: list[StateVariable], path: str, model: keras.Model
) -> None:
    """Raises ValueError unless the model has the variables that were saved.

    Args:
        saved: what the header of a backup lists.
        variables: of the model, in the same order.
        path: of the backup, for people.
        model: that is to be restored.
    """
    mine, theirs = layout(variables), saved_layout(saved)
    if mine == theirs:
        return
    where = next((k for k, pair in enumerate(zip(mine, theirs)) if pair[0] != pair[1]), None)
    if where is None:
        what = f"{len(saved)} variables, and {len(variables)} in the model"
    else:
        there, here = saved[where]["path"], variables[where].path
        what = f"{there!r}, {theirs[where]}, where the model has {here!r}, {mine[where]}"
    # A subclass may count as built where its layers are not.
    unbuilt = [layer.name for layer in model.layers if not layer.built]
    lacks = bool(unbuilt) and len(variables) < len(saved)
    call = f"Call the model on a batch first, as {unbuilt[0]!r} is not built. " if lacks else ""
    expected = f"the backup of this model, with the same optimizer and settings of wrap, in {path}"
    raise ValueError(refusal(expected, what, call + MOVE_AWAY))


def layout(variables: list[StateVariable]) -> list[tuple]:
    """Returns dtype and shape of each."""
    return [(each.variable.dtype.name, tuple(each.variable.shape)) for each in variables]


def saved_layout(saved: list[dict]) -> list[tuple]:
    """Returns the same of what a header lists."""
    return [(each["dtype"], tuple(each["shape"])) for each in saved]
