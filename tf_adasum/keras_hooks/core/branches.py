"""Where replicas in threads can't meet: in a branch, a loop or a nested function."""

from __future__ import annotations

from keras.src.utils import traceback_utils

from tf_adasum.collectives.refusals import refusal
from tf_adasum.keras_hooks.core.guard import require_mentions

require_mentions(traceback_utils, "inject_argument_info_in_traceback", "_keras_call_info_injected")


def error_in_branches() -> RuntimeError:
    """Returns what is said on all ranks in the place of TensorFlow's own error."""
    error = RuntimeError(
        refusal(
            "replicas to meet outside of branches, loops and nested functions where a rank has "
            "several devices",
            "merge_call in another graph than that of strategy.run, as of an optimizer that is not "
            "wrapped, with gradient_accumulation_steps or ema_overwrite_frequency",
            "Wrap the optimizer by tf_adasum.wrap, or move the branch out of strategy.run.",
        )
    )
    # Keras would put lines of its own around it, which tell of tensors in the branch.
    error._keras_call_info_injected = True
    return error
