"""Reductions over two replicas of each rank, one after the other: right, and no thread is made."""

import os

import numpy as np
import tensorflow as tf
from mpi4py import MPI

import tf_adasum as adasum
from tests.contract import error_model
from tf_adasum.collectives.allreduce_replicas import allreduce_replicas

NUM_REDUCTIONS = int(os.environ.get("REPLICAS_SOAK_REDUCTIONS", "2000"))
REPLICAS = 2
# What `fit` of a small model exchanges: swapped whole; some that are not, of one and more steps.
LISTS = [[36, 9, 72, 8], [1], [1000, 9], [3000], [100_000, 3]]
LOOK_EVERY = 97


def _inputs():
    """Those of all leaves: of each list, of each leaf, an array for each tensor."""
    rng = np.random.default_rng(0)
    leaves = range(REPLICAS * adasum.size())
    return [
        [[rng.standard_normal(count).astype(np.float32) for count in counts] for _ in leaves]
        for counts in LISTS
    ]


def _bytes(tensors):
    return [tensor.numpy().tobytes() for tensor in tensors]


def test_replicas_reduce_again_and_again():
    first = REPLICAS * adasum.rank()
    inputs = _inputs()
    own = [
        [[tf.constant(array) for array in leaf] for leaf in leaves[first : first + REPLICAS]]
        for leaves in inputs
    ]

    def reduce(number):
        return allreduce_replicas(own[number], name=f"list {number}")

    expected = []
    for number, leaves in enumerate(inputs):
        results = reduce(number)
        for variable, result in enumerate(results):
            error_model.check("adasum", result.numpy(), [leaf[variable] for leaf in leaves])
        expected.append(_bytes(results))
    assert MPI.COMM_WORLD.allgather(expected) == [expected] * adasum.size()
    threads = set(os.listdir("/proc/self/task"))  # the kernel numbers them without end
    for step in range(NUM_REDUCTIONS):
        number = step % len(LISTS)
        results = reduce(number)
        if step % LOOK_EVERY == 0:
            assert _bytes(results) == expected[number], f"reduction {step}"
    assert set(os.listdir("/proc/self/task")) == threads
