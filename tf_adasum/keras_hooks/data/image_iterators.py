"""The order in which Keras' `ImageDataGenerator` goes through its images: one on all ranks.

NumPy draws it, anew for each epoch, and each process another one. Every rank takes its share of the
same global batches (see `drawn_seeds`).
"""

from __future__ import annotations

import functools

import numpy as np
from keras.src.legacy.preprocessing.image import Iterator

from tf_adasum.keras_hooks.core.guard import require_hooks, require_reads
from tf_adasum.keras_hooks.randomness import drawn_seeds

require_hooks(Iterator, "_set_index_array", "on_epoch_end")
require_reads(Iterator, "_set_index_array", "index_array", "shuffle", "permutation", "n")
require_reads(Iterator, "__init__", "seed")


def install() -> None:
    """Lets iterators draw orders that all ranks have.

    Those with a seed, too: several threads of a `PyDataset` seed and use one generator, in an order
    of chance.
    """
    original = Iterator._set_index_array

    @functools.wraps(original)
    def set_by_all(self):
        seed = drawn_seeds.of_all_ranks()
        if seed is None or not self.shuffle:
            original(self)
            return
        # Of this iterator alone: those of other data may be at another epoch on another rank.
        self._adasum_epoch = getattr(self, "_adasum_epoch", -1) + 1
        if self.seed is not None:
            seed = int(self.seed) % 2**32
        # The first is Keras' own with this seed.
        key = [seed, self._adasum_epoch] if self._adasum_epoch else seed
        self.index_array = np.random.RandomState(key).permutation(self.n)

    Iterator._set_index_array = set_by_all
