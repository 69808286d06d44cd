"""wrap(sync=Lazy(...)) and CADA: uploads that are skipped, held to NumPy step by step."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_adasum
from tests.training.comparison import PER_REPLICA, compiled_under
from tests.training.replicas import (
    LOCAL,
    assert_equal_on_ranks,
    examples,
    small_model,
    strategy,
    sub_batch,
)
from tf_adasum.collectives.communicator import world

NUM_STEPS = 16
MOVES, MOST_STEPS = 4, 6
local_replicas = pytest.mark.parametrize("num_local", LOCAL)


class Reference:
    """Each rank's side of CADA, without a strategy: gradients by TensorFlow, the rest in NumPy."""

    def __init__(self, rule, threshold, num_ranks, num_local, weights):
        self.rule, self.threshold = rule, threshold
        self.num_ranks, self.num_local = num_ranks, num_local
        self.weights = [w.astype(np.float64) for w in weights]
        self.model = small_model()
        self.last = [None] * num_ranks
        self.at_upload = [None] * num_ranks  # rule 1: e_m; rule 2: weights
        self.since = [0] * num_ranks
        self.moves = []
        self.uploads = np.zeros(num_ranks, int)
        self.margins = []  # of each decision by the threshold, relative

    def gradient(self, weights, x, y, rank):
        """Of the rank's part of a batch: the mean over its replicas."""
        self.model.set_weights([w.astype(np.float32) for w in weights])
        found = []
        for local in range(self.num_local):
            own_x, own_y = (
                sub_batch(a, rank * self.num_local + local, self.num_local) for a in (x, y)
            )
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(self.model(own_x) - own_y))
            found.append([g.numpy() for g in tape.gradient(loss, self.model.trainable_variables)])
        return [np.mean(each, axis=0, dtype=np.float64) for each in zip(*found)]

    def news(self, x, y, rank):
        """The gradient, what it is beside the earlier one, and the squared norm of what is new."""
        own = self.gradient(self.weights, x, y, rank)
        at = self.snapshot if self.rule == 1 else self.at_upload[rank]
        at = self.weights if at is None else at
        change = [a - b for a, b in zip(own, self.gradient(at, x, y, rank))]
        before = self.at_upload[rank] if self.rule == 1 else None
        compared = change if before is None else [a - b for a, b in zip(change, before)]
        return own, change, sum(np.sum(each**2) for each in compared)

    def mean(self, x, y, step):
        """The mean of the last uploads, after those of this step."""
        if self.rule == 1 and step % MOST_STEPS == 0:
            self.snapshot = self.weights
        limit = self.threshold / MOVES * sum(self.moves[-MOVES:])
        for rank in range(self.num_ranks):
            own, change, new = self.news(x, y, rank)
            is_due = self.last[rank] is None or self.since[rank] >= MOST_STEPS
            if not is_due and limit > 0:
                self.margins.append(abs(new / limit - 1))
            if is_due or new > limit:
                self.last[rank], self.since[rank] = own, 1
                self.at_upload[rank] = change if self.rule == 1 else self.weights
                self.uploads[rank] += 1
            else:
                self.since[rank] += 1
        return [np.mean(each, axis=0) for each in zip(*self.last)]

    def move(self, weights):
        """Takes the weights of the next step."""
        self.moves.append(sum(np.sum((a - b) ** 2) for a, b in zip(weights, self.weights)))
        self.weights = weights


def amsgrad(reference, mean, slots, rate):
    """The step of CADA."""
    slots = slots or [(np.zeros_like(g), np.zeros_like(g)) for g in mean]
    new, kept = [], []
    for weight, gradient, (old_m, old_v) in zip(reference.weights, mean, slots):
        m = 0.9 * old_m + 0.1 * gradient
        v = np.maximum(old_v, 0.999 * old_v + 0.001 * gradient**2)
        new.append(weight - rate * m / np.sqrt(v + 1e-8))
        kept.append((m, v))
    reference.move(new)
    return kept


