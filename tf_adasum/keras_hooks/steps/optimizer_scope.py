"""An optimizer or weights from outside of the scope are refused, in a line that says what to do.

TensorFlow would only say that two strategies are mixed, or that an assertion failed.
"""

from __future__ import annotations

import functools

import keras
import tensorflow as tf
from keras.src.backend.tensorflow.optimizer import TFOptimizer
from keras.src.backend.tensorflow.trainer import TensorFlowTrainer
from keras.src.optimizers.base_optimizer import BaseOptimizer

from tf_adasum.collectives.refusals import refusal
from tf_adasum.keras_hooks.core.guard import require_hooks
from tf_adasum.keras_hooks.core.hooked_extended import HookedExtended
from tf_adasum.keras_hooks.steps.optimizer_parts import strategy_of

require_hooks(TFOptimizer, "add_variable_from_reference")
require_hooks(BaseOptimizer, "build")
require_hooks(TensorFlowTrainer, "make_train_function", "distribute_strategy")


def install() -> None:
    """Lets optimizers and `make_train_function` look at where things were made."""
    _check_slots()
    _check_variables()
    _check_trained()


def _check_slots() -> None:
    original = TFOptimizer.add_variable_from_reference

    @functools.wraps(original)
    def add_in_scope(self, *args, **kwargs):
        strategy = tf.distribute.get_strategy()
        if isinstance(strategy.extended, HookedExtended):
            strategy.check_made_here(self)
        else:
            _check_made_elsewhere(self, strategy)
        return original(self, *args, **kwargs)

    TFOptimizer.add_variable_from_reference = add_in_scope


def _check_made_elsewhere(optimizer, strategy: tf.distribute.Strategy) -> None:
    """A loop without `strategy.run` comes here first, by an optimizer that is not built yet."""
    if isinstance(strategy_of(optimizer).extended, HookedExtended):
        expected = f"the optimizer {optimizer.name!r} under the AdasumStrategy it was created in"
        advice = "Use fit, or apply it inside strategy.run; build it inside the scope()."
        raise RuntimeError(refusal(expected, type(strategy).__name__, advice))


def _check_variables() -> None:
    """Every optimizer's own `build` begins with this one."""
    original = BaseOptimizer.build

    @functools.wraps(original)
    def build_in_scope(self, variables):
        strategy = getattr(self, "_distribution_strategy", None)
        if strategy is not None and isinstance(strategy.extended, HookedExtended):
            for variable in variables:
                _check_made_here(variable, self, strategy)
        return original(self, variables)

    BaseOptimizer.build = build_in_scope


def _check_trained() -> None:
    """Of an optimizer that is built no more is asked before its step."""
    original = TensorFlowTrainer.make_train_function

    @functools.wraps(original)
    def make_in_scope(self, *args, **kwargs):
        strategy = self.distribute_strategy
        if isinstance(strategy.extended, HookedExtended) and isinstance(
            self.optimizer, TFOptimizer
        ):
            strategy.check_made_here(self.optimizer)
        return original(self, *args, **kwargs)

    TensorFlowTrainer.make_train_function = make_in_scope


def _check_made_here(variable, optimizer, strategy: tf.distribute.Strategy) -> None:
    native = variable.value if isinstance(variable, keras.Variable) else variable
    if strategy.extended.variable_created_in_scope(native):
        return
    name = getattr(variable, "path", None) or variable.name
    expected = (
        f"weights created inside the scope() of the AdasumStrategy that the optimizer "
        f"{optimizer.name!r} was created in"
    )
    advice = (
        "Make, build, load and compile the model inside that scope(). Without an Input a model "
        "makes its weights where it is built or first called: let that be inside, too."
    )
    raise RuntimeError(refusal(expected, f"{name!r}, created outside of it", advice))
