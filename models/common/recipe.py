"""A model's configurations, small and full, what flags change of them, and the training's frame."""

from __future__ import annotations

import dataclasses
import os
from typing import TypeVar

import keras
import tensorflow as tf
from absl import flags

import tf_adasum
from models.common import datasets, outputs, workers

FLAGS = flags.FLAGS

# So that --help of a script that adopts the flags of this file shows them.
flags.adopt_module_key_flags(datasets)
flags.adopt_module_key_flags(workers)
flags.DEFINE_enum("config", "small", ["small", "full"], "small: two cores do; full: a cluster.")
flags.DEFINE_enum("reduction", "adasum", ["adasum", "mean", "sum"], "How replicas are combined.")
flags.DEFINE_integer("epochs", None, "Default: --config's.", lower_bound=1)
flags.DEFINE_integer("batch_size", None, "Examples per worker; default: --config's.", lower_bound=1)
flags.DEFINE_float("learning_rate", None, "Largest one; default: --config's.", lower_bound=0)
flags.DEFINE_string("save", None, "File to save the trained model to, e.g. model.keras.")
# Keras refuses other names once all is trained.
flags.register_validator(
    "save",
    lambda path: path is None or path.endswith(".keras"),
    message="expected a file that ends in .keras.",
)
outputs.check_made("save")

Configuration = TypeVar("Configuration")


def configuration(choices: dict[str, Configuration]) -> Configuration:
    """Returns the configuration of --config, with what --epochs and its like say instead.

    Args:
        choices: dataclasses for "small" and "full". A flag that is given, whether of this file or
            of the model, takes the place of the field with its name.
    """
    chosen = choices[FLAGS.config]
    names = {field.name for field in dataclasses.fields(chosen)} & set(FLAGS)
    given = {name: FLAGS[name].value for name in names if FLAGS[name].value is not None}
    return dataclasses.replace(chosen, **given)


def strategy() -> tf_adasum.AdasumStrategy:
    """The strategy of --workers and --reduction; seeds Keras, NumPy and Python with --seed."""
    keras.utils.set_random_seed(FLAGS.seed)
    return tf_adasum.AdasumStrategy(workers.local_devices(), [(".*", FLAGS.reduction)])


def verbose() -> int:
    """Keras' `verbose` for `fit`: a progress bar on rank 0, nothing elsewhere."""
    return int(tf_adasum.rank() == 0)


def say(line: str) -> None:
    """Prints on rank 0."""
    if tf_adasum.rank() == 0:
        print(line, flush=True)


def save(model: keras.Model) -> None:
    """Saves to --save, if it is given, and makes its folder.

    Rank 0 writes: one file is asked for.
    """
    if FLAGS.save and tf_adasum.rank() == 0:
        tf.io.gfile.makedirs(os.path.dirname(FLAGS.save) or ".")
        model.save(FLAGS.save)
        say(f"Saved: {FLAGS.save}")
