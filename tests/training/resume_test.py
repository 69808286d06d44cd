"""A training that was interrupted and goes on ends with the bits of one that was not."""

from __future__ import annotations

import functools

import keras
import numpy as np
import pytest

from tests.training.replicas import LOCAL, barrier, everywhere, shared_path
from tests.training.resumed import (
    EPOCHS,
    STEPS,
    Interrupt,
    Interruption,
    adam,
    backup,
    begun,
    check_resumes,
    check_same,
    fit,
    momentum,
)
from tf_adasum.collectives.compression import Sign, TopK
from tf_adasum.distribute.own_variables import state_variables
from tf_adasum.distribute.variables import local_copies
from tf_adasum.optimizers import OneBitLamb, SketchedSGD, ZeroOneAdam


@pytest.mark.parametrize("num_local", LOCAL)
@pytest.mark.parametrize("mode", ["delta", "gradient"])
@pytest.mark.parametrize("make_optimizer", [adam, momentum])
def test_two_halves_are_the_whole(make_optimizer, mode, num_local):
    """Once in the midst of an epoch, once at an epoch's end."""
    kind = "dataset" if mode == "delta" else "arrays"
    check_resumes((2, 2 * STEPS), num_local, make_optimizer, mode=mode, kind=kind)


def test_what_workers_read_ahead_in_an_epoch_that_is_over_comes_in_no_other():
    check_resumes((2, 2 * STEPS), 1, momentum, mode="gradient", kind="PyDataset of workers")


def test_an_epoch_without_a_step_left_has_its_logs():
    """What is saved behind its last batch is one in the midst where nobody knows the length."""
    begin = functools.partial(begun, 1, momentum, kind="unknown", mode="gradient")
    straight, data = begin()
    history = fit(straight, data).history
    folder = shared_path("backup")
    first, data = begin()
    with pytest.raises(Interruption):
        fit(first, data, backup(folder, save_freq=STEPS), Interrupt(STEPS))
    barrier()
    resumed, data = begin()
    rest = fit(resumed, data, backup(folder))
    assert rest.epoch == list(range(EPOCHS))
    assert rest.history == history
    check_same(resumed, straight)


@pytest.mark.long
def test_optimizers_in_attributes():
    """Those of a GAN, which nothing builds but their first step; in the midst of a round."""
    check_resumes((STEPS + 2,), 1, momentum, is_gan=True, steps_per_sync=4)


def mixed(make_optimizer):
    return lambda: keras.optimizers.LossScaleOptimizer(make_optimizer(), initial_scale=1024.0)


random_layers = (functools.partial(keras.layers.Dropout, 0.3), keras.layers.BatchNormalization)
average = functools.partial(adam, use_ema=True, ema_overwrite_frequency=3)
frozen = functools.partial(OneBitLamb, 0.01, freeze_step=3, compression=Sign(least_elements=0))
zero_one = functools.partial(
    ZeroOneAdam, 0.01, freeze_step=4, doubling_steps=3, compression=Sign(least_elements=0)
)
sketched = functools.partial(
    SketchedSGD, 0.01, fraction=0.2, sketch_fraction=0.5, least_elements=16
)
native = functools.partial(adam, gradient_accumulation_steps=4)


@pytest.mark.long
@pytest.mark.parametrize(
    ("make_optimizer", "layers", "kind", "settings"),
    [
        (adam, random_layers, "PyDataset", {"accumulate": 3}),
        (momentum, random_layers, "endless", {"steps_per_sync": 4}),
        (average, (), "arrays", {"mode": "delta"}),
        (mixed(native), (), "dataset", {"mode": "gradient"}),
        (adam, random_layers, "arrays", {}),
        (adam, (), "arrays", {"compression": Sign(least_elements=0)}),
        (momentum, (), "arrays", {"mode": "gradient", "compression": TopK(0.1, least_elements=0)}),
        (frozen, (), "arrays", {}),
        (zero_one, (), "arrays", {}),
        (sketched, (), "arrays", {}),
    ],
    ids=[
        "accumulate",
        "local steps",
        "average",
        "loss scale",
        "not wrapped",
        "signs",
        "top k",
        "frozen variance",
        "rounds of momenta",
        "sketches",
    ],
)
def test_all_that_has_a_state(make_optimizer, layers, kind, settings):
    """In the midst of a step of three batches, of a round of four, of Keras' four."""
    check_resumes((STEPS + 2,), LOCAL[-1], make_optimizer, layers, kind, **settings)


def unseeded():
    """Draws from the generator that Keras has for all that has no seed."""
    return keras.layers.Lambda(lambda x: keras.random.dropout(x, 0.3))


@pytest.mark.long
def test_numbers_without_a_seed_go_on():
    check_resumes((STEPS + 2,), LOCAL[-1], momentum, (unseeded,), mode="gradient")


class LookAtSlots(keras.callbacks.Callback):
    """Keeps a row for each local replica of each momentum, of the begin and of the end."""

    def on_train_begin(self, logs=None):
        self.first = None

    def on_train_batch_begin(self, batch, logs=None):
        self.first = self.first or self._rows()

    def on_epoch_end(self, epoch, logs=None):
        self.last = self._rows()

    def _rows(self):
        own = [each for each in state_variables(self.model) if "momentum" in each.path]
        return [np.stack([copy.numpy() for copy in local_copies(each.variable)]) for each in own]


