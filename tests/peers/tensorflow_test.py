"""TensorFlow's generic tests of a strategy pass with AdasumStrategy.

They come with TensorFlow (`strategy_test_lib`): methods that take a strategy. Here they get
AdasumStrategy, where TensorFlow's own test files pass MirroredStrategy. `_test_numpy_dataset` is
left out: it is for strategies of TensorFlow 1, and skips others.
"""

from __future__ import annotations

import pytest
import tensorflow as tf
from tensorflow.python.distribute import strategy_test_lib

import tf_adasum
from tests.training.replicas import LOCAL, strategy

local_replicas = pytest.mark.parametrize("num_local", LOCAL)


@local_replicas
@pytest.mark.parametrize(
    "name",
    [
        "_test_call_and_merge_exceptions",
        "_test_global_step_update",
        "_test_minimize_loss_eager",
        "_test_trainable_variable",
    ],
)
def test_a_strategy(name, num_local):
    getattr(strategy_test_lib.DistributionTestBase(), name)(strategy(num_local))


@local_replicas
def test_a_graph_of_tensorflow_1(num_local):
    # A session has one CPU, so that the second replica must be content with it.
    strategy_test_lib.DistributionTestBase()._test_minimize_loss_graph(
        strategy(num_local), soft_placement=True
    )


@local_replicas
def test_each_process_has_an_input_pipeline_of_its_own(num_local):
    replicas, case = strategy(num_local), strategy_test_lib.DistributionTestBase()
    first, number = 100 * tf_adasum.rank(), 3 * num_local
    input_fn = case._input_fn_to_test_input_context(
        lambda: tf.data.Dataset.range(first, first + number),
        expected_num_replicas_in_sync=replicas.num_replicas_in_sync,
        expected_num_input_pipelines=tf_adasum.size(),
        expected_input_pipeline_id=tf_adasum.rank(),
    )
    steps = range(first, first + number, num_local)
    expected = [list(range(step, step + num_local)) for step in steps]
    case._test_input_fn_iterable(replicas, input_fn, expected)
