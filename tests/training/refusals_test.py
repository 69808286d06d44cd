"""What would train wrongly without a word is refused with one, on every rank alike."""

from __future__ import annotations

import concurrent.futures
import functools
import logging
import re
import threading

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_adasum
from tests.training.comparison import compiled, compiled_under
from tests.training.replicas import (
    LOCAL,
    MAX_LOCAL,
    assert_equal_on_ranks,
    examples,
    small_model,
    strategy,
)
from tf_adasum.collectives.communicator import world

OUTSIDE = r"Expected weights created inside the scope\(\).* Make, build, load and compile the model"

local_replicas = pytest.mark.parametrize("num_local", LOCAL)


def sgd():
    return keras.optimizers.SGD(0.1)


@local_replicas
def test_plain_optimizer_is_announced_once_on_rank_0(num_local, caplog):
    with caplog.at_level(logging.WARNING, logger="tf_adasum"):
        model, number = compiled(num_local, sgd, "plain")
        x, y = examples(8 * number)
        model.fit(x, y, batch_size=4 * number, epochs=2, verbose=0)
        model.fit(x, y, batch_size=2 * number, verbose=0)
    lines = [record.getMessage() for record in caplog.records if record.name == "tf_adasum"]
    if world().rank == 0 and number > 1:
        assert len(lines) == 1
        assert f"added up over {number} replicas, which is their mean if" in lines[0]
        assert "tf_adasum.wrap" in lines[0]
    else:
        assert lines == []


@pytest.mark.parametrize(
    "settings",
    [
        {"gradient_accumulation_steps": 2, "weight_decay": 0.1},
        {"use_ema": True, "ema_overwrite_frequency": 2},
    ],
)
def test_a_plain_optimizer_with_branches_on_several_devices(settings):
    model, number = compiled(
        MAX_LOCAL, functools.partial(keras.optimizers.SGD, 0.1, **settings), "plain"
    )
    x, y = examples(4 * number)
    told = (
        r"^rank \d: Expected replicas to meet .*ema_overwrite_frequency\. Wrap the optimizer .*\.$"
    )
    with pytest.raises(RuntimeError, match=told):
        model.fit(x, y, batch_size=len(x), verbose=0)


@local_replicas
def test_wrapped_optimizer_says_nothing(num_local, caplog):
    model, number = compiled(num_local, sgd, "delta")
    x, y = examples(4 * number)
    model.fit(x, y, batch_size=4 * number, verbose=0)
    assert [record for record in caplog.records if record.name == "tf_adasum"] == []


@local_replicas
@pytest.mark.parametrize("mode", ["delta", "gradient", "plain"])
def test_optimizer_made_outside_the_scope(mode, num_local):
    optimizer = keras.optimizers.Adam() if mode == "plain" else tf_adasum.wrap(sgd(), mode=mode)
    replicas = strategy(num_local)
    with replicas.scope():
        model = small_model()
        model.compile(optimizer=optimizer, loss="mse")
    x, y = examples(4 * replicas.num_replicas_in_sync)
    with pytest.raises(RuntimeError, match=r"created outside of its scope\(\)\. Create"):
        model.fit(x, y, batch_size=len(x), verbose=0)


@local_replicas
@pytest.mark.parametrize("call", ["fit", "evaluate", "train_on_batch"])
def test_metric_made_outside_the_scope(call, num_local):
    metrics = [keras.metrics.AUC(name="area"), "mae"]
    replicas = strategy(num_local)
    with replicas.scope():
        model = small_model()
        model.compile(tf_adasum.wrap(sgd()), "mse", metrics=metrics)
    x, y = examples(4 * replicas.num_replicas_in_sync)
    y = (y > 0).astype(np.float32)
    if replicas.num_replicas_in_sync == 1:
        getattr(model, call)(x, y)
        return
    with pytest.raises(RuntimeError, match=r"metrics to be created, inside the scope\(\).*'area"):
        getattr(model, call)(x, y)


