"""Ranks that save a `tf.train.Checkpoint` under one path leave whole files of one of them.

TensorFlow writes into a folder beside, which has the same name on all ranks: they would take each
other's parts. Each so has a folder of its own, and moves its files in place of those that are
there, one rank after the other. What other ranks must come to, reading a variable, is before that.
"""

from __future__ import annotations

import functools
import os
import tempfile

import tensorflow as tf
from tensorflow.python.checkpoint import checkpoint as checkpoint_lib

from tf_adasum.collectives.communicator import world
from tf_adasum.keras_hooks.core.guard import require_hooks, require_reads
from tf_adasum.keras_hooks.files import one_at_a_time

require_hooks(checkpoint_lib, "TrackableSaver")
require_hooks(checkpoint_lib.TrackableSaver, "save")
require_reads(tf.train.Checkpoint, "_write", "_saver", "save")


def install() -> None:
    """Lets `save` and `write` of checkpoints, and CheckpointManager, write beside and rename."""
    original = checkpoint_lib.TrackableSaver.save

    @functools.wraps(original)
    def save(self, file_prefix, *args, **kwargs):
        is_plain = not args and set(kwargs) <= {"options"} and tf.executing_eagerly()
        if not is_plain or not _is_local(file_prefix) or world().size == 1:
            return original(self, file_prefix, *args, **kwargs)
        folder, name = os.path.split(os.fspath(file_prefix))
        folder = os.path.abspath(folder)
        tf.io.gfile.makedirs(folder)  # fails as TensorFlow does
        if not os.access(folder, os.W_OK):
            return original(self, file_prefix, **kwargs)
        with tempfile.TemporaryDirectory(prefix=f".{name}.partial", dir=folder) as own:
            original(self, os.path.join(own, name), **kwargs)
            with one_at_a_time.writing(os.path.join(folder, f"{name}.index")):
                # The index comes last: by it a checkpoint is found.
                for each in sorted(os.listdir(own)):
                    os.replace(os.path.join(own, each), os.path.join(folder, each))
        return tf.constant(os.fspath(file_prefix))

    checkpoint_lib.TrackableSaver.save = save


def _is_local(path: object) -> bool:
    return isinstance(path, (str, os.PathLike)) and "://" not in os.fspath(path)