@local_replicas
@pytest.mark.parametrize(("rule", "threshold"), [(1, 3.0), (2, 0.05), (2, 1e-9), (2, 1e9)])
def test_cada(rule, threshold, num_local):
    replicas = strategy(num_local)
    number = replicas.num_replicas_in_sync

    def make():
        return tf_adasum.optimizers.CADA(
            0.02, rule=rule, threshold=threshold, num_moves=MOVES, most_steps=MOST_STEPS
        )

    model = compiled_under(replicas, make, "plain")
    reference = Reference(rule, threshold, world().size, num_local, model.get_weights())
    batch = PER_REPLICA * number
    x, y = examples(NUM_STEPS * batch)
    model.fit(x, y, batch_size=batch, shuffle=False, verbose=0)
    slots = None
    for step in range(NUM_STEPS):
        rows = slice(step * batch, (step + 1) * batch)
        if number > 1:
            mean = reference.mean(x[rows], y[rows], step)
        else:  # nothing is exchanged
            mean = reference.gradient(reference.weights, x[rows], y[rows], 0)
        slots = amsgrad(reference, mean, slots, 0.02)
    # No decision was so close that rounding could have made it another one.
    assert min(reference.margins, default=1) > 1e-4
    for got, want in zip(model.get_weights(), reference.weights):
        np.testing.assert_allclose(got, want, rtol=0, atol=2e-5)
    assert_equal_on_ranks(model.trainable_variables)
    if number == 1:
        return
    uploads = model.optimizer.uploads
    assert uploads.num_steps == NUM_STEPS
    assert uploads.num_uploads == reference.uploads[world().rank]
    if threshold == 1e-9:
        assert uploads.num_uploads == NUM_STEPS
    if threshold == 1e9:
        assert uploads.num_uploads == 1 + (NUM_STEPS - 1) // MOST_STEPS


def test_uploads_of_every_step_are_the_mean():
    """With a threshold of next to nothing, SGD under Lazy is SGD with plain averages."""
    weights = []
    for sync in (None, tf_adasum.sync.Lazy(threshold=1e-30)):
        replicas = strategy(1)
        settings = {} if sync is None else {"sync": sync}
        mode = "plain" if sync is None else "delta"
        model = compiled_under(replicas, lambda: keras.optimizers.SGD(0.1), mode, settings=settings)
        batch = PER_REPLICA * replicas.num_replicas_in_sync
        x, y = examples(6 * batch)
        model.fit(x, y, batch_size=batch, shuffle=False, verbose=0)
        weights.append(model.get_weights())
    for got, want in zip(*weights):
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-6)


@pytest.mark.long
def test_layers_keep_nothing_of_the_second_pass():
    """Dropout draws once, batch normalisation and metrics count once."""
    found = []
    for sync in (None, tf_adasum.sync.Lazy(threshold=1e-30)):
        replicas = strategy(1)
        settings = {} if sync is None else {"sync": sync}
        mode = "plain" if sync is None else "delta"
        model = compiled_under(
            replicas,
            lambda: keras.optimizers.SGD(0.05),
            mode,
            lambda: small_model(
                keras.layers.Dropout(0.3, seed=4), keras.layers.BatchNormalization()
            ),
            settings=settings,
            metrics=["mae"],
        )
        batch = PER_REPLICA * replicas.num_replicas_in_sync
        x, y = examples(4 * batch)
        history = model.fit(x, y, batch_size=batch, shuffle=False, verbose=0).history
        found.append([*model.get_weights(), history["mae"][0]])
    for got, want in zip(*found):
        np.testing.assert_allclose(got, want, rtol=0, atol=2e-6)


