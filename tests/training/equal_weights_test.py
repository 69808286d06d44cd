"""Weights that one rank alone sets, loads or restores: all go on alike, or all say why not."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_adasum
from tests.training.gan import Gan
from tests.training.linear_model import held_optimizers
from tests.training.replicas import (
    LOCAL,
    assert_equal_on_ranks,
    everywhere,
    examples,
    shared_path,
    small_model,
    strategy,
)
from tf_adasum.collectives.communicator import world
from tf_adasum.distribute import digests

local_replicas = pytest.mark.parametrize("num_local", LOCAL)
LAST = world().size - 1


def compiled(num_local, optimizer=None, **settings):
    with strategy(num_local).scope():
        model = small_model(keras.layers.BatchNormalization())
        optimizer = optimizer or keras.optimizers.SGD(0.01, momentum=0.9)
        model.compile(optimizer=tf_adasum.wrap(optimizer, **settings), loss="mse")
    return model


def begin(model):
    """Begins a fit, and ends it before its first step."""
    model.fit(*examples(8), batch_size=8, epochs=0, verbose=0)


def first_copies(model):
    return [variable.value.values[0].numpy() for variable in model.weights]


def change(model, rank, how):
    """Changes all weights on one rank; returns what they are there, on all ranks."""
    path = shared_path("new.weights.h5")
    if world().rank == rank:
        model.set_weights([w + 1.0 for w in first_copies(model)])
        if how == "load_weights":
            model.save_weights(path)
            model.set_weights([w - 7.0 for w in first_copies(model)])
            model.load_weights(path)
    return [everywhere(w)[rank] for w in first_copies(model)]


def check_weights(model, wanted):
    for variable, want in zip(model.weights, wanted):
        for copy in variable.value.values:
            np.testing.assert_array_equal(copy.numpy(), want, err_msg=variable.path)


def lines(caplog):
    return [r.getMessage() for r in caplog.records if r.name == "tf_adasum"]


def check_said(caplog, number, *parts):
    """Rank 0 said so many lines, each with all `parts`; the others none."""
    said = lines(caplog)
    assert len(said) == (number if world().rank == 0 and world().size > 1 else 0)
    assert all(part in line for line in said for part in parts)
    caplog.clear()


@local_replicas
@pytest.mark.parametrize("how", ["set_weights", "load_weights"])
def test_rank_0_alone_has_new_weights(how, num_local, caplog):
    model = compiled(num_local)
    for _ in range(2):  # before the first fit, and after one
        wanted = change(model, 0, how)
        begin(model)
        check_weights(model, wanted)
        check_said(caplog, 1, "fit begins: ", "first/kernel' and ", " more of 8 variables")
    begin(model)
    check_said(caplog, 0)


def test_rank_0_alone_has_new_weights_of_a_model_without_call(caplog):
    with strategy(1).scope():
        model = Gan()
        model.compile(*(tf_adasum.wrap(keras.optimizers.SGD(0.1)) for _ in range(2)))
    wanted = change(model, 0, "set_weights")
    begin(model)
    check_weights(model, wanted)
    check_said(caplog, 1, "fit begins: ", "discriminator/dense")


@local_replicas
def test_another_rank_alone_has_new_weights(num_local, caplog):
    model = compiled(num_local)
    wanted = change(model, 0, "set_weights")
    begin(model)
    caplog.clear()
    theirs = change(model, LAST, "set_weights")
    if world().size == 1:
        return
    with pytest.raises(ValueError, match=rf"^rank {world().rank}: Expected equal weights") as error:
        begin(model)
    assert "/first/kernel' and 5 more of 8 variables differ on rank" in str(error.value)
    assert f"rank {LAST}, while rank 0's are as all ranks had them" in str(error.value)
    check_weights(model, theirs if world().rank == LAST else wanted)
    tf_adasum.broadcast_variables(model, root=LAST)
    begin(model)
    check_weights(model, theirs)
    check_said(caplog, 0)


@local_replicas
def test_weights_that_never_were_compared_are_rank_0s(num_local, caplog):
    model = compiled(num_local)
    wanted = first_copies(model)
    change(model, LAST, "set_weights")
    if world().size > 1:
        begin(model)
        check_weights(model, wanted)
    check_said(caplog, 1, f"variables differed on rank {LAST} from rank 0's")


@local_replicas
def test_evaluate_sees_the_weights_of_rank_0(num_local):
    model = compiled(num_local)
    plain = small_model(keras.layers.BatchNormalization())
    plain.set_weights(change(model, 0, "set_weights"))
    plain.compile(loss="mse")
    x, y = examples(16 * model.distribute_strategy.num_replicas_in_sync)
    want = plain.evaluate(x, y, batch_size=len(x), verbose=0)
    got = model.evaluate(x, y, batch_size=len(x), verbose=0)
    np.testing.assert_allclose(got, want, rtol=1e-5)


@pytest.mark.parametrize(("mode", "num_local"), [("delta", LOCAL[-1]), ("gradient", 1)])
def test_equal_ranks_send_one_message_and_say_nothing(mode, num_local, caplog, monkeypatch):
    """Statistics of BatchNormalization and the slots of delta mode differ by design."""
    sent = []

    def counted(*args):
        sent.append(args)
        return tf_adasum.allreduce(*args)

    monkeypatch.setattr(digests, "allreduce", counted)
    model = compiled(num_local, mode=mode)
    x, y = examples(8 * model.distribute_strategy.num_replicas_in_sync)
    data = {"x": x, "y": y, "batch_size": len(x) // 2, "verbose": 0}
    for times in (1, 2):
        model.fit(**data)
        assert len(sent) == (2 * times if world().size > 1 else 0)  # as it begins and as it ends
    assert all(args[0].shape == (world().size, 7) for args in sent)
    check_said(caplog, 0)
    assert_equal_on_ranks(model.trainable_variables)


def test_slots_inside_a_multi_optimizer_are_a_replicas_own(caplog):
    with strategy(1).scope():
        model = small_model()
        inner = tf_adasum.wrap(keras.optimizers.SGD(0.01, momentum=0.9))
        kind = getattr(keras.optimizers, "MultiOptimizer", lambda f: f(None))  # of Keras 3.13
        model.compile(optimizer=kind(lambda _: inner), loss="mse")
    model.fit(*examples(8 * world().size), batch_size=8 * world().size, verbose=0)
    check_said(caplog, 0)


@pytest.mark.long
def test_restored_on_rank_0_alone(tmp_path, caplog):
    """BackupAndRestore: all ranks begin with its epoch, weights and slots."""
    backup = keras.callbacks.BackupAndRestore(str(tmp_path), delete_checkpoint=False)
    straight, continued = (compiled(1, mode="gradient") for _ in range(2))
    batch = 4 * world().size
    x, y = examples(2 * batch)
    data = {"x": x, "y": y, "batch_size": batch, "shuffle": False, "verbose": 0}
    data["callbacks"] = [backup] if world().rank == 0 else []
    straight.fit(**data, epochs=2)
    caplog.clear()
    history = continued.fit(**data, epochs=4)
    assert history.epoch == [2, 3]
    if world().rank == 0 and world().size > 1:
        assert any("all ranks begin with epoch 2" in line for line in lines(caplog))
    straight.fit(**{**data, "callbacks": []}, epochs=4, initial_epoch=2)
    for got, want in zip(continued.trainable_variables, straight.trainable_variables):
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=0, atol=1e-6)
    assert_equal_on_ranks(continued.trainable_variables + continued.optimizer.variables)


def test_unlike_initial_epochs_and_models():
    model = compiled(1)
    data = dict(zip("xy", examples(8)), epochs=0, verbose=0)
    last = world().rank == LAST
    if world().size == 1:
        model.fit(**data, initial_epoch=1)
        return
    with pytest.raises(ValueError, match=rf"initial_epoch.*0 on rank 0, and others on rank {LAST}"):
        model.fit(**data, initial_epoch=int(last))
    if last:
        model.layers[0].trainable = False
    with pytest.raises(ValueError, match=rf"same model on all ranks.*variables on rank {LAST}"):
        model.fit(**data)
    model.layers[0].trainable = True
    model.fit(**data)


@pytest.mark.long
def test_weights_differ_within_a_round_and_not_after_fit(caplog):
    """EarlyStopping takes each rank's own weights in the middle of a round, and sets them back."""
    model = compiled(1, steps_per_sync=4)
    batch = 4 * model.distribute_strategy.num_replicas_in_sync
    x, y = examples(6 * batch)
    best = keras.callbacks.EarlyStopping("loss", mode="max", patience=9, restore_best_weights=True)
    data = {"batch_size": batch, "validation_data": (x, y), "shuffle": False, "verbose": 0}
    model.fit(x, y, **data, epochs=2, callbacks=[best])
    check_said(caplog, 1, "fit ends: ", "/first/kernel'")
    assert_equal_on_ranks(model.trainable_variables)


