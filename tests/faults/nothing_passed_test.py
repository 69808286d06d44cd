"""A rank that passes no tensor takes part all the same: the others hear of it at once."""

import os

import numpy as np
import pytest
import tensorflow as tf

# Before the first communicator reads it.
os.environ["TF_ADASUM_MISMATCH_SECONDS"] = "2"

import tf_adasum as adasum

CALLS = {
    "allreduce": lambda tensors: adasum.allreduce(tensors, "sum"),
    "allreduce in a function": tf.function(lambda tensors: adasum.allreduce(tensors, "sum")),
    "allreduce with compression": lambda tensors: adasum.allreduce(
        tensors, "sum", compression=adasum.compression.Sign()
    ),
    "allreduce_arrays": lambda tensors: adasum.allreduce_arrays(
        [np.array(tensor) for tensor in tensors], "sum"
    ),
    "of the group": lambda tensors: adasum.world().allreduce_arrays(
        [np.array(tensor) for tensor in tensors], "sum", "of the group"
    ),
    "allgather": adasum.allgather,
    "broadcast": adasum.broadcast,
    "reduce_scatter": adasum.reduce_scatter,
}


def _check_next(call):
    """The next call of all ranks is one."""
    total = adasum.allreduce(tf.constant(float(adasum.rank())), "sum")
    assert float(total) == adasum.size() * (adasum.size() - 1) / 2
    call([tf.ones([2])])


@pytest.mark.parametrize("what", CALLS)
def test_all_ranks_may_pass_nothing(what):
    assert CALLS[what]([]) in ([], None)
    _check_next(CALLS[what])


@pytest.mark.parametrize("what", CALLS)
def test_one_rank_that_passes_nothing_is_named_on_all(what):
    is_last = adasum.rank() == adasum.size() - 1
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match=r"\[0?\]"):
        CALLS[what]([] if is_last else [tf.ones([2, 3])])
    _check_next(CALLS[what])
