"""Keras' callbacks may be given to all ranks: rank 0 writes files, the others write nowhere.

All ranks go through the same decisions (is this the best model yet?). What a callback saves by
Keras is rank 0's too, whatever model it is (whole_files writes it). BackupAndRestore also reads on
rank 0 only; all ranks get from there what it restored, when the weights are compared.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable

import keras
from keras.callbacks import BackupAndRestore, CSVLogger, ModelCheckpoint, RemoteMonitor, TensorBoard
from keras.src.legacy.saving import legacy_h5_format
from keras.src.saving import saving_api, saving_lib
from keras.src.utils import file_utils

from tf_adasum.collectives.communicator import joined_world
from tf_adasum.keras_hooks.core import calls
from tf_adasum.keras_hooks.core.guard import require_hooks, require_reads
from tf_adasum.keras_hooks.core.summaries import NoWriter
from tf_adasum.keras_hooks.files import one_at_a_time, whole_files, written_files

require_hooks(BackupAndRestore, "on_train_begin", "on_train_end", "_load_model", "_save_model")
require_reads(BackupAndRestore, "_load_model", "_weights_path")
require_hooks(CSVLogger, "on_train_begin")
require_hooks(file_utils, "exists")
require_hooks(keras.Model, "export", "save", "save_weights")
require_hooks(ModelCheckpoint, "_get_file_path", "_save_model", "_should_save_model")
require_hooks(RemoteMonitor, "on_epoch_end")
require_hooks(TensorBoard, "_configure_embeddings", "_log_embeddings", "_start_trace")
require_reads(TensorBoard, "_train_writer", "_writers")
require_reads(TensorBoard, "_val_writer", "_writers")

# What `keras.saving` writes by. Programs hold its own functions under several names.
_WRITERS = [
    (saving_lib, "save_model"),
    (saving_lib, "save_weights_only"),
    (legacy_h5_format, "save_model_to_hdf5"),
]
for _module, _name in _WRITERS:
    require_hooks(_module, _name)
require_reads(saving_api, "save_model", "save_model", "save_model_to_hdf5")
require_reads(saving_api, "save_weights", "save_weights_only")

# Older versions of Keras have none.
_ORBAX = getattr(keras.callbacks, "OrbaxCheckpoint", None)
if _ORBAX is not None:
    require_hooks(_ORBAX, "_save_checkpoint")


def install() -> None:
    """Lets callbacks of `fit` write on rank 0."""
    _on_others(ModelCheckpoint, "_save_model", _decide)
    _tell_of_checkpoints()
    _note_what_is_restored()
    for name in ("on_train_begin", "_save_model", "on_train_end"):
        _on_others(BackupAndRestore, name, _nothing)
    _on_others(CSVLogger, "on_train_begin", _write_to_devnull)
    _on_others(RemoteMonitor, "on_epoch_end", _nothing)
    if _ORBAX is not None:
        _on_others(_ORBAX, "_save_checkpoint", _nothing)
    for name in ("_configure_embeddings", "_log_embeddings", "_start_trace"):
        _on_others(TensorBoard, name, _nothing)
    _write_no_events("_train_writer", "train")
    _write_no_events("_val_writer", "val")
    # Ahead of the writers, which come behind Keras' question whether to overwrite a file.
    for name, alone in (
        ("export", _export_alone),
        ("save", _as_it_is),
        ("save_weights", _as_it_is),
    ):
        _save_on_rank_0(keras.Model, name, in_turn=_as_it_is, alone=alone)
    for module, name in _WRITERS:
        _save_on_rank_0(module, name, in_turn=whole_files.save, alone=_save_alone)


def _is_other(model: keras.Model | None) -> bool:
    """Whether this rank trains the model with others, and is not the one that writes."""
    if not isinstance(model, keras.Model):
        return False
    communicator = calls.communicator_of(model)
    return communicator is not None and communicator.rank > 0


def _on_others(kind: type, name: str, instead: Callable) -> None:
    """Lets ranks other than 0 do `instead(original, callback, ...)` in a callback's method."""
    original = getattr(kind, name)

    @functools.wraps(original)
    def on_rank_0(self, *args, **kwargs):
        if _is_other(self.model):
            return instead(original, self, *args, **kwargs)
        return original(self, *args, **kwargs)

    setattr(kind, name, on_rank_0)