def test_broadcast_variables_of_optimizers_in_attributes():
    model = held_optimizers()
    model.compile(optimizer=keras.optimizers.Adam(0.1 * (world().rank + 1)), loss="mse")
    tf_adasum.broadcast_variables(model)
    for optimizer in model.parts.values():
        np.testing.assert_allclose(float(optimizer.learning_rate), 0.1, rtol=1e-6)


def test_broadcast_variables_refuses():
    with pytest.raises(ValueError, match=r"Expected a Keras model.*Received: 3"):
        tf_adasum.broadcast_variables([3])
    with pytest.raises(ValueError, match=r"'new', not built. Call build first"):
        tf_adasum.broadcast_variables(keras.Sequential([keras.layers.Dense(2)], name="new"))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Received: 99"):
        tf_adasum.broadcast_variables([tf.Variable(1.0)], root=99)
    tf_adasum.broadcast_variables([])


@pytest.mark.parametrize("mode", ["delta", "gradient"])
def test_a_rate_that_one_rank_sets_alone(mode, caplog):
    """Weights are those of rank 0 then, or combined; what is trained is kept."""
    model = compiled(1, mode=mode)
    x, y = examples(8)
    scheduler = keras.callbacks.LearningRateScheduler(lambda epoch: 0.02)
    is_last = world().rank == LAST
    model.fit(x, y, batch_size=8, verbose=0, callbacks=[scheduler] if is_last else [])
    wanted = 0.02 if LAST == 0 else 0.01
    assert float(model.optimizer.learning_rate) == np.float32(wanted)
    assert_equal_on_ranks(model.trainable_variables)
    said = [line for line in lines(caplog) if "learning_rate' differed" in line]
    assert len(said) == (world().rank == 0 and world().size > 1)
    assert all(f"on rank {LAST} from rank 0's" in line for line in said)


def test_rank_0_alone_has_new_weights_in_a_frozen_layer(caplog):
    """As where it alone loads a backbone."""
    with strategy(1).scope():
        frozen = keras.layers.Dense(3, trainable=False, name="frozen")
        model = keras.Sequential([keras.Input((4,)), frozen, keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    frozen.set_weights([each + float(world().rank == 0) for each in frozen.get_weights()])
    begin(model)
    assert_equal_on_ranks(model.weights)
    check_said(caplog, 1, "frozen/kernel' and 1 more of")
