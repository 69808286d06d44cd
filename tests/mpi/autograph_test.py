"""AutoGraph, which rewrites a step of a program's own, leaves the library as it is."""

import sys

import tensorflow as tf

import tf_adasum as adasum


def test_functions_are_not_rewritten_with_a_step():
    """It calls a rewritten function "tf__" and its name; each takes long, when a step is traced."""
    x, weight = tf.ones([2 * adasum.size(), 3]), tf.Variable(1.0)

    def step():
        adasum.barrier()
        adasum.broadcast_variables([weight])
        assert adasum.rank() < adasum.size() == adasum.world().size
        assert adasum.local_rank() < adasum.local_size()
        x_of_0 = adasum.broadcast(x)
        return adasum.allreduce(x), adasum.allgather(x_of_0), *adasum.alltoall(x), share(x)

    def share(tensor):
        return adasum.reduce_scatter(tensor)

    rewritten = set()

    def note(frame, event, argument):
        if frame.f_code.co_name.startswith("tf__"):
            rewritten.add(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        traced = tf.function(step).get_concrete_function()
    finally:
        sys.setprofile(None)
    assert rewritten == {"tf__step", "tf__share"}
    assert [tuple(each.shape) for each in traced()[:2]] == [x.shape, (x.shape[0] ** 2 // 2, 3)]
