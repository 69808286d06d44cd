"""A model that was made outside of the scope is trained by each rank alone; rank 0 says so, once.

It is no error: a rank may train a model of its own. But most often a line stands outside of
`with strategy.scope():`, or nobody made a strategy, and the ranks would train as many models.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import keras
import tensorflow as tf
from keras.src.backend.tensorflow.trainer import TensorFlowTrainer

from adasumrun import job
from tf_adasum.collectives.communicator import joined_world
from tf_adasum.keras_hooks.core import calls
from tf_adasum.keras_hooks.core.guard import require_hooks
from tf_adasum.keras_hooks.core.hooked_extended import HookedExtended
from tf_adasum.keras_hooks.core.said_once import SaidOnce

require_hooks(TensorFlowTrainer, "distribute_strategy", "fit", "train_step")

_said = SaidOnce()
_DEFAULT_STRATEGY = tf.distribute.get_strategy()  # TensorFlow's; nobody is in a scope at import


@functools.cache
def watch() -> None:
    """Lets `fit` look for ranks that train alone, as no strategy was made, where that is no plan.

    A step of the model's own, or an optimizer of the program's own, may exchange by itself.
    """
    _check_each_fit(lambda model: _has_nothing_of_its_own(model) and _speaks_for_others())


def install() -> None:
    """Lets `fit` look whose model it trains, now that there is a strategy."""
    _check_each_fit(lambda model: _speaks_for_others())


def _check_each_fit(is_told: Callable[[keras.Model], bool]) -> None:
    original = TensorFlowTrainer.fit

    @functools.wraps(original)
    def fit(self, *args, **kwargs):
        # In a callback it is meant: one rank has it do something beside the training.
        is_lone = calls.current() is None and not isinstance(
            self.distribute_strategy.extended, HookedExtended
        )
        if is_lone and is_told(self):
            _said.warn(
                self,
                f"fit trains the model {self.name!r} on each rank by itself, since it was made "
                "outside of the scope() of an AdasumStrategy. Make and compile it inside, and all "
                "ranks train one model.",
            )
        return original(self, *args, **kwargs)

    TensorFlowTrainer.fit = fit


def _has_nothing_of_its_own(model: keras.Model) -> bool:
    is_kerass = type(model.optimizer).__module__.startswith("keras.")
    has_strategy = model.distribute_strategy is not _DEFAULT_STRATEGY
    return type(model).train_step is TensorFlowTrainer.train_step and is_kerass and not has_strategy


def _speaks_for_others() -> bool:
    """Whether there are other ranks, and this one speaks; asks none of them."""
    world = joined_world()
    if world is None:  # nor need it ever join
        return job.speaks() and (job.num_ranks() or 1) > 1
    return world.size > 1 and world.rank == 0