@pytest.mark.long
@pytest.mark.parametrize(
    ("options", "extra"),
    [
        ({}, ()),
        ({"global_clipnorm": 0.1}, ()),
        ({}, (keras.layers.Dropout(0.3, seed=4),)),
        ({}, (keras.layers.ActivityRegularization(l2=0.1),)),
    ],
)
@pytest.mark.parametrize("rule", [1, 2])
def test_where_weights_stay_nothing_is_new(rule, options, extra):
    """At a rate of zero the two gradients are one: a rank uploads in its first step alone."""
    replicas = strategy(1)

    def make():
        return tf_adasum.optimizers.CADA(0.0, rule=rule, most_steps=100, **options)

    model = compiled_under(replicas, make, "plain", lambda: small_model(*extra))
    batch = PER_REPLICA * replicas.num_replicas_in_sync
    x, y = examples(5 * batch)
    model.fit(x, y, batch_size=batch, shuffle=False, verbose=0)
    if world().size > 1:
        assert model.optimizer.uploads[:2] == (1, 5)


def lazy_sgd(**settings):
    return tf_adasum.wrap(keras.optimizers.SGD(0.1), sync=tf_adasum.sync.Lazy(**settings))


@pytest.mark.parametrize("make", [lazy_sgd, tf_adasum.optimizers.CADA])
@pytest.mark.parametrize("eager", [False, True], ids=["graph", "eager"])
def test_what_is_no_number_is_uploaded_at_once(eager, make):
    """All weights become NaN, as without Lazy, though a difference that is NaN exceeds nothing."""
    with strategy(1).scope():
        model = small_model()
        model.compile(make(threshold=1e9, most_steps=100), "mse", run_eagerly=eager)
    batch = PER_REPLICA * model.distribute_strategy.num_replicas_in_sync
    x, y = examples(batch)
    model.fit(x, y, batch_size=batch, shuffle=False, epochs=2, verbose=0)
    x[-1, 0] = np.nan  # of the last rank
    model.fit(x, y, batch_size=batch, shuffle=False, verbose=0)
    assert all(np.isnan(weight).any() for weight in model.get_weights())


@pytest.mark.long
def test_a_saved_model_is_loaded(tmp_path):
    replicas = strategy(1)
    settings = {"sync": tf_adasum.sync.Lazy(threshold=2.0)}
    model = compiled_under(replicas, lambda: keras.optimizers.SGD(0.1), "delta", settings=settings)
    x, y = examples(PER_REPLICA * replicas.num_replicas_in_sync)
    model.fit(x, y, batch_size=len(x), verbose=0)
    path = tmp_path / "model.keras"
    model.save(path)
    with replicas.scope():
        loaded = keras.models.load_model(path)
    assert loaded.optimizer._adasum.exchange.sync == tf_adasum.sync.Lazy(threshold=2.0)
    loaded.fit(x, y, batch_size=len(x), verbose=0)
    assert_equal_on_ranks(loaded.trainable_variables)


@pytest.mark.parametrize("sync", [tf_adasum.sync.Lazy(), tf_adasum.sync.GroupAveraging()])
def test_a_configuration_makes_the_same_again(sync):
    with strategy(1).scope():
        optimizer = tf_adasum.wrap(keras.optimizers.SGD(0.1), sync=sync)
        again = type(optimizer).from_config(optimizer.get_config())
    assert again.get_config() == optimizer.get_config()
    assert again._adasum.exchange.sync == sync


def test_own_loops_are_refused():
    replicas = strategy(1)
    with replicas.scope():
        weight = keras.Variable(np.ones(3), dtype="float32")
        optimizer = tf_adasum.optimizers.CADA()
        optimizer.build([weight])

    def step():
        optimizer.apply_gradients([(weight * 2.0, weight)])

    if world().size == 1:
        replicas.run(step)
        return
    with pytest.raises(ValueError, match=r"gradients of a batch at two weights"):
        replicas.run(step)
    if not hasattr(keras.optimizers, "MultiOptimizer"):  # Keras 3.12 has none
        return
    with replicas.scope():
        model = small_model()
        inner = tf_adasum.wrap(keras.optimizers.SGD(), sync=tf_adasum.sync.Lazy())
        model.compile(keras.optimizers.MultiOptimizer(lambda variable: inner), "mse")
    with pytest.raises(ValueError, match=r"Received: .*, or of an optimizer in a MultiOptimizer"):
        model.fit(*examples(world().size), batch_size=world().size, verbose=0)
