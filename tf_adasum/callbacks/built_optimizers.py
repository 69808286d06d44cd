"""Which optimizers a model has, the weights that each is built for, and building them alike.

Those that a model keeps in attributes are built by their first step, each for its own weights.
"""

from __future__ import annotations

import keras

from tf_adasum.collectives.refusals import refusal
from tf_adasum.keras_hooks.steps.model_optimizers import optimizers_held_by, outer_optimizers_of
from tf_adasum.optimizers.mixin import class_before_wrap

_ELSEWHERE = -1


def weights_of_optimizers(model: keras.Model) -> list[list[int] | None]:
    """Returns the numbers of the weights of each; None for one that is not built.

    Args:
        model: a model that has its weights.
    """
    numbers = {id(weight): number for number, weight in enumerate(model.weights)}
    return [
        [numbers.get(id(each), _ELSEWHERE) for each in optimizer._trainable_variables]
        if optimizer.built
        else None
        for optimizer in outer_optimizers_of(model)
    ]


def names_of_optimizers(model: keras.Model) -> list[str]:
    """Returns the classes of all, also of those within others, as they are before `wrap`."""
    return [class_before_wrap(each).__name__ for each in optimizers_held_by(model)]


def build_optimizers(model: keras.Model, weights: list[list[int] | None]) -> None:
    """Builds those that are not built here and were there; does nothing for another model.

    Args:
        model: a model that has its weights.
        weights: what `weights_of_optimizers` returned there.

    Raises:
        ValueError: one that is not built here was built there for what the model does not have.
    """
    optimizers, own = outer_optimizers_of(model), model.weights
    most = max((number for listed in weights for number in listed or ()), default=0)
    if len(optimizers) != len(weights) or most >= len(own):
        return
    for optimizer, numbers in zip(optimizers, weights):
        if numbers is None or optimizer.built:
            continue
        if _ELSEWHERE in numbers:
            expected = f"the optimizer {optimizer.name!r} to be built before fit"
            received = "one for variables that the model does not have, in a backup"
            advice = "Call its build with them, on all ranks."
            raise ValueError(refusal(expected, received, advice))
        with model.distribute_strategy.scope():
            optimizer.build([own[number] for number in numbers])
