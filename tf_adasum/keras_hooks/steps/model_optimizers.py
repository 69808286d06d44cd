"""The optimizers of a model: the compiled one, and those that it keeps in attributes, as a GAN."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import keras

from tf_adasum.keras_hooks.core.guard import require_hooks

require_hooks(keras.Model, "_flatten_layers")


def optimizers_held_by(model: keras.Model) -> list[keras.optimizers.Optimizer]:
    """Returns the model's optimizers, each once: compiled, or in attributes of it or its layers."""
    return _each_once(_with_inner(outer_optimizers_of(model)))


def outer_optimizers_of(model: keras.Model) -> list[keras.optimizers.Optimizer]:
    """Returns those that the model and its layers hold, without what these optimizers hold."""
    return _each_once(
        each for layer in model._flatten_layers() for each in _among(vars(layer).values())
    )


def optimizers_of(model: keras.Model) -> list[keras.optimizers.Optimizer]:
    """Returns those that take steps, the compiled one's first.

    Of a LossScaleOptimizer and a MultiOptimizer these are the ones inside.
    """
    compiled = _with_inner(_among([getattr(model, "optimizer", None)]))
    return [
        each
        for each in _each_once([*compiled, *optimizers_held_by(model)])
        if not hasattr(each, "inner_optimizer") and not hasattr(each, "optimizers")
    ]


def wrapped_optimizers_of(model: keras.Model) -> list[keras.optimizers.Optimizer]:
    """Returns those that take steps and are wrapped."""
    return [each for each in optimizers_of(model) if is_wrapped(each)]


def compiled_optimizer(model: keras.Model) -> keras.optimizers.Optimizer | None:
    """Returns the one that the model was compiled with; of a LossScaleOptimizer the inner one."""
    return getattr(model.optimizer, "inner_optimizer", model.optimizer)


def is_wrapped(optimizer: keras.optimizers.Optimizer) -> bool:
    """Whether it is one of `wrap`'s, which lie above this layer."""
    return hasattr(optimizer, "_adasum_divided_loss")


def _among(values: Iterable) -> Iterator[keras.optimizers.Optimizer]:
    """Optimizers among the values, also in lists, sets and dicts."""
    for value in values:
        if isinstance(value, keras.optimizers.Optimizer):
            yield value
        elif isinstance(value, (list, tuple, set, frozenset)):
            yield from _among(value)
        elif isinstance(value, dict):
            yield from _among(value.values())


def _with_inner(
    optimizers: Iterable[keras.optimizers.Optimizer],
) -> Iterator[keras.optimizers.Optimizer]:
    for each in optimizers:
        yield each
        yield from _with_inner(_among(vars(each).values()))


def _each_once(
    optimizers: Iterable[keras.optimizers.Optimizer],
) -> list[keras.optimizers.Optimizer]:
    return list({id(each): each for each in optimizers}.values())
