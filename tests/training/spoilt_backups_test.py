"""Backups of another training, and files that have changed since they were written."""

from __future__ import annotations

import functools
import os

import h5py
import keras
import pytest

from tests.training.replicas import barrier, shared_path
from tests.training.resumed import adam, backup, begun, fit, momentum
from tf_adasum.collectives.communicator import world

wider = functools.partial(keras.layers.Dense, 3)


def save(folder, make_optimizer=momentum):
    """One epoch, and its backup."""
    fit(*begun(1, make_optimizer), backup(folder, delete_checkpoint=False), epochs=1)
    barrier()


def cut(path):
    os.truncate(path, os.path.getsize(path) // 2)


def garble(path):
    with h5py.File(path, "r+") as file:
        length = len(file["header"])
        file["header"][length // 2 :] = 0


def take_a_value(path):
    with h5py.File(path, "r+") as file:
        del file["state/1"]


def flip_a_bit(path, place):
    """What a disk may do: HDF5 is not asked to write it."""
    with open(path, "r+b") as file:
        file.seek(place)
        (byte,) = file.read(1)
        file.seek(place)
        file.write(bytes([byte ^ 1]))


def flip_a_bit_of_a_value(path):
    with h5py.File(path) as file:
        place = file["state/1"].id.get_offset()
    flip_a_bit(path, place)


def flip_a_bit_of_the_header(path):
    with h5py.File(path) as file:
        place = file["header"].id.get_chunk_info(0).byte_offset
        place += file["header"][()].tobytes().index(b'"epoch": 1') + len('"epoch": ')
    flip_a_bit(path, place)


def keep(path):
    assert os.path.exists(path)


@pytest.mark.parametrize(
    ("spoil", "layers", "error", "message"),
    [
        (cut, (), OSError, "Expected a backup in .* complete as this version"),
        (garble, (), OSError, "Expected a backup in .* complete as this version"),
        (take_a_value, (), OSError, "Expected a backup in .* complete as this version"),
        (flip_a_bit_of_a_value, (), OSError, "Expected a backup .* other values of .* were saved"),
        (flip_a_bit_of_the_header, (), OSError, "Expected a backup in .* complete as this"),
        (keep, [wider], ValueError, "Expected the backup of this model"),
    ],
    ids=["cut off", "garbled", "without a value", "a bit", "a bit of the header", "another model"],
)
def test_another_file_is_refused_on_all_ranks(spoil, layers, error, message):
    folder = shared_path("backup")
    save(folder)
    if world().rank == 0:
        spoil(os.path.join(folder, "training.h5"))
    barrier()
    with pytest.raises(error, match=f"rank {world().rank}: {message}"):
        fit(*begun(1, momentum, layers), backup(folder))


@pytest.mark.parametrize("settings", [{}, {"mode": "delta"}], ids=["plain", "wrapped"])
def test_rank_0_says_that_another_optimizer_goes_on(settings, caplog):
    """Adam and AdamW have the same slots, so that nothing else tells."""
    folder = shared_path("backup")
    decayed = functools.partial(keras.optimizers.AdamW, 0.01)
    for epochs, make_optimizer, number in ((1, adam, 0), (2, adam, 0), (3, decayed, 1)):
        caplog.clear()
        begin = begun(1, make_optimizer, **settings)
        fit(*begin, backup(folder, delete_checkpoint=False), epochs=epochs)
        barrier()
        said = [r.getMessage() for r in caplog.records if "saved what" in r.getMessage()]
        assert len(said) == (number if world().rank == 0 else 0)
        assert all("Adam saved what AdamW goes on with" in line for line in said)


def test_a_backup_that_another_job_removed_says_so(monkeypatch):
    """Two jobs that save in one folder remove what the other one writes."""
    folder, fsync = shared_path("backup"), os.fsync

    def remove(descriptor):
        os.remove(os.path.join(folder, "training.h5.partial"))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", remove)
    with pytest.raises(
        OSError, match=r"is gone: does another job save there, or remove it\?; what was"
    ):
        save(folder)
    barrier()
    assert os.listdir(folder) == []
