"""The seeds that Keras draws where a program gives none for its data: the same one on all ranks.

`keras.utils.image_dataset_from_directory` and the like order their files by a number that NumPy
draws, another one in each process. Every rank takes its share of the same global batches, so that
with unlike orders some examples would be in no share and others in two.

No rank asks another one, which may not be there: a program may make a dataset on one rank alone. It
has drawn one more then, and what it makes afterwards is told as that of unlike seeds.
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
    text_dataset_utils,
    timeseries_dataset_utils,
)
from tensorflow.python.eager import context as eager_context

from tf_adasum.collectives.communicator import joined_world
from tf_adasum.keras_hooks.core.guard import require_hooks, require_reads
from tf_adasum.keras_hooks.core.stand_ins import StandIn

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
    (
        timeseries_dataset_utils,
        "_timeseries_dataset_tf"  # of newer Kerases
        if hasattr(timeseries_dataset_utils, "_timeseries_dataset_tf")
        else "timeseries_dataset_from_array",
    ),
):
    require_reads(_module, _function, "np", "randint")
require_reads(dataset_utils, "_split_dataset_tf", "random", "randint")
require_hooks(dataset_utils, "random")
require_hooks(eager_context, "context", "global_seed")
require_reads(eager_context.Context, "_set_global_seed", "_rng")


def install() -> None:
    """Lets Keras' functions that make datasets draw numbers that all ranks have."""
    drawn = _by_all(np.random.randint, lambda seed: np.random.RandomState(seed).randint)
    for module in _BY_NUMPY:
        module.np = StandIn(np, random=StandIn(np.random, randint=drawn))
    drawn = _by_all(random.randint, lambda seed: random.Random(seed).randint)
    dataset_utils.random = StandIn(random, randint=drawn)


def of_all_ranks() -> int | None:
    """Returns a number from 0 to 2**32 - 1 that all ranks have; None in a process alone.

    It is TensorFlow's seed, which ranks share since the `AdasumStrategy` was made.
    """
    world, seed = joined_world(), eager_context.global_seed()
    if world is None or world.size == 1 or seed is None:
        return None
    return int(seed) % 2**32


def _by_all(
    draw: Callable[..., int], make: Callable[[int], Callable[..., int]]
) -> Callable[..., int]:
    """Draws in a process alone as Keras does, else by what `make` makes of the ranks' number.

    After `keras.utils.set_random_seed` those are the same numbers.
    """
    begun, drawn_by_all = None, draw

    @functools.wraps(draw)
    def draw_by_all(*limits):
        nonlocal begun, drawn_by_all
        own, seed = draw(*limits), of_all_ranks()
        if seed is None:
            return own
        # TensorFlow makes another one whenever a seed is set, be it the same.
        if begun is not (generator := eager_context.context()._rng):
            begun, drawn_by_all = generator, make(seed)
        return drawn_by_all(*limits)

    return draw_by_all
