"""Parts of a batch that are None, as in (x, None), which TensorFlow can't deal to replicas."""

from __future__ import annotations

import tensorflow as tf
from tensorflow.python.framework import none_tensor

from tf_adasum.collectives.refusals import refusal
from tf_adasum.keras_hooks.core.guard import require_hooks

require_hooks(none_tensor, "NoneTensorSpec")


def without_none(dataset: tf.data.Dataset, call: str) -> tf.data.Dataset:
    """The batches without the None that they end in: to Keras (x, None) is (x,).

    Args:
        dataset: of batches.
        call: what they are for: "fit", "evaluate" or "predict", which looks at x alone.

    Raises:
        ValueError: another part is None, or holds one.
    """
    spec = dataset.element_spec
    if type(spec) is not tuple or not any(map(_holds_none, spec)):
        return dataset
    num_parts = len(spec)
    while num_parts > 1 and _is_none(spec[num_parts - 1]):
        num_parts -= 1
    wrong = [number for number, part in enumerate(spec[:num_parts], 1) if _holds_none(part)]
    if wrong and call != "predict":
        expected = "batches of tensors, with None for no more than targets or weights behind them"
        received = f"None in part {wrong[0]} of {len(spec)}"
        advice = "Leave it out, or pass zeros for targets and ones for weights in its place."
        raise ValueError(refusal(expected, received, advice))
    return dataset.map(lambda *parts: parts[:num_parts])


def _holds_none(part: object) -> bool:
    return any(map(_is_none, tf.nest.flatten(part)))


def _is_none(spec: object) -> bool:
    """Of tf.data, or as Keras has it for what a generator yields."""
    return isinstance(spec, (none_tensor.NoneTensorSpec, tf.OptionalSpec))
