"""wrap(unused_variables=True): replicas that lack gradients, each in its own way and step by step.

The reference is SGD with momentum in NumPy: what a replica lacks is zero, and what all lack stays.
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

RATE, MOMENTUM, DECAY = 0.1, 0.9, 0.5
NUM_VARIABLES, LENGTH = 4, 6
# The variables of each task: what one of them leaves out another one trains, but for the last.
TASKS = [(0, 1), (0, 2), (0,)]
# The task of replica r in each step; the last variable is in nobody's.
PLAN = [lambda r: r % 3, lambda r: (r + 1) % 3, lambda r: 2, lambda r: 0, lambda r: r % 2]


def targets(step, replica):
    random = np.random.default_rng([step, replica])
    return random.normal(size=(NUM_VARIABLES, LENGTH))


def reference(mode, number, initial):
    """The weights after all steps; the gradient of 1/2 |w - target|^2 is w - target."""
    weights = initial.copy()
    moments = np.zeros((number, *weights.shape))
    for step, task in enumerate(PLAN):
        used = sorted({index for r in range(number) for index in TASKS[task(r)]})
        gradients = np.zeros_like(moments)
        for r in range(number):
            for index in TASKS[task(r)]:
                gradients[r, index] = weights[index] - targets(step, r)[index]
        for index in used:
            decayed = weights[index] * (1 - DECAY * RATE)
            if mode == "gradient":
                gradients[:, index] = adasum.reduce(list(gradients[:, index]))
            moments[:, index] = MOMENTUM * moments[:, index] - RATE * gradients[:, index]
            moved = list(moments[:, index])
            weights[index] = decayed + (moved[0] if mode == "gradient" else adasum.reduce(moved))
    return weights, moments


@pytest.mark.long
@pytest.mark.parametrize("num_local", LOCAL)
@pytest.mark.parametrize("mode", ["gradient", "delta"])
def test_own_loop(mode, num_local):
    replicas = strategy(num_local)
    number = replicas.num_replicas_in_sync
    first = world().rank * num_local
    initial = np.random.default_rng(1).normal(size=(NUM_VARIABLES, LENGTH))
    with replicas.scope():
        variables = [
            keras.Variable(row, name=f"v{i}", dtype="float32") for i, row in enumerate(initial)
        ]
        optimizer = tf_adasum.wrap(
            keras.optimizers.SGD(RATE, momentum=MOMENTUM, weight_decay=DECAY),
            mode=mode,
            divided_loss=False,
            unused_variables=True,
        )
        optimizer.build(variables)

    def train_step(step):
        own = [TASKS[PLAN[step](first + r)] for r in range(num_local)]
        wanted = [targets(step, first + r).astype(np.float32) for r in range(num_local)]

        @tf.function
        def traced():
            def of_replica():
                replica = local_replica(tf.distribute.get_replica_context())
                task, target = own[replica], wanted[replica]
                grads = [
                    variable - target[i] if i in task else None
                    for i, variable in enumerate(variables)
                ]
                if step % 2:  # left out of the call, in place of None
                    pairs = [(g, v) for g, v in zip(grads, variables) if g is not None]
                    optimizer.apply_gradients(pairs)
                else:
                    optimizer.apply_gradients(zip(grads, variables))

            replicas.run(of_replica)

        traced()

    for step in range(len(PLAN)):
        train_step(step)
    if number == 1:
        return  # as Keras does it, which leaves out what has no gradient
    weights, moments = reference(mode, number, initial)
    for index, variable in enumerate(variables):
        np.testing.assert_allclose(variable.numpy(), weights[index], rtol=0, atol=2e-6)
    assert_equal_on_ranks(variables)
    for index, slot in enumerate(optimizer.momentums):
        for r, copy in enumerate(slot.value.values):
            np.testing.assert_allclose(copy.numpy(), moments[first + r, index], atol=2e-6)
    np.testing.assert_array_equal(variables[3].numpy(), initial[3].astype(np.float32))
    assert int(optimizer.iterations.numpy()) == len(PLAN)


class TwoTasks(keras.Model):
    """Even ranks train one head, odd ranks the other, on a common body; nobody trains the third."""

    def __init__(self):
        super().__init__()
        self.body = keras.layers.Dense(5, activation="tanh")
        self.heads = [keras.layers.Dense(1, name=f"head{i}") for i in range(3)]

    def build(self, shape):
        """Makes all heads on all ranks."""
        self.body.build(shape)
        for head in self.heads:
            head.build((None, 5))
        super().build(shape)

    def call(self, x):
        """The output of this rank's head."""
        return self.heads[world().rank % 2](self.body(x))


