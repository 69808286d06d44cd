"""One rank saves while the others go on; all ranks load together and continue alike."""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import os
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_adasum
from tests import programs
from tests.training.replicas import (
    LOCAL,
    assert_equal_on_ranks,
    barrier,
    examples,
    shared_path,
    small_model,
    strategy,
)
from tf_adasum.collectives.communicator import world
from tf_adasum.keras_hooks.files import one_at_a_time

LAST = world().size - 1


def compiled(num_local, *extra, mode="gradient"):
    with strategy(num_local).scope():
        model = small_model(*extra)
        optimizer = tf_adasum.wrap(keras.optimizers.Adam(0.01), mode=mode)
        model.compile(optimizer=optimizer, loss="mse", metrics=["mae"])
    return model


@pytest.mark.parametrize("num_local", LOCAL)
def test_rank_0_saves_alone_and_all_load(num_local):
    model = compiled(num_local)
    batch = 4 * num_local * world().size
    x, y = examples(4 * batch)
    model.fit(x[: 2 * batch], y[: 2 * batch], batch_size=batch, shuffle=False, verbose=0)
    path = shared_path("model.keras")
    if world().rank == 0:
        model.save(path)
    barrier()
    with strategy(num_local).scope():
        loaded = keras.models.load_model(path)
    rest = {"x": x[2 * batch :], "y": y[2 * batch :], "batch_size": batch, "shuffle": False}
    for each in (model, loaded):
        each.fit(**rest, verbose=0)
    for straight, continued in zip(model.get_weights(), loaded.get_weights()):
        np.testing.assert_allclose(straight, continued, rtol=0, atol=1e-7)
    assert_equal_on_ranks(loaded.variables)
    assert_equal_on_ranks(loaded.optimizer.variables)


@pytest.mark.parametrize("num_local", LOCAL)
def test_weights_and_checkpoints(num_local):
    model = compiled(num_local)
    x, y = examples(8 * num_local * world().size)
    model.fit(x, y, batch_size=len(x) // 2, verbose=0)
    weights, state = shared_path("model.weights.h5"), shared_path("state")
    if world().rank == 0:
        model.save_weights(weights)
        saved = tf.train.Checkpoint(model=model).write(state)
        assert saved == state
    barrier()
    for restore in (
        lambda fresh: fresh.load_weights(weights),
        lambda fresh: tf.train.Checkpoint(model=fresh).read(state),
    ):
        fresh = compiled(num_local)
        restore(fresh)
        for got, want in zip(fresh.get_weights(), model.get_weights()):
            np.testing.assert_array_equal(got, want)
        assert_equal_on_ranks(fresh.trainable_variables)


def load_elsewhere(folder, how):
    """What a process finds in the files that is no rank of anything."""
    launched = ("OMPI_", "PMIX_", "PRTE_", "PMI_", "TF_ADASUM_", "ADASUMRUN_")
    environment = {k: v for k, v in programs.environment().items() if not k.startswith(launched)}
    program = os.path.join(os.path.dirname(__file__), "load_program.py")
    command = [sys.executable, program, folder, how]
    run = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=200, check=False
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout.partition("found ")[2])


def first_slot(model):
    slots = [each for each in model.optimizer.variables if "momentum" in each.path]
    return slots[0].value.values[0].numpy()


