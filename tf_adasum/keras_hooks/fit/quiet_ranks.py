"""Rank 0 speaks: what Keras prints on the other ranks, bars and summaries, is not seen.

Keras has a switch for that, which each thread has by itself and `clear_session()` forgets; here it
begins as off. Where it is off Keras writes the same to absl's log, which shows it where a program
has asked for messages of the level INFO, as `absl.app` and `logging.basicConfig` do.
"""

from __future__ import annotations

import logging

import keras
from absl import logging as absl_logging
from keras.src.backend.common import global_state
from keras.src.utils import io_utils, summary_utils

from tf_adasum.keras_hooks.core.guard import require_hooks, require_reads

MODULES = (io_utils, keras.config, keras.utils)  # that have the question whether it is on
for _module in MODULES:
    require_hooks(_module, "is_interactive_logging_enabled")
require_hooks(io_utils, "print_msg")
require_hooks(global_state, "get_global_attribute")
require_reads(io_utils, "print_msg", "logging", "info", "is_interactive_logging_enabled")
require_reads(io_utils, "is_interactive_logging_enabled", "get_global_attribute")
require_reads(summary_utils, "print_summary", "is_interactive_logging_enabled")


def be_quiet() -> None:
    """Lets Keras print nothing in this process; a program that switches it on again sees all."""
    keras.config.disable_interactive_logging()
    for module in MODULES:
        module.is_interactive_logging_enabled = _is_on
    absl_logging.get_absl_logger().addFilter(_is_no_print)


def _is_on() -> bool:
    return global_state.get_global_attribute("interactive_logging", False)


def _is_no_print(record: logging.LogRecord) -> bool:
    return record.pathname != io_utils.__file__
