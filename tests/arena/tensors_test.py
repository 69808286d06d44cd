"""In ranks of adasumrun: where TensorFlow's tensors lie, and what that takes of memory."""

import contextlib
import ctypes
import os
import random
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import tf_adasum as adasum
from tf_adasum.collectives import native

MIB = 1 << 20


def _in_arena(tensor):
    # Not tensor.numpy(), which is a copy.
    return native.lib.in_arena(np.asarray(tensor))


def _shared_bytes():
    """What of shared memory is resident in this process."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"RssShmem:\s+(\d+) kB", status)[1]) * 1024


@contextlib.contextmanager
def _without_descriptors():
    """As in a program that closes what it did not open: those of its own arena and of peers'."""
    links = [each for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
    arenas = [int(each.name) for each in links if "memfd:tf_adasum_arena" in os.readlink(each)]
    assert len(arenas) >= adasum.size()
    kept = [os.dup(each) for each in arenas]
    for each in arenas:
        os.close(each)
    try:
        yield
    finally:
        for one, other in zip(kept, arenas):
            os.dup2(one, other, inheritable=False)
            os.close(one)


@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16, tf.float64, tf.int32])
def test_large_tensors_lie_in_it(dtype):
    for num_bytes in (64 << 10, MIB, 16 * MIB):
        assert _in_arena(tf.zeros([num_bytes // dtype.size], dtype) + 1)


def test_small_tensors_do_not():
    assert not _in_arena(tf.zeros([1000]) + 1)


def test_gradients_and_variables_lie_in_it():
    weights = tf.Variable(tf.random.normal([512, 1024]))
    inputs = tf.random.normal([8, 512])

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.matmul(inputs, weights) ** 2)
        return tape.gradient(loss, weights)

    gradient = step()
    assert _in_arena(gradient) and _in_arena(weights.read_value())
    reduced = adasum.allreduce([gradient])[0]
    assert _in_arena(reduced)


def test_threads_compute_what_they_did():
    matrices = np.random.default_rng(3).normal(size=[8, 256, 256])

    def product(matrix):
        result = tf.constant(matrix)
        for _ in range(20):
            result = tf.matmul(result, tf.constant(matrix)) / 16
        return result.numpy()

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(product, matrices))
    for matrix, result in zip(matrices, results):
        assert (product(matrix) == result).all()


def test_memory_is_flat_over_10000_tensors_of_random_size():
    draw = random.Random(adasum.rank())
    held = [None] * 16
    most = 0
    for number in range(10_000):
        size = draw.randrange(64 << 10, MIB if number % 20 else 8 * MIB)
        held[number % 16] = tf.ones([size], tf.uint8)
        if number == 2_000:
            most = _shared_bytes()
    assert all(bool(tf.reduce_all(tensor == 1)) for tensor in held)
    assert _shared_bytes() <= most + 96 * MIB


class Block:
    """Memory that is taken as TensorFlow takes it, which keeps what it has in pools of its own."""

    _LIBC = ctypes.CDLL(None)

    def __init__(self, num_bytes):
        address = ctypes.c_void_p()
        assert self._LIBC.posix_memalign(ctypes.byref(address), 64, num_bytes) == 0
        self.bytes = np.ctypeslib.as_array((ctypes.c_uint8 * num_bytes).from_address(address.value))
        self._address = address

    def __enter__(self):
        return self.bytes

    def __exit__(self, *_):
        self._LIBC.free(self._address)


def test_memory_that_is_freed_comes_back():
    before = _shared_bytes()
    for num_bytes in (200 * MIB, 500 * MIB):
        with Block(num_bytes) as many:
            assert native.lib.in_arena(many)
            many[:] = 1
            # Not `before` and that: the arena may give back for it what it kept free.
            assert _shared_bytes() >= num_bytes - MIB
    for _ in range(9_000):
        with Block(64 << 10):
            pass
    assert _shared_bytes() <= before + 96 * MIB


def test_ranks_read_it_where_descriptors_were_closed():
    array = adasum.empty([MIB], np.float32)
    array[:] = adasum.rank() + 1
    adasum.barrier()
    with _without_descriptors():
        adasum.allreduce_arrays([array], "sum")
    assert (array == sum(range(1, adasum.size() + 1))).all()


def test_what_does_not_fit_lies_elsewhere():
    most = []
    for num_bytes in (1 << 28, 1 << 24, MIB):
        while native.lib.in_arena(array := adasum.empty(num_bytes, "uint8")):
            most.append(array)
    with Block(4 * MIB) as block:
        assert not native.lib.in_arena(block)
        block[:] = 1
    # TensorFlow's own pools are not enough for it.
    tensor = tf.ones([1 << 28], tf.uint8)
    assert not _in_arena(tensor)
    assert int(tf.reduce_sum(tf.cast(tensor[:MIB], tf.int64))) == MIB
    del most
    with Block(4 * MIB) as block:
        assert native.lib.in_arena(block)
