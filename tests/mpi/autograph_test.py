"""AutoGraph, which rewrites a step of a program's own, leaves the library as it is."""

import tensorflow as tf

import tf_adasum as adasum
from tests.rewritten import rewritten


def test_functions_are_not_rewritten_with_a_step():
    """Each takes long, when a step is traced."""
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

    with rewritten() as names:
        traced = tf.function(step).get_concrete_function()
    assert names == {"tf__step", "tf__share"}
    assert [tuple(each.shape) for each in traced()[:2]] == [x.shape, (x.shape[0] ** 2 // 2, 3)]
