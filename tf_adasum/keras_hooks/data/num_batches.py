"""The number of batches of an epoch: all ranks count as many steps as the one with most data.

Keras takes the number from the rank's own data. A rank with fewer batches than others would end
the epoch before them, and they would wait for it; instead it goes on with empty batches, as all
do where the number is not known.
"""

from __future__ import annotations

import functools

import numpy as np
import tensorflow as tf
from keras.src.backend.tensorflow.trainer import TFEpochIterator
from keras.src.trainers.data_adapters.data_adapter import DataAdapter
from keras.src.trainers.data_adapters.tf_dataset_adapter import TFDatasetAdapter

from tf_adasum.collectives.allreduce import allreduce
from tf_adasum.collectives.communicator import Communicator
from tf_adasum.keras_hooks.core import calls
from tf_adasum.keras_hooks.core.guard import require_hooks, require_reads
from tf_adasum.keras_hooks.core.hooked_extended import HookedExtended, peers_of

require_hooks(TFEpochIterator, "__init__", "_interrupted_warning", "num_batches", "reset")
require_reads(TFEpochIterator, "_enumerate_iterator", "_num_batches")
require_hooks(TFDatasetAdapter, "get_tf_dataset")

_UNKNOWN = -1


def install() -> None:
    """Lets `TFEpochIterator` count the batches of all ranks."""
    make, reset = TFEpochIterator.__init__, TFEpochIterator.reset

    @functools.wraps(make)
    def make_and_agree(self, distribute_strategy=None, *args, **kwargs):
        peers = peers_of(distribute_strategy)
        if peers is not None:
            distribute_strategy.extended.files_are_dealt = False
        make(self, distribute_strategy, *args, **kwargs)
        if peers is not None:
            extended = distribute_strategy.extended
            # Keras counts the whole data, of which a rank may have been dealt the longer files.
            is_own = is_sharded(self.data_adapter) and not extended.files_are_dealt
            self._adasum_ends_as_meant = self._num_batches is not None and not is_own
            own = self._num_batches if is_own else None
            self._num_batches = _of_all_ranks(own, peers)
            _tell(extended, self)
        self._adasum_num_batches = self._num_batches

    @functools.wraps(reset)
    def reset_to_agreed(self):
        reset(self)
        self._num_batches = self._adasum_num_batches

    TFEpochIterator.__init__ = make_and_agree
    TFEpochIterator.reset = reset_to_agreed
    _warn_of_other_ends()


def _warn_of_other_ends() -> None:
    """Keras warns of data that end without a number, which here is left out on purpose."""
    original = TFEpochIterator._interrupted_warning

    @functools.wraps(original)
    def warn(self):
        if not getattr(self, "_adasum_ends_as_meant", False):
            original(self)

    TFEpochIterator._interrupted_warning = warn


def _tell(extended: HookedExtended, iterator: TFEpochIterator) -> None:
    """Notes whether the number of batches of `fit` is known, so that no rank need ask for the next.

    It tells nothing where an execution takes several steps and goes on behind the last of an epoch.
    """
    call = calls.current()
    if call is None or call.name != "fit" or call.has_data:
        return  # others, such as those for validation, end as they do
    call.has_data = True
    number = iterator._num_batches
    is_known = number is not None and number % iterator.steps_per_execution == 0
    # Of data that are distributed already Keras counts what each replica gets.
    is_known = is_known and not _is_distributed(iterator.data_adapter)
    extended.number_is_known.assign(is_known)
    call.at_end.callback(extended.number_is_known.assign, False)


def is_sharded(data_adapter: DataAdapter) -> bool:
    """Whether each rank computes on its own part of the data.

    Of data that is not sharded, each rank computes on the whole of every global batch, in parts:
    TensorFlow makes several steps of one batch, which Keras' number leaves out.
    """
    if not isinstance(data_adapter, TFDatasetAdapter) or _is_distributed(data_adapter):
        return True
    policy = data_adapter.get_tf_dataset().options().experimental_distribute.auto_shard_policy
    return policy != tf.data.experimental.AutoShardPolicy.OFF


def _is_distributed(data_adapter: DataAdapter) -> bool:
    is_dataset = isinstance(data_adapter, TFDatasetAdapter)
    return is_dataset and not isinstance(data_adapter.get_tf_dataset(), tf.data.Dataset)


def _of_all_ranks(own: int | None, communicator: Communicator) -> int | None:
    """The largest number that any rank has, or None where one does not know its own."""
    numbers = np.zeros(communicator.size, np.int64)
    numbers[communicator.rank] = _UNKNOWN if own is None else own
    with tf.device("CPU:0"):
        numbers = allreduce(
            tf.constant(numbers), "sum", communicator, name="number of batches of an epoch"
        ).numpy()
    return None if _UNKNOWN in numbers else int(numbers.max())
