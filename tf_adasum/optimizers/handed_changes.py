"""The changes that Keras' optimizers hand to their variables, taken in place of being made.

w - w_before costs a copy of the weights before the step, a pass for the difference and one for the
way back, and has only the digits that w leaves it. Keras' own rules end in one `assign_add` or
`assign_sub` of the variable, whose operand is that change.
"""

from __future__ import annotations

from collections.abc import Iterable

import keras
import tensorflow as tf

from tf_adasum.collectives.refusals import refusal
from tf_adasum.distribute.variables import local_copies, native_variable

# Of each, `update_step` changes its variable once, and does not read it afterwards. Not among them:
# Ftrl and ScheduleFreeAdamW assign, and what users write may do anything.
_HANDING = (
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "Adamax",
    "Lamb",
    "Lion",
    "Nadam",
    "RMSprop",
    "SGD",
)
_HANDING_STEPS = {
    getattr(keras.optimizers, name).update_step
    for name in _HANDING
    if hasattr(keras.optimizers, name)  # older versions of Keras lack some
}


def hands_changes(optimizer_class: type) -> bool:
    """Whether each update step of the class hands its variable one change.

    Args:
        optimizer_class: the Keras optimizer's class before it was wrapped.
    """
    return (
        optimizer_class.update_step in _HANDING_STEPS
        and optimizer_class.assign_add is keras.optimizers.Optimizer.assign_add
        and optimizer_class.assign_sub is keras.optimizers.Optimizer.assign_sub
    )


class HandedChanges:
    """What one update hands to variables; in cross-replica context, while a step is traced.

    Args:
        variables: distributed variables, which stay as they are.
    """

    def __init__(self, variables: Iterable[tf.Variable]):
        self._copies = {id(copy): copy for each in variables for copy in local_copies(each)}
        self._changes: dict[int, tuple[tf.Tensor, bool]] = {}

    def take(self, variable, value, is_minus: bool) -> bool:
        """Is handed an operand for a replica's variable; returns False if it is none of these.

        Raises:
            RuntimeError: if the variable had one already.
        """
        copy = native_variable(variable)
        if id(copy) not in self._copies:
            return False
        if id(copy) in self._changes:
            raise RuntimeError(_unlike(copy.name, "two"))
        # Rows, too: those that may travel as such are not asked for here.
        self._changes[id(copy)] = tf.convert_to_tensor(tf.cast(value, copy.dtype)), is_minus
        return True

    def of(self, variable: tf.Variable) -> tuple[list[tf.Tensor], bool]:
        """Returns the operand on each local replica, and whether the variable becomes less by it.

        Raises:
            RuntimeError: if there is none.
        """
        changes = [self._changes.get(id(copy)) for copy in local_copies(variable)]
        if None in changes:
            raise RuntimeError(_unlike(variable.name, "none"))
        values, are_minus = zip(*changes)
        return list(values), are_minus[0]


def _unlike(name: str, received: str) -> str:
    advice = "tf_adasum was not tested with this version of Keras; use mode='gradient'."
    return refusal(f"one change of {name!r} in a step", received, advice)
