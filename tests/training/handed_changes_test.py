"""Delta mode with Keras' own rules, which hand over their changes, and with users' rules.

Adasum of N equal changes is that change, without rounding (every weight in the tree is a power of
two): replicas with equal gradients make Keras' own step, bit for bit.
"""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_adasum
from tests.reference import adasum
from tests.training.replicas import LOCAL, assert_equal_on_ranks, strategy
from tf_adasum.collectives.communicator import world
from tf_adasum.keras_hooks.core.replicas import local_replica
from tf_adasum.optimizers.handed_changes import HandedChanges, hands_changes

SHAPES = [(6, 5), (7,)]
NUM_STEPS = 4


class Halving(keras.optimizers.SGD):
    """A rule of a user's: changes its variable twice."""

    def update_step(self, gradient, variable, learning_rate):
        for _ in range(2):
            super().update_step(gradient, variable, learning_rate / 2)


class Counting(keras.optimizers.Adam):
    """A user's Adam that looks at what is assigned."""

    num_assigned = 0

    def assign_sub(self, variable, value):
        self.num_assigned += 1
        super().assign_sub(variable, value)


HANDING = [
    lambda: keras.optimizers.SGD(0.1),
    lambda: keras.optimizers.SGD(0.1, momentum=0.9),
    lambda: keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True, weight_decay=0.1),
    lambda: keras.optimizers.Adam(0.1),
    lambda: keras.optimizers.AdamW(0.1, amsgrad=True),
    lambda: keras.optimizers.RMSprop(0.1),
    lambda: keras.optimizers.RMSprop(0.1, momentum=0.9, centered=True),
    lambda: keras.optimizers.Adagrad(0.1),
    lambda: keras.optimizers.Adadelta(0.1),
    lambda: keras.optimizers.Adamax(0.1),
    lambda: keras.optimizers.Nadam(0.1),
    lambda: keras.optimizers.Lion(0.1),
    lambda: keras.optimizers.Lamb(0.1),
    lambda: keras.optimizers.Adafactor(0.1),
]
OTHERS = [
    lambda: keras.optimizers.Ftrl(0.1),
    lambda: tf_adasum.optimizers.LARS(0.1),
    lambda: Halving(0.1),
    lambda: Counting(0.1),
]


def gradients():
    """The same on all replicas; some entries are zero."""
    random = np.random.default_rng(3)
    steps = [[random.normal(size=shape) for shape in SHAPES] for _ in range(NUM_STEPS)]
    return [[tf.constant(each * (each > -1), tf.float32) for each in step] for step in steps]


def trained(optimizer, run):
    """Weights after all steps, made by `run(step, gradients)`."""
    random = np.random.default_rng(4)
    weights = [keras.Variable(random.normal(size=shape), dtype="float32") for shape in SHAPES]
    optimizer.build(weights)

    @tf.function
    def step(grads):
        run(lambda grads: optimizer.apply(grads, weights), grads)

    for grads in gradients():
        step(grads)
    return weights


def both(make_optimizer, num_local):
    """Weights of replicas in delta mode, and of Keras alone."""
    replicas = strategy(num_local)
    with replicas.scope():
        weights = trained(
            tf_adasum.wrap(make_optimizer(), divided_loss=False),
            lambda step, grads: replicas.run(step, (grads,)),
        )
    assert_equal_on_ranks(weights)
    alone = trained(make_optimizer(), lambda step, grads: step(grads))
    return [[each.numpy() for each in of] for of in (weights, alone)]


@pytest.mark.parametrize("num_local", LOCAL)
@pytest.mark.parametrize("make_optimizer", HANDING, ids=lambda make: make().name)
def test_equal_changes_make_keras_own_step(make_optimizer, num_local):
    assert hands_changes(type(make_optimizer()))
    for ours, keras_own in zip(*both(make_optimizer, num_local)):
        np.testing.assert_array_equal(ours, keras_own)


def test_changes_below_a_weights_digits_add_up():
    """Each is less than half of what 1 can change by in float32; w - w_old would be zero."""
    replicas = strategy(LOCAL[-1])
    number = replicas.num_replicas_in_sync
    of_replicas = [np.float32([2e-8, 2e-8 if replica == 0 else -2e-8]) for replica in range(number)]
    with replicas.scope():
        weight = keras.Variable([1.0, 1.0])
        optimizer = tf_adasum.wrap(keras.optimizers.SGD(1.0), divided_loss=False)
        optimizer.build([weight])

    @tf.function
    def step():
        replicas.run(lambda: optimizer.apply([tf.constant(own[own_replica()])], [weight]))

    def own_replica():
        return local_replica(tf.distribute.get_replica_context())

    own = of_replicas[world().rank * LOCAL[-1] :]
    step()
    change = adasum.reduce([each.astype(np.float64) for each in of_replicas])
    expected = np.float32(1) - change.astype(np.float32)
    np.testing.assert_array_equal(weight.numpy(), expected)
    assert (expected[0] < 1) == (number > 1)


@pytest.mark.parametrize("make_optimizer", OTHERS, ids=lambda make: make().name)
def test_changes_of_other_rules_are_found(make_optimizer):
    assert not hands_changes(type(make_optimizer()))
    for ours, keras_own in zip(*both(make_optimizer, LOCAL[-1])):
        np.testing.assert_allclose(ours, keras_own, rtol=1e-5, atol=1e-6)


def test_what_is_not_handed_once_is_an_error():
    with strategy(1).scope():
        handed, other = keras.Variable([1.0]).value, keras.Variable([1.0]).value
    changes = HandedChanges([handed])
    assert not changes.take(other.values[0], 1.0, True)
    with pytest.raises(RuntimeError, match=r"Expected one change of .* Received: none"):
        changes.of(handed)
    assert changes.take(handed.values[0], [2.0], True)
    values, is_minus = changes.of(handed)
    assert ([each.numpy() for each in values], is_minus) == ([[2.0]], True)
    with pytest.raises(RuntimeError, match="Received: two"):
        changes.take(handed.values[0], [2.0], True)


def test_rows_that_are_handed_are_a_dense_change():
    """As where an OrthogonalityLogger looks at an embedding; a row that is there twice adds up."""
    with strategy(1).scope():
        variable = keras.Variable(np.zeros([3, 2]), dtype="float32").value
    changes = HandedChanges([variable])
    rows = tf.IndexedSlices(tf.ones([3, 2]), tf.constant([2, 0, 2]), tf.constant([3, 2]))
    changes.take(variable.values[0], rows, False)
    values, _ = changes.of(variable)
    np.testing.assert_array_equal(values[0], [[1, 1], [0, 0], [2, 2]])
