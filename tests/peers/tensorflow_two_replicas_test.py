"""TensorFlow's tests of a strategy with two replicas pass with AdasumStrategy on two devices.

In one process only: they look at replica 0, or compare the results of both replicas, and each
process of an AdasumStrategy sees its own replicas.
"""

from __future__ import annotations

import pytest
from tensorflow.python.distribute import strategy_test_lib

from tests.training.replicas import strategy


@pytest.mark.parametrize("in_function", [False, True])
@pytest.mark.parametrize(
    "name",
    [
        "_test_all_reduce_mean",
        "_test_all_reduce_mean_gradient_tape",
        "_test_all_reduce_sum",
        "_test_all_reduce_sum_gradient_tape",
        "_test_run",
    ],
)
def test_two_replicas(name, in_function):
    case = strategy_test_lib.TwoDeviceDistributionTestBase()
    getattr(case, name)(strategy(2), run_in_function=in_function)


@pytest.mark.parametrize(
    "name", ["_test_all_reduce_mean_gradients", "_test_all_reduce_sum_gradients"]
)
def test_gradients_in_a_graph(name):  # tf.gradients needs one
    getattr(strategy_test_lib.TwoDeviceDistributionTestBase(), name)(
        strategy(2), run_in_function=True
    )


@pytest.mark.parametrize("name", ["_test_replica_id", "_test_summary_for_replica_zero_only"])
def test_numbers_of_replicas(name):
    getattr(strategy_test_lib.DistributionTestBase(), name)(strategy(2))