def test_model_made_outside_the_scope():
    model = small_model()
    replicas = strategy(LOCAL[-1])
    with replicas.scope():
        model.compile(tf_adasum.wrap(sgd()), "mse")
    x, y = examples(8)
    if world().size > 1:
        with pytest.raises(RuntimeError, match=OUTSIDE):
            model.fit(x, y, verbose=0)


def _own_loop(replicas, optimizer, model):
    """A step by hand; eager errors of `strategy.run` come through as they are."""

    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(tf.ones([2, 4])) ** 2)
        weights = model.trainable_variables
        optimizer.apply(tape.gradient(loss, weights), weights)

    tf.function(replicas.run)(step)


@local_replicas
@pytest.mark.parametrize("mode", ["delta", "gradient", "plain"])
@pytest.mark.parametrize("call", ["fit", "train_on_batch", "own loop"])
def test_a_layer_made_outside_the_scope(call, mode, num_local):
    """Also with an optimizer that has slots, for which TensorFlow asks first."""
    layer = keras.layers.Dense(2, name="outside")
    layer.build((None, 4))
    replicas = strategy(num_local)
    with replicas.scope():
        model = keras.Sequential([keras.Input((4,)), layer])
        optimizer = keras.optimizers.SGD(0.1) if mode == "delta" else keras.optimizers.Adam()
        optimizer = optimizer if mode == "plain" else tf_adasum.wrap(optimizer, mode)
        model.compile(optimizer, "mse")
    x = np.ones((4 * replicas.num_replicas_in_sync, 4), np.float32)
    with pytest.raises(RuntimeError, match=OUTSIDE) as caught:
        if call == "own loop":
            _own_loop(replicas, optimizer, model)
        else:
            getattr(model, call)(x, x[:, :2])
    assert f"rank {world().rank}: Expected" in str(caught.value)
    assert "Received: 'outside/kernel', created outside of it" in str(caught.value)


@local_replicas
def test_a_model_of_another_strategy(num_local):
    others = [strategy(num_local), tf.distribute.MirroredStrategy(["CPU:0"])]
    for other in others:
        with other.scope():
            model = small_model()
        with strategy(num_local).scope():
            optimizer = tf_adasum.wrap(sgd())
            with pytest.raises(RuntimeError, match="one strategy for a model and its optimizer"):
                with other.scope():
                    pass
        model.compile(optimizer, "mse")
        x, y = examples(8)
        with pytest.raises(RuntimeError, match="scope") as caught:
            model.fit(x, y, verbose=0)
        assert "Mixing different" not in str(caught.value)
        assert "Received: " in str(caught.value)


def test_wrapped_optimizer_without_a_strategy():
    model = small_model()
    start = model.get_weights()
    model.compile(optimizer=tf_adasum.wrap(sgd()), loss="mse")
    x, y = examples(8)
    if world().size > 1:
        with pytest.raises(RuntimeError, match=r"under an AdasumStrategy, as there are . replicas"):
            model.fit(x, y, verbose=0)
        return
    plain = small_model()
    plain.set_weights(start)
    plain.compile(optimizer=sgd(), loss="mse")
    for each in (model, plain):
        each.fit(x, y, batch_size=4, shuffle=False, verbose=0)
    for got, want in zip(model.get_weights(), plain.get_weights()):
        np.testing.assert_array_equal(got, want)


@local_replicas
def test_apply_outside_of_replicas(num_local):
    replicas = strategy(num_local)
    with replicas.scope():
        model = small_model()
        optimizer = tf_adasum.wrap(sgd())
        gradients = [tf.zeros(v.shape) for v in model.trainable_variables]
        with pytest.raises(RuntimeError, match=r"Call it inside strategy\.run"):
            optimizer.apply(gradients, model.trainable_variables)


