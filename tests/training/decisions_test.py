"""What one rank decides or sees in `fit`, all do: stops, rates; and metrics read alone."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_adasum
from tests.training.replicas import (
    LOCAL,
    assert_equal_on_ranks,
    data_of,
    everywhere,
    small_model,
    strategy,
)
from tf_adasum.collectives.communicator import world

LAST = world().size - 1
IS_LAST = world().rank == LAST
STAGES = {"fit": "train", "evaluate": "test", "predict": "predict"}
STOPS = {"fit": "stop_training", "evaluate": "stop_evaluating", "predict": "stop_predicting"}


def compiled(num_local, kind=None, **settings):
    with strategy(num_local).scope():
        model = small_model() if kind is None else kind()
        optimizer = tf_adasum.wrap(keras.optimizers.SGD(0.01))
        model.compile(optimizer=optimizer, loss="mse", metrics=["mae"], **settings)
    return model


class Counter(keras.callbacks.Callback):
    """Counts batches, and lets the last rank alone act after a number of them."""

    def __init__(self, name, after, act):
        super().__init__()
        self.number = 0
        self._after, self._act = after, act
        setattr(self, f"on_{STAGES[name]}_batch_end", self._count)

    def _count(self, batch, logs=None):
        self.number += 1
        if self.number == self._after and IS_LAST:
            self._act(self.model)


@pytest.mark.parametrize(("steps", "num_local"), [(1, 1), (2, LOCAL[-1])])
def test_one_rank_stops_all_after_the_same_batch(steps, num_local, caplog):
    model = compiled(num_local, steps_per_execution=steps)
    data = data_of(model, 8)
    for name, attribute in STOPS.items():
        if name == "predict":
            del data["y"]
        caplog.clear()
        stop = Counter(name, 2, lambda model, name=attribute: setattr(model, name, True))
        others = [Counter(name, 99, None)] if IS_LAST else []  # not the same on all ranks
        getattr(model, name)(**data, callbacks=[stop, *others])
        assert stop.number == 2
        assert getattr(model, attribute) is True
        said = [r.getMessage() for r in caplog.records if r.name == "tf_adasum"]
        want = [f"{name} ends here on all ranks: rank {LAST} set {attribute}."]
        assert said == (want if world().rank == 0 and world().size > 1 else [])
        all_batches = Counter(name, 99, None)
        getattr(model, name)(**data, callbacks=[all_batches])
        assert all_batches.number == 8 // steps
    assert_equal_on_ranks(model.trainable_variables)


class AtEpoch(keras.callbacks.Callback):
    """The last rank alone stops in another method of a callback."""

    def __init__(self, method):
        super().__init__()
        setattr(self, method, self._stop)

    def _stop(self, epoch=None, logs=None):
        if IS_LAST:
            self.model.stop_training = True


@pytest.mark.parametrize("method", ["on_epoch_begin", "on_epoch_end", "on_test_end"])
def test_one_rank_stops_all_at_an_epoch(method):
    model = compiled(1)
    data = data_of(model)
    begun = int(model.optimizer.iterations.numpy())
    validation = (data["x"], data["y"])
    history = model.fit(**data, epochs=3, validation_data=validation, callbacks=[AtEpoch(method)])
    assert history.epoch == [0]
    # Keras looks after a batch and after an epoch.
    steps = int(model.optimizer.iterations.numpy()) - begun
    assert steps == (1 if method == "on_epoch_begin" else 4)


def test_stopped_from_outside_of_callbacks():
    """As by the handler of a signal, which comes in the midst of an epoch, to one rank."""
    model = compiled(1)

    def stop():
        if IS_LAST:
            model.stop_training = True

    def training_step(data, original=model.train_step):
        tf.py_function(stop, [], [])
        return original(data)

    model.train_step = training_step
    data = data_of(model)
    history = model.fit(**data, epochs=3)
    assert history.epoch == [0]
    steps = int(model.optimizer.iterations.numpy())
    assert steps == (4 if world().size > 1 else 1)


@pytest.mark.parametrize("num_local", LOCAL[-1:])
def test_nan_on_one_rank_ends_all(num_local):
    """Only the last replica's loss is NaN, in the second batch."""
    model = compiled(num_local)
    data = data_of(model)
    batch = data["batch_size"]
    data["y"][2 * batch - 1] = np.nan
    seen = []
    watch = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: seen.append(batch)
    )
    nan = keras.callbacks.TerminateOnNaN()
    history = model.fit(**data, shuffle=False, epochs=2, callbacks=[nan, watch])
    assert seen == [0, 1]
    assert history.epoch == [0]
    assert np.isnan(everywhere(history.history["loss"])).all()


