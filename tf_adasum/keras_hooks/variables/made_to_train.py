"""Which variables of a model were made to be trained, also while their layers are frozen."""

from __future__ import annotations

import keras

from tf_adasum.keras_hooks.core.guard import require_hooks, require_reads

require_hooks(keras.layers.Layer, "_flatten_layers")
require_reads(keras.layers.Layer, "variables", "_trainable_variables")


def made_to_train(model: keras.Model) -> list[keras.Variable]:
    """Returns them in the order of the layers, each once.

    Not what a layer keeps beside them, as statistics of batches: each replica has its own.
    """
    made = [each for layer in model._flatten_layers() for each in layer._trainable_variables]
    # And what somebody let be trained since.
    return list({id(each): each for each in [*made, *model.trainable_variables]}.values())
