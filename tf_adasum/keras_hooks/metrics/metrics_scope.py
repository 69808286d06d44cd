"""A metric from outside of the scope is refused in a sentence that says what to do.

Its variables would be this process's own: each rank would log what it counts on its own rows.
"""

from __future__ import annotations

import functools

import keras
from keras.src.backend.tensorflow.trainer import TensorFlowTrainer

from tf_adasum.collectives.refusals import refusal
from tf_adasum.keras_hooks.core.guard import require_hooks
from tf_adasum.keras_hooks.core.hooked_extended import HookedExtended

require_hooks(TensorFlowTrainer, "_maybe_symbolic_build", "distribute_strategy")
require_hooks(keras.Metric, "variables")
require_hooks(keras.Model, "metrics")


def install() -> None:
    """Lets `TensorFlowTrainer._maybe_symbolic_build`, before the first step, look at metrics."""
    original = TensorFlowTrainer._maybe_symbolic_build

    @functools.wraps(original)
    def build_and_look(self, *args, **kwargs):
        original(self, *args, **kwargs)
        if isinstance(self.distribute_strategy.extended, HookedExtended):
            for metric in self.metrics:
                _check_made_here(metric, self)

    TensorFlowTrainer._maybe_symbolic_build = build_and_look


def _check_made_here(metric: keras.Metric, model: keras.Model) -> None:
    """Raises RuntimeError for a variable that replicas could not count in together."""
    strategy = model.distribute_strategy
    if strategy.num_replicas_in_sync == 1:
        return
    for variable in metric.variables:
        if not strategy.extended.variable_created_in_scope(variable.value):
            expected = (
                "compile() to be called, and metrics to be created, inside the scope() of the "
                f"AdasumStrategy that trains the model {model.name!r}"
            )
            received = (
                f"{variable.path!r}, created outside of it: each replica would count by itself"
            )
            raise RuntimeError(refusal(expected, received, "Call compile inside the scope()."))
