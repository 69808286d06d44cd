"""The logs of an epoch and of `evaluate` are the same on all ranks, so that callbacks decide alike.

The sums that metrics keep are added over all replicas as they are read. A `train_step` may return
what no metric keeps: the rank's own, of its last batch. And a metric may keep something by itself.
So what each rank has at the end is averaged, which leaves equal numbers as they are.
"""

from __future__ import annotations

import functools

import keras
import numpy as np
import tensorflow as tf
from keras.src.backend.tensorflow.trainer import TensorFlowTrainer

from tf_adasum.collectives.as_array import as_array
from tf_adasum.collectives.communicator import Communicator
from tf_adasum.collectives.gathered import gather_json
from tf_adasum.keras_hooks.core import calls
from tf_adasum.keras_hooks.core.guard import require_hooks
from tf_adasum.keras_hooks.core.hooked_extended import HookedExtended
from tf_adasum.keras_hooks.data import data_position
from tf_adasum.keras_hooks.metrics import returned_metrics

require_hooks(TensorFlowTrainer, "_get_metrics_result_or_logs")


def install() -> None:
    """Averages over ranks what `_get_metrics_result_or_logs` returns."""
    original = TensorFlowTrainer._get_metrics_result_or_logs

    @functools.wraps(original)
    def get_common(self, logs):
        call = calls.current()
        if call is not None and call.model is not self:
            call = None
        result = keras.tree.map_structure(_read, _of_metrics(self, logs, call, original))
        return result if _ranks(call) is None else _averaged(result, call)

    TensorFlowTrainer._get_metrics_result_or_logs = get_common


def _ranks(call: calls.Call | None) -> Communicator | None:
    """Those that are at this place together; None for a rank without others."""
    return None if call is None or call.in_turn else call.communicator


def _of_metrics(model: keras.Model, logs, call: calls.Call | None, original):
    """What the model's metrics keep, where logs are theirs.

    Also where a `train_step` returns `{metric.name: metric.result() for metric in self.metrics}`,
    as Keras' guide has it: the compiled metrics are a dictionary in it, which Keras does not look
    into. And in an epoch that a resumed training has no step left of, which has no logs.
    """
    progress = None if logs else data_position.of_begun_fit()
    if progress is not None and progress.is_resumed:
        logs = model.get_metrics_result()
    result = original(model, logs)
    is_ours = isinstance(model.distribute_strategy.extended, HookedExtended)
    if result is not logs or not is_ours or not isinstance(logs, dict):
        return result
    if any(isinstance(each, dict) for each in logs.values()):
        flat: dict = {}
        for name, value in logs.items():
            flat |= value if isinstance(value, dict) else {name: value}
        result = original(model, flat)
        if result is not flat:
            return result
    return logs if call is None else _of_step(call, logs)


def _of_step(call: calls.Call, logs: dict) -> dict:
    """Of metrics by whatever names the step returns them, with the types that these have there."""

    def like_own(value, own):
        if value is own:
            return own
        array = _number(_read(value))
        return own if array is None else _like(own, array, array)

    values = returned_metrics.read(call.model, call.name, logs, _ranks(call))
    return keras.tree.map_structure(like_own, values, logs)


def _read(value):
    """The value of a variable, which a metric's `result()` may return as it is."""
    # An exchange where replicas keep parts of it, to which all ranks come.
    return tf.convert_to_tensor(value) if isinstance(value, tf.Variable) else value


def _averaged(logs, call: calls.Call):
    """The logs with the ranks' mean of each number that has one shape on all of them.

    What has another shape on a rank, as a value for each row of the last batch, stays the rank's
    own.
    """
    leaves = [(str(path), leaf) for path, leaf in keras.tree.flatten_with_path(logs)]
    numbers = {path: _number(leaf) for path, leaf in leaves}
    own = {path: list(each.shape) for path, each in numbers.items() if each is not None}
    of_ranks = gather_json(own, call.communicator, f"shapes of the logs of {call.name}")
    common = sorted(path for path in own if all(each.get(path) == own[path] for each in of_ranks))
    flat = np.concatenate([np.ravel(numbers[path]).astype(np.float64) for path in common] + [[]])
    call.communicator.allreduce_arrays([flat], "mean", f"the logs of {call.name}")
    ends = np.cumsum([numbers[path].size for path in common], dtype=np.int64)
    means = dict(zip(common, np.split(flat, ends)))
    values = [
        _like(leaf, numbers[path], means[path]) if path in means else leaf for path, leaf in leaves
    ]
    return keras.tree.pack_sequence_as(logs, values)


def _like(original, value: np.ndarray, mean: np.ndarray):
    """The mean with the type, the shape and the dtype of a log's value."""
    mean = mean.reshape(value.shape).astype(value.dtype)
    if isinstance(original, tf.Tensor):
        return tf.constant(mean)
    return mean.item() if type(original) in (bool, int, float) else mean


def _number(value) -> np.ndarray | None:
    """A log's value as an array; None if it is no number."""
    array = as_array(value)
    is_number = array.dtype.kind in "fiub" or array.dtype == tf.bfloat16.as_numpy_dtype
    return array if is_number else None