@local_replicas
def test_rule_that_matches_nothing_fails_before_the_first_step(num_local):
    replicas = strategy(num_local, reductions=[("attention", "mean")])
    with replicas.scope():
        model = small_model()
        model.compile(optimizer=tf_adasum.wrap(sgd()), loss="mse")
    x, y = examples(4 * replicas.num_replicas_in_sync)
    with pytest.raises(ValueError, match=r"attention.*to match a variable"):
        model.fit(x, y, batch_size=len(x), verbose=0)


def test_a_second_thread_does_not_meet_the_ranks_of_the_first():
    model, number = compiled(1, sgd, "delta")
    x, y = examples(4 * number)
    outcomes = []

    def evaluate():
        try:
            outcomes.append(float(model.evaluate(x, y, batch_size=len(x), verbose=0)))
        except RuntimeError as error:
            outcomes.append(str(error))

    def in_a_thread(epoch, logs):
        thread = threading.Thread(target=evaluate)
        thread.start()
        thread.join()

    callback = keras.callbacks.LambdaCallback(on_epoch_end=in_a_thread)
    model.fit(x, y, batch_size=len(x), verbose=0, callbacks=[callback])
    in_a_thread(0, {})  # when fit has ended
    refused = "evaluate of '.*' in a thread, while another is in fit of '.*'"
    assert isinstance(outcomes[1], float)
    assert isinstance(outcomes[0], float) if number == 1 else re.search(refused, outcomes[0])


def test_threads_with_communicators_of_their_own_train_at_once():
    groups = [world().split(0) for _ in range(2)]
    x, y = examples(4 * world().size)

    def trained(number):
        replicas = strategy(1, communicator=groups[number])
        with replicas.scope():
            model = keras.Sequential([keras.Input(x.shape[1:]), keras.layers.Dense(1, name="d")])
            model.layers[0].set_weights([np.ones([x.shape[1], 1]), np.zeros(1)])
            model.compile(tf_adasum.wrap(keras.optimizers.SGD(0.01 * (1 + number))), "mse")
        model.fit(x, y, batch_size=len(x), epochs=2, verbose=0)
        return model.get_weights()

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        order = [0, 1] if world().rank % 2 else [1, 0]
        at_once = dict(zip(order, pool.map(trained, order)))
    for number in (0, 1):
        for one, other in zip(at_once[number], trained(number)):
            np.testing.assert_array_equal(one, other)


@local_replicas
def test_communicator_is_usable_after_all_that(num_local):
    model, number = compiled(num_local, sgd, "delta")
    x, y = examples(8 * number)
    losses = model.fit(x, y, batch_size=4 * number, epochs=3, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    assert_equal_on_ranks(model.trainable_variables)


def test_a_model_that_each_rank_trains_alone_is_told_once(caplog):
    tf_adasum.AdasumStrategy()
    x, y = examples(8)
    model = small_model()
    model.compile("sgd", "mse")
    for _ in range(2):
        model.fit(x, y, verbose=0)
    said = [r.getMessage() for r in caplog.records if "outside of the scope()" in r.getMessage()]
    assert len(said) == (world().rank == 0 and world().size > 1)
    assert all("on each rank by itself" in line for line in said)


@local_replicas
@pytest.mark.parametrize("is_built", [False, True])
def test_a_wrapped_optimizer_is_applied_in_replicas(is_built, num_local):
    """As in a loop that was written for Horovod, with a tape and without `strategy.run`."""
    replicas = strategy(num_local)
    model = compiled_under(replicas, keras.optimizers.Adam, "delta")
    weights = model.trainable_variables
    if is_built:
        with replicas.scope():
            model.optimizer.build(weights)
    gradients = [tf.ones(each.shape) for each in weights]
    if world().size > 1 or not is_built:
        with pytest.raises(RuntimeError, match=r"Expected .* strategy\.run"):
            model.optimizer.apply(gradients, weights)
        return
    before = [each.numpy() for each in weights]
    model.optimizer.apply(gradients, weights)
    for old, new in zip(before, weights):  # Adam's first step
        np.testing.assert_allclose(new, old - model.optimizer.learning_rate, rtol=1e-5)