def _nothing(original, callback, *args, **kwargs) -> None:
    del original, callback, args, kwargs


def _as_it_is(original, model: keras.Model, *args, **kwargs):
    return original(model, *args, **kwargs)


def _decide(original, checkpoint: ModelCheckpoint, epoch: int, batch: int | None, logs) -> None:
    """Remembers the best value, as rank 0 does."""
    del original
    path = checkpoint._get_file_path(epoch, batch, logs)
    checkpoint._should_save_model(epoch, batch, logs, path)


def _tell_of_checkpoints() -> None:
    """Also where nothing is saved: by the logs of its own batch a rank may decide otherwise."""
    original = ModelCheckpoint._save_model

    @functools.wraps(original)
    def save_and_tell(self, epoch, batch, logs):
        communicator = calls.communicator_in_turn()
        if communicator is None:
            return original(self, epoch, batch, logs)
        path = self._get_file_path(epoch, batch, logs)
        with written_files.saving(communicator, self.filepath, path):
            original(self, epoch, batch, logs)
        if type(self) is not ModelCheckpoint:
            written_files.wait_for(path)  # what a subclass does next, an upload say, may need it
        return None

    ModelCheckpoint._save_model = save_and_tell


def _note_what_is_restored() -> None:
    original = BackupAndRestore._load_model

    @functools.wraps(original)
    def load_and_note(self):
        call = calls.current()
        if call is not None and file_utils.exists(self._weights_path):
            call.restored = True
        original(self)

    BackupAndRestore._load_model = load_and_note


def _write_to_devnull(original, logger: CSVLogger, logs=None) -> None:
    path, logger.filename = logger.filename, os.devnull
    try:
        original(logger, logs)
    finally:
        logger.filename = path


def _write_no_events(name: str, key: str) -> None:
    original = getattr(TensorBoard, name)

    def writer(self):
        is_other = _is_other(self.model)
        # Subclasses look for it where Keras keeps its own.
        return self._writers.setdefault(key, NoWriter()) if is_other else original.fget(self)

    setattr(TensorBoard, name, property(writer))


def _save_alone(original, model: keras.Model, *args, **kwargs):
    """Elsewhere in a program a rank may save by itself, and all may under one path.

    Whatever it saves: also a model that was made outside of the scope, or a FeatureSpace.
    """
    world = joined_world()
    if world is None or world.size == 1:
        return original(model, *args, **kwargs)
    return whole_files.save(original, model, *args, writer=f".rank{world.rank}", **kwargs)


def _export_alone(original, model: keras.Model, filepath, *args, **kwargs):
    world = joined_world()
    if world is None or world.size == 1 or "://" in os.fspath(filepath):
        return original(model, filepath, *args, **kwargs)
    with one_at_a_time.writing(os.fspath(filepath)):
        return original(model, filepath, *args, **kwargs)


def _save_on_rank_0(owner: object, name: str, in_turn: Callable, alone: Callable) -> None:
    """Lets callbacks do `in_turn(original, model, ...)` on rank 0, in a call with other ranks.

    Whatever else saves does `alone(original, model, ...)`.
    """
    original = getattr(owner, name)

    @functools.wraps(original)
    def save(model, *args, **kwargs):
        communicator = calls.communicator_in_turn()
        if communicator is None:
            return alone(original, model, *args, **kwargs)
        path = args[0] if args else kwargs.get("filepath")
        with written_files.saving(communicator, str(path)):
            is_other = communicator.rank > 0
            return None if is_other else in_turn(original, model, *args, **kwargs)

    setattr(owner, name, save)