class OwnLogs(keras.Sequential):
    """Returns what no metric keeps, other numbers on every rank."""

    def train_step(self, data):
        logs = super().train_step(data)
        number = tf.distribute.get_replica_context().replica_id_in_sync_group
        numbers = {"own": tf.cast(number, tf.float32), "half": tf.cast(number, tf.bfloat16)}
        return numbers | {"vector": [logs["loss"]], "text": "a"}


def test_logs_of_a_train_step_are_averaged_and_decisions_common():
    model = compiled(1, lambda: OwnLogs(small_model().layers))
    stop = keras.callbacks.EarlyStopping("own", mode="min", patience=2)
    slower = keras.callbacks.ReduceLROnPlateau("own", mode="min", patience=1, factor=0.5)
    history = model.fit(**data_of(model), epochs=5, callbacks=[stop, slower])
    assert history.epoch == [0, 1, 2]
    np.testing.assert_allclose(history.history["own"], [LAST / 2] * 3)
    np.testing.assert_array_equal(np.float64(history.history["half"]), [LAST / 2] * 3)
    vectors = np.ravel(history.history["vector"])
    np.testing.assert_array_equal(everywhere(vectors), [vectors] * world().size)
    rates = everywhere(history.history["learning_rate"])
    np.testing.assert_array_equal(rates, [rates[0]] * world().size)
    assert rates[0][-1] < rates[0][0]


@pytest.mark.parametrize("num_local", LOCAL[-1:])
def test_one_rank_reads_metrics_in_callbacks(num_local):
    """It gets its own; the others do not wait, and logs are those of all."""
    model = compiled(num_local)
    data = data_of(model, 2)
    read = []

    def look(model):
        read.append(float(model.metrics[0].result()))
        read.append(float(model.get_metrics_result()["mae"]))

    at_end = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: look(model) if IS_LAST else None,
        on_test_end=lambda logs: look(model) if IS_LAST else None,
    )
    callbacks = [Counter("fit", 1, look), at_end]
    history = model.fit(**data, validation_data=(data["x"], data["y"]), callbacks=callbacks).history
    assert len(read) == (6 if IS_LAST else 0)
    assert np.isfinite(read).all()
    for values in history.values():
        np.testing.assert_array_equal(everywhere(values), [values] * world().size)
    one = small_model()
    one.set_weights(model.get_weights())
    want = np.abs(one(data["x"]).numpy() - data["y"]).mean()
    np.testing.assert_allclose(history["val_mae"][-1], want, rtol=1e-5)


def test_a_callback_evaluates_on_all_ranks():
    """Inside of a callback too `evaluate` gives all ranks the numbers of all rows."""
    model = compiled(1)
    data = data_of(model, 2)
    found = []
    evaluate = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: found.append(model.evaluate(**data))
    )
    model.fit(**data, callbacks=[evaluate])
    np.testing.assert_allclose(found[0], model.evaluate(**data), rtol=1e-6)
    np.testing.assert_array_equal(everywhere(found[0]), [found[0]] * world().size)


def test_no_message_in_the_midst_of_an_epoch_without_need(monkeypatch):
    """Stock callbacks but TerminateOnNaN stop nothing there, so that no batch waits for them."""
    model = compiled(1)
    sent = []
    group = model.distribute_strategy.extended.communicator
    send = group.allreduce_arrays
    monkeypatch.setattr(
        group, "allreduce_arrays", lambda *args: (sent.append(args[-1]), send(*args))[1]
    )
    counts = []
    for batches in (2, 6):
        data = data_of(model, batches)
        for callbacks in (
            [keras.callbacks.EarlyStopping("loss")],
            [keras.callbacks.TerminateOnNaN()],
        ):
            sent.clear()
            model.fit(**data, callbacks=callbacks)
            counts.append(len(sent))
    few, asked, many, asked_more = counts
    if world().size == 1:
        assert counts == [0] * 4
    else:
        assert (few, asked, many, asked_more) == (many, few + 2, few, few + 6)
        # May one stop? At the begin; at the epoch's begin and end; the logs; the last turn.
        assert few == 6
