"""The arguments that collectives share, checked before any other rank is asked to take part."""

from __future__ import annotations

import operator
from typing import Any

import tensorflow as tf

from tf_adasum.collectives.communicator import Communicator, joined_world, world
from tf_adasum.collectives.refusals import is_text, refusal, shown


def checked_group(communicator: Any, name: Any = None) -> Communicator:
    """Returns the communicator that a collective was given, or that of all ranks for None.

    Args:
        communicator: what the user passed.
        name: the operation's, as the user gave it.

    Raises:
        TypeError: it is no communicator, or the name no text.
        tf.errors.UnavailableError: it was closed here.
    """
    if communicator is None:
        communicator = joined_world() or world()  # the quicker one first: short calls feel it
    elif not isinstance(communicator, Communicator):
        expected = "a tf_adasum.Communicator or None as communicator"
        advice = "Pass what world() or split() returned, or None for all ranks."
        raise TypeError(refusal(expected, shown(communicator), advice))
    if communicator.is_closed:
        advice = "Make another one by split()."
        line = refusal("an open communicator", "one that was closed", advice)
        raise tf.errors.UnavailableError(None, None, line)
    if name is not None and not is_text(name):
        advice = "Pass text that is equal on all ranks."
        raise TypeError(refusal("a str of Unicode, or None, as name", shown(name), advice))
    return communicator


def checked_root(root: Any, communicator: Communicator) -> int:
    """Returns the rank that a broadcast begins at.

    Raises:
        tf.errors.InvalidArgumentError: it is none of the communicator's ranks.
    """
    try:
        number = operator.index(root)
    except TypeError:
        number = -1
    if 0 <= number < communicator.size:
        return number
    received = str(root) if isinstance(root, int) else shown(root)
    line = refusal(f"a root in [0, {communicator.size})", received, "Pass one of the ranks.")
    raise tf.errors.InvalidArgumentError(None, None, line)
