"""What can't be written beside under its name, or not be renamed, is saved all the same."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import signal
from pathlib import Path

import keras
import numpy as np
import pytest

from tests.training.replicas import barrier, shared_path, small_model, strategy
from tf_adasum.collectives.communicator import world
from tf_adasum.keras_hooks.files import whole_files


def _saved(path, model):
    (model.save if path.endswith("keras") else model.save_weights)(path)


def _assert_holds(path, model):
    if path.endswith("keras"):
        loaded = keras.models.load_model(path)
    else:
        loaded = small_model()
        loaded.load_weights(path)
    for got, want in zip(loaded.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(got, want)


def _model():
    with strategy(1).scope():
        return small_model()


@pytest.mark.parametrize("number", [errno.EBUSY, errno.EXDEV, errno.EPERM])
def test_a_file_that_cannot_be_replaced_is_filled(number, monkeypatch):
    """As one that is mounted by itself."""
    model = _model()
    path = shared_path("mounted.keras")
    if world().rank == 0:
        with open(path, "w") as file:
            file.write("before")
    barrier()
    before = os.stat(path).st_ino

    def refuse(source, target):
        raise OSError(number, os.strerror(number), source, None, target)

    monkeypatch.setattr(os, "replace", refuse)
    _saved(path, model)
    barrier()
    _assert_holds(path, model)
    assert os.stat(path).st_ino == before
    assert os.listdir(os.path.dirname(path)) == ["mounted.keras"]


@pytest.mark.parametrize("ending", [".keras", ".weights.h5"])
@pytest.mark.parametrize("letter", ["n", "ü"])
def test_a_name_may_have_as_many_bytes_as_names_have(letter, ending):
    model = _model()
    name = letter * ((255 - len(ending)) // len(letter.encode())) + ending
    path = shared_path(name)
    _saved(path, model)
    barrier()
    _assert_holds(path, model)
    assert os.listdir(os.path.dirname(path)) == [name]


def test_long_names_that_begin_alike_are_written_under_names_of_their_own():
    names = {
        whole_files._beside(path, path, ".rank0")
        for path in (f"/folder/{'n' * 240}{letter}.keras" for letter in "ab")
    }
    assert len(names) == 2
    assert max(len(os.path.basename(name)) for name in names) <= 255


@pytest.mark.parametrize("ending", [".keras", ".weights.h5", ".h5"])
def test_a_save_without_room_says_so_in_a_line(ending, tmp_path):
    model, path = _model(), str(tmp_path / f"model{ending}")
    save = model.save_weights if ending == ".weights.h5" else model.save
    save(path)
    with open(path, "rb") as file:
        before = file.read()
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, limits[1]))
    try:
        with pytest.raises(OSError) as caught:
            save(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    assert os.listdir(tmp_path) == [os.path.basename(path)]
    if world().size > 1:  # alone, Keras writes in place
        _assert_kept(caught, path, before)


def _assert_kept(caught, path, before):
    rank = f"rank {world().rank}: Expected to write {path}. Received: File too large; what was "
    assert str(caught.value).startswith(f"[Errno {errno.EFBIG}] {rank}")
    assert "\n" not in str(caught.value)
    assert caught.value.errno == errno.EFBIG
    assert caught.value.__context__.errno == errno.EFBIG  # Keras hides it from the traceback
    with open(path, "rb") as file:
        assert file.read() == before


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EFBIG])
def test_a_save_is_kept_that_a_file_that_stays_has_no_room_for(number, monkeypatch, tmp_path):
    """The target is emptied by then, and what lies beside it is whole."""

    def write(model, filepath):
        Path(filepath).write_text(model.name)

    def failing(code):
        def fail(*names):
            raise OSError(code, os.strerror(code), *names[:1])

        return fail

    monkeypatch.setattr(os, "replace", failing(errno.EBUSY))
    monkeypatch.setattr(shutil, "copyfile", failing(number))
    model, path = _model(), str(tmp_path / "mounted.keras")
    match = r"which can't be replaced\. Received: .*; the whole save is "
    with pytest.raises(OSError, match=match) as caught:
        whole_files.save(write, model, path)
    assert caught.value.errno == number
    (kept,) = tmp_path.iterdir()
    assert str(kept) in str(caught.value)
    assert kept.read_text() == model.name


def test_a_save_that_another_job_removed_says_so(tmp_path):
    """Two jobs that save under one path remove what the other one writes beside it."""

    def write(model, filepath):
        Path(filepath).touch()
        os.remove(filepath)

    target = tmp_path / "model.keras"
    target.write_text("before")
    match = r"model\.keras\. Received: that .* is gone: does another job .* Give each job a path"
    with pytest.raises(FileNotFoundError, match=match):
        whole_files.save(write, _model(), str(target))
    assert target.read_text() == "before"
