"""The seeds that Keras draws where a program gives none for its data: the same one on all ranks.

`keras.utils.image_dataset_from_directory` and the like order their files by a number that NumPy
draws, another one in each process. Every rank takes its share of the same global batches, so that
with unlike orders some examples would be in no share and others in two.

No rank asks another one: a program may make a dataset on one rank alone.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable

import numpy as np
from keras.src.utils import (
    audio_dataset_utils,
    dataset_utils,
    image_dataset_utils,
    rng_utils,
    text_dataset_utils,
    timeseries_dataset_utils,
)
from tensorflow.python.eager import context as eager_context

from tf_adasum.collectives.communicator import world
from tf_adasum.keras_hooks.guard import require_hooks, require_reads
from tf_adasum.keras_hooks.stand_ins import StandIn

_BY_NUMPY = (
    audio_dataset_utils,
    dataset_utils,
    image_dataset_utils,
    text_dataset_utils,
    timeseries_dataset_utils,
)

for _module in _BY_NUMPY:
    require_hooks(_module, "np")
for _module, _function in (
    (audio_dataset_utils, "audio_dataset_from_directory"),
    (dataset_utils, "index_directory"),
    (image_dataset_utils, "image_dataset_from_directory"),
    (text_dataset_utils, "text_dataset_from_directory"),
):
    require_reads(_module, _function, "np", "randint")
require_reads(dataset_utils, "_split_dataset_tf", "random", "randint")
require_hooks(dataset_utils, "random")
require_hooks(rng_utils, "get_random_seed")
require_hooks(eager_context, "global_seed")

_LIMIT = 10**6  # Keras' own


def install() -> None:
    """Lets Keras' functions that make datasets draw a number that all ranks have."""
    numbers = StandIn(np.random, randint=_drawn_for_all(np.random.randint))
    for module in _BY_NUMPY:
        module.np = StandIn(np, random=numbers)
    dataset_utils.random = StandIn(random, randint=_drawn_for_all(random.randint))


def of_all_ranks() -> int | None:
    """Returns a number that is the same on all ranks; None where each draws its own.

    It is TensorFlow's seed, which ranks share since the `AdasumStrategy` was made. A program that
    seeds all generators by `keras.utils.set_random_seed` draws alike by itself, and so that a
    process alone has the same order.
    """
    if world().size == 1 or rng_utils.get_random_seed() is not None:
        return None
    seed = eager_context.global_seed()
    return None if seed is None else int(seed)


def _drawn_for_all(draw: Callable[..., int]) -> Callable[..., int]:
    @functools.wraps(draw)
    def draw_for_all(*limits):
        own, seed = draw(*limits), of_all_ranks()
        return own if seed is None else random.Random(seed).randrange(_LIMIT)

    return draw_for_all
