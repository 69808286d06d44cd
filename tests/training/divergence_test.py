"""One bit of one replica changes in the midst of `fit`: all ranks end, and say where."""

from __future__ import annotations

import keras
import numpy as np
import pytest

import tf_adasum
from tests.training.other_devices import COUNTS, on_devices
from tests.training.replicas import LOCAL, assert_equal_on_ranks, examples, small_model, strategy
from tf_adasum.collectives.communicator import world

LAST = world().size - 1
NUM_STEPS = 12


class FlipOneBit(keras.callbacks.Callback):
    """Changes one bit of one weight on the last rank's last replica after some batches."""

    def __init__(self, after):
        super().__init__()
        self.after = after

    def on_train_batch_end(self, batch, logs=None):
        if world().rank == LAST and batch + 1 == self.after:
            copy = self.model.get_layer("second").kernel.value.values[-1]
            value = copy.numpy()
            value.view(np.int32)[1, 2] ^= 1 << 20
            copy.assign(value)


def trained(num_local, check_every, callbacks=(), compile_options=None, **settings):
    replicas = strategy(num_local, check_every=check_every)
    with replicas.scope():
        model = small_model(keras.layers.BatchNormalization())
        optimizer = tf_adasum.wrap(keras.optimizers.SGD(0.01, momentum=0.9), **settings)
        model.compile(optimizer, "mse", **(compile_options or {}))
    batch = 2 * replicas.num_replicas_in_sync
    x, y = examples(NUM_STEPS * batch)
    model.fit(x, y, batch_size=batch, verbose=0, callbacks=list(callbacks))
    return model


@pytest.mark.parametrize("num_local", LOCAL)
@pytest.mark.parametrize("mode", ["delta", "gradient"])
@pytest.mark.parametrize(("after", "found"), [(4, 6), (6, 6), (7, 9)])
def test_one_bit_is_found_within_check_every_steps(after, found, mode, num_local):
    if world().size == 1:
        trained(num_local, 3, mode=mode)  # a rank alone has nobody to compare with
        return
    wanted = (
        f"rank {world().rank}: Expected equal weights on all replicas after step {found}. "
        rf"Received: '\S*second/kernel' of \d+ variables with other bits on rank {LAST}\. Resume"
    )
    if world().size == 2 and num_local == 1:  # nobody can know whose bits are right
        wanted = wanted.replace(f"on rank {LAST}", "on rank [01]")
    with pytest.raises(RuntimeError, match=wanted):
        trained(num_local, 3, [FlipOneBit(after)], mode=mode)


class Interruption(Exception):
    """What ends `fit` on each rank by itself."""


class EndAtUnlikeSteps(keras.callbacks.Callback):
    """Ends `fit` in the second batch of rank 0, and behind that of the others."""

    stops_nothing = True  # or ranks would ask after each batch whether one stops

    def on_train_batch_end(self, batch, logs=None):
        if batch == 1 and world().rank == 0:
            raise Interruption

    def on_train_batch_begin(self, batch, logs=None):
        if batch == 2:
            raise Interruption


def test_ranks_count_alike_after_a_fit_that_was_cut_short():
    """Else one would compare, and the others take their next step."""
    model = trained(1, NUM_STEPS + 1)
    batch = 2 * model.distribute_strategy.num_replicas_in_sync
    x, y = examples(NUM_STEPS * batch)
    data = {"x": x, "y": y, "batch_size": batch, "verbose": 0}
    with pytest.raises(Interruption):
        model.fit(**data, callbacks=[EndAtUnlikeSteps()])
    model.fit(**data, epochs=2)
    assert_equal_on_ranks(model.trainable_variables)


@pytest.mark.long
@pytest.mark.parametrize(
    ("check_every", "compile_options", "settings"),
    [
        (1, {}, {"steps_per_sync": 3}),
        (2, {"steps_per_execution": 4}, {}),
        (5, {"jit_compile": True}, {"accumulate": 2}),
        (NUM_STEPS + 1, {}, {}),
    ],
)
def test_an_undisturbed_training_goes_on(check_every, compile_options, settings):
    model = trained(LOCAL[-1], check_every, (), compile_options, **settings)
    assert_equal_on_ranks(model.trainable_variables)


@pytest.mark.parametrize("check_every", [-1, 2.0, True, "often"])
def test_check_every_is_a_number_of_steps(check_every):
    with pytest.raises((TypeError, ValueError), match=r"check_every to be an int from 0 on"):
        strategy(1, check_every=check_every)


@pytest.mark.long
def test_ranks_with_unlike_numbers_of_replicas():
    """Of which the last rank's last replica differs."""
    x, y = examples(8 * sum(COUNTS))
    with on_devices(check_every=1).scope():
        model = small_model()
        model.compile(tf_adasum.wrap(keras.optimizers.SGD(0.1)), loss="mse")
    model.fit(x, y, sum(COUNTS), verbose=0)
    if world().size == 1:
        return  # a rank alone has nobody to compare with
    with pytest.raises(RuntimeError, match=rf"with other bits on rank {LAST}\. Resume"):
        model.fit(x, y, sum(COUNTS), verbose=0, callbacks=[FlipOneBit(2)])
