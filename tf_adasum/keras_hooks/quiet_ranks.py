"""Rank 0 speaks: what Keras prints on the other ranks, bars and summaries, is not seen.

Keras has a switch for that, but then writes the same to absl's log, which shows it where a program
has asked for messages of the level INFO, as `absl.app` and `logging.basicConfig` do.
"""

from __future__ import annotations

import logging

import keras
from absl import logging as absl_logging
from keras.src.utils import io_utils

from tf_adasum.keras_hooks.guard import require_hooks, require_reads

require_hooks(io_utils, "print_msg")
require_reads(io_utils, "print_msg", "logging", "info")


def be_quiet() -> None:
    """Lets Keras print nothing in this process; a program that switches it on again sees all."""
    keras.config.disable_interactive_logging()
    absl_logging.get_absl_logger().addFilter(_is_no_print)


def _is_no_print(record: logging.LogRecord) -> bool:
    return record.pathname != io_utils.__file__
