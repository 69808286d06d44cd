"""Functions that AutoGraph leaves as they are where a program's `tf.function` calls them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import tensorflow as tf

_Function = TypeVar("_Function", bound=Callable)


def unconverted(function: _Function) -> _Function:
    """Decorates a function of the library that programs call in steps of their own.

    AutoGraph would rewrite it, and what it calls, with the step: that takes seconds when a step is
    traced, and it warns of what it can't rewrite, such as mpi4py's methods.
    """
    return tf.autograph.experimental.do_not_convert(function)