@pytest.mark.long
def test_keras_own_backup_gives_all_replicas_the_slots_of_one():
    """In delta mode, where each had its own: those of rank 0's first replica."""
    folder = shared_path("backup")
    looks = LookAtSlots(), LookAtSlots()
    for epochs, look in enumerate(looks, start=1):
        model, data = begun(LOCAL[-1], momentum, mode="delta")
        stock = keras.callbacks.BackupAndRestore(folder, delete_checkpoint=False)
        assert fit(model, data, stock, look, epochs=epochs).epoch == [epochs - 1]
        barrier()
    for own, given in zip(looks[0].last, looks[1].first, strict=True):
        saved, restored = everywhere(own), everywhere(given)  # by rank and local replica
        assert not (saved == saved[0, 0]).all() or saved.shape[:2] == (1, 1)
        np.testing.assert_array_equal(restored, np.broadcast_to(saved[0, 0], saved.shape))


class Evaluates(keras.callbacks.Callback):
    """Looks how good the model is before it is trained."""

    def __init__(self, data):
        super().__init__()
        self._data = data

    def on_train_begin(self, logs=None):
        self.model.evaluate(**self._data, verbose=0)


def test_a_callback_before_it_may_evaluate():
    def begin():
        return begun(1, momentum, mode="gradient", kind="arrays")

    straight, data = begin()
    evaluates = Evaluates(data)
    fit(straight, data, evaluates)
    folder = shared_path("evaluated before")
    first, data = begin()
    with pytest.raises(Interruption):
        fit(first, data, evaluates, backup(folder, save_freq=2), Interrupt(2))
    barrier()
    resumed, data = begin()
    fit(resumed, data, evaluates, backup(folder))
    check_same(resumed, straight)


class Anneal(keras.callbacks.Callback):
    """Halves the rate when an epoch begins, and takes less and less of that in its batches."""

    def on_epoch_begin(self, epoch, logs=None):
        self._rate = 0.5 * float(self.model.optimizer.learning_rate.numpy())

    def on_train_batch_begin(self, batch, logs=None):
        self.model.optimizer.learning_rate = self._rate * (1 - 0.1 * batch)


class Decay(keras.callbacks.Callback):
    """Goes on from the rate of the batch before."""

    def on_train_batch_end(self, batch, logs=None):
        self.model.optimizer.learning_rate = 0.9 * float(self.model.optimizer.learning_rate.numpy())


def halving():
    return keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.5)


@pytest.mark.parametrize("made", [(Anneal,), (halving, Decay)], ids=["of the epoch's", "each own"])
def test_rates_that_callbacks_set_go_on(made):
    """Of an epoch that begins again, twice."""

    def begin():
        return begun(1, momentum, mode="gradient", kind="arrays")

    straight, data = begin()
    fit(straight, data, *[make() for make in made])
    folder = shared_path("rates")
    for after in (STEPS + 2, 1):
        first, data = begin()
        saves = backup(folder, save_freq=after)
        with pytest.raises(Interruption):
            fit(first, data, *[make() for make in made], saves, Interrupt(after))
        barrier()
    resumed, data = begin()
    fit(resumed, data, *[make() for make in made], backup(folder))
    check_same(resumed, straight)


def swap():
    return keras.callbacks.SwapEMAWeights(swap_on_epoch=True)


def test_averages_that_were_saved_are_taken_out_of_the_model():
    """At an epoch's end, when SwapEMAWeights has put them in."""

    def begin():
        return begun(1, functools.partial(momentum, use_ema=True, ema_momentum=0.8))

    straight, data = begin()
    fit(straight, data, swap())
    folder = shared_path("averages")
    first, data = begin()
    with pytest.raises(Interruption):
        fit(first, data, swap(), backup(folder), Interrupt(STEPS))
    barrier()
    without, data = begin()
    with pytest.raises(ValueError, match=r"1 SwapEMAWeights in callbacks.* Received: 0"):
        fit(without, data, backup(folder))
    resumed, data = begin()
    fit(resumed, data, swap(), backup(folder))
    check_same(resumed, straight)


@pytest.mark.parametrize("mode", ["delta", "gradient"])
@pytest.mark.parametrize("is_ours", [True, False], ids=["ours", "Keras'"])
def test_of_several_backups_the_last_one_counts(is_ours, mode):
    """The first one saves later: its metrics, rates and slots are not gone on with."""

    def begin():
        return begun(1, momentum, mode=mode, kind="arrays")

    def both(folder):
        kind = backup if is_ours else keras.callbacks.BackupAndRestore
        return kind(f"{folder}/1", save_freq=3), backup(f"{folder}/2")

    straight, data = begin()
    history = fit(straight, data, Decay()).history
    folder = shared_path("two backups")
    first, data = begin()
    with pytest.raises(Interruption):
        fit(first, data, Decay(), *both(folder), Interrupt(STEPS + 4))
    barrier()
    resumed, data = begin()
    rest = fit(resumed, data, Decay(), *both(folder))
    assert rest.history == {name: logged[1:] for name, logged in history.items()}
    check_same(resumed, straight)