@pytest.mark.parametrize("use_ema", [False, True])
def test_fit_of_two_tasks(use_ema):
    replicas = strategy(1)
    with replicas.scope():
        keras.utils.set_random_seed(3)
        model = TwoTasks()
        adam = keras.optimizers.Adam(0.01, use_ema=use_ema, ema_momentum=0.5)
        optimizer = tf_adasum.wrap(adam, unused_variables=True)
        model.compile(optimizer, "mse")
        model.build((None, 3))
    unused = [weight.numpy() for weight in model.heads[2].weights]
    before = [weight.numpy() for head in model.heads[:2] for weight in head.weights[:1]]
    x = np.random.default_rng(0).normal(size=(64, 3)).astype(np.float32)
    model.fit(x, x[:, :1], batch_size=8, epochs=2, verbose=0)
    assert_equal_on_ranks(model.trainable_variables)
    for weight, old in zip(model.heads[2].weights, unused):
        # Averages of what stays are rounded.
        np.testing.assert_allclose(weight.numpy(), old, rtol=1e-5 if use_ema else 0)
    moved = [
        not np.array_equal(head.weights[0].numpy(), old)
        for head, old in zip(model.heads[:2], before)
    ]
    assert moved == ([True, False] if world().size == 1 else [True, True])


@pytest.mark.parametrize(
    "settings",
    [{"accumulate": 2}, {"steps_per_sync": 2}, {"sync": tf_adasum.sync.GroupAveraging()}],
)
def test_what_it_does_not_go_with(settings):
    with strategy(1).scope(), pytest.raises(ValueError, match="replicas to meet in each call"):
        tf_adasum.wrap(keras.optimizers.SGD(0.1), unused_variables=True, **settings)


@pytest.mark.parametrize("mode", ["gradient", "delta"])
def test_embeddings_that_some_ranks_use(mode):
    """Rows on one rank and nothing on another: both travel whole."""
    replicas = strategy(1)
    with replicas.scope():
        tables = [keras.Variable(np.ones((6, 2)), dtype="float32") for _ in range(2)]
        optimizer = tf_adasum.wrap(
            keras.optimizers.SGD(0.1), mode=mode, divided_loss=False, unused_variables=True
        )
        optimizer.build(tables)

    @tf.function
    def step():
        rows = tf.IndexedSlices(tf.ones([1, 2]), tf.constant([3]), tf.constant([6, 2]))
        own = [rows if world().rank % 2 == i else None for i in range(2)]
        replicas.run(lambda: optimizer.apply_gradients(zip(own, tables)))

    step()
    for i, table in enumerate(tables):
        is_used = bool(range(i, world().size, 2))
        moved = np.unique(np.nonzero(table.numpy() != 1.0)[0]).tolist()
        assert moved == ([3] if is_used else [])
    assert_equal_on_ranks(tables)


def test_the_setting_is_saved():
    with strategy(1).scope():
        optimizer = tf_adasum.wrap(keras.optimizers.SGD(0.1), unused_variables=True)
        loaded = type(optimizer).from_config(optimizer.get_config())
    assert loaded.get_config()["adasum"]["unused_variables"] is True