@pytest.mark.long
@pytest.mark.parametrize("num_local", LOCAL[-1:])
def test_files_load_without_ranks_and_without_tf_adasum(num_local):
    """In delta mode: Keras' files have the slots of rank 0's first replica."""
    model = compiled(num_local, keras.layers.BatchNormalization(), mode="delta")
    batch = 4 * num_local * world().size
    x, y = examples(2 * batch)
    model.fit(x, y, batch_size=batch, verbose=0)
    folder = os.path.dirname(shared_path("a folder of all ranks"))
    if world().rank == 0:
        np.save(os.path.join(folder, "x.npy"), x)
        model.save(os.path.join(folder, "m.keras"))
        model.save_weights(os.path.join(folder, "m.weights.h5"))
        tf.train.Checkpoint(model=model).write(os.path.join(folder, "checkpoint"))
        model.export(os.path.join(folder, "exported"), verbose=False)
        outputs, slot = np.asarray(model(x)), first_slot(model)
        for how in ("with", "without"):
            found = load_elsewhere(folder, how)
            if how == "without":
                refusal = found.pop("keras")
                assert "Could not locate class 'AdasumAdam'" in refusal
            for name, told in found.items():
                np.testing.assert_allclose(told["outputs"], outputs, rtol=0, atol=1e-6)
                if told.get("steps") is not None:
                    assert told["steps"] == 2
                    np.testing.assert_array_equal(np.float32(told["slot"]), slot, err_msg=name)
    barrier()


class Slow(keras.layers.Layer):
    """Lets others act in the midst of a save."""

    in_midst = staticmethod(lambda: None)

    def save_own_variables(self, store):
        Slow.in_midst()
        super().save_own_variables(store)


@pytest.mark.parametrize("kind", ["keras", "weights.h5"])
@pytest.mark.parametrize("num_local", [*LOCAL, None])
def test_ranks_that_save_under_one_path_leave_whole_files(kind, num_local, monkeypatch):
    """Another rank's `model.save` at the end of a program does not empty what one loads.

    Without replicas: of a model that was made outside of the scope, to extract features, say.
    """
    with strategy(num_local).scope() if num_local else contextlib.nullcontext():
        model = small_model(Slow())
    tf_adasum.broadcast_variables(model.variables)
    path = shared_path(f"one.{kind}")
    save = model.save if kind == "keras" else model.save_weights
    weights = model.get_weights()
    _save_while_others_look(save, path, lambda: _assert_holds(path, kind, weights), monkeypatch)


def test_ranks_that_save_a_feature_space_leave_a_whole_file(monkeypatch):
    space = keras.utils.FeatureSpace({"x": keras.utils.FeatureSpace.float_normalized()})
    space.adapt(tf.data.Dataset.from_tensor_slices({"x": [1.0, 2.0, 6.0]}).batch(3))
    path = shared_path("space.keras")
    given = {"x": tf.constant([[1.0], [4.0]])}
    space.save(buffer := io.BytesIO())  # no path, which is written as by one process
    assert buffer.getvalue().startswith(b"PK")

    def look():
        loaded = keras.models.load_model(path)
        np.testing.assert_allclose(loaded(given), space(given), rtol=1e-6)

    original = keras.utils.FeatureSpace.save_own_variables

    def save_slowly(self, store):
        Slow.in_midst()
        original(self, store)

    monkeypatch.setattr(keras.utils.FeatureSpace, "save_own_variables", save_slowly)
    _save_while_others_look(space.save, path, look, monkeypatch)


def _save_while_others_look(save, path, look, monkeypatch):
    if world().rank == 0:
        save(path)
    barrier()

    def others_load():
        barrier()  # the last rank is in the midst of its save
        barrier()  # rank 0 has loaded

    if world().rank == LAST:
        monkeypatch.setattr(Slow, "in_midst", others_load)
        save(path)
        monkeypatch.setattr(Slow, "in_midst", lambda: None)
    else:
        barrier()
        look()
        barrier()
    barrier()
    look()
    assert os.listdir(os.path.dirname(path)) == [os.path.basename(path)]


def test_a_save_through_a_link_fills_the_file_that_it_names(tmp_path):
    with strategy(1).scope():
        model = small_model()
    (tmp_path / "last.keras").symlink_to("first")
    (tmp_path / "first").touch(0o600)
    model.save(tmp_path / "last.keras")
    assert (tmp_path / "last.keras").is_symlink()
    assert sorted(os.listdir(tmp_path)) == ["first", "last.keras"]
    assert (tmp_path / "first").stat().st_mode & 0o777 == 0o600
    _assert_holds(tmp_path / "last.keras", "keras", model.get_weights())


