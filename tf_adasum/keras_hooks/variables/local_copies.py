"""The variables of local replicas inside of a distributed one."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf


def local_copies(variable: tf.Variable) -> Sequence[tf.Variable]:
    """Returns the variable of each local replica; reading one asks no other replica.

    Args:
        variable: or what has `values`, as distributed variables have.
    """
    return getattr(variable, "values", None) or (variable,)
