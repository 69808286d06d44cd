"""A model that was made outside of the scope is trained by each rank alone; rank 0 says so, once.

It is no error: a rank may train a model of its own. But most often a line stands outside of
`with strategy.scope():`, and the ranks would train as many models.
"""

from __future__ import annotations

import functools

import keras
from keras.src.backend.tensorflow.trainer import TensorFlowTrainer

from tf_adasum.collectives.communicator import joined_world
from tf_adasum.keras_hooks.core import calls
from tf_adasum.keras_hooks.core.guard import require_hooks
from tf_adasum.keras_hooks.core.hooked_extended import HookedExtended
from tf_adasum.keras_hooks.core.said_once import SaidOnce

require_hooks(TensorFlowTrainer, "distribute_strategy", "fit")

_said = SaidOnce()


def install() -> None:
    """Lets `fit` look whose model it trains."""
    original = TensorFlowTrainer.fit

    @functools.wraps(original)
    def fit(self, *args, **kwargs):
        # In a callback it is meant: one rank has it do something beside the training.
        if calls.current() is None and not isinstance(
            self.distribute_strategy.extended, HookedExtended
        ):
            _say_once(self)
        return original(self, *args, **kwargs)

    TensorFlowTrainer.fit = fit


def _say_once(model: keras.Model) -> None:
    world = joined_world()  # a process that has not may never have ranks
    if world is None or world.size == 1 or world.rank > 0:
        return
    _said.warn(
        model,
        f"fit trains the model {model.name!r} on each rank by itself, since it was made outside of "
        "the scope() of an AdasumStrategy. Make and compile it inside, and all ranks train one "
        "model.",
    )
