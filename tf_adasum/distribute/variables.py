"""Variables of Keras and TensorFlow: one rank's values on all ranks."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf
from tensorflow.python.distribute import values as tf_values

from tf_adasum.collectives.arguments import checked_group, checked_root
from tf_adasum.collectives.broadcast import broadcast
from tf_adasum.collectives.communicator import Communicator
from tf_adasum.collectives.refusals import refusal, shown
from tf_adasum.collectives.unconverted import unconverted
from tf_adasum.distribute.bucketing import DEFAULT_BUCKET_BYTES, make_buckets
from tf_adasum.keras_hooks.core.guard import require_hooks
from tf_adasum.keras_hooks.steps.model_optimizers import optimizers_held_by
from tf_adasum.keras_hooks.variables.local_copies import local_copies

require_hooks(tf_values.DistributedVariable, "_unique_id")


def native_variable(variable: keras.Variable | tf.Variable) -> tf.Variable:
    """Returns the TensorFlow variable inside a Keras variable, or the variable itself."""
    return variable.value if isinstance(variable, keras.Variable) else variable


def unique_id(variable: keras.Variable | tf.Variable) -> str:
    """Returns what tells it from all other variables of this process, also of one that is gone."""
    return native_variable(variable)._unique_id


@unconverted
def broadcast_variables(
    variables: Any, root: int = 0, communicator: Communicator | None = None
) -> None:
    """Assigns the root's values to variables on all ranks: v <- v of the root's first replica.

    For training loops of your own, after one rank has loaded or set weights; all ranks must call
    it, outside of `strategy.run`. `fit` and `evaluate` under an `AdasumStrategy` compare the ranks'
    weights by themselves. `Normalization` layers of a model compute with the new values, unless it
    is called in a `tf.function`; what was traced before goes on with the old ones.

    Args:
        variables: a built Keras model (its weights, the states of its random layers, and its
            optimizers' variables), a built Keras optimizer, or a list of `keras.Variable`s and
            `tf.Variable`s of any shapes and fixed-size dtypes, the same list on all ranks.
        root: the rank whose values all get.
        communicator: whose ranks take part; all ranks if None.

    Raises:
        ValueError: a model or an optimizer is not built, or something is no variable.
        tf.errors.InvalidArgumentError: if ranks pass unlike numbers of variables, dtypes, shapes
            or roots, or a root that is no rank.
        tf.errors.DeadlineExceededError: if a rank is silent for TF_ADASUM_TIMEOUT_SECONDS.
        tf.errors.UnavailableError: if a rank has ended, or the communicator was closed.
        TypeError: for what is no communicator.

    Example:
        >>> import tensorflow as tf, tf_adasum as adasum
        >>> weight = tf.Variable([1.0, 2.0 + adasum.rank()])
        >>> adasum.broadcast_variables([weight])
        >>> weight.numpy().tolist()
        [1.0, 2.0]
    """
    communicator = checked_group(communicator)
    root = checked_root(root, communicator)
    natives = [native_variable(variable) for variable in _listed(variables)]
    sizes = [_num_bytes(variable) for variable in natives]
    # In parts: the values that arrive need memory beside the variables.
    parts = make_buckets(sizes, DEFAULT_BUCKET_BYTES)
    for number, part in enumerate(parts, start=1):
        name = f"broadcast of {len(natives)} variables, part {number} of {len(parts)}"
        values = [first_copy(natives[index]).read_value() for index in part]
        with tf.device("CPU:0"):
            agreed = broadcast(values, root, communicator, name)
        for index, value in zip(part, agreed):
            for copy in local_copies(natives[index]):
                copy.assign(value)
    if isinstance(variables, keras.Model) and tf.executing_eagerly():
        for layer in variables._flatten_layers():
            if isinstance(layer, keras.layers.Normalization):
                layer.finalize_state()  # it computes with what it made of its variables


def _num_bytes(variable: tf.Variable) -> int:
    # Of one that may be assigned other shapes nothing is known that is equal on all ranks.
    return (variable.shape.num_elements() or 0) * variable.dtype.size


def first_copy(variable: tf.Variable) -> tf.Variable:
    """Returns the variable of this process's first replica."""
    return local_copies(variable)[0]


def _listed(variables: Any) -> list:
    """The variables in what a user may pass."""
    if isinstance(variables, keras.Model):
        _check_built(variables)
        metrics = {id(variable) for variable in variables.metrics_variables}
        listed = [each for each in variables.variables if id(each) not in metrics]
        listed += [v for each in optimizers_held_by(variables) for v in each.variables]
        return list({id(each): each for each in listed}.values())  # some hold others' variables
    if isinstance(variables, keras.optimizers.Optimizer):
        _check_built(variables)
        return list(variables.variables)
    listed = list(variables) if isinstance(variables, (list, tuple)) else [variables]
    for variable in listed:
        if not isinstance(variable, (keras.Variable, tf.Variable)):
            expected = "a Keras model, a Keras optimizer or a list of variables"
            advice = "Pass one of these to broadcast_variables."
            raise ValueError(refusal(expected, shown(variable), advice))
    return listed


def has_weights(model: keras.Model) -> bool:
    """Whether the model has its variables: one without `call`, such as a GAN, is never built."""
    layers = model._flatten_layers(include_self=False)
    return model.built or (bool(layers) and all(layer.built for layer in layers))


def _check_built(owner: keras.Model | keras.optimizers.Optimizer) -> None:
    if not (has_weights(owner) if isinstance(owner, keras.Model) else owner.built):
        expected = "a model or an optimizer that has its variables"
        advice = "Call build first, on all ranks."
        raise ValueError(refusal(expected, f"{owner.name!r}, not built", advice))
