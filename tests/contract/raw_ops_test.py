"""Ops called past the Python functions, as by a damaged graph: errors, and the process goes on."""

import pytest
import tensorflow as tf

import tf_adasum as adasum
from tf_adasum.collectives import native

CALL = {"tensor_name": "x", "caller_waits": True}


def handle():
    return adasum.world().handle_on("CPU:0")


def unlike_replicas():
    return native.ops.adasum_allreduce(handle(), [tf.zeros([3])], num_tensors=400, **CALL)


def unlike_sparse_replicas():
    rows, values = [tf.zeros([1], tf.int64)], [tf.zeros([1, 3])]
    of_tensors = tf.zeros([400], tf.int64)
    return native.ops.adasum_sparse_allreduce(
        handle(), of_tensors, rows, values, num_tensors=400, **CALL
    )


def two_uploads():
    return native.ops.adasum_uploads(handle(), tf.constant([True, False]), [tf.zeros([3])], **CALL)


def two_communicators():
    return native.ops.adasum_barrier(tf.raw_ops.Pack(values=[handle(), handle()]), **CALL)


@pytest.mark.parametrize("in_function", [False, True])
@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (unlike_replicas, "as many tensors of each replica|num_tensors"),
        (unlike_sparse_replicas, "as many tensors of each replica|num_tensors"),
        (two_uploads, "one bool, whether this rank uploads"),
        (two_communicators, "must be rank 0|the handle of one communicator"),
    ],
)
def test_is_refused(call, expected, in_function):
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match=expected):
        (tf.function(call) if in_function else call)()
    assert float(adasum.allreduce(tf.constant(2.0), "sum")) == 2.0