def _assert_holds(path, kind, weights):
    if kind == "keras":
        loaded = keras.models.load_model(path, custom_objects={"Slow": Slow})
    else:
        loaded = small_model(Slow())
        loaded.load_weights(path)
    np.testing.assert_equal(loaded.get_weights(), weights)


def test_ranks_that_export_under_one_path_do_so_in_turns():
    """Two at once took each other's files: some failed, and the rest could not be loaded."""
    with strategy(1).scope():
        model = small_model(*(keras.layers.Dense(64) for _ in range(6)))
    path = shared_path("exported")
    for _ in range(3):
        model.export(path, verbose=False)
    barrier()
    x = examples(3)[0]
    loaded = tf.saved_model.load(path)
    np.testing.assert_allclose(loaded.serve(x), model(x), rtol=1e-5, atol=1e-6)


def test_ranks_that_save_checkpoints_under_one_path_leave_whole_ones():
    """Two at once took each other's parts: a save failed in one of three runs."""
    with strategy(1).scope():
        model = small_model(*(keras.layers.Dense(64) for _ in range(6)))
    folder = os.path.dirname(shared_path("checkpoints"))
    weights = model.get_weights()
    checkpoint = tf.train.Checkpoint(model=model)
    manager = tf.train.CheckpointManager(checkpoint, folder, max_to_keep=2)
    for number in range(1, 9):
        barrier()
        assert manager.save() == os.path.join(folder, f"ckpt-{number}")
        barrier()
        checkpoint.restore(manager.latest_checkpoint)
    barrier()
    for got, want in zip(model.get_weights(), weights, strict=True):
        np.testing.assert_array_equal(got, want)
    assert tf.train.latest_checkpoint(folder) == manager.latest_checkpoint
    kept = [f"ckpt-{n}.{end}" for n in (7, 8) for end in ("data-00000-of-00001", "index")]
    assert sorted(os.listdir(folder)) == ["checkpoint", *kept]


@pytest.mark.parametrize("name", ["own", ".hidden", "folder/"])
def test_a_checkpoint_is_where_its_prefix_says(name, tmp_path):
    checkpoint = tf.train.Checkpoint(value=tf.Variable(1.0))
    prefix = os.path.join(tmp_path, name)
    assert checkpoint.write(prefix) == prefix
    folder = os.path.dirname(prefix)
    name = os.path.basename(prefix)
    assert sorted(os.listdir(folder)) == [f"{name}.data-00000-of-00001", f"{name}.index"]


def test_a_checkpoint_that_has_no_folder_fails_as_of_one_process(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(tf.errors.OpError):
        tf.train.Checkpoint().write(tmp_path / "file" / "checkpoint")


def test_an_export_that_others_keep_waiting_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setenv("TF_ADASUM_TIMEOUT_SECONDS", "0.1")
    with strategy(1).scope():
        model = small_model()
    path = str(tmp_path / "new" / "exported")
    folder = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    if world().size == 1:
        model.export(path, verbose=False)  # nobody else trains it
    else:
        with pytest.raises(TimeoutError, match=r"locked for 0\.1 s .*Write on one rank alone"):
            model.export(path, verbose=False)
    os.close(folder)
    model.export(path, verbose=False)


def test_an_export_that_has_ended_keeps_nobody_waiting(tmp_path, monkeypatch):
    """Not even by what a process forked in its midst holds: the same as a copy made here."""
    monkeypatch.setenv("TF_ADASUM_TIMEOUT_SECONDS", "0.1")
    path = str(tmp_path / "exported")
    opened = "/proc/self/fd"
    with one_at_a_time.writing(path), one_at_a_time.writing(path):  # an export within one
        links = {n: os.path.realpath(f"{opened}/{n}") for n in os.listdir(opened)}
        (copy,) = [os.dup(int(n)) for n, folder in links.items() if folder == str(tmp_path)]
    with one_at_a_time.writing(path):
        pass
    os.close(copy)
