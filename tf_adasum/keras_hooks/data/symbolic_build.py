"""Building a model before its first batch: shapes come from the data's specification.

Keras reduces the first batch with MEAN before it builds. Batches differ in length between
ranks and may hold strings or images, which no reduction takes; only shapes are needed. A generator
gives each batch once, and the training would miss those that were taken. Where the data don't say
their shapes, a batch is looked at, locally.

A model without `call`, a GAN say, trains on one device without being built. Keras builds under a
strategy only, and would fail for want of a `call`; here such a model trains as on one device. So
does one that a step of its own calls with something else than the `x` of the data, if `x` fails.
"""

from __future__ import annotations

import contextlib
import functools

import keras
import tensorflow as tf
from keras.src.backend.tensorflow.trainer import TensorFlowTrainer, TFEpochIterator
from tensorflow.python.distribute import values as tf_values

from tf_adasum.keras_hooks.core import calls
from tf_adasum.keras_hooks.core.guard import require_hooks, require_reads
from tf_adasum.keras_hooks.core.hooked_extended import HookedExtended

require_hooks(keras.Model, "call")
require_hooks(
    TensorFlowTrainer, "_maybe_symbolic_build", "distribute_strategy", "train_step", "test_step"
)
require_hooks(TensorFlowTrainer, "_symbolic_build")
require_reads(TFEpochIterator, "__init__", "_distributed_dataset")
require_hooks(tf_values.PerReplicaSpec, "_value_specs")


def install() -> None:
    """Lets `TensorFlowTrainer._maybe_symbolic_build` look at what the data say of themselves."""
    original = TensorFlowTrainer._maybe_symbolic_build

    @functools.wraps(original)
    def build_from_specs(self, iterator=None, data_batch=None):
        extended = self.distribute_strategy.extended
        if not isinstance(extended, HookedExtended):
            return original(self, iterator, data_batch)
        if type(self).call is keras.Model.call:
            return None
        specs = None if iterator is None else _specs_of_first_replica(iterator)
        try:
            if specs is not None:
                return original(self, data_batch=specs)
            with extended.symbolic_build():
                return original(self, iterator, data_batch)
        except Exception:
            # If it is a mistake and not another call of the model, the first step tells it too.
            if not _runs_own_step(self):
                raise
            return None

    TensorFlowTrainer._maybe_symbolic_build = build_from_specs


def _runs_own_step(model: keras.Model) -> bool:
    """Whether the step that is to run isn't Keras'."""
    call = calls.current()
    names = ["test_step"] if call is not None and call.name == "evaluate" else ["train_step"]
    if call is None:  # train_on_batch, or test_on_batch
        names.append("test_step")
    return any(getattr(type(model), name) is not getattr(TensorFlowTrainer, name) for name in names)


def build_metrics(model: keras.Model, iterator: TFEpochIterator) -> None:
    """Builds what a model without a strategy builds with its first step, as `fit` does under one.

    Where the data don't say enough of themselves, or the model is called otherwise, nothing is.
    """
    if isinstance(model.distribute_strategy.extended, HookedExtended):
        return
    with contextlib.suppress(Exception):
        if (specs := _specs_of_first_replica(iterator)) is not None:
            model._symbolic_build(data_batch=specs)


def _specs_of_first_replica(iterator: TFEpochIterator):
    """Shapes and dtypes of a replica's batch; None if the data don't tell all of them."""

    def of_first(spec):
        return spec._value_specs[0] if isinstance(spec, tf_values.PerReplicaSpec) else spec

    specs = tf.nest.map_structure(of_first, iterator._distributed_dataset.element_spec)
    told = [getattr(spec, "shape", None) for spec in tf.nest.flatten(specs)]
    return specs if all(shape is not None and shape.rank for shape in told) else None
