"""Which variables of a training have one value on all replicas, and which a value of each."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from tf_adasum.distribute.variables import native_variable
from tf_adasum.keras_hooks.core.guard import require_reads
from tf_adasum.keras_hooks.steps.model_optimizers import optimizers_held_by, wrapped_optimizers_of
from tf_adasum.keras_hooks.steps.optimizer_parts import batches_seen, sums_of_gradients

require_reads(keras.optimizers.Optimizer, "_get_current_learning_rate", "_learning_rate")


class StateVariable(NamedTuple):
    """A variable of a training.

    Attributes:
        name: equal on all ranks, where Keras may number layers by what else a rank has made.
        path: its path in Keras.
        variable: the TensorFlow variable, of all local replicas.
        is_own: whether each replica has a value of its own.
    """

    name: str
    path: str
    variable: tf.Variable
    is_own: bool


def state_variables(model: keras.Model) -> list[StateVariable]:
    """Returns all that decides how a training goes on, in an order that depends on the model alone.

    Weights, the states of random layers, and everything of the optimizers (slots, iterations, the
    learning rate, moving averages, micro-batches, the loss scale), also of those that the model or
    a layer keeps in an attribute. Weights are a replica's own within a round of `steps_per_sync`;
    variables of layers that are not trained always may be, as those of `BatchNormalization` are.

    Args:
        model: a built Keras model, whose optimizers are built.
    """
    in_round = steps_taken(model) > 0
    trained = {id(variable) for variable in model.trainable_variables}
    listed = [(each, in_round or id(each) not in trained) for each in model.variables]
    for optimizer in optimizers_held_by(model):
        own = {id(variable) for variable in own_state(optimizer)}
        listed += [(each, id(each) in own) for each in optimizer.variables]
    # An optimizer in a LossScaleOptimizer lists its variables, too; those of its own are own.
    is_own: dict[int, bool] = {}
    for each, own in listed:
        is_own[id(each)] = is_own.get(id(each), False) or own
    variables = list({id(each): each for each, _ in listed}.values())
    return _described([(each, is_own[id(each)]) for each in variables], "variable")


def metric_variables(model: keras.Model) -> list[StateVariable]:
    """Returns what metrics have counted so far: each replica counts by itself."""
    return _described([(each, True) for each in model.metrics_variables], "variable of metrics")


def residual_variables(model: keras.Model) -> list[StateVariable]:
    """Returns what has not gone into an exchange yet; each replica's own."""
    listed = [each for optimizer in optimizers_held_by(model) for each in _residuals(optimizer)]
    return _described([(each, True) for each in listed], "residual")


def own_state(optimizer: keras.optimizers.Optimizer) -> list[keras.Variable]:
    """Returns the optimizer's variables in which each replica has values of its own.

    In delta mode these are all but the count of steps and the learning rate; sums of micro-batches
    are in every mode.

    Args:
        optimizer: one that takes steps: of a `LossScaleOptimizer` the inner one.
    """
    if not optimizer.built:
        return []
    parts = parts_of(optimizer)
    if parts is not None and parts.exchange.has_own_slots:
        common = (id(batches_seen(optimizer)), id(learning_rate_of(optimizer)))
        return [each for each in optimizer.variables if id(each) not in common]
    own = [variable for variable in sums_of_gradients(optimizer) if variable is not None]
    return own + (parts.accumulation.variables if parts is not None else [])


def learning_rate_of(optimizer: keras.optimizers.Optimizer) -> Any:
    """Returns its variable, or the schedule or the function that it has in its place."""
    return optimizer._learning_rate  # the property would call them


def common_state(optimizer: keras.optimizers.Optimizer) -> list[keras.Variable]:
    """Returns the optimizer's other variables: equal on all replicas."""
    if not optimizer.built:
        return []
    own = {id(variable) for variable in own_state(optimizer)}
    return [variable for variable in optimizer.variables if id(variable) not in own]


def steps_taken(model: keras.Model) -> int:
    """Of the round of local steps that is under way; 0 between rounds.

    Where several optimizers are in rounds of their own, the most that one of them has taken.
    """
    exchanges = [parts_of(each).exchange for each in wrapped_optimizers_of(model)]
    return max((exchange.steps_taken for exchange in exchanges), default=0)


def parts_of(optimizer: keras.optimizers.Optimizer):
    """What `wrap` composed the optimizer of; None for another. Wrapped optimizers lie above."""
    return getattr(optimizer, "_adasum", None)


def _residuals(optimizer: keras.optimizers.Optimizer) -> list[tf.Variable]:
    parts = parts_of(optimizer)
    return [] if parts is None else parts.exchange.residuals


def _described(listed: list[tuple[keras.Variable, bool]], what: str) -> list[StateVariable]:
    return [
        StateVariable(f"{what} {number} of {len(listed)}", path, native_variable(each), is_own)
        for number, (each, is_own) in enumerate(listed, start=1)
        for path in [getattr(each, "path", None) or each.name]
        if native_variable(each).dtype.size  # strings hold no state
    ]
