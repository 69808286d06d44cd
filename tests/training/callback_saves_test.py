"""What callbacks save by Keras is rank 0's, and who loads it waits for rank 0, and no longer."""

from __future__ import annotations

import os
import time

import keras
import numpy as np
import pytest

import tf_adasum
from tests.training.replicas import (
    assert_equal_on_ranks,
    barrier,
    examples,
    shared_path,
    small_model,
    strategy,
)
from tf_adasum.collectives.communicator import world
from tf_adasum.keras_hooks.fit import quiet_ranks

X, Y = examples(16)


@keras.saving.register_keras_serializable()
class Slow(keras.layers.Dense):
    """Rank 0 takes so long to save it that all others have come to load."""

    saves = 0

    def save_own_variables(self, store):
        Slow.saves += 1
        time.sleep(0.5 * (world().rank == 0))
        super().save_own_variables(store)


def compiled(communicator=None):
    with strategy(1, communicator=communicator).scope():
        model = small_model(Slow(4))
        model.compile(tf_adasum.wrap(keras.optimizers.SGD(0.01), mode="gradient"), "mse")
    return model


def fit(model, *callbacks, epochs=2):
    model.fit(X, Y, batch_size=8, epochs=epochs, verbose=0, callbacks=list(callbacks))


def at_epoch_end(act):
    return keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: act())


def assert_loads(model, load):
    """Whether `load` gives the model the weights that it has now."""
    wanted = model.get_weights()
    model.set_weights([np.zeros_like(value) for value in wanted])
    load()
    for got, want in zip(model.get_weights(), wanted, strict=True):
        np.testing.assert_array_equal(got, want)


CLONES = {}


def save_clone(model, path):
    clone = CLONES.setdefault(path, keras.models.clone_model(model))
    clone.set_weights(model.get_weights())
    clone.save(path)


SAVES = {
    "save_model": (keras.saving.save_model, "m.keras"),
    "save_weights": (keras.saving.save_weights, "m.weights.h5"),
    "a clone": (save_clone, "m.keras"),
}


@pytest.mark.parametrize("how", SAVES)
def test_rank_0_alone_saves(how):
    save, name = SAVES[how]
    path = os.path.join(os.path.dirname(shared_path("folder")), name)
    model, before = compiled(), Slow.saves
    fit(model, at_epoch_end(lambda: save(model, path)))
    assert Slow.saves - before == (2 if world().rank == 0 else 0)
    assert os.listdir(os.path.dirname(path)) == [name]
    assert_loads(model, lambda: model.load_weights(path))
    barrier()


def load_model(model, path):
    model.set_weights(keras.models.load_model(path, compile=False).get_weights())


@pytest.mark.parametrize("load", [keras.Model.load_weights, keras.saving.load_weights, load_model])
def test_a_callback_loads_what_rank_0_saves_in_this_turn(load):
    name = "best.keras" if load is load_model else "best.weights.h5"
    path, model = shared_path(name), compiled()
    best = keras.callbacks.ModelCheckpoint(path, save_weights_only=load is not load_model)
    fit(model, best, at_epoch_end(lambda: assert_loads(model, lambda: load(model, path))))
    assert_equal_on_ranks(model.trainable_variables)


class Uploads(keras.callbacks.ModelCheckpoint):
    """As W&B's WandbModelCheckpoint does, which reads what Keras' has saved, by itself."""

    found = 0

    def on_epoch_end(self, epoch, logs=None):
        super().on_epoch_end(epoch, logs)
        self.found += os.path.getsize(self._get_file_path(epoch, None, logs)) > 0


def test_a_subclass_of_modelcheckpoint_finds_the_file_that_rank_0_saves():
    uploads = Uploads(shared_path("{epoch}.keras"))
    fit(compiled(), uploads)
    assert uploads.found == 2


@pytest.fixture
def speaks_again(monkeypatch):
    """Rank 0 of the world is not that of each group, and Keras prints nothing on others."""
    name = "is_interactive_logging_enabled"
    for module in quiet_ranks.MODULES:
        monkeypatch.setattr(module, name, getattr(module, name))  # as it is now, afterwards
    yield
    if world().rank == 0:
        keras.config.enable_interactive_logging()


@pytest.mark.usefixtures("speaks_again")
def test_groups_wait_for_their_own_rank_0():
    """And their saves are numbered, where a file is saved twice in a turn."""
    group = world().split(0, key=-world().rank)
    path, model = shared_path("twice.weights.h5"), compiled(group)

    def save_twice():
        model.save_weights(path)
        model.set_weights([value + 1 for value in model.get_weights()])
        model.save_weights(path)
        assert_loads(model, lambda: model.load_weights(path))

    fit(model, at_epoch_end(save_twice))


class Diverged(Exception):
    """What a callback raises on all ranks."""


def test_all_ranks_load_after_an_exception():
    path, model = shared_path("last.weights.h5"), compiled()

    def diverge():
        raise Diverged

    checkpoint = keras.callbacks.ModelCheckpoint(path, save_weights_only=True)
    with pytest.raises(Diverged):
        fit(model, checkpoint, at_epoch_end(diverge))
    assert_loads(model, lambda: model.load_weights(path))
    fit(model, checkpoint)
    barrier()


def test_who_loads_what_rank_0_does_not_save_goes_on_with_it(monkeypatch):
    monkeypatch.setenv("TF_ADASUM_TIMEOUT_SECONDS", "20")
    model, found = compiled(), []
    path = shared_path("") + f"{world().rank}.weights.h5"

    def save_own():
        model.save_weights(path)
        try:
            model.load_weights(path)
            found.append(path)
        except FileNotFoundError:
            pass

    fit(model, at_epoch_end(save_own))
    assert len(found) == (2 if world().rank == 0 else 0)


def test_a_rank_0_that_does_not_come_ends_the_wait(monkeypatch):
    """A callback of this rank alone saves, and nothing follows by which rank 0 would tell."""
    monkeypatch.setenv("TF_ADASUM_TIMEOUT_SECONDS", "1")
    model, path = compiled(), shared_path("never.weights.h5")

    def save_alone():
        if world().rank > 0:
            model.save_weights(path)
            pattern = f"^rank {world().rank}: Expected rank 0 to save .*Received: nothing of it for"
            with pytest.raises(TimeoutError, match=pattern):
                model.load_weights(path)

    fit(model, at_epoch_end(save_alone))
